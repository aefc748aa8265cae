import asyncio
import json
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import unused_port

from agent.backoff import Fault, Kind, of_reason
from agent.errors import ConfigFault, StatusUnreachable
from agent.local import RETRY_S, LocalView
from agent.local_ask import ask, ask_frame
from agent.local_http import CONNECTION_S, CONNECTIONS_MAX, SWEEP_S
from agent.local_status import LocalStatus, by_name, hub_view, is_healthy, one_line, streams_view
from agent.outbox_bounds import Counts, DropReason, StreamHeld
from agent.uplink import State, UplinkView
from tests.agent.samples import EPOCHS
from tests.agent.virtual_time import VirtualClock, eventually
from wire.engines import EngineJob, EngineKey, EngineReading, EngineState
from wire.events import Stream
from wire.reasons import Reason
from wire.status import OutboxReading, WorkerReading, WorkerState

KEY = EngineKey(id="srs-1", kind="srs", bytes_=5)
ENGINE = EngineReading(engine="cuzk", state=EngineState.OK, jobs=(EngineJob(id="7", kind="post"),), keys=(KEY,))
COUNTS = Counts(
    held={stream: StreamHeld(events=1, bytes_=2) for stream in Stream},
    dropped={(Stream.LOGS, DropReason.SIZE): 3, (Stream.LOGS, DropReason.AGE): 4},
    refused={Stream.READINGS: 5},
)


class Serving:
    """A local view of a made-up agent."""

    def __init__(self, folder: Path, local: tuple[str, int] | None) -> None:
        self.clock = VirtualClock()
        self.uplink = UplinkView(url="https://hub.example.org")
        self.path = folder / "agent.sock"
        self.enrolled = True
        self.view = LocalView(
            self.snapshot,
            metrics=lambda: b"figures 1\n",
            frame=lambda nonce: f"pws1.{nonce.hex()}" if self.enrolled else None,
            socket_path=self.path,
            local=local,
            clock=self.clock,
        )

    def snapshot(self) -> LocalStatus:
        return LocalStatus(
            agent_id=None,
            name="node-a",
            epoch=EPOCHS[0],
            pid=1,
            version="1.2.3",
            uptime_s=1.0,
            healthy=is_healthy(self.uplink, self.clock.now_s),
            hub=hub_view(self.uplink, now_s=self.clock.now_s, insecure=False),
            host=None,
            gpus=[],
            gpu_problem="",
            workers=by_name([WorkerReading(device="host", state=WorkerState.PROVING, pid=7)]),
            jobs=[],
            outbox=by_name(OutboxReading(events_held=1, bytes_held=2)),
            observe=False,
            engines=by_name([ENGINE]),
            streams=streams_view(COUNTS),
        )

    async def status(self) -> Any:
        return json.loads(await ask(self.path))


@asynccontextmanager
async def serving(folder: Path, local: tuple[str, int] | None = None) -> AsyncIterator[Serving]:
    made = Serving(folder, local)
    await made.view.start()
    try:
        yield made
    finally:
        await made.view.close()


async def get(url: str, **headers: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text


async def test_the_status_is_served_on_the_unix_socket_by_long_names(tmp_path: Path) -> None:
    async with serving(tmp_path) as made:
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
        status = await made.status()
        assert status["workers"] == [{"device": "host", "state": "proving", "pid": 7, "detail": "", "on_host": ""}]
        assert status["outbox"] == {"events_held": 1, "bytes_held": 2, "dropped": 0}
        assert status["hub"]["state"] == "starting"
        assert (status["hub"]["last_ack_age_s"], status["hub"]["last_reason"]) == (None, None)
    assert not made.path.exists()


async def test_reasons_and_ages_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as made:
        made.uplink.last_reason = of_reason(Reason.WRONG_HUB_KEY, "fingerprint differs", 0.0, refused=True)
        made.uplink.state = State.REFUSED
        made.uplink.last_ack_s = made.clock.now_s - 12.5
        made.uplink.next_attempt_s = made.clock.now_s + 30
        hub = (await made.status())["hub"]
        assert (hub["state"], hub["last_ack_age_s"], hub["next_attempt_in_s"]) == ("refused", 12.5, 30.0)
        assert (hub["last_reason"]["code"], hub["last_reason"]["name"]) == (11, "WRONG_HUB_KEY")
        assert "fingerprint differs" in hub["last_reason"]["detail"]


async def test_engines_are_shown_by_long_names_all_the_way_down(tmp_path: Path) -> None:
    async with serving(tmp_path) as made:
        (engine,) = (await made.status())["engines"]
        assert (engine["state"], engine["queued"]) == ("ok", None)
        assert (engine["jobs"][0]["partitions_done"], engine["keys"][0]["bytes"]) == (0, 5)


async def test_metrics_are_served_to_this_machine_alone(tmp_path: Path) -> None:
    port = unused_port()
    async with serving(tmp_path, ("127.0.0.1", port)) as made:
        await made.view.serve_loopback()
        url = f"http://127.0.0.1:{port}/metrics"
        assert await get(url) == (200, "figures 1\n")
        assert (await get(url, Host="evil.example.org"))[0] == 403


async def test_streams_and_past_reasons_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as made:
        made.uplink.reasons.note(of_reason(Reason.SILENT_PEER, "", 0.0, refused=False), 1_000, 12.0)
        made.uplink.reasons.note(Fault(Kind.UNREACHABLE, "network", "nobody there"), 2_000, None)
        status = await made.status()
        assert status["streams"]["logs"] == {"events": 1, "bytes": 2, "dropped": {"size": 3, "age": 4}, "refused": 0}
        assert status["streams"]["readings"] == {"events": 1, "bytes": 2, "dropped": {}, "refused": 5}
        newest, oldest = status["hub"]["reasons"]
        assert (newest["name"], newest["at_ms"], newest["code"], newest["open_s"]) == ("network", 2_000, None, None)
        assert (oldest["name"], oldest["code"], oldest["open_s"], oldest["times"]) == ("SILENT_PEER", 16, 12.0, 1)


def test_the_line_for_systemd_tells_the_age_and_why() -> None:
    view = UplinkView()
    assert one_line(view, 100.0) == "hub starting, never acknowledged"
    view.state, view.last_ack_s = State.WAITING, 60.0
    view.last_reason = Fault(Kind.UNREACHABLE, "network", "nobody there")
    assert one_line(view, 100.0) == "hub waiting, last acknowledged 40 s ago; nobody there"
    view.state = State.OPEN
    assert one_line(view, 100.0) == "hub open, last acknowledged 40 s ago"


async def test_health_means_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path, ("127.0.0.1", 0)) as made:
        await made.view.serve_loopback()
        assert made.view.address is not None
        url = f"http://127.0.0.1:{made.view.address[1]}/healthz"
        assert (await get(url))[0] == 503
        made.uplink.state, made.uplink.last_ack_s = State.OPEN, made.clock.now_s
        status, body = await get(url)
        assert (status, body["healthy"], body["hub_state"]) == (200, True, "open")
        made.clock.now_s += made.uplink.lost_after_s
        assert (await get(url))[0] == 503


async def test_the_loopback_view_answers_only_to_loopback_names(tmp_path: Path) -> None:
    async with serving(tmp_path, ("127.0.0.1", 0)) as made:
        await made.view.serve_loopback()
        assert made.view.address is not None
        port = made.view.address[1]
        url = f"http://127.0.0.1:{port}/status"
        assert (await get(url))[0] == 200
        assert (await get(url, Host=f"localhost:{port}"))[0] == 200
        assert (await get(url, Host=f"evil.example.org:{port}"))[0] == 403
        assert (await get(f"http://127.0.0.1:{port}/other"))[0] == 404


async def test_a_port_that_is_taken_is_tried_again(tmp_path: Path) -> None:
    port = unused_port()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        async with serving(tmp_path, ("127.0.0.1", port)) as made:
            task = asyncio.create_task(made.view.serve_loopback())
            await eventually(lambda: made.clock.sleeping, "the first attempt")
            assert (await made.status())["name"] == "node-a"
            other.close()
            await made.clock.advance(RETRY_S)
            await task
            assert (await get(f"http://127.0.0.1:{port}/status"))[0] == 200


async def test_connections_that_ask_nothing_are_cut(tmp_path: Path) -> None:
    """Any user of the machine can open them, and the agent has only so many descriptors."""
    async with serving(tmp_path) as made:
        task = asyncio.create_task(made.view.http.keep_clear())
        opened = [await asyncio.open_unix_connection(str(made.path)) for _ in range(CONNECTIONS_MAX + 5)]
        server = made.view.http
        await eventually(lambda: server.connections == len(opened) and made.clock.sleeping, "the connections")
        await made.clock.advance(SWEEP_S)
        await eventually(lambda: server.connections == CONNECTIONS_MAX, "those beyond the bound to be cut")
        assert (await made.status())["name"] == "node-a"
        for _ in range(int(CONNECTION_S / SWEEP_S)):
            await eventually(lambda: made.clock.sleeping, "the next sweep")
            await made.clock.advance(SWEEP_S)
        await eventually(lambda: not server.connections, "the others to be cut in time")
        for _, writer in opened:
            writer.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_socket_left_by_a_killed_agent_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "agent.sock"))
    left.close()
    with pytest.raises(StatusUnreachable):
        await ask(tmp_path / "agent.sock")
    async with serving(tmp_path) as made:
        assert (await made.status())["version"] == "1.2.3"


async def test_nobody_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StatusUnreachable, match=r"no agent answers at .*; is it running") as unreachable:
        await ask(tmp_path / "agent.sock")
    assert unreachable.value.exit_code == 69


async def test_a_signed_status_is_given_on_the_unix_socket_and_nowhere_else(tmp_path: Path) -> None:
    nonce = "0f" * 16
    async with serving(tmp_path, ("127.0.0.1", 0)) as made:
        await made.view.serve_loopback()
        assert await ask_frame(made.path, nonce) == f"pws1.{nonce}"
        assert made.view.address is not None
        host, port = made.view.address
        status, text = await get(f"http://{host}:{port}/frame?nonce={nonce}")
        assert status == 403
        assert "pws1" not in text


@pytest.mark.parametrize("nonce", ["", "0f" * 15, "0f" * 17, "0F" * 16, "zz" * 16, "0f" * 15 + "0&"])
async def test_a_nonce_that_is_none_is_refused_before_anything_is_signed(tmp_path: Path, nonce: str) -> None:
    async with serving(tmp_path) as made:
        with pytest.raises(ConfigFault, match="--nonce must be 16 bytes"):
            await ask_frame(made.path, nonce)
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(made.path))) as session,
            session.get("http://localhost/frame", params={"nonce": nonce}) as response,
        ):
            assert response.status == 400
            assert "pws1" not in await response.text()


async def test_an_agent_that_is_not_enrolled_signs_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as made:
        made.enrolled = False
        with pytest.raises(StatusUnreachable, match="not enrolled"):
            await ask_frame(made.path, "0f" * 16)


async def test_no_agent_gives_no_signed_status(tmp_path: Path) -> None:
    with pytest.raises(StatusUnreachable, match="no agent answers at"):
        await ask_frame(tmp_path / "agent.sock", "0f" * 16)
