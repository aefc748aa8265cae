"""Workers as processes of their own: found, started, adopted, silent, killed. Only their engine is scripted."""

import asyncio
import functools
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.clock import Clock, SystemClock
from agent.job_steps import Event, WorkerEnded, WorkerGone, WorkerProgressed, WorkerUp
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.worker_link import connect
from agent.workers import Argv, DeviceWorker, own_argv
from prover.worker import lock as worker_lock
from tests.agent.samples import EPOCHS, JOB
from tests.agent.virtual_time import VirtualClock, eventually
from tests.prover.scripted_engine import Control
from wire import codec
from wire.frames import Level, NodeEvent, Stream
from wire.jobs import Groth16Spec
from wire.status import WorkerState
from wire.worker import PONG_DEADLINE_S, DeviceNews, DeviceState, Greeting, Ping, Pong, Prove, Release

ROOT = Path(__file__).parents[2]
PROVE = Prove(job=JOB, attempt=1, engine="groth16", spec=Groth16Spec(circuit="11" * 32, curve="bn128"), inputs=[])


class Listener:
    """The desk's place: hears events, says whether the device is busy."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.busy = False

    def post(self, event: Event) -> None:
        self.events.append(event)

    def busy_device(self, device: str) -> bool:
        del device
        return self.busy

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Node:
    """One `DeviceWorker` with its surroundings; may be started again on the same folder, as an agent is."""

    def __init__(self, folder: Path, control: Control) -> None:
        self.folder = folder
        self.directory = folder / "w"
        self.control = control
        self.listener = Listener()
        self.changes = 0
        self.outbox: Outbox
        self.worker: DeviceWorker

    def argv(self, device: str, directory: Path) -> list[str]:
        return [sys.executable, "-m", "tests.prover.scripted_engine", str(directory), device, str(self.control.path)]

    @asynccontextmanager
    async def running(
        self,
        epoch: str = EPOCHS[0],
        *,
        argv: Argv | None = None,
        clock: Clock | None = None,
        spawn: bool = True,
        device: str = "host",
    ) -> AsyncIterator[DeviceWorker]:
        clock = clock or SystemClock()
        self.listener = Listener()
        self.outbox = await open_outbox(self.folder / "outbox.sqlite", epoch, clock, Bounds(bytes_max=1 << 20))
        self.worker = DeviceWorker(
            device,
            self.directory,
            argv=(argv or self.argv) if spawn else None,
            environ={**os.environ, "PYTHONPATH": str(ROOT)},
            ping_s=0.05,
            desk=self.listener,
            outbox=self.outbox,
            clock=clock,
            rng=random.Random(2),
            on_change=self.count,
        )
        task = asyncio.create_task(self.worker.run())
        try:
            yield self.worker
        finally:
            task.cancel()
            results = await asyncio.gather(task, return_exceptions=True)
            await self.worker.close()
            await self.outbox.close()
            assert isinstance(results[0], asyncio.CancelledError), results

    def count(self) -> None:
        self.changes += 1

    async def up(self, count: int = 1) -> WorkerUp:
        await eventually(lambda: len(self.listener.of(WorkerUp)) >= count, "the worker's greeting")
        up: WorkerUp = self.listener.of(WorkerUp)[count - 1]
        return up

    async def said(self, kind: str) -> NodeEvent:
        """The first node event of a kind that this epoch has stored."""
        found: list[NodeEvent] = []
        async with asyncio.timeout(20):
            while not found:
                events = await self.outbox.read(self.outbox.epoch, Stream.EVENTS, 0, 1000, 1 << 20)
                found = [each.body for each in events if isinstance(each.body, NodeEvent) and each.body.kind == kind]
        return found[0]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    control = Control(tmp_path / "control")
    made = Node(tmp_path, control)
    yield made
    pid = worker_lock.owner(made.directory)
    if pid is not None:
        psutil.Process(pid).kill()
    control.close()


async def give(node: Node, pid: int) -> None:
    """Have the worker prove, and wait until it does."""
    node.listener.busy = True
    before = len(node.listener.of(WorkerProgressed))
    await node.worker.send(pid, PROVE)
    await eventually(lambda: len(node.listener.of(WorkerProgressed)) > before + 1, "progress")


# --- starting and adopting ------------------------------------------------------------------------------------------


async def test_a_worker_is_started_in_its_own_session(node: Node) -> None:
    async with node.running() as worker:
        up = await node.up()
        assert up.current is None
        assert os.getsid(up.pid) == up.pid
        await eventually(worker.answering, "an answer to a ping")
        reading = worker.reading()
        assert (reading.device, reading.state, reading.pid) == ("host", WorkerState.IDLE, up.pid)
        await give(node, up.pid)
        assert worker.reading().state is WorkerState.PROVING
        assert node.changes > 0
        node.control.send("d")
        await eventually(lambda: node.listener.of(WorkerEnded), "the result")
        await worker.send(None, Release(job=JOB, attempt=1))
        await worker.send(up.pid + 1, Release(job=JOB, attempt=2))  # of another process: not sent
    assert psutil.pid_exists(up.pid)  # the agent's end is not the worker's


async def test_the_same_process_is_adopted_by_the_next_agent_in_mid_proof(node: Node) -> None:
    async with node.running():
        first = await node.up()
        await give(node, first.pid)
    async with node.running(EPOCHS[1]):
        second = await node.up()
        assert second.pid == first.pid
        assert second.current is not None
        assert second.current.job == JOB
        assert f"at job {JOB}" in (await node.said("worker.adopted")).detail
        node.control.send("d")
        await eventually(lambda: node.listener.of(WorkerEnded), "the result")


async def test_a_result_left_on_disk_is_found_before_any_worker_is(node: Node) -> None:
    async with node.running():
        up = await node.up()
        await give(node, up.pid)
        node.control.send("d")
        await eventually(lambda: node.listener.of(WorkerEnded), "the result")
    psutil.Process(up.pid).kill()
    async with node.running(EPOCHS[1], spawn=False):
        await eventually(lambda: node.listener.of(WorkerGone), "the worker to be missed")
        assert isinstance(node.listener.events[0], WorkerEnded)


async def test_external_workers_are_waited_for(node: Node) -> None:
    async with node.running(spawn=False) as worker:
        await eventually(lambda: worker.reading().detail == "waits for its systemd unit", "the wait")
        assert worker.reading().state is WorkerState.DOWN
        process = await asyncio.create_subprocess_exec(*node.argv("host", node.directory), cwd=ROOT)
        up = await node.up()
        assert up.pid == process.pid
        process.terminate()
        await process.wait()


# --- dying ----------------------------------------------------------------------------------------------------------


async def test_kill_9_in_mid_proof_is_told_with_the_signal_and_a_new_worker_started(node: Node) -> None:
    async with node.running():
        first = await node.up()
        await give(node, first.pid)
        os.kill(first.pid, signal.SIGKILL)
        await eventually(lambda: len(node.listener.of(WorkerGone)) > 1, "the news")
        assert node.listener.of(WorkerGone)[-1].detail == "the worker died (signal 9, Killed)"
        event = await node.said("worker.died")
        assert "worker.proving" in str(event.fields["last_words"])
        assert (event.fields["device"], event.fields["pid"], event.fields["proving"]) == ("host", first.pid, True)
        second = await node.up(2)
        assert second.pid != first.pid
        assert second.current is None


async def test_a_worker_that_finished_before_it_died_has_its_result_reported_first(node: Node) -> None:
    async with node.running():
        up = await node.up()
        await give(node, up.pid)
        node.control.send("d")
        await eventually(lambda: list((node.directory / "ended").glob("*.msgpack")), "the result on disk")
        os.kill(up.pid, signal.SIGKILL)
        await eventually(lambda: len(node.listener.of(WorkerGone)) > 1, "the news")
        kinds = [type(event) for event in node.listener.events]
        gone = max(index for index, kind in enumerate(kinds) if kind is WorkerGone)
        assert kinds[gone - 1] is WorkerEnded


async def test_a_worker_that_never_gets_up_is_started_again_with_growing_waits(node: Node) -> None:
    clock = VirtualClock()
    script = "echo no compiler here >&2; exit 64"
    async with node.running(clock=clock, argv=lambda *_: ["/bin/sh", "-c", script]):
        seen: list[float] = []
        for number in range(1, 6):
            await eventually(
                lambda number=number: len(node.listener.of(WorkerGone)) > number or clock.sleeping,  # type: ignore[misc]
                "the next start",
            )
            while len(node.listener.of(WorkerGone)) <= number:
                await eventually(lambda: clock.sleeping, "a pause")
                seen.append(clock.sleeping[0] - clock.now_s)
                await clock.advance(clock.sleeping[0] - clock.now_s)
        assert {gone.detail for gone in node.listener.of(WorkerGone)[1:]} == {
            "the worker ended before it listened (exit 64)"
        }
        assert max(seen) > 1.0
        event = await node.said("worker.died")
        assert event.fields["last_words"] == "no compiler here"


async def test_a_program_that_cannot_be_started_is_shown(node: Node) -> None:
    async with node.running(argv=lambda *_: ["/does/not/exist"]) as worker:
        await eventually(lambda: "cannot be started" in worker.reading().detail, "the detail")
        assert worker.reading().state is WorkerState.DOWN


# --- silent and strange workers -------------------------------------------------------------------------------------


async def test_a_stopped_worker_is_silent_and_not_dead(node: Node) -> None:
    clock = VirtualClock()
    async with node.running(clock=clock) as worker:
        await eventually(lambda: node.listener.of(WorkerUp), "the worker", clock=clock, step_s=0.1)
        pid = node.listener.of(WorkerUp)[0].pid
        os.kill(pid, signal.SIGSTOP)
        await eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the worker to stop")
        for _ in range(10):
            await clock.advance(PONG_DEADLINE_S / 4)
        assert worker.reading().state is WorkerState.SILENT
        assert not worker.answering()
        assert "leases are not renewed" in worker.reading().detail
        os.kill(pid, signal.SIGCONT)
        await eventually(worker.answering, "an answer")
        await clock.advance(0.1)
        assert worker.reading().state is WorkerState.IDLE
        assert not node.listener.of(WorkerGone)[1:]


class FakeProcess:
    """Something that listens where a worker should, on this loop."""

    def __init__(self, node: Node, behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> None:
        self._node = node
        self._behave = behave
        self.connections = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FakeProcess"]:
        self._node.directory.mkdir(exist_ok=True)
        server = await asyncio.start_unix_server(self._serve, self._node.directory / "worker.sock")
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._behave(reader, writer)
        finally:
            writer.close()


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02\xc1\xc1", b"\x00\x00\x00\x06\x81\xa1t\xa2pi"],
    ids=["too long", "garbage", "an agent's frame"],
)
async def test_a_worker_that_talks_nonsense_is_left_and_tried_again(node: Node, data: bytes) -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await reader.read()

    async with FakeProcess(node, behave).listening() as fake, node.running(spawn=False) as worker:
        await eventually(lambda: fake.connections >= 2, "another attempt", deadline_s=30)
        said = "does not speak our protocol"  # of the attempt before, or of this one
        await eventually(lambda: said in worker.reading().detail, "what is wrong with it", deadline_s=30)
        assert not node.listener.of(WorkerUp)


async def test_a_newer_worker_may_say_things_we_do_not_know(node: Node) -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"\x81\xa1t\xa4new!"
        writer.write(codec.length_prefixed(Greeting(pid=1, device="host", started_ms=1, version="9")))
        writer.write(len(body).to_bytes(4, "big") + body)
        splitter = codec.StreamReader()
        while data := await reader.read(1000):
            for frame in map(codec.decode_to_worker, splitter.feed(data)):
                if isinstance(frame, Ping):
                    writer.write(codec.length_prefixed(Pong(number=frame.number)))

    async with FakeProcess(node, behave).listening(), node.running(spawn=False) as worker:
        up = await node.up()
        assert up.pid == os.getpid()  # as the kernel says, not as the frame does
        await eventually(worker.answering, "an answer")


async def test_a_device_that_cannot_be_used_is_shown_as_down_with_the_reason(node: Node) -> None:
    said, mended = asyncio.Event(), asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(codec.length_prefixed(Greeting(pid=1, device="host", started_ms=1, version="9")))
        writer.write(codec.length_prefixed(DeviceNews(state=DeviceState.OPENING)))
        await said.wait()
        writer.write(codec.length_prefixed(DeviceNews(state=DeviceState.UNUSABLE, detail="no compiler")))
        await mended.wait()
        writer.write(codec.length_prefixed(DeviceNews(state=DeviceState.READY)))
        await reader.read()

    async with FakeProcess(node, behave).listening(), node.running(spawn=False) as worker:
        await eventually(lambda: "being made ready" in worker.reading().detail, "the device's first news")
        assert worker.reading().state is WorkerState.STARTING
        said.set()
        await eventually(lambda: worker.reading().detail == "no compiler", "the reason")
        assert worker.reading().state is WorkerState.DOWN
        assert (await node.said("worker.device_unusable")).detail == "no compiler"
        mended.set()
        await eventually(lambda: worker.reading().state is WorkerState.IDLE, "the mended device")
        assert worker.reading().detail == ""


async def converse_of_one_that(
    frames: list[DeviceNews], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(codec.length_prefixed(Greeting(pid=1, device="auto", started_ms=1, version="9")))
    for frame in frames:
        writer.write(codec.length_prefixed(frame))
    await reader.read()


async def test_a_cards_worker_on_the_host_is_told_with_the_reason_once(node: Node) -> None:
    why = "cuda:0: the driver is too old"
    frames = [DeviceNews(state=DeviceState.READY, on_host=why)] * 2
    fake = FakeProcess(node, functools.partial(converse_of_one_that, frames))
    async with fake.listening(), node.running(spawn=False, device="cuda:0") as worker:
        await eventually(lambda: worker.reading().on_host == why, "the reason")
        assert worker.reading().state is WorkerState.IDLE, "it proves all the same"
        event = await node.said("worker.on_host")
        assert event.level is Level.ERROR
        assert event.detail == f"the worker of cuda:0 proves on the CPU instead of its card: {why}"
        events = await node.outbox.read(node.outbox.epoch, Stream.EVENTS, 0, 1000, 1 << 20)
        assert [one.body.kind for one in events if isinstance(one.body, NodeEvent)].count("worker.on_host") == 1


async def test_where_there_is_no_card_the_host_is_no_fault(node: Node) -> None:
    frames = [
        DeviceNews(state=DeviceState.READY, on_host="there is no NVIDIA driver"),
        DeviceNews(state=DeviceState.UNUSABLE),
    ]
    fake = FakeProcess(node, functools.partial(converse_of_one_that, frames))
    async with fake.listening(), node.running(spawn=False) as worker:
        await node.said("worker.device_unusable")
        assert worker.reading().on_host == ""
        events = await node.outbox.read(node.outbox.epoch, Stream.EVENTS, 0, 1000, 1 << 20)
        assert "worker.on_host" not in [one.body.kind for one in events if isinstance(one.body, NodeEvent)]


async def test_a_worker_that_does_not_read_loses_the_connection(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.worker_link.SEND_DEADLINE_S", 0.05)
    stop = asyncio.Event()

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(codec.length_prefixed(Greeting(pid=1, device="host", started_ms=1, version="9")))
        await stop.wait()

    async with FakeProcess(node, behave).listening() as fake, node.running(spawn=False) as worker:
        await node.up()
        filler = PROVE
        for _ in range(20_000):
            if fake.connections > 1 or not worker._greeted:
                break
            await worker.send(None, filler)
        assert not worker._greeted or fake.connections > 1
        stop.set()


async def test_nobody_at_the_socket_is_no_connection(tmp_path: Path) -> None:
    async with connect(tmp_path / "none.sock", SystemClock()) as link:
        assert link is None
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead.sock"))
    dead.close()
    async with connect(tmp_path / "dead.sock", SystemClock()) as link:
        assert link is None


def test_the_command_line_of_a_worker(tmp_path: Path) -> None:
    assert own_argv("cuda:1", tmp_path) == [
        *(sys.executable, "-m", "cli.main", "worker", "--dir", str(tmp_path), "--device", "cuda:1")
    ]
