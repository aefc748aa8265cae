"""A worker over its socket: in this process with an engine that does as told, then as a process of its own."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from prover.circuits import OTHER_WITNESS, VERIFICATION_KEY, WITNESS, ZKEY
from prover.errors import DeviceError, ProverError
from prover.worker import lock as worker_lock
from prover.worker.engine import EngineMaker, Proved, Work
from prover.worker.engines import engines as real_engines
from prover.worker.link import QUEUE_FRAMES_MAX
from prover.worker.process import Worker, WorkerConfig
from prover.worker.results import Results, ended_dir, read_all
from tests.prover.scripted_engine import Control, engines
from wire import codec
from wire.jobs import Groth16Spec
from wire.worker import Abort, DeviceNews, DeviceState, Ended, Greeting, InputFile, Ping, Pong, Progress, Prove, Release

ROOT = Path(__file__).parents[2]
JOB = "01890a5d-ac96-774b-bcce-0000000000aa"
JOB_2 = "01890a5d-ac96-774b-bcce-0000000000bb"
DEADLINE_S = 30.0

F = TypeVar("F")


def prove(job: str = JOB, attempt: int = 1, engine: str = "groth16", inputs: dict[str, Path] | None = None) -> Prove:
    files = [InputFile(role=role, path=str(path)) for role, path in (inputs or {}).items()]
    return Prove(
        job=job, attempt=attempt, engine=engine, spec=Groth16Spec(circuit="11" * 32, curve="bn128"), inputs=files
    )


class AgentEnd:
    """The agent's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._splitter = codec.StreamReader()
        self._frames: list[Any] = []

    async def send(self, *frames: Any) -> None:
        for frame in frames:
            self._writer.write(codec.length_prefixed(frame))
        await self._writer.drain()

    async def send_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def next(self) -> Any:
        """The next frame; None when the worker closed the connection."""
        async with asyncio.timeout(DEADLINE_S):
            while not self._frames:
                try:
                    data = await self._reader.read(65_536)
                except ConnectionResetError:
                    return None
                if not data:
                    return None
                self._frames += [codec.decode_from_worker(body) for body in self._splitter.feed(data)]
        return self._frames.pop(0)

    async def until(self, kind: type[F], matches: Callable[[F], bool] = lambda _: True) -> F:
        """The next frame of one kind that matches; others are passed over."""
        while True:
            frame = await self.next()
            assert frame is not None, f"the connection ended before a {kind.__name__} came"
            if isinstance(frame, kind) and matches(frame):
                return frame

    async def phase(self, name: str) -> Progress:
        return await self.until(Progress, lambda progress: progress.phase == name)

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def connected(directory: Path) -> AsyncIterator[tuple[AgentEnd, Greeting]]:
    reader, writer = await asyncio.open_unix_connection(directory / "worker.sock")
    agent = AgentEnd(reader, writer)
    try:
        greeting = await agent.next()
        assert isinstance(greeting, Greeting)
        yield agent, greeting
    finally:
        agent.close()


@asynccontextmanager
async def serving(
    directory: Path, engine: Control | dict[str, EngineMaker], device: str = "host"
) -> AsyncIterator[asyncio.Task[None]]:
    """A worker on this loop, stopped by its signal at the end; a scripted proof that still waits is let go."""
    makers = engines(engine.path) if isinstance(engine, Control) else engine
    config = WorkerConfig(dir=directory, device=device, engines=makers, save_retry_s=0.01, open_retry_s=0.01)
    with worker_lock.take(directory):
        task = asyncio.create_task(Worker(config).serve())
        while not (directory / "worker.sock").exists():
            assert not task.done(), task.exception()
            await asyncio.sleep(0.005)
        try:
            yield task
        finally:
            if not task.done():
                os.kill(os.getpid(), signal.SIGTERM)
                if isinstance(engine, Control):
                    engine.send("d")
            async with asyncio.timeout(DEADLINE_S):
                await task


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path / "control")
    yield made
    made.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "w"


# --- the ordinary way -----------------------------------------------------------------------------------------------


async def test_a_job_from_prove_to_release(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, greeting):
        assert (greeting.pid, greeting.device, greeting.current) == (os.getpid(), "host", None)
        await agent.send(prove())
        assert (await agent.phase("phase-0")).job == JOB
        control.send("p")
        await agent.phase("phase-1")
        control.send("d")
        ended = await agent.until(Ended)
        assert (ended.code, ended.outputs[0].data, ended.timings_ms) == (0, b'{"proof":1}', {"phase-0": 1.0})
        assert read_all(directory) == [ended]
        await agent.send(Release(job=JOB, attempt=1), Ping(number=1))
        await agent.until(Pong)
        assert read_all(directory) == []
        await agent.send(Release(job=JOB, attempt=1), Ping(number=2))
        assert await agent.until(Pong) == Pong(number=2)


async def test_pings_are_answered_while_a_proof_runs(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        for number in range(1, 4):
            await agent.send(Ping(number=number))
            assert await agent.until(Pong) == Pong(number=number)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_folder_and_the_socket_are_for_the_owner_only(directory: Path, control: Control) -> None:
    async with serving(directory, control):
        assert (mode_of(directory), mode_of(directory / "worker.sock")) == (0o700, 0o600)


# --- saying things again --------------------------------------------------------------------------------------------


async def test_prove_repeated_is_harmless(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        await agent.send(prove())
        assert (await agent.until(Progress)).phase == "phase-0"
        control.send("d")
        ended = await agent.until(Ended)
        await agent.send(prove())
        assert await agent.until(Ended) == ended


async def test_a_new_agent_replaces_the_old_one_and_learns_everything(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (first, _):
        await first.send(prove())
        control.send("d")
        ended = await first.until(Ended)
        await first.send(prove(JOB_2))
        await first.phase("phase-0")
        async with connected(directory) as (second, greeting):
            assert greeting.current is not None
            assert (greeting.current.job, greeting.current.phase) == (JOB_2, "phase-0")
            assert await second.until(Ended) == ended
            while await first.next() is not None:
                pass
            control.send("d")
            assert (await second.until(Ended)).job == JOB_2


async def test_a_result_kept_is_said_by_the_next_process_too(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        control.send("e")
        ended = await agent.until(Ended)
    async with serving(directory, control), connected(directory) as (agent, _):
        assert await agent.until(Ended) == ended
    assert (ended.code, ended.detail) == (4, "the witness does not satisfy the circuit")


# --- refusing, aborting, failing ------------------------------------------------------------------------------------


async def test_a_second_job_is_refused_and_nothing_is_kept_of_it(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        await agent.send(prove(JOB_2))
        refused = await agent.until(Ended)
        assert (refused.job, refused.code) == (JOB_2, 6)
        assert f"busy with job {JOB}" in refused.detail
        await agent.send(prove(engine="groth16", attempt=2))
        assert "busy" in (await agent.until(Ended)).detail
        assert read_all(directory) == []


async def test_an_unknown_engine_is_refused(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove(engine="cuzk"))
        assert (await agent.until(Ended)).detail == "this worker has no engine 'cuzk'"


async def test_an_abort_stops_at_the_next_phase_boundary(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        await agent.send(Abort(job=JOB, attempt=1), Ping(number=1))
        await agent.until(Pong)
        control.send("p")
        ended = await agent.until(Ended)
        assert (ended.code, ended.outputs, ended.detail) == (0, [], "")
        await agent.send(Abort(job=JOB, attempt=1))
        assert await agent.until(Ended) == ended
        await agent.send(Abort(job=JOB_2, attempt=3))
        assert await agent.until(Ended) == Ended(job=JOB_2, attempt=3, code=0)


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("e", 4, "the witness does not satisfy the circuit"),
        ("m", 6, "memory did not suffice"),
        ("x", 6, "internal fault of the prover (ValueError); the worker's log has the traceback"),
        ("n", 6, "internal fault of the prover (LocalProtocolError)"),
        ("s", 6, "internal fault of the prover (LocalProtocolError)"),
    ],
    ids=["the prover's own", "memory", "a bug", "no outputs", "outputs too large to send"],
)
async def test_every_failure_is_one_sentence(
    directory: Path, control: Control, command: str, code: int, says: str
) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        control.send(command)
        ended = await agent.until(Ended)
        assert ended.code == code
        assert says in ended.detail
        assert "\n" not in ended.detail
        assert "secret" not in ended.detail
        await agent.send(Release(job=JOB, attempt=1), prove(JOB_2))
        control.send("d")
        assert (await agent.until(Ended, lambda end: end.job == JOB_2)).code == 0


async def test_a_device_that_cannot_be_used_fails_the_job_with_its_sentence(directory: Path, control: Control) -> None:
    async with serving(directory, control, device="cuda:9"), connected(directory) as (agent, _):
        await agent.send(prove())
        ended = await agent.until(Ended)
        assert (ended.code, ended.detail) == (5, "cuda:9: there is no such card")


async def test_a_full_disk_delays_the_result_and_loses_it_not(
    directory: Path, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = asyncio.Event()
    loop = asyncio.get_running_loop()
    real_fsync = os.fsync

    def refuse(_: int) -> None:
        loop.call_soon_threadsafe(full.set)
        raise OSError(errno.ENOSPC, "No space left on device")

    async with serving(directory, control), connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        monkeypatch.setattr("prover.worker.results.os.fsync", refuse)
        control.send("d")
        await agent.phase("waiting for the disk")
        assert full.is_set()
        assert list(ended_dir(directory).iterdir()) == []
        monkeypatch.setattr("prover.worker.results.os.fsync", real_fsync)
        assert (await agent.until(Ended)).outputs[0].data == b'{"proof":1}'
        assert len(read_all(directory)) == 1


# --- hostile and slow agents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02\xc1\xc1", b"\x00\x00\x00\x06\x81\xa1t\xa2po"],
    ids=["too long", "garbage", "a worker's frame"],
)
async def test_hostile_bytes_close_only_their_connection(directory: Path, control: Control, data: bytes) -> None:
    async with serving(directory, control):
        async with connected(directory) as (agent, _):
            await agent.send(prove())
            await agent.phase("phase-0")
            await agent.send_raw(data)
            while await agent.next() is not None:
                pass
        async with connected(directory) as (agent, greeting):
            assert greeting.current is not None
            control.send("d")
            assert (await agent.until(Ended)).code == 0


async def test_an_unknown_frame_is_passed_over(directory: Path, control: Control) -> None:
    async with serving(directory, control), connected(directory) as (agent, _):
        body = b"\x81\xa1t\xa4new!"
        await agent.send_raw(len(body).to_bytes(4, "big") + body)
        await agent.send(Ping(number=1))
        assert await agent.until(Pong) == Pong(number=1)


async def test_an_agent_that_does_not_read_loses_the_connection_and_nothing_else(
    directory: Path, control: Control
) -> None:
    async with serving(directory, control):
        reader, writer = await asyncio.open_unix_connection(directory / "worker.sock")
        del reader
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        ping = codec.length_prefixed(Ping(number=1))
        with contextlib.suppress(OSError):
            async with asyncio.timeout(DEADLINE_S):
                while not writer.transport.is_closing():
                    writer.write(ping * QUEUE_FRAMES_MAX)
                    await writer.drain()
        assert writer.transport.is_closing()
        async with connected(directory) as (agent, _):
            await agent.send(prove())
            control.send("d")
            assert (await agent.until(Ended)).code == 0


class Moody:
    """An engine whose device cannot be used at first."""

    def __init__(self, problems: list[str], on_host: str = "") -> None:
        self.problems = problems
        self.on_host = on_host
        self.is_open = False
        self.watched = threading.Event()

    def open(self) -> None:
        self.watched.wait(DEADLINE_S)
        if self.problems and not self.is_open:
            raise DeviceError(self.problems.pop(0))
        self.is_open = True

    def prove(self, work: Work) -> Proved:
        del work
        self.is_open = False
        self.on_host = "cuda:0: the card was lost"
        raise DeviceError("cuda:0: the card was lost")

    def close(self) -> None:
        return


async def test_a_device_that_cannot_be_used_is_told_and_tried_again(directory: Path) -> None:
    engine = Moody(["no compiler", "no compiler", "no memory"])
    async with serving(directory, {"groth16": lambda _device: engine}), connected(directory) as (agent, _):
        engine.watched.set()
        news = [await agent.until(DeviceNews) for _ in range(4)]
    assert [(one.state.value, one.detail) for one in news] == [
        ("opening", ""),
        ("unusable", "no compiler"),
        ("unusable", "no memory"),
        ("ready", ""),
    ]


async def test_an_engine_that_took_the_host_is_told_with_the_reason_also_after_a_job(directory: Path) -> None:
    engine = Moody(["no memory"], on_host="cuda:0: the driver is too old")
    async with serving(directory, {"groth16": lambda _device: engine}, "auto"), connected(directory) as (agent, _):
        engine.watched.set()
        news = [await agent.until(DeviceNews) for _ in range(3)]
        assert [one.on_host for one in news] == ["", "", "cuda:0: the driver is too old"]
        await agent.send(prove())
        assert (await agent.until(Ended)).code == 5
        assert (await agent.until(DeviceNews)).on_host == "cuda:0: the card was lost"


async def test_a_device_that_a_job_lost_is_told_before_the_job_ends_and_tried_until_it_is_back(directory: Path) -> None:
    engine = Moody([])
    async with serving(directory, {"groth16": lambda _device: engine}, "cuda:0"), connected(directory) as (agent, _):
        engine.watched.set()
        await agent.until(DeviceNews, lambda said: said.state is DeviceState.READY)
        engine.problems += ["cuda:0: there is no such card"] * 3
        await agent.send(prove())
        assert (await agent.until(DeviceNews)).state is DeviceState.OPENING
        assert (await agent.until(Ended)).code == 5
        news = [await agent.until(DeviceNews) for _ in range(2)]
        assert [(one.state.value, one.detail) for one in news] == [
            ("unusable", "cuda:0: there is no such card"),
            ("ready", ""),
        ]


async def test_every_connection_learns_how_the_device_is(directory: Path, control: Control) -> None:
    async with serving(directory, control, "cuda:9"):
        for _ in range(2):
            async with connected(directory) as (agent, _):
                news = await agent.until(DeviceNews, lambda said: said.state is not DeviceState.OPENING)
                assert (news.state, news.detail) == (DeviceState.UNUSABLE, "cuda:9: there is no such card")


# --- signals --------------------------------------------------------------------------------------------------------


async def test_sigterm_without_a_job_ends_the_worker(directory: Path, control: Control) -> None:
    async with serving(directory, control) as task, connected(directory) as (agent, _):
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            await task
        while await agent.next() is not None:
            pass
        assert not (directory / "worker.sock").exists()


async def test_sigterm_in_mid_proof_finishes_it_first(directory: Path, control: Control) -> None:
    async with serving(directory, control) as task, connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        os.kill(os.getpid(), signal.SIGTERM)
        await agent.send(Ping(number=1))
        await agent.until(Pong)
        await agent.send(prove(JOB_2))
        assert (await agent.until(Ended)).job == JOB_2  # busy still, not dead
        control.send("pd")
        assert (await agent.until(Ended, lambda end: end.job == JOB)).code == 0
        async with asyncio.timeout(DEADLINE_S):
            await task
    assert [ended.job for ended in read_all(directory)] == [JOB]


async def test_a_second_sigterm_aborts_at_the_phase_boundary(directory: Path, control: Control) -> None:
    async with serving(directory, control) as task, connected(directory) as (agent, _):
        await agent.send(prove())
        await agent.phase("phase-0")
        for number in range(1, 3):
            os.kill(os.getpid(), signal.SIGTERM)
            await agent.send(Ping(number=number))
            await agent.until(Pong)
        control.send("p")
        ended = await agent.until(Ended)
        assert (ended.code, ended.detail) == (6, "the worker was stopped by a second signal before the proof was done")
        async with asyncio.timeout(DEADLINE_S):
            await task


# --- a process of its own -------------------------------------------------------------------------------------------


@pytest.fixture
def start(directory: Path, control: Control) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts worker processes, and leaves none behind."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one() -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "tests.prover.scripted_engine", str(directory), "host", str(control.path)]
        started.append(subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


async def listening(directory: Path, process: subprocess.Popen[bytes]) -> None:
    """Until this very process takes connections: the socket of one that was killed stays behind."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            assert process.poll() is None, process.communicate()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_unix_connection(directory / "worker.sock")
                writer.transport.abort()
                if worker_lock.owner(directory) == process.pid:
                    return
            await asyncio.sleep(0.01)


async def test_kill_9_keeps_what_was_finished_and_the_next_process_takes_over(
    directory: Path, control: Control, start: Callable[[], subprocess.Popen[bytes]]
) -> None:
    first = start()
    await listening(directory, first)
    async with connected(directory) as (agent, greeting):
        assert greeting.pid == first.pid
        await agent.send(prove())
        control.send("d")
        ended = await agent.until(Ended)
        await agent.send(prove(JOB_2))
        await agent.phase("phase-0")
        control.send("k")
        while await agent.next() is not None:
            pass
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert read_all(directory) == [ended]
    second = start()
    await listening(directory, second)
    async with connected(directory) as (agent, greeting):
        assert greeting.current is None
        assert await agent.until(Ended) == ended
    second.terminate()
    second.communicate()
    assert second.returncode == 0


async def test_a_second_worker_on_the_same_folder_is_refused(
    directory: Path, start: Callable[[], subprocess.Popen[bytes]]
) -> None:
    first = start()
    await listening(directory, first)
    argv = [sys.executable, "-m", "cli.main", "worker", "--dir", str(directory), "--device", "host"]
    second = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, stderr=subprocess.PIPE)
    said = (await second.communicate())[1].decode()
    first.terminate()
    first.communicate()
    assert second.returncode == 64
    assert f"another worker (pid {first.pid}) has {directory}" in said
    assert "Traceback" not in said


async def test_a_path_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProverError, match="shorter path") as fault:
        worker_lock.take(tmp_path / ("d" * 120))
    assert fault.value.exit_code == 64


# --- a real proof ---------------------------------------------------------------------------------------------------


@pytest.mark.compiler
async def test_a_real_proof_by_the_groth16_engine(directory: Path) -> None:
    files = psutil.Process().num_fds()
    async with serving(directory, dict(real_engines())), connected(directory) as (agent, _):
        for number, witness in enumerate((WITNESS, OTHER_WITNESS), start=1):
            await agent.send(prove(attempt=number, inputs={"zkey": ZKEY, "wtns": witness}))
            ended = await agent.until(Ended)
            assert (ended.code, ended.detail) == (0, "")
            outputs = {each.role: json.loads(each.data) for each in ended.outputs}
            assert outputs["proof"]["protocol"] == "groth16"
            assert len(outputs["public"]) == json.loads(VERIFICATION_KEY.read_text())["nPublic"]
        await agent.send(prove(attempt=3, inputs={"zkey": WITNESS, "wtns": WITNESS}))
        ended = await agent.until(Ended)
        assert ended.code == 2
        # Named by its role, not by where it lies on this node.
        assert ended.detail.startswith("the ")
        assert str(WITNESS) not in ended.detail
        await agent.send(prove(attempt=4, inputs={"zkey": ZKEY}))
        assert (await agent.until(Ended)).code == 3
    assert psutil.Process().num_fds() <= files + 1


def test_results_of_a_stranger_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    results = Results(tmp_path)
    ended = Ended(job=JOB, attempt=1, code=0)
    results.save(ended)
    (ended_dir(tmp_path) / f"{JOB_2}.1.msgpack").write_bytes(b"torn")
    (ended_dir(tmp_path) / ".new-abc").write_bytes(b"half")
    (ended_dir(tmp_path) / "notes.txt").write_text("hello")
    assert read_all(tmp_path) == [ended]
    assert len(Results(tmp_path)) == 1
    assert not (ended_dir(tmp_path) / ".new-abc").exists()  # of a worker killed in mid-write: swept at the next start
    assert read_all(tmp_path / "nowhere") == []
