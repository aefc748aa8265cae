"""The worker process: owns one device, proves in one thread, and answers on a unix socket meanwhile.

It outlives its agent. What it has finished is fsynced before it is said, repeated on every connection, and kept until
the agent has it safe. A newer connection replaces an older one. Nothing but one sentence about a failure leaves it;
tracebacks of our own faults stay in its log.

The first SIGTERM drains: a proof in progress is finished and saved, then the process ends. The second one aborts it at
the next phase boundary.
"""

import asyncio
import contextvars
import os
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import sdnotify
import structlog
from msgspec import Struct

from prover.errors import Cancelled, ProverError
from prover.worker import lock as worker_lock
from prover.worker.engine import Engine, EngineMaker, Proved, Work
from prover.worker.link import AgentLink
from prover.worker.results import Results
from wire import codec
from wire.errors import LocalProtocolError
from wire.limits import TEXT_CHARS_MAX
from wire.text import clipped
from wire.worker import (
    Abort,
    DeviceNews,
    DeviceState,
    Ended,
    Greeting,
    Ping,
    Pong,
    Progress,
    Prove,
    Release,
    ToWorker,
)

log = structlog.get_logger(__name__)

PROGRESS_EVERY_S = 0.2
"""Within one phase; every change of phase is said at once."""
ELAPSED_S_MAX = 86_400.0
EXIT_OK = 0
CODE_INTERNAL = 6
CODE_MISMATCH = 3
CODE_MAX = 255


class WorkerConfig(Struct, frozen=True):
    """Everything the worker is told."""

    dir: Path
    device: str
    engines: Mapping[str, EngineMaker]
    supervised: bool = False
    """Whether systemd waits to hear that the worker is ready."""
    save_retry_s: float = 2.0
    """Between attempts to save a result while the disk refuses it."""
    open_retry_s: float = 30.0
    """Between attempts to take a device that cannot be used."""


class _Running:
    """The job in hand. ``stop`` is asked by the engine's thread at its phase boundaries."""

    def __init__(self, prove: Prove) -> None:
        self.job = prove.job
        self.attempt = prove.attempt
        self.started_s = time.monotonic()
        self.stop = threading.Event()
        self.aborted_by_agent = False
        self.progress = self.at("start", 0, 0)

    def is_for(self, job: str, attempt: int) -> bool:
        return (self.job, self.attempt) == (job, attempt)

    def at(self, phase: str, done: int, total: int) -> Progress:
        elapsed_s = min(time.monotonic() - self.started_s, ELAPSED_S_MAX)
        done, total = max(done, 0), max(total, 0)
        return Progress(job=self.job, attempt=self.attempt, phase=phase, done=done, total=total, elapsed_s=elapsed_s)


class Worker:
    """One device's worker. `serve` runs until told to stop."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._results = Results(config.dir)
        self._engines: dict[str, Engine] = {name: make(config.device) for name, make in config.engines.items()}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prover")
        self._started_ms = time.time_ns() // 1_000_000
        self._running: _Running | None = None
        self._device = DeviceNews(state=DeviceState.OPENING)
        self._link: AgentLink | None = None
        self._draining = False
        self._stopped = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._opening: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Listen until a signal ends it; a proof in progress is finished first."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal)
        path = self._config.dir / "worker.sock"
        path.unlink(missing_ok=True)  # of a worker that died; ours alone, because the lock is
        old_umask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._on_connection, path)
        finally:
            os.umask(old_umask)
        async with server, asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._opening = tasks.create_task(self._keep_opening())
            if self._config.supervised:
                _tell_systemd(f"READY=1\n{self._systemd_status()}")
            log.info("worker.listening", device=self._config.device, dir=str(self._config.dir), pid=os.getpid())
            await self._stopped.wait()
            self._opening.cancel()
            server.close()
            if self._link is not None:
                await self._link.flush_and_close()
        path.unlink(missing_ok=True)
        await loop.run_in_executor(self._thread, self._close_engines)
        self._thread.shutdown()
        log.info("worker.stopped", device=self._config.device)

    async def _keep_opening(self) -> None:
        """Take the device early, and again until it can be used: what is missing is known before the first job."""
        while (problem := await self._open_engines()) is not None:
            self._say_device(DeviceState.UNUSABLE, problem)
            await asyncio.sleep(self._config.open_retry_s)
        self._say_device(DeviceState.READY)

    async def _open_engines(self) -> str | None:
        """Open every engine; what is wrong with the first that cannot be, or None."""
        for name, engine in self._engines.items():
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, engine.open)
            except ProverError as error:
                if str(error) != self._device.detail:
                    log.warning("worker.device_unusable", engine=name, device=self._config.device, error=str(error))
                return str(error)
            except Exception as error:  # outermost line of this task: tried again
                log.exception("worker.device_unusable", engine=name, device=self._config.device)
                return f"internal fault while taking the device ({type(error).__name__}); the log has the traceback"
        return None

    def _look_after_device(self) -> None:
        """After a job: one that lost the device must not be followed by others that would fail as fast."""
        if all(engine.is_open for engine in self._engines.values()):
            self._say_device(DeviceState.READY)
        elif self._tasks is not None:
            self._say_device(DeviceState.OPENING)
            self._opening = self._tasks.create_task(self._keep_opening())

    def _say_device(self, state: DeviceState, detail: str = "") -> None:
        on_host = next((engine.on_host for engine in self._engines.values() if engine.on_host), "")
        ready = state is DeviceState.READY
        news = DeviceNews(state=state, detail=clipped(detail), on_host=clipped(on_host) if ready else "")
        if news == self._device:
            return
        self._device = news
        if ready:
            log.info("worker.device_ready", device=self._config.device)
        self._send(news)
        self._tell()

    def _systemd_status(self) -> str:
        if self._running is not None:
            return f"STATUS=proving job {self._running.job}, attempt {self._running.attempt}"
        detail = f": {self._device.detail}" if self._device.detail else ""
        return f"STATUS=device {self._device.state.value}{detail}".replace("\n", " ")

    def _tell(self) -> None:
        if self._config.supervised:
            _tell_systemd(self._systemd_status())

    def _close_engines(self) -> None:
        for name, engine in self._engines.items():
            try:
                engine.close()
            except ProverError as error:
                log.warning("worker.close_failed", engine=name, error=str(error))

    def _on_stop_signal(self) -> None:
        if self._running is None:
            self._stopped.set()
        elif self._draining:
            log.warning("worker.aborting", job=self._running.job, attempt=self._running.attempt)
            self._running.stop.set()
        else:
            log.info("worker.draining", job=self._running.job, attempt=self._running.attempt)
        self._draining = True

    # --- the agent ------------------------------------------------------------------------------------------------

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = AgentLink(reader, writer)
        older, self._link = self._link, link
        if older is not None:
            older.close()
        current = self._running.progress if self._running is not None else None
        link.send(
            Greeting(
                pid=os.getpid(),
                device=self._config.device,
                started_ms=self._started_ms,
                version=version("provewire"),
                current=current,
            )
        )
        link.send(self._device)
        for ended in self._results.all():
            link.send(ended)
        await link.run(self._on_frame)
        if self._link is link:
            self._link = None

    def _on_frame(self, frame: ToWorker) -> None:
        match frame:
            case Ping():
                self._send(Pong(number=frame.number))
            case Prove():
                self._on_prove(frame)
            case Abort():
                self._on_abort(frame)
            case Release():
                self._on_release(frame)

    def _send(self, frame: DeviceNews | Ended | Pong) -> None:
        if self._link is not None:
            self._link.send(frame)

    def _on_release(self, frame: Release) -> None:
        try:
            self._results.release(frame.job, frame.attempt)
        except OSError as error:
            log.warning("worker.release_failed", job=frame.job, attempt=frame.attempt, error=str(error))

    def _on_abort(self, frame: Abort) -> None:
        running = self._running
        ended = self._results.get(frame.job, frame.attempt)
        if running is not None and running.is_for(frame.job, frame.attempt):
            running.aborted_by_agent = True
            running.stop.set()
        else:
            self._send(ended or Ended(job=frame.job, attempt=frame.attempt, code=0))

    def _on_prove(self, frame: Prove) -> None:
        ended = self._results.get(frame.job, frame.attempt)
        running = self._running
        if ended is not None:
            self._send(ended)
        elif running is not None and running.is_for(frame.job, frame.attempt):
            self._say_progress(running)
        elif running is not None:
            self._refuse(frame, CODE_INTERNAL, f"the worker is busy with job {running.job} attempt {running.attempt}")
        elif self._draining:
            # Not refused: that would count against the job. The agent sees our end and gives it to the next worker.
            log.info("worker.not_begun", job=frame.job, attempt=frame.attempt)
        elif frame.engine not in self._engines:
            self._refuse(frame, CODE_MISMATCH, f"this worker has no engine '{frame.engine}'")
        elif self._tasks is not None:
            self._running = _Running(frame)
            self._say_progress(self._running)
            self._tell()
            self._tasks.create_task(self._prove(frame, self._running))

    def _refuse(self, frame: Prove, code: int, detail: str) -> None:
        """Answer without having begun; nothing to keep."""
        self._send(Ended(job=frame.job, attempt=frame.attempt, code=code, detail=detail))

    def _say_progress(self, running: _Running) -> None:
        if self._link is not None:
            self._link.send_progress(running.progress)

    # --- the proof ------------------------------------------------------------------------------------------------

    async def _prove(self, frame: Prove, running: _Running) -> None:
        # In every line that this job leads to, of the engine's thread as well.
        structlog.contextvars.bind_contextvars(job=frame.job, attempt=frame.attempt)
        log.info("worker.proving", job=frame.job, attempt=frame.attempt, engine=frame.engine)
        loop = asyncio.get_running_loop()
        inside = contextvars.copy_context()
        ended = await loop.run_in_executor(self._thread, inside.run, self._in_thread, frame, running, loop)
        while not await self._saved(ended):
            running.progress = running.at("waiting for the disk", 0, 0)
            self._say_progress(running)
            await asyncio.sleep(self._config.save_retry_s)
        log.info("worker.ended", job=ended.job, attempt=ended.attempt, code=ended.code, detail=ended.detail)
        self._running = None
        if self._device.state is DeviceState.READY:
            self._look_after_device()
        self._tell()
        self._send(ended)
        if self._draining:
            self._stopped.set()

    async def _saved(self, ended: Ended) -> bool:
        try:
            await asyncio.to_thread(self._results.save, ended)
        except OSError as error:
            log.warning("worker.save_failed", job=ended.job, attempt=ended.attempt, error=str(error))
            return False
        return True

    def _in_thread(self, frame: Prove, running: _Running, loop: asyncio.AbstractEventLoop) -> Ended:
        """One job, on the engine's thread; every way it can end becomes an `Ended`."""
        try:
            engine = self._engines[frame.engine]
            engine.open()
            inputs = {file.role: Path(file.path) for file in frame.inputs}
            report = _Reporter(self, running, loop)
            proved = engine.prove(Work(inputs=inputs, report=report, cancelled=running.stop.is_set))
            return _success(frame, proved)
        except Cancelled:
            if running.aborted_by_agent:
                return Ended(job=frame.job, attempt=frame.attempt, code=0)
            return _failure(frame, CODE_INTERNAL, "the worker was stopped by a second signal before the proof was done")
        except ProverError as error:
            return _failure(frame, error.exit_code, _by_role(str(error), frame))
        except MemoryError:
            log.exception("worker.out_of_memory", job=frame.job, attempt=frame.attempt)
            return _failure(frame, CODE_INTERNAL, "the worker's memory did not suffice for this job")
        except Exception as error:  # outermost line of the thread: an internal fault, logged whole
            log.exception("worker.internal_fault", job=frame.job, attempt=frame.attempt)
            sentence = f"internal fault of the prover ({type(error).__name__}); the worker's log has the traceback"
            return _failure(frame, CODE_INTERNAL, sentence)

    def on_progress(self, running: _Running, progress: Progress) -> None:
        """The engine's thread reported, by way of the loop."""
        if self._running is running:
            running.progress = progress
            self._say_progress(running)


class _Reporter:
    """What the engine calls with its progress, on its own thread; passes on what is worth a frame."""

    def __init__(self, worker: Worker, running: _Running, loop: asyncio.AbstractEventLoop) -> None:
        self._worker = worker
        self._running = running
        self._loop = loop
        self._phase = ""
        self._said_s = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        if phase == self._phase and done < total and now_s - self._said_s < PROGRESS_EVERY_S:
            return
        self._phase, self._said_s = phase, now_s
        progress = self._running.at(phase, done, total)
        self._loop.call_soon_threadsafe(self._worker.on_progress, self._running, progress)


def _success(frame: Prove, proved: Proved) -> Ended:
    if not proved.outputs:
        raise LocalProtocolError(f"engine {frame.engine} returned no outputs")
    ended = Ended(job=frame.job, attempt=frame.attempt, code=0, outputs=proved.outputs, timings_ms=proved.timings_ms)
    codec.encode(ended)  # raises here, where it becomes a failed job, for anything that could not be sent
    return ended


def _by_role(sentence: str, frame: Prove) -> str:
    """``sentence`` with the inputs named by their roles: where they lie on this node says nothing to who reads it."""
    for file in frame.inputs:
        sentence = sentence.replace(file.path, f"the {file.role}")
    return sentence


def _failure(frame: Prove, code: int, sentence: str) -> Ended:
    code = code if 1 <= code <= CODE_MAX else CODE_INTERNAL
    return Ended(job=frame.job, attempt=frame.attempt, code=code, detail=sentence[:TEXT_CHARS_MAX])


def _tell_systemd(message: str) -> None:
    """Say one thing to the service manager."""
    notifier = sdnotify.SystemdNotifier()
    notifier.notify(message)
    if notifier.socket is not None:
        notifier.socket.close()


def run(config: WorkerConfig) -> int:
    """Run a worker until it is told to stop; its exit code.

    Raises:
        ProverError: the folder cannot be used, or another worker has it (exit code 64).
    """
    with worker_lock.take(config.dir):
        asyncio.run(_serve(config))
    return EXIT_OK


async def _serve(config: WorkerConfig) -> None:
    await Worker(config).serve()
