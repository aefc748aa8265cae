"""Workers: found, started, adopted and talked to over unix sockets; never killed.

One `DeviceWorker` for each device keeps trying for ever: connect; if nobody listens and nobody owns the folder, start a
process (or wait for its systemd unit); greet; ping. It turns what it sees into events for `agent.jobs`.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from agent import job_steps as steps
from agent import processes
from agent.backoff import BASE_S
from agent.clock import Clock, wait_event
from agent.outbox import Outbox
from agent.worker_link import WorkerLink, connect
from prover.worker import lock as worker_lock
from prover.worker import results
from wire.codec import UnknownFrame
from wire.errors import RemoteProtocolError
from wire.frames import Level
from wire.status import WorkerReading, WorkerState
from wire.worker import DeviceNews, DeviceState, Ended, Greeting, Progress, ToWorker

log = structlog.get_logger(__name__)

POLL_S = 0.1
"""Between looks for the socket of a process that is starting."""
RECONNECT_S = 1.0
"""After a live worker closed the connection: another agent may have taken it."""
EXIT_S = 2.0
"""From a broken connection to the process's end, if that was the cause."""
RESTART_CAP_S = 60.0
STABLE_S = 60.0
"""A worker that lived this long starts again at once."""
LAST_WORDS_BYTES = 1024
"""Of its log, told with its death; all of it is shipped as its log is."""
LOG_TRIM_S = 60.0
"""Between looks at the size of the worker's log."""

DEVICE_STATES = {
    DeviceState.OPENING: WorkerState.STARTING,
    DeviceState.READY: WorkerState.IDLE,
    DeviceState.UNUSABLE: WorkerState.DOWN,
}
DEVICE_DETAILS = {
    WorkerState.STARTING: "its device is being made ready; on first use the kernels are compiled",
    WorkerState.DOWN: "its device cannot be used",
}

HOST = "host"

Argv = Callable[[str, Path], Sequence[str]]


def own_argv(device: str, directory: Path) -> list[str]:
    """The command line of a worker."""
    return [sys.executable, "-m", "cli.main", "worker", "--dir", str(directory), "--device", device]


def auto_argv(device: str, directory: Path) -> list[str]:
    """The command line of a worker where nobody chose a device: the first card's may fall back to the host."""
    return own_argv("auto" if device == "cuda:0" else device, directory)


class Desk(Protocol):
    """Where events about jobs go."""

    def post(self, event: steps.Event) -> None:
        """Take an event; never blocks."""
        ...

    def busy_device(self, device: str) -> bool:
        """Whether the worker of ``device`` has a job of ours."""
        ...


class DeviceWorker:
    """The agent's view of one device's worker."""

    def __init__(
        self,
        device: str,
        directory: Path,
        *,
        argv: Argv | None,
        environ: Mapping[str, str],
        ping_s: float,
        desk: Desk,
        outbox: Outbox,
        clock: Clock,
        rng: random.Random,
        on_change: Callable[[], None],
    ) -> None:
        self.device = device
        self._dir = directory
        self._log_path = directory / "worker.log"
        self._log_trimmed_s = clock.monotonic()
        self._argv = argv
        self._environ = environ
        self._ping_s = ping_s
        self._desk = desk
        self._outbox = outbox
        self._clock = clock
        self._rng = rng
        self._on_change = on_change
        self._link: WorkerLink | None = None
        self._greeted = False
        self._silent = False
        self._gone_said = False
        self._pid: int | None = None
        self._detail = ""
        self._device_news: DeviceNews | None = None
        """What the worker that greeted said of its device; None if it says no such thing, being older."""
        self._on_host_said = ""
        self._failures = 0
        self._started_s = 0.0
        self._exits: dict[int, asyncio.Task[str]] = {}
        self._lost = asyncio.Event()

    # --- what it shows --------------------------------------------------------------------------------------------

    def reading(self) -> WorkerReading:
        """For the status."""
        state = self._state()
        detail = self._detail
        if not detail and self._device_news is not None and state in DEVICE_DETAILS:
            detail = self._device_news.detail or DEVICE_DETAILS[state]
        return WorkerReading(device=self.device, state=state, pid=self._pid, detail=detail, on_host=self._on_host())

    def _on_host(self) -> str:
        """Why a card's worker proves on the host. The host's own has no card to look for, whatever it says of that."""
        return "" if self._device_news is None or self.device == HOST else self._device_news.on_host

    def _state(self) -> WorkerState:
        if self._silent:
            return WorkerState.SILENT
        if self._greeted:
            if self._desk.busy_device(self.device):
                return WorkerState.PROVING
            return WorkerState.IDLE if self._device_news is None else DEVICE_STATES[self._device_news.state]
        return WorkerState.STARTING if self._pid is not None else WorkerState.DOWN

    def answering(self) -> bool:
        """Whether the worker answered its last ping in time."""
        return self._greeted and self._link is not None and self._link.answering

    # --- what it is told ------------------------------------------------------------------------------------------

    async def send(self, pid: int | None, frame: ToWorker) -> None:
        """Send a frame to the worker, if it is still process ``pid`` (None: whichever).

        What cannot be sent is not lost: everything is said again on the next connection.
        """
        link = self._link
        if link is None or not self._greeted or (pid is not None and pid != link.pid):
            return
        try:
            await link.send(frame)
        except (OSError, TimeoutError) as error:
            log.warning("worker.send_failed", device=self.device, pid=link.pid, error=str(error) or "it does not read")
            link.close()

    # --- its life -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep a worker; for ever."""
        self._dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._report_left_results()
        while True:
            async with connect(self._dir / "worker.sock", self._clock) as link:
                if link is not None:
                    await self._converse(link)
            if link is None:
                await self._nobody_listens()
            else:
                await self._after(link.pid)

    async def _report_left_results(self) -> None:
        for ended in await asyncio.to_thread(results.read_all, self._dir):
            self._desk.post(steps.WorkerEnded(self.device, ended))

    async def _nobody_listens(self) -> None:
        owner = await asyncio.to_thread(worker_lock.owner, self._dir)
        if owner is not None:
            self._show(pid=owner, detail="its process runs and does not listen yet")
            await self._clock.sleep(POLL_S)
            return
        starting = self._pid
        if starting is not None and starting in self._exits and not self._exits[starting].done():
            await self._clock.sleep(POLL_S)
            return
        await self._report_left_results()
        if starting is not None and starting in self._exits:
            how = self._exits.pop(starting).result()
            # Once a worker has greeted, its end is a death; before, it never got up.
            what = "the worker ended before it listened" if self._gone_said else "the worker died"
            await self._say_gone(starting, f"{what} ({how})")
        elif not self._gone_said:
            self._gone_said = True
            self._desk.post(steps.WorkerGone(self.device, "the worker was gone when the agent looked for it"))
        await self._start()

    async def _start(self) -> None:
        if self._argv is None:
            self._show(pid=None, detail="waits for its systemd unit")
            await self._clock.sleep(RECONNECT_S)
            return
        if self._failures:
            cap_s = min(RESTART_CAP_S, BASE_S * 2.0 ** min(self._failures - 1, 6))
            await self._clock.sleep(self._rng.uniform(0.0, cap_s))
        self._failures += 1
        self._started_s = self._clock.monotonic()
        try:
            pid = await asyncio.to_thread(
                processes.start_detached,
                self._argv(self.device, self._dir),
                environ=self._environ,
                log_path=self._log_path,
            )
        except OSError as error:
            log.warning("worker.start_failed", device=self.device, error=str(error))
            self._show(pid=None, detail=f"the worker cannot be started: {error}")
            return
        self._watch(pid)
        log.info("worker.started", device=self.device, pid=pid)
        self._show(pid=pid, detail="")

    def _watch(self, pid: int) -> None:
        if pid not in self._exits:
            self._exits[pid] = asyncio.create_task(processes.wait_exit(pid, self._clock))

    async def _converse(self, link: WorkerLink) -> None:
        """Everything from connecting to the connection's end, whichever side ends it."""
        adopted = link.pid not in self._exits
        self._watch(link.pid)
        self._link = link
        self._lost.clear()
        self._show(pid=link.pid, detail="")
        reader = asyncio.create_task(self._read(link, adopted=adopted))
        try:
            while not await wait_event(self._clock, self._lost, self._ping_s):
                self._watch_silence(link)
                await link.ping()
                await self._trim_log()
        except (OSError, TimeoutError) as error:
            log.warning("worker.send_failed", device=self.device, pid=link.pid, error=str(error) or "it does not read")
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self._link = self._device_news = None
            self._greeted = self._silent = False

    async def _trim_log(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._log_trimmed_s >= LOG_TRIM_S:
            self._log_trimmed_s = now_s
            await asyncio.to_thread(processes.trim_log, self._log_path)

    async def _read(self, link: WorkerLink, *, adopted: bool) -> None:
        try:
            async for frame in link.frames():
                match frame:
                    case Greeting():
                        await self._on_greeting(link, frame, adopted=adopted)
                    case DeviceNews():
                        await self._on_device(frame)
                    case Progress():
                        self._desk.post(steps.WorkerProgressed(self.device, frame))
                    case Ended():
                        self._desk.post(steps.WorkerEnded(self.device, frame))
                    case UnknownFrame():
                        log.warning("worker.unknown_frame", device=self.device, tag=frame.tag)
                self._watch_silence(link)
        except OSError as error:
            log.info("worker.connection_broke", device=self.device, pid=link.pid, error=str(error))
        except RemoteProtocolError as error:
            log.warning("worker.bad_frame", device=self.device, pid=link.pid, error=str(error))
            self._detail = f"it does not speak our protocol: {error}"
        finally:
            self._lost.set()

    async def _on_greeting(self, link: WorkerLink, greeting: Greeting, *, adopted: bool) -> None:
        await self._report_left_results()
        self._greeted, self._gone_said = True, False
        self._desk.post(steps.WorkerUp(self.device, link.pid, greeting.current))
        self._on_change()
        current = greeting.current.job if greeting.current is not None else None
        if not adopted:
            log.info("worker.ready", device=self.device, pid=link.pid, job=current, worker_version=greeting.version)
        else:
            log.info("worker.adopted", device=self.device, pid=link.pid, job=current, worker_version=greeting.version)
            doing = f"at job {current}" if current else "idle"
            await self._outbox.say("worker.adopted", f"the worker on {self.device} (pid {link.pid}) was found, {doing}")

    async def _on_device(self, news: DeviceNews) -> None:
        self._device_news = news
        self._on_change()
        if news.state is DeviceState.UNUSABLE:
            log.warning("worker.device_unusable", device=self.device, pid=self._pid, detail=news.detail)
            await self._outbox.say("worker.device_unusable", news.detail, Level.ERROR, device=self.device)
        on_host = self._on_host()
        if on_host not in {"", self._on_host_said}:
            log.error("worker.on_host", device=self.device, pid=self._pid, reason=on_host)
            sentence = f"the worker of {self.device} proves on the CPU instead of its card: {on_host}"
            await self._outbox.say("worker.on_host", sentence, Level.ERROR, device=self.device, pid=self._pid)
        self._on_host_said = on_host

    def _watch_silence(self, link: WorkerLink) -> None:
        if self._silent is not link.answering:
            return
        self._silent = not link.answering
        if self._silent:
            log.warning("worker.silent", device=self.device, pid=link.pid)
        else:
            log.info("worker.answers", device=self.device, pid=link.pid)
        self._detail = "its process lives and does not answer; its leases are not renewed" if self._silent else ""
        self._on_change()

    async def _after(self, pid: int) -> None:
        """The connection is gone: find out whether the process is too."""
        task = self._exits[pid]
        done, _ = await asyncio.wait({task}, timeout=EXIT_S)
        if not done:
            log.warning("worker.disconnected", device=self.device, pid=pid)
            self._show(pid=pid, detail=self._detail or "it closed the connection; another agent may have it")
            await self._clock.sleep(RECONNECT_S)
            return
        del self._exits[pid]
        await self._report_left_results()
        if self._clock.monotonic() - self._started_s >= STABLE_S:
            self._failures = 0
        await self._say_gone(pid, f"the worker died ({task.result()})")

    async def _say_gone(self, pid: int, detail: str) -> None:
        proving = self._desk.busy_device(self.device)
        self._gone_said = True
        self._desk.post(steps.WorkerGone(self.device, detail))
        self._show(pid=None, detail=detail)
        log.warning("worker.died", device=self.device, pid=pid, detail=detail, proving=proving)
        last_words = await asyncio.to_thread(processes.log_tail, self._log_path, LAST_WORDS_BYTES)
        await self._outbox.say(
            "worker.died",
            f"{detail} on {self.device}",
            Level.ERROR,
            device=self.device,
            pid=pid,
            proving=proving,
            last_words=last_words,
        )

    def _show(self, *, pid: int | None, detail: str) -> None:
        if (pid, detail) != (self._pid, self._detail):
            self._pid, self._detail = pid, detail
            self._on_change()

    async def close(self) -> None:
        """Stop watching; the worker itself goes on."""
        for task in self._exits.values():
            task.cancel()
        await asyncio.gather(*self._exits.values(), return_exceptions=True)
