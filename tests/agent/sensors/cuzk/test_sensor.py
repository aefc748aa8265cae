"""The named states, over real sockets."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import unused_port
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config import CuzkAddresses, GrpcAddress
from agent.sensors.cuzk import CuzkSensor, EngineReport, grpc_status
from agent.sensors.cuzk.http_status import ANSWER_BYTES_MAX
from agent.sensors.cuzk.memory import MemoryFile
from agent.sensors.cuzk.sensor import GRPC_EVERY_S, OUTCOMES_TOLD_MAX
from tests.agent.sensors.cuzk.fake_daemon import (
    FakeDaemon,
    Play,
    answer,
    daemon,
    dripping,
    flooding,
    grpc_server,
    hanging,
    saying,
    status_response,
)
from tests.agent.sensors.cuzk.fake_engine import FakeEngine
from tests.agent.virtual_time import VirtualClock
from wire.engines import EngineReading, EngineState
from wire.frames import Level

SHORT_S = 0.3
"""A deadline for those that miss it; nothing is asserted about how long anything takes."""


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(time.monotonic)


@pytest.fixture
def fake(engine: FakeEngine) -> Iterator[FakeDaemon]:
    with daemon(engine.status) as made:
        yield made


@contextmanager
def listening() -> Iterator[tuple[str, int]]:
    """A port that takes connections and reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def sensor_of(
    port: int,
    *grpc: str,
    clock: VirtualClock | None = None,
    asked: bool = True,
    deadline_s: float = 10.0,
    memory: MemoryFile | None = None,
) -> CuzkSensor:
    addresses = CuzkAddresses(http=("127.0.0.1", port), grpc=tuple(map(grpc_address, grpc)), asked=asked)
    return CuzkSensor(addresses, clock=clock or VirtualClock(), deadline_s=deadline_s, memory=memory)


def grpc_address(text: str) -> GrpcAddress:
    if text.startswith("unix://"):
        return GrpcAddress(path=text.removeprefix("unix://"))
    return GrpcAddress(host="127.0.0.1", port=int(text.rpartition(":")[2]))


async def read(port: int, *grpc: str, **how: Any) -> EngineReading:
    sensor = sensor_of(port, *grpc, **how)
    report = await sensor.read()
    assert report.reading is not None
    return report.reading


async def read_playing(fake: FakeDaemon, play: Play, **how: Any) -> EngineReading:
    fake.play = play
    return await read(fake.port, **how)


# --- ok -------------------------------------------------------------------------------------------------------------


async def test_ok(fake: FakeDaemon, engine: FakeEngine) -> None:
    engine.submit("a")
    reading = await read(fake.port)
    assert (reading.state, reading.source, reading.detail) == (EngineState.OK, "http", "")
    assert [job.id for job in reading.jobs] == ["a"]
    assert reading.answered_at_ms == VirtualClock().unix_ms()


async def test_the_request_is_one_that_a_server_which_reads_once_understands(fake: FakeDaemon) -> None:
    await read(fake.port)
    (request,) = fake.requests
    assert request.startswith(b"GET /status HTTP/1.1\r\n")
    assert request.endswith(b"\r\n\r\n")
    assert len(request) < 1024


async def test_a_large_answer_is_read_whole(fake: FakeDaemon, engine: FakeEngine) -> None:
    for number in range(1500):
        engine.submit(f"job-{number}", partitions=10)
    reading = await read(fake.port)
    assert reading.queued == 15_000
    assert reading.jobs_left_out == 1500 - len(reading.jobs)


# --- down -----------------------------------------------------------------------------------------------------------


async def test_down_when_nothing_listens() -> None:
    reading = await read(unused_port(), f"127.0.0.1:{unused_port()}")
    assert reading.state is EngineState.DOWN
    assert "does not run" in reading.detail
    assert reading.answered_at_ms is None


async def test_killed_and_started_again(fake: FakeDaemon, engine: FakeEngine) -> None:
    engine.submit("a")
    clock = VirtualClock()
    sensor = sensor_of(fake.port, clock=clock)
    ok = (await sensor.read()).reading
    fake.stop()
    clock.now_s += 5
    down = (await sensor.read()).reading
    assert ok is not None
    assert down is not None
    assert down.state is EngineState.DOWN
    assert (down.jobs, down.answered_at_ms) == (ok.jobs, ok.answered_at_ms)
    assert (await sensor.read()).reading is down  # unchanged to the byte
    again = FakeEngine(time.monotonic)
    fake.status = again.status
    fake.start()
    clock.now_s += 5
    back = (await sensor.read()).reading
    assert back is not None
    assert (back.state, back.detail, back.jobs) == (EngineState.OK, "", ())
    assert back.answered_at_ms == clock.unix_ms()


async def test_the_last_good_answer_keeps_its_own_time_exactly(fake: FakeDaemon) -> None:
    clock = VirtualClock()
    sensor = sensor_of(fake.port, clock=clock)
    await sensor.read()
    clock.now_s += 3
    await sensor.read()
    answered_ms = clock.unix_ms()
    fake.stop()
    clock.now_s += 50
    reading = (await sensor.read()).reading
    assert reading is not None
    assert reading.answered_at_ms == answered_ms


# --- status disabled ------------------------------------------------------------------------------------------------


async def test_status_disabled_when_only_grpc_answers() -> None:
    response = status_response(
        gpus=[
            {"ordinal": 0, "name": "H200", "vram_total_bytes": 1 << 37, "current_job_id": "a", "current_proof_kind": 1},
            {"ordinal": 1},
        ],
        loaded_srs=[{"circuit_id": "porep-32g"}],
        queues=[{"proof_kind": 1, "pending": 3, "in_progress": 2}, {"proof_kind": 3, "in_progress": 1}],
        total_proofs_completed=212,
        total_proofs_failed=2**64 - 1,
        uptime_seconds=600,
        pinned_memory_limit_bytes=5,
    )
    with grpc_server(lambda: response) as address:
        reading = await read(unused_port(), address)
    assert (reading.state, reading.source) == (EngineState.STATUS_DISABLED, "grpc")
    assert "daemon.status_listen" in reading.detail
    assert (reading.completed, reading.failed) == (212, None)
    assert reading.started_at_ms == VirtualClock().unix_ms() - 600_000
    assert [(w.id, w.gpu_ordinal, w.proving, w.job) for w in reading.workers] == [
        (0, 0, True, "a"),
        (1, 1, False, None),
    ]
    assert reading.in_flight == {"jobs": 3}
    assert reading.limits == ("jobs", "keys", "memory", "queue")
    assert (reading.keys, reading.queued) == ((), None)


async def test_status_disabled_over_a_unix_socket(tmp_path: Path) -> None:
    with grpc_server(lambda: status_response(total_proofs_completed=7), path=tmp_path / "cuzk.sock") as address:
        reading = await read(unused_port(), f"127.0.0.1:{unused_port()}", address)
    assert (reading.state, reading.completed) == (EngineState.STATUS_DISABLED, 7)
    assert str(tmp_path / "cuzk.sock") in reading.detail


async def test_grpc_is_called_seldom_and_looked_for_each_time() -> None:
    calls: list[float] = []
    clock = VirtualClock()

    def reply() -> Any:
        calls.append(clock.now_s)
        return status_response(total_proofs_completed=len(calls))

    port = unused_port()
    with grpc_server(reply) as address:
        sensor = sensor_of(port, address, clock=clock)
        seen = []
        for _ in range(2 * int(GRPC_EVERY_S)):
            seen.append((await sensor.read()).reading)
            clock.now_s += 1
    assert len(calls) == 2
    assert {reading.completed for reading in seen if reading is not None} == {1, 2}
    assert all(reading is not None and reading.state is EngineState.STATUS_DISABLED for reading in seen)


async def test_a_daemon_without_http_that_ends_is_down_at_the_next_read() -> None:
    clock = VirtualClock()
    port = unused_port()
    with grpc_server(status_response) as address:
        sensor = CuzkSensor(
            CuzkAddresses(http=("127.0.0.1", port), grpc=(grpc_address(address),), asked=True), clock=clock
        )
        first = (await sensor.read()).reading
    second = (await sensor.read()).reading
    assert first is not None
    assert second is not None
    assert (first.state, second.state) == (EngineState.STATUS_DISABLED, EngineState.DOWN)


async def test_without_the_extra_the_state_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_status, "find_spec", lambda _: None)
    with grpc_server(status_response) as address:
        reading = await read(unused_port(), address)
    assert (reading.state, reading.source) == (EngineState.STATUS_DISABLED, "")
    assert "pip install 'provewire[cuzk]'" in reading.detail


async def test_an_error_of_grpc_is_said() -> None:
    def broken() -> Any:
        raise RuntimeError("nvidia-smi is not there")

    with grpc_server(broken) as address:
        reading = await read(unused_port(), address)
    assert reading.state is EngineState.STATUS_DISABLED
    assert "gRPC status 14: nvidia-smi is not there" in reading.detail


async def test_a_socket_of_another_user_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(path: str) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(asyncio, "open_unix_connection", refused)
    reading = await read(unused_port(), f"unix://{tmp_path}/cuzk.sock")
    assert reading.state is EngineState.DOWN
    assert "is not open to the agent's user" in reading.detail


async def test_a_port_that_takes_a_connection_and_says_nothing_is_no_grpc() -> None:
    with listening() as (_, port):
        reading = await read(unused_port(), f"127.0.0.1:{port}", deadline_s=SHORT_S)
    assert reading.state is EngineState.DOWN


# --- wrong service --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (answer(b"Not Found", status="404 Not Found", kind="text/plain"), "HTTP 404"),
        (answer(b"<html>hello</html>", kind="text/html"), "'text/html' in place of JSON"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/status\r\nContent-Length: 0\r\n\r\n", "HTTP 302"),
        (b"HTTP/1.1 401 no\r\nServer: nginx\r\nContent-Length: 0\r\n\r\n", "HTTP 401 of 'nginx'"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "no HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            "in pieces without a length",
        ),
        (b"\x00\xff\xfe\x01" * 100, "no HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 22\r\n\r\n"
            + gzip.compress(b"{}", mtime=0),
            "compressed",
        ),
    ],
)
async def test_wrong_service(fake: FakeDaemon, raw: bytes, words: str) -> None:
    reading = await read_playing(fake, saying(raw))
    assert reading.state is EngineState.WRONG_SERVICE, reading.detail
    assert words in reading.detail
    assert "status_listen" in reading.detail


async def test_a_daemon_whose_port_was_taken_is_read_over_grpc(fake: FakeDaemon) -> None:
    fake.play = saying(answer(b"", status="404 Not Found", kind="text/plain"))
    with grpc_server(lambda: status_response(total_proofs_completed=3)) as address:
        reading = await read(fake.port, address)
    assert (reading.state, reading.source, reading.completed) == (EngineState.WRONG_SERVICE, "grpc", 3)


# --- bad answer -----------------------------------------------------------------------------------------------------

GOOD = FakeEngine(time.monotonic).status()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def with_(**parts: Any) -> bytes:
    return json.dumps({**GOOD, **parts}).encode()


PIPELINE = {
    "job_id": "a",
    "proof_kind": "porep-c2",
    "started_secs_ago": 1.0,
    "total_partitions": 1,
    "partitions_done": 0,
    "partitions": [],
}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no valid JSON"),
        (b"{", "no valid JSON"),
        (b"null", "no status"),
        (b"[]", "no status"),
        (b'{"uptime_secs": NaN}', "no valid JSON"),
        (b"\xff\xfe{}", "no valid JSON"),
        (b'{"x": "\\ud800"}', "valid JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON"),
        (without("pipelines"), "`pipelines`"),
        (without("counters"), "`counters`"),
        (with_(uptime_secs="long"), "$.uptime_secs"),
        (with_(uptime_secs=True), "$.uptime_secs"),
        (with_(memory=[]), "$.memory"),
        (with_(buffers={"synth_in_flight": 1.5}), "$.buffers"),
        (with_(buffers={str(number): 0 for number in range(1000)}), "$.buffers"),
        (with_(pipelines=[PIPELINE] * 5000), "$.pipelines"),
        (with_(pipelines=[{**PIPELINE, "partitions": [{"index": 0, "state": "done"}] * 1000}]), ".partitions"),
        (with_(gpu_workers=[{"worker_id": "0"}]), "$.gpu_workers"),
    ],
)
async def test_bad_answer(fake: FakeDaemon, body: bytes, words: str) -> None:
    reading = await read_playing(fake, saying(answer(body)))
    assert reading.state is EngineState.BAD_ANSWER, reading.detail
    assert words in reading.detail


async def test_the_daemon_s_own_error_is_said(fake: FakeDaemon) -> None:
    raw = answer(b'{"error": "lock poisoned"}', status="500 Internal Server Error")
    reading = await read_playing(fake, saying(raw))
    assert reading.state is EngineState.BAD_ANSWER
    assert "lock poisoned" in reading.detail


async def test_too_much_is_not_taken(fake: FakeDaemon) -> None:
    reading = await read_playing(fake, flooding)
    assert reading.state is EngineState.BAD_ANSWER
    assert f"more than {ANSWER_BYTES_MAX} bytes" in reading.detail


async def test_an_answer_that_breaks_off(fake: FakeDaemon) -> None:
    reading = await read_playing(fake, saying(answer(b"{", length=1000)))
    assert reading.state is EngineState.BAD_ANSWER
    assert "broke its answer off" in reading.detail


async def test_no_answer_at_all(fake: FakeDaemon) -> None:
    reading = await read_playing(fake, saying(b""))
    assert reading.state is EngineState.BAD_ANSWER
    assert "without an answer" in reading.detail


async def test_numbers_beyond_all_bounds_are_no_numbers(fake: FakeDaemon) -> None:
    body = with_(
        uptime_secs=1e308,
        memory={"total_bytes": 10**30, "used_bytes": -1},
        pipelines=[
            {
                **PIPELINE,
                "started_secs_ago": -5.0,
                "total_partitions": 2**64,
                "partitions": [{"index": 2**64, "state": "done"}, {"index": 0, "state": "done", "synth_ms": 2**64}],
            }
        ],
        gpu_workers=[
            {"worker_id": 2**64, "gpu_ordinal": 0, "state": "idle"},
            {"worker_id": 1, "gpu_ordinal": 0, "state": "proving", "current_job": "a", "current_partition": -1},
        ],
    )
    reading = await read_playing(fake, saying(answer(body)))
    assert reading.state is EngineState.OK
    assert (reading.started_at_ms, reading.memory_total_bytes, reading.memory_used_bytes) == (None, None, None)
    assert [worker.id for worker in reading.workers] == [1]
    assert [(each.index, each.synthesis_ms) for each in reading.jobs[0].partitions] == [(0, None)]


# --- silent ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("play", [hanging, dripping])
async def test_silent(fake: FakeDaemon, play: Play) -> None:
    reading = await read_playing(fake, play, deadline_s=SHORT_S)
    assert reading.state is EngineState.SILENT
    assert "no whole answer" in reading.detail


async def test_silent_when_nobody_takes_the_connection_up() -> None:
    with listening() as (_, port):
        reading = await read(port, deadline_s=SHORT_S)
    assert reading.state is EngineState.SILENT


HTTP = answer(json.dumps(GOOD).encode()[:400])


@given(
    raw=st.one_of(
        st.binary(max_size=300),
        st.builds(lambda head, tail: HTTP[:head] + tail, st.integers(0, len(HTTP)), st.binary(max_size=60)),
        st.builds(
            lambda at, byte: HTTP[:at] + bytes((byte,)) + HTTP[at + 1 :], st.integers(0, 200), st.integers(0, 255)
        ),
        st.builds(lambda head: b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n{}", st.binary(max_size=100)),
    )
)
@settings(max_examples=150, deadline=None)
async def test_whatever_bytes_come_the_state_is_a_named_one(raw: bytes) -> None:
    with daemon(dict) as fake:
        fake.play = saying(raw)
        assert (await read(fake.port)).state in set(EngineState) - {EngineState.OK, EngineState.DOWN}


# --- whether to show it at all --------------------------------------------------------------------------------------


async def test_nothing_is_shown_of_a_daemon_that_nobody_ever_saw() -> None:
    sensor = sensor_of(unused_port(), f"127.0.0.1:{unused_port()}", asked=False)
    assert await sensor.read() == EngineReport(None)
    assert await sensor.read() == EngineReport(None)


async def test_another_program_on_its_port_is_not_shown_as_a_daemon(fake: FakeDaemon) -> None:
    fake.play = saying(answer(b"hello", kind="text/plain"))
    sensor = sensor_of(fake.port, asked=False)
    for _ in range(3):
        assert await sensor.read() == EngineReport(None)


async def test_a_daemon_that_was_seen_is_shown_as_down(fake: FakeDaemon) -> None:
    sensor = sensor_of(fake.port, asked=False)
    await sensor.read()
    fake.stop()
    reading = (await sensor.read()).reading
    assert reading is not None
    assert reading.state is EngineState.DOWN


async def test_a_daemon_an_earlier_agent_saw_is_shown_as_down(fake: FakeDaemon, tmp_path: Path) -> None:
    path = tmp_path / "cuzk.json"
    sensor = sensor_of(fake.port, asked=False, memory=MemoryFile(path, "boot-1"))
    await sensor.read()
    fake.stop()
    sensor = sensor_of(fake.port, asked=False, memory=MemoryFile(path, "boot-2"))
    reading = (await sensor.read()).reading
    assert reading is not None
    assert reading.state is EngineState.DOWN


async def test_jobs_an_earlier_agent_told_of_are_not_told_again(
    fake: FakeDaemon, engine: FakeEngine, tmp_path: Path
) -> None:
    path = tmp_path / "cuzk.json"
    engine.submit("a")
    engine.fail_partition("a", 0)
    told = []
    for _ in range(2):
        sensor = sensor_of(fake.port, memory=MemoryFile(path, "boot-1"))
        told.append([event.kind for event in (await sensor.read()).events])
    assert told == [["engine.state", "engine.job_failed"], ["engine.state"]]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"boot_id": 5}', b"\xff"])
async def test_a_damaged_memory_is_no_harm(fake: FakeDaemon, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cuzk.json"
    path.write_bytes(content)
    assert (await read(fake.port, memory=MemoryFile(path, "boot-1"))).state is EngineState.OK
    assert json.loads(path.read_bytes())["boot_id"] == "boot-1"


async def test_a_memory_that_cannot_be_written_is_no_harm(fake: FakeDaemon, tmp_path: Path) -> None:
    memory = MemoryFile(tmp_path / "missing" / "cuzk.json", "boot-1")
    assert (await read(fake.port, memory=memory)).state is EngineState.OK


# --- events ---------------------------------------------------------------------------------------------------------


async def test_a_change_of_state_is_told_once_it_is_more_than_a_moment_s(fake: FakeDaemon) -> None:
    sensor = sensor_of(fake.port, deadline_s=10.0)
    told = [(await sensor.read()).events]
    fake.stop()
    told.append((await sensor.read()).events)
    fake.start()
    told.append((await sensor.read()).events)
    fake.stop()
    told += [(await sensor.read()).events for _ in range(3)]
    fake.start()
    told.append((await sensor.read()).events)
    said = [[(event.kind, event.fields["state"], event.level) for event in events] for events in told]
    ok = [("engine.state", "ok", Level.INFO)]
    assert said == [ok, [], [], [], [("engine.state", "down", Level.ERROR)], [], ok]


async def test_a_job_s_end_is_told_with_what_is_known_of_it(fake: FakeDaemon, engine: FakeEngine) -> None:
    sensor = sensor_of(fake.port)
    engine.submit("a")
    await sensor.read()
    engine.run("a")
    await sensor.read()
    engine.complete("a")
    engine.submit("b", kind="snap-update")
    engine.fail_partition("b", 3)
    done, failed = sorted((await sensor.read()).events, key=lambda event: event.kind)
    assert (done.kind, done.level) == ("engine.job_done", Level.INFO)
    assert done.detail.startswith("cuzk job a (porep-c2) is done after ")
    assert (failed.kind, failed.level) == ("engine.job_failed", Level.ERROR)
    assert "partition 3 failed" in failed.detail
    assert (failed.fields["job"], failed.fields["proof_kind"], failed.fields["partition"]) == ("b", "snap-update", 3)


async def test_a_thousand_old_failures_are_not_told_one_by_one(fake: FakeDaemon, engine: FakeEngine) -> None:
    for number in range(1000):
        engine.submit(f"old-{number}")
        engine.fail_partition(f"old-{number}", 0)
    sensor = sensor_of(fake.port)
    report = await sensor.read()
    failures = [event for event in report.events if event.kind == "engine.job_failed"]
    assert len(failures) == OUTCOMES_TOLD_MAX + 1
    assert failures[-1].fields["jobs"] == 1000 - OUTCOMES_TOLD_MAX
