"""The swarm against a real hub: every event it emits is stored once and whole, whatever is cut, restarted or killed."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import HubProcess
from bench.swarm import Swarm
from bench.swarm_agent import IDLE, Rates
from bench.traffic import number_of
from wire.codec import decode_event
from wire.frames import Stream

ROOT = Path(__file__).parents[2]
BUSY = Rates(status_s=0.2, sweep_s=1.0, events_s=0.05, logs_s=0.05, readings_s=0.0)
DEADLINE_S = 60.0


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path, {"reconnect_spread_s": 0.2, "enroll_per_s": 1000, "accept_per_s": 1000})
    try:
        yield hub.start()
    finally:
        hub.stop(signal.SIGKILL)


def stored(hub: HubProcess, stream: Stream) -> dict[tuple[str, str], list[tuple[int, int | None]]]:
    """(agent, epoch) -> (number, number the body says) of every stored event of a stream, in order."""
    found: dict[tuple[str, str], list[tuple[int, int | None]]] = {}
    with sqlite3.connect(f"file:{hub.folder / 'hub.sqlite'}?mode=ro", uri=True) as store:
        rows = store.execute(
            "select agent_id, epoch, seq, packed from events where stream = ? order by seq", (stream.value,)
        )
        for agent, epoch, seq, packed in rows:
            found.setdefault((agent, epoch), []).append((seq, number_of(decode_event(packed).body)))
    return found


def assert_all_once(swarm: Swarm, hub: HubProcess, stream: Stream) -> None:
    """What the store has is what the swarm emitted: every number once, with its own content, of every epoch."""
    expected = {
        (agent.id, epoch): [(seq, seq) for seq in range(1, lanes[stream].emitted + 1)]
        for agent in swarm.agents
        for epoch, lanes in agent.counts().items()
        if stream in lanes
    }
    assert expected
    assert stored(hub, stream) == expected


async def test_a_swarm_is_back_after_a_killed_hub_and_nothing_is_lost_or_doubled(hub: HubProcess) -> None:
    async with Swarm(hub.url, hub.token(8), 8, seed=3, rates=BUSY, dial_over_s=0.0) as swarm:
        await swarm.until(lambda: swarm.open == 8, deadline_s=DEADLINE_S)
        assert len({agent.id for agent in swarm.agents}) == 8
        for number in (signal.SIGKILL, signal.SIGTERM):
            before = swarm.emitted()
            await swarm.until(lambda before=before: swarm.emitted() > before + 100, deadline_s=DEADLINE_S)  # type: ignore[misc]  # one each
            hub.stop(number)
            await swarm.until(lambda: swarm.open == 0, deadline_s=DEADLINE_S)
            hub.start()
            await swarm.until(lambda: swarm.open == 8, deadline_s=DEADLINE_S)
        swarm.hush()
        await swarm.until(lambda: swarm.held == 0, deadline_s=DEADLINE_S)
        nodes = hub.nodes()
        assert {node["id"] for node in nodes} == {agent.id for agent in swarm.agents}
        assert {node["state"] for node in nodes} == {"online"}
        assert all(agent.sessions >= 3 for agent in swarm.agents)
        assert_all_once(swarm, hub, Stream.EVENTS)


async def test_agents_that_are_cut_or_restarted_deliver_every_epoch(hub: HubProcess) -> None:
    async with Swarm(hub.url, hub.token(3), 3, rates=BUSY, dial_over_s=0.0) as swarm:
        await swarm.until(lambda: swarm.open == 3, deadline_s=DEADLINE_S)
        cut, restarted, _ = swarm.agents
        hub.stop(signal.SIGKILL)
        await swarm.until(lambda: swarm.open == 0, deadline_s=DEADLINE_S)
        for _ in range(3):
            before = restarted.outbox.events_held
            await swarm.until(
                lambda before=before: swarm.emitted() > 0 and restarted.outbox.events_held > before,  # type: ignore[misc]  # one each
                deadline_s=DEADLINE_S,
            )
            restarted.restart()
        hub.start()
        await swarm.until(lambda: swarm.open == 3, deadline_s=DEADLINE_S)
        sessions = cut.sessions
        cut.cut()
        await swarm.until(lambda: cut.sessions > sessions, deadline_s=DEADLINE_S)
        swarm.hush()
        await swarm.until(lambda: swarm.held == 0, deadline_s=DEADLINE_S)
        assert len(restarted.counts()) >= 3
        assert_all_once(swarm, hub, Stream.EVENTS)


async def test_a_full_outbox_emits_no_more_and_loses_nothing(hub: HubProcess) -> None:
    async with Swarm(hub.url, hub.token(1), 1, rates=BUSY, dial_over_s=0.0, events_held_max=5) as swarm:
        (agent,) = swarm.agents
        await swarm.until(lambda: swarm.open == 1, deadline_s=DEADLINE_S)
        hub.stop(signal.SIGKILL)
        await swarm.until(lambda: swarm.emitted() > 0 and agent.outbox.refused > 5, deadline_s=DEADLINE_S)
        assert swarm.held <= 5
        hub.start()
        swarm.hush()
        await swarm.until(lambda: swarm.held == 0 and swarm.open == 1, deadline_s=DEADLINE_S)
        assert_all_once(swarm, hub, Stream.EVENTS)


async def test_an_idle_swarm_started_again_is_the_same_nodes(hub: HubProcess) -> None:
    token = hub.token(2)
    seen = []
    for _ in range(2):
        async with Swarm(hub.url, token, 2, seed=9, rates=IDLE, dial_over_s=0.0) as swarm:
            await swarm.until(lambda swarm=swarm: swarm.open == 2, deadline_s=DEADLINE_S)  # type: ignore[misc]  # one each
            assert swarm.emitted() == 0
            seen.append([agent.id for agent in swarm.agents])
    assert seen[0] == seen[1]
    assert len(hub.nodes()) == 2


def test_the_command_plays_and_reports(hub: HubProcess, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(hub.token(3))
    argv = ["-m", "bench.swarm", "--hub", hub.url, "--token-file", str(token), "--count", "3", "--events-s", "0.1"]
    done = subprocess.run(
        [sys.executable, *argv, "--seconds", "3", "--say-every-s", "1", "--dial-over-s", "0"],
        cwd=ROOT,
        input="hush\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    figures = json.loads(done.stdout.splitlines()[-1])["swarm"]
    assert (figures["count"], figures["sessions"]) == (3, 3)
    assert figures["emitted"] == figures["acknowledged"]
