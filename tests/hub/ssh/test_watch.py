"""What the hub does by itself about its ways in: a whole hub, real sshds, and a clock that a test moves on."""

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop
from msgspec import Struct, field

from hub import ports
from hub.api.enroll import token_text
from hub.api.incident_models import incidents_view
from hub.api.metrics import LoopLag
from hub.liveness import NodeState
from hub.ssh.cause import Cause
from hub.ssh.identity import make
from hub.ssh.ladder import Rung
from hub.ssh.ladder import State as StepState
from hub.ssh.looking import PURPOSE
from hub.ssh.reach import State
from hub.ssh.targets import Target
from hub.ssh.told import provers
from hub.ssh.watch import REHEARSAL, Watch
from tests.hub.rig import JumpingClock, Peer
from tests.hub.ssh.fleet import OPERATOR, Fleet, fleet, host_key_of, until
from tests.hub.ssh.sshd import Sshd, free_port, needs_sshd
from wire.inputs import Heard
from wire.status import NodeStatus, WorkerReading, WorkerState

pytestmark = needs_sshd

log = structlog.get_logger(__name__)

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(sys.executable).parent
"""Where ``provewire`` is, as on a node's path."""
SECRET = "the tests' token"  # noqa: S105 - of tests.hub.rig

QUICK: dict[str, Any] = {
    "heartbeat_s": 0.1,
    "stale_after_s": 0.4,
    "lost_after_s": 0.6,
    "reconnect_spread_s": 0.0,
    "ssh_probe_after_s": 0.2,
    "lag_tolerated_s": 1e6,
}
"""Nodes are lost at once when the clock is moved, which is no hitch of the hub's own."""
LONG_S = 600.0
"""For which the clock is moved: longer than a mass drop is spared, and than any return takes."""


class Watched(Fleet):
    """A fleet, and the hub's own doings."""

    clock: JumpingClock

    @property
    def watch(self) -> Watch:
        return self.hub.app[ports.SSH_WATCH]

    async def proved(self, *peers: Peer, deadline_s: float = 30.0) -> None:
        """Until the hub has proved the way in to these nodes by itself."""
        await until(lambda: all(self.desk.readiness(peer.id).state is State.PROVED for peer in peers), deadline_s)

    async def lose(self, *peers: Peer) -> None:
        """The nodes were there, and are lost."""
        for peer in peers:
            async with peer.connect() as connection:
                await connection.status(NodeStatus(workers=[WorkerReading("host", WorkerState.PROVING, 1)]))
                await connection.until(Heard)
                connection.socket.transport.abort()
        registry = self.hub.app[ports.REGISTRY]
        await until(lambda: all(registry.state(peer.id) is NodeState.RECONNECTING for peer in peers))
        self.clock.jump(LONG_S)
        await until(lambda: all(registry.state(peer.id) is NodeState.LOST for peer in peers))

    async def looked(self, peer: Peer) -> Any:
        """Until the hub has looked after a node by itself; what it found."""
        await until(lambda: self.watch.known_ladder(peer.id) is not None, 40.0)
        ladder = self.watch.known_ladder(peer.id)
        assert ladder is not None
        return ladder

    def sshs(self) -> int:
        """Processes of ssh that go to this fleet's nodes now."""
        mark = str(self.desk.way.known_hosts)
        count = 0
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                count += mark in (folder / "cmdline").read_bytes().decode("utf-8", "replace")
        return count


@asynccontextmanager
async def watched(folder: Path, **settings: Any) -> AsyncIterator[Watched]:
    clock = JumpingClock()
    async with AsyncExitStack() as stack, fleet(folder, clock=clock, **QUICK | settings) as made:
        found = Watched(made.hub, made.folder, stack)
        found.clock = clock
        yield found


# --- rehearsals -----------------------------------------------------------------------------------------------------


async def test_a_first_target_is_proved_unasked_and_daily_from_then_on(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        node = await all_.node()
        assert all_.desk.sentence(node.id) == "fallback unproved"
        await all_.proved(node)
        (record,) = await all_.hub.store.ssh_attempts(node.id)
        assert (record.purpose, record.origin.asked_by, record.fresh) == (REHEARSAL, "hub", True)
        all_.clock.jump(20 * 3600)
        await all_.hub.app[ports.SSH_WATCH].examine()
        assert all_.watch.under_way == 0
        all_.clock.jump(8 * 3600)
        await until(lambda: (all_.desk.readiness(node.id).proved_at_ms or 0) > record.started_at_ms + 24 * 3_600_000)
        assert len(await all_.hub.store.ssh_attempts(node.id)) == 2


async def test_a_broken_way_is_known_before_it_is_needed_and_tried_again_until_it_is_mended(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        node = await all_.node(authorized=False)
        await until(lambda: all_.desk.readiness(node.id).state is State.BROKEN)
        assert all_.desk.sentence(node.id) == "fallback broken: Permission denied (publickey)"
        await until(lambda: all_.watch.under_way == 0)
        all_.sshds[node.id].authorize(all_.identity)
        all_.clock.jump(30)
        all_.watch.tick()
        assert all_.watch.under_way == 0, "not at once again"
        all_.clock.jump(60)
        await all_.proved(node)


async def test_an_address_without_an_sshd_is_broken_and_a_changed_one_proved(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        node = await all_.node()
        good = all_.sshds[node.id].target
        await all_.proved(node)
        await all_.desk.set_target(node.id, Target("127.0.0.1", free_port(), good.user), OPERATOR)
        await until(lambda: all_.desk.readiness(node.id).cause is Cause.REFUSED)
        await all_.desk.set_target(node.id, good, OPERATOR)
        assert all_.desk.sentence(node.id) == "fallback unproved"
        await all_.proved(node)


async def test_a_replaced_identity_is_named_within_a_minute_and_makes_one_incident(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        nodes = [await all_.node(f"node-{number}") for number in range(3)]
        await all_.proved(*nodes)
        await all_.watch.examine()
        before = all_.desk.problems()
        assert [problem for problem in before if problem.cause is Cause.IDENTITY_REFUSED] == []
        make(all_.identity, "another")
        await all_.watch.examine()  # what it does each minute
        (problem,) = [one for one in all_.desk.problems() if one.cause is Cause.IDENTITY_REFUSED]
        assert "the hub's key was replaced: SHA256:" in problem.sentence
        await until(lambda: bool(all_.watch.told[0]), 30.0)
        (incident,) = all_.watch.told[0]
        assert incident.headline == "3 of 3 nodes, one cause: identity refused"
        assert problem in incident.problems
        assert "ssh-key install --all" in problem.remedy
        for node in nodes:
            all_.sshds[node.id].authorize(all_.identity)
        all_.clock.jump(70)
        await all_.proved(*nodes)
        await until(lambda: not all_.watch.told[0])


async def test_a_host_key_pinned_just_now_is_no_change_by_others(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        peers = [await all_.hub.enroll(f"node-{number}") for number in range(8)]
        keys = [make(tmp_path / peer.id, "host").public for peer in peers]

        async def look() -> None:
            for _ in range(12):
                await all_.desk.examine()

        pinned = (all_.desk.book.pin(peer.id, [key], OPERATOR) for peer, key in zip(peers, keys, strict=True))
        await asyncio.gather(look(), *pinned)
        assert [problem for problem in all_.desk.problems() if problem.cause is Cause.HOST_KEY_UNKNOWN] == []
        text = all_.desk.way.known_hosts.read_text()
        assert all(key.split()[1] in text for key in keys)


@pytest.mark.parametrize("lost", ["key", "known hosts", "run-time folder", "ssh"])
async def test_what_is_wrong_on_this_side_is_told_while_every_node_is_well(tmp_path: Path, lost: str) -> None:
    program = tmp_path / "ssh"
    program.symlink_to("/usr/bin/ssh")
    async with watched(tmp_path, ssh_program=str(program)) as all_:
        node = await all_.node()
        await all_.proved(node)
        await all_.watch.examine()
        cause = {
            "key": Cause.KEY_MISSING,
            "known hosts": Cause.HOST_KEY_UNKNOWN,
            "run-time folder": Cause.CONTROL_PATH_UNUSABLE,
            "ssh": Cause.SSH_MISSING,
        }[lost]
        assert cause not in {problem.cause for problem in all_.watch.told[1]}
        match lost:
            case "key":
                all_.identity.unlink()
            case "known hosts":
                all_.desk.way.known_hosts.unlink()
            case "run-time folder":
                all_.desk.way.runtime_dir.rmdir()
            case _:
                program.unlink()
        await all_.watch.examine()
        assert cause in {problem.cause for problem in all_.watch.told[1]}
        if lost in {"known hosts", "run-time folder"}:  # made good, and said
            assert (await all_.run(node, fresh=True)).ok


# --- lost nodes -----------------------------------------------------------------------------------------------------


async def test_a_lost_node_is_looked_after_and_found_rung_by_rung(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        node = await all_.node()
        await all_.proved(node)
        await all_.lose(node)
        ladder = await all_.looked(node)
        assert [ladder.step(rung).state for rung in (Rung.TCP, Rung.LOGIN, Rung.SHELL)] == [StepState.OK] * 3
        assert ladder.step(Rung.STATUS).state is StepState.FAILED
        record = await all_.hub.store.ssh_attempt(ladder.attempt)
        assert record is not None
        assert (record.purpose, record.origin.asked_by) == (PURPOSE, "hub")
        picture = all_.hub.app[ports.REGISTRY].node(node.id)
        assert picture is not None
        assert picture.state is NodeState.LOST, "looking after a node never makes it online"
        said = provers(picture, ladder, all_.clock.time_ms())
        assert said.startswith("proving when last heard ")
        assert "; at " in said
        assert all_.watch.next_look_s(node.id) is not None
    # A hub that starts anew reads what the last look found from its store.
    async with watched(tmp_path) as again:
        found = await again.watch.ladder(node.id)
        assert found is not None
        assert (found.attempt, found.reached) == (ladder.attempt, True)


async def test_a_lost_node_that_lets_nobody_in_says_why_and_is_looked_at_once_it_does(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        node = await all_.node(authorized=False)
        await all_.lose(node)
        ladder = await all_.looked(node)
        step = ladder.step(Rung.LOGIN)
        assert step.state is StepState.FAILED
        assert "Permission denied (publickey)" in step.detail
        assert ladder.step(Rung.PROVERS).state is StepState.UNKNOWN
        picture = all_.hub.app[ports.REGISTRY].node(node.id)
        assert picture is not None
        assert provers(picture, ladder, all_.clock.time_ms()).endswith(", unknown since")
        all_.sshds[node.id].authorize(all_.identity)
        assert (await all_.run(node, "true", fresh=True)).ok  # an operator mends the key, and proves it
        await until(lambda: (found := all_.watch.known_ladder(node.id)) is not None and found.reached, 30.0)


async def test_a_look_ends_at_once_when_the_session_is_back(tmp_path: Path) -> None:
    async with watched(tmp_path, stale_after_s=2.0, lost_after_s=5.0) as all_:
        node = await all_.hub.enroll("node")
        await all_.lose(node)
        await all_.sshd(node, "ForceCommand sleep 300")
        await until(lambda: all_.watch.looks_made > 0 and all_.sshs() > 0, 30.0)
        async with node.connect():
            await until(lambda: all_.watch.looks_ended > 0)
            await until(lambda: all_.watch.under_way == 0)
            assert all_.watch.known_ladder(node.id) is None
            assert all_.watch.next_look_s(node.id) is None
        assert all_.sshs() == 0
        assert await all_.hub.store.ssh_attempts(node.id) == []


async def test_a_hub_that_stops_leaves_no_look_behind(tmp_path: Path) -> None:
    async with watched(tmp_path, stale_after_s=2.0, lost_after_s=5.0) as all_:
        node = await all_.hub.enroll("node")
        await all_.lose(node)
        await all_.sshd(node, "ForceCommand sleep 300")
        await until(lambda: all_.sshs() > 0, 30.0)
    assert all_.sshs() == 0


async def test_nothing_is_tried_while_the_hub_is_in_trouble(tmp_path: Path) -> None:
    async with watched(tmp_path, lag_tolerated_s=5.0, lost_after_s=30.0, ssh_probe_after_s=0.0) as all_:
        assert "just started" in all_.watch.paused or all_.watch.paused == ""
        all_.clock.jump(60)  # a hitch of a minute
        await until(lambda: "late itself" in all_.watch.paused)
        node = await all_.node()
        all_.clock.jump(4)  # its target has settled
        all_.watch.tick()
        assert all_.watch.under_way == 0
        for _ in range(5):
            all_.clock.jump(4)
            await asyncio.sleep(1.1)  # the hub's own tick, not late by more than is tolerated
        await all_.proved(node)


async def test_revoked_nodes_are_left_alone(tmp_path: Path) -> None:
    async with watched(tmp_path) as all_:
        node = await all_.node()
        await all_.proved(node)
        await all_.lose(node)
        await all_.looked(node)
        all_.hub.app[ports.REGISTRY].remove(node.id)
        all_.watch.tick()
        assert all_.watch.known_ladder(node.id) is None
        assert all_.watch.lost == 0
        assert all_.desk.incidents() == []


LAG_S = 0.05
"""By which the loop may be late while many nodes are looked after."""
SAMPLE_S = 0.005


class Fifty(Struct):
    """What fifty nodes lost at once did to the hub."""

    lag: LoopLag = field(default_factory=LoopLag)
    """The hub's own gauge, finer."""
    held_s: float = 0.0
    """The most processor time that the loop's thread took between two wake-ups of a sleeper: what else the machine
    has to do does not count."""
    at_once: int = 0
    took_s: float = 0.0

    async def watch(self, watch: Watch) -> None:
        while True:
            before_s = time.thread_time()
            await asyncio.sleep(SAMPLE_S)
            self.held_s = max(self.held_s, time.thread_time() - before_s)
            self.at_once = max(self.at_once, watch.under_way)


async def fifty(folder: Path) -> Fifty:
    """One sshd is all of them: bounded processes, all looked after within a minute, one incident."""
    seen = Fifty()
    async with watched(folder, ssh_probes_max=12, ssh_probe_after_s=5.0) as all_:
        first = await all_.hub.enroll("node-00")
        server = await all_.sshd(first, "MaxStartups 100", "MaxSessions 100", authorized=False)
        nodes = [first, *[await all_.hub.enroll(f"node-{number:02}") for number in range(1, 50)]]
        for node in nodes[1:]:
            await all_.desk.set_target(node.id, server.target, OPERATOR)
            await all_.desk.book.pin(node.id, [host_key_of(server)], OPERATOR)
        await all_.lose(*nodes)
        measuring = [asyncio.create_task(seen.watch(all_.watch)), asyncio.create_task(seen.lag.run(SAMPLE_S))]
        began_s = all_.clock.monotonic()
        await until(lambda: all(all_.watch.known_ladder(node.id) is not None for node in nodes), 60.0)
        seen.took_s = all_.clock.monotonic() - began_s
        for task in measuring:
            task.cancel()
        ladders = [await all_.looked(node) for node in nodes]
        assert {ladder.cause for ladder in ladders} == {Cause.IDENTITY_REFUSED}
        one = ["50 of 50 nodes, one cause: identity refused"]
        await until(lambda: [incident.headline for incident in all_.watch.told[0]] == one)
        await until(lambda: all_.watch.under_way == 0, 60.0)
    log.info(
        "fifty nodes",
        took_s=round(seen.took_s, 1),
        at_once=seen.at_once,
        held_ms=round(seen.held_s * 1000, 1),
        late_at_most_ms=round(seen.lag.max_s * 1000, 1),
        late_99_ms=round(late_s(seen.lag, 0.99) * 1000, 1),
    )
    return seen


def late_s(lag: LoopLag, share: float) -> float:
    """By how much, at most, this share of all sleepers woke late: the edge of a bucket."""
    return next(float(edge) for edge, count in lag.buckets() if count >= share * sum(lag.counts))


def test_fifty_nodes_lost_at_once(tmp_path: Path) -> None:
    """On the loop a hub has: starting so many processes must not take it long."""
    gc.collect()
    gc.freeze()  # a collection that looks through what all tests before left takes longer than the loop may
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seen = runner.run(fifty(tmp_path))
    finally:
        gc.unfreeze()
    assert seen.at_once <= 12
    assert seen.held_s < LAG_S


@pytest.mark.long
def test_the_loop_is_hardly_late_while_fifty_nodes_are_looked_after(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen = runner.run(fifty(tmp_path))
    assert late_s(seen.lag, 0.99) <= LAG_S


async def test_a_canary_tells_this_side_from_those_nodes(tmp_path: Path) -> None:
    async with watched(tmp_path, stale_after_s=200.0, lost_after_s=300.0) as all_:
        nodes = [await all_.node(f"node-{number}") for number in range(4)]
        all_.clock.jump(20)  # it runs long enough
        await all_.proved(*nodes)
        *refused, well = nodes
        async with well.connect():
            for node in refused:
                all_.sshds[node.id].authorized_keys.write_text("", encoding="ascii")
                assert not (await all_.run(node, "true", fresh=True)).ok
            await until(lambda: all_.watch.canary is not None)
        canary = all_.watch.canary
        assert canary is not None
        assert (canary.node_id, canary.let_in) == (well.id, True)
        notes = incidents_view(all_.hub.app).notes
        assert f"process {os.getpid()}" in notes[0]
        assert notes[1].startswith("node, which is not among them, lets the hub in: tried ")


# --- the agent's own word -------------------------------------------------------------------------------------------


class Relay:
    """What stands between agent and hub, and can be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, there_writer}
        await asyncio.gather(_pour(reader, there_writer), _pour(there_reader, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


def start_agent(data: Path, token: str) -> subprocess.Popen[bytes]:
    data.mkdir()
    (data / "token").write_text(token)
    argv = [sys.executable, "-m", "cli.main", "agent", "--data-dir", str(data / "d")]
    options = ["--token-file", str(data / "token"), "--observe", "--name", "cut-off", "--local", "off", "--cuzk", "off"]
    return subprocess.Popen([*argv, *options], cwd=ROOT, env={**os.environ, "PROVEWIRE_LOG_LEVEL": "error"})


@asynccontextmanager
async def agent(all_: Watched, hub_port: int, data: Path) -> AsyncIterator[str]:
    """A real agent that observes, enrolled through a relay; its id at the hub."""
    token = token_text(f"http://127.0.0.1:{hub_port}", all_.hub.app[ports.KEYS].fingerprint, SECRET)
    with await asyncio.to_thread(start_agent, data, token) as process:
        try:
            nodes = all_.hub.app[ports.REGISTRY].nodes
            await until(lambda: any(node.name == "cut-off" and node.status_at_ms for node in nodes()), 60.0)
            yield next(node.id for node in nodes() if node.name == "cut-off")
        finally:
            process.kill()


async def test_an_agent_that_is_cut_off_tells_how_it_is_by_ssh_and_is_not_online_for_that(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pw", dir="/tmp") as short:
        data = Path(short) / "n"
        async with watched(tmp_path, lost_after_s=2.0, stale_after_s=1.0, ssh_probe_after_s=0.5) as all_:
            relay = Relay(all_.hub.port)
            registry = all_.hub.app[ports.REGISTRY]
            async with agent(all_, await relay.open(), data) as node_id:
                server = Sshd(
                    tmp_path / "sshd", [f"SetEnv PATH={PROGRAMS}:/usr/bin:/bin PROVEWIRE_DATA_DIR={data / 'd'} SHLVL=1"]
                )
                server.start()
                try:
                    await server.listening()
                    server.authorize(all_.identity)
                    await all_.desk.set_target(node_id, server.target, OPERATOR)
                    await all_.desk.book.pin(node_id, [host_key_of(server)], OPERATOR)
                    await until(lambda: all_.desk.readiness(node_id).state is State.PROVED, 30.0)
                    await relay.cut()
                    await until(lambda: registry.state(node_id) is not NodeState.ONLINE)
                    all_.clock.jump(LONG_S)
                    await until(lambda: all_.watch.known_ladder(node_id) is not None, 60.0)
                finally:
                    server.stop()
                ladder = all_.watch.known_ladder(node_id)
                assert ladder is not None
                assert ladder.step(Rung.STATUS).state is StepState.OK, ladder.step(Rung.STATUS)
                node = registry.node(node_id)
                assert node is not None
                assert (node.state, node.connected) == (NodeState.LOST, False)
                assert node.via_ssh is not None
                heard_ms = node.last_heard_at_ms
                assert heard_ms is not None
                assert heard_ms < node.via_ssh.at_ms - 1000 * LONG_S / 2, "no sign of life of the session"
                assert node.status.hostname
                assert "by its own word over ssh" in provers(node, ladder, all_.clock.time_ms())
