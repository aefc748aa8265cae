"""Composition root: builds the parts, runs them, and stops them in the order written here. No logic of its own.

Start: lock, identity, outbox, local view, workers, jobs, then the hub. Stop: the hub is told goodbye, the local view
closes, the outbox last. Workers are left alone.
"""

import asyncio
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from importlib.metadata import version

import structlog
import uvloop

from agent import identity
from agent.artifacts import Artifacts
from agent.board import Board, read_gpus, read_host
from agent.clock import Clock, SystemClock, wait_event
from agent.config import Config, devices
from agent.hub_http import HttpClient
from agent.identity import Key
from agent.ids import uuid7
from agent.job_desk import JobDesk
from agent.jobs import Jobs
from agent.key_offer import let_in
from agent.local import LocalView
from agent.local_status import LocalStatus, by_name, hub_view, is_healthy, one_line, streams_view
from agent.logs.own import OwnLog
from agent.logs.shipper import LogShipper, WorkerLog, open_shipper
from agent.membership import Membership
from agent.metrics import LoopLag, Parts, render
from agent.notify import Notifier, keep_told
from agent.outbox import Outbox, open_outbox
from agent.outbox_file import OutboxRefused
from agent.outbox_owner import Owner
from agent.reasons import load_reasons
from agent.replayer import DISK_RETRY_S
from agent.sampler import keep_samples
from agent.sensors.cuzk import CuzkSensor, read_engines
from agent.sensors.cuzk.memory import MemoryFile
from agent.sensors.gpu import GpuSensor
from agent.sensors.host import HostSensor
from agent.ssh_hint import keep_hint
from agent.tasks import Tasks
from agent.uplink import NodeFacts, Uplink, UplinkView
from agent.watchdog import watch
from agent.workers import DeviceWorker, auto_argv, own_argv
from wire.frames import Capability, Level
from wire.signed_status import SignedStatus, signed

log = structlog.get_logger(__name__)

EXIT_OK = 0
CUZK_EVERY_S = 1.0
"""Between two reads of a cuzk-daemon's status."""
THREADS_MAX = 4
"""For what may block: a sensor of a dead file system keeps one of them for itself."""
STOP_S = 8.0
"""For the goodbye to the hub; a hub that does not take it holds nobody up."""


def run(config: Config) -> int:
    """Run the agent until it is told to stop; its exit code.

    Raises:
        ConfigFault: settings or files only an operator can mend.
    """
    return uvloop.run(_run(config))


async def _run(config: Config) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=THREADS_MAX, thread_name_prefix="agent"))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Agent(config, clock=SystemClock(), rng=random.SystemRandom()).run(stop)
    return EXIT_OK


class Agent:
    """The parts of one agent. ``run`` holds them until ``stop`` is set."""

    def __init__(self, config: Config, *, clock: Clock, rng: random.Random) -> None:
        self._config = config
        self._clock = clock
        self._rng = rng
        self._started_s = clock.monotonic()
        self._epoch = uuid7(clock.unix_ms(), rng)
        self._view = UplinkView()
        self._board = Board()
        self._own_log = OwnLog()
        self._shipper: LogShipper | None = None
        self._member: Membership | None = None
        self._version = version("provewire")

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop``.

        Raises:
            ConfigFault: settings or files only an operator can mend.
        """
        config = self._config
        identity.prepare_data_dir(config.data_dir)
        with identity.lock_data_dir(config.data_dir):
            key = identity.load_key(config.data_dir)
            self._view.reasons = load_reasons(config.reasons_path)
            self._member = member = Membership(config, self._view, clock=self._clock, rng=self._rng)
            async with AsyncExitStack() as stack:
                self._own_log.install()
                stack.callback(self._own_log.remove)
                outbox = await open_outbox(config.data_dir / "outbox.sqlite", self._epoch, self._clock, config.outbox)
                stack.push_async_callback(outbox.close)
                await self._serve(stop, stack=stack, key=key, member=member, outbox=outbox)
        log.info("agent.stopped", epoch=self._epoch)

    # --- the parts ------------------------------------------------------------------------------------------------

    async def _serve(
        self, stop: asyncio.Event, *, stack: AsyncExitStack, key: Key, member: Membership, outbox: Outbox
    ) -> None:
        config = self._config
        await self._say_started(outbox)
        board = self._board
        board.outbox = lambda: outbox.reading
        lag = LoopLag()
        view = LocalView(
            lambda: self._snapshot(outbox),
            metrics=lambda: render(self._metrics_parts(outbox, lag)),
            frame=lambda nonce: self._signed_status(nonce, key),
            socket_path=config.socket_path,
            local=config.local,
            clock=self._clock,
        )
        await view.start()
        stack.push_async_callback(view.close)
        gpu_sensor = GpuSensor(config.data_dir, environ=config.environ, clock=self._clock)
        stack.push_async_callback(gpu_sensor.close)
        proxies = member.hub is not None and not member.hub.loopback
        client = await stack.enter_async_context(HttpClient(ca=config.ca, proxies=proxies))
        notifier = Notifier(supervised="NOTIFY_SOCKET" in config.environ)
        stack.callback(notifier.close)
        notifier.ready()
        self._shipper = await self._logs(outbox)
        stack.push_async_callback(self._shipper.close)
        tasks = Tasks(stop)
        stack.push_async_callback(tasks.close)
        tasks.start(self._shipper.run())
        tasks.start(view.serve_loopback(), ends=True)
        tasks.start(view.http.keep_clear())
        tasks.start(lag.run())
        tasks.start(keep_told(notifier, self._one_line, clock=self._clock, watchdog_s=config.watchdog_s))
        tasks.start(
            read_host(board, HostSensor(config.data_dir, config.environ), clock=self._clock, every_s=config.readings_s)
        )
        tasks.start(read_gpus(board, gpu_sensor, outbox=outbox, clock=self._clock, every_s=config.gpu_readings_s))
        tasks.start(keep_hint(board, config.ssh, config.environ, clock=self._clock))
        tasks.start(keep_samples(board, outbox, clock=self._clock, every_s=lambda: self._view.sample_s))
        if config.cuzk is not None:
            cuzk = CuzkSensor(
                config.cuzk, clock=self._clock, memory=MemoryFile(config.data_dir / "cuzk.json", identity.boot_id())
            )
            tasks.start(read_engines(board, cuzk, outbox=outbox, clock=self._clock, every_s=CUZK_EVERY_S))
        desk, workers = await self._jobs(outbox, client)
        for worker in workers:
            stack.push_async_callback(worker.close)
            tasks.start(worker.run())
        tasks.start(desk.run())
        uplink_task = tasks.start(
            self._uplink(stop, tasks=tasks, client=client, key=key, member=member, outbox=outbox, desk=desk), ends=True
        )
        await stop.wait()
        log.info("agent.stopping")
        notifier.stopping()
        await asyncio.wait({uplink_task}, timeout=STOP_S)

    async def _logs(self, outbox: Outbox) -> LogShipper:
        config = self._config
        workers = [
            WorkerLog(device, file=config.worker_dir(device) / "worker.log")
            if config.spawn_workers
            else WorkerLog(device, unit=f"provewire-worker@{device.replace(':', '-')}.service")
            for device in devices(config)
        ]
        return await open_shipper(
            config.logs,
            workers=workers,
            own=self._own_log,
            outbox=outbox,
            clock=self._clock,
            environ=config.environ,
        )

    async def _say_started(self, outbox: Outbox) -> None:
        log.info("agent.started", epoch=self._epoch, pid=os.getpid(), version=self._version, name=self._config.name)
        if outbox.damage is not None:
            log.error("outbox.damaged", detail=outbox.damage)
            await outbox.say("outbox.damaged", outbox.damage, Level.ERROR)
        await outbox.say("agent.started", f"agent {self._version} started", pid=os.getpid(), version=self._version)

    async def _jobs(self, outbox: Outbox, client: HttpClient) -> tuple[JobDesk, list[DeviceWorker]]:
        config = self._config
        names = devices(config)
        artifacts = Artifacts(
            config.data_dir / "artifacts",
            client,
            keep_bytes=config.artifacts_keep_bytes,
            clock=self._clock,
            rng=self._rng,
        )
        decider = Jobs(names, config.artifact_bytes_max, await outbox.jobs_ended())
        desk = JobDesk(
            decider, outbox=outbox, artifacts=artifacts, base=self._hub_url, clock=self._clock, rng=self._rng
        )
        workers = [
            DeviceWorker(
                device,
                config.worker_dir(device),
                argv=(auto_argv if config.device == "auto" else own_argv) if config.spawn_workers else None,
                environ=config.environ,
                ping_s=config.worker_ping_s,
                desk=desk,
                outbox=outbox,
                clock=self._clock,
                rng=self._rng,
                on_change=self._board.changed,
            )
            for device in names
        ]
        desk.workers = {worker.device: worker for worker in workers}
        desk.on_change = self._board.changed
        self._board.workers = lambda: [worker.reading() for worker in workers]
        self._board.jobs = desk.progress
        await desk.recover()
        return desk, workers

    def _hub_url(self) -> str:
        return self._view.url

    # --- the hub --------------------------------------------------------------------------------------------------

    async def _uplink(
        self,
        stop: asyncio.Event,
        *,
        tasks: Tasks,
        client: HttpClient,
        key: Key,
        member: Membership,
        outbox: Outbox,
        desk: JobDesk,
    ) -> None:
        await member.gain(stop, client=client, key=key)
        hub, enrolled = member.hub, member.enrolled
        if hub is None or enrolled is None:
            return
        await self._own(stop, outbox=outbox, owner=Owner(enrolled.hub_id, enrolled.agent_id))
        uplink = Uplink(
            hub=hub,
            tls=client.tls if hub.secure else None,
            enrolled=enrolled,
            key=key,
            facts=self._facts(),
            outbox=outbox,
            board=self._board,
            desk=desk,
            view=self._view,
            clock=self._clock,
            rng=self._rng,
            save_generation=lambda generation: tasks.spawn(member.save_generation(generation)),
            save_reasons=lambda: tasks.spawn(member.save_reasons()),
            key_offered=lambda offer: tasks.spawn(
                let_in(offer, allowed=self._config.allow_key_install, outbox=outbox, answer=uplink.answer_key)
            ),
        )
        desk.reply = uplink.reply
        outbox.on_append = uplink.appended
        self._board.on_change = uplink.touch
        tasks.start(watch(self._view, uplink.probe, clock=self._clock))
        stopper = asyncio.create_task(_when(stop, uplink))
        try:
            await uplink.run()
        finally:
            stopper.cancel()
            await asyncio.gather(stopper, return_exceptions=True)

    async def _own(self, stop: asyncio.Event, *, outbox: Outbox, owner: Owner) -> None:
        """Have the outbox know whose events it holds: before that none of them can be told."""
        while not stop.is_set():
            try:
                await outbox.belongs_to(owner)
            except OutboxRefused as refused:
                log.warning("outbox.refused", error=str(refused), lost=0)
                await wait_event(self._clock, stop, DISK_RETRY_S)
            else:
                return

    def _facts(self) -> NodeFacts:
        capabilities = sorted(
            {
                Capability.GROTH16_HOST.value if device == "host" else Capability.GROTH16_CUDA.value
                for device in devices(self._config)
            }
        )
        key_install = [Capability.KEY_INSTALL.value] if self._config.allow_key_install else []
        return NodeFacts(
            boot_id=identity.boot_id(),
            version=self._version,
            name=self._config.name,
            capabilities=([Capability.OBSERVE.value] if self._config.observe else capabilities) + key_install,
        )

    # --- what it shows --------------------------------------------------------------------------------------------

    def _agent_id(self) -> str | None:
        return self._member.agent_id if self._member is not None else None

    def _one_line(self) -> str:
        return one_line(self._view, self._clock.monotonic())

    def _metrics_parts(self, outbox: Outbox, lag: LoopLag) -> Parts:
        return Parts(
            version=self._version,
            started_s=self._started_s,
            clock=self._clock,
            view=self._view,
            board=self._board,
            outbox=outbox,
            outbox_bytes_max=self._config.outbox.bytes_max,
            lag=lag,
            logs=None if self._shipper is None else self._shipper.counts(),
        )

    def _signed_status(self, nonce: bytes, key: Key) -> str | None:
        """The whole picture, signed for a hub's nonce; None while nobody knows this key."""
        if (agent_id := self._agent_id()) is None:
            return None
        status = SignedStatus(
            agent_id=agent_id,
            epoch=self._epoch,
            boot_id=identity.boot_id(),
            nonce=nonce,
            time_ms=self._clock.unix_ms(),
            monotonic_ns=self._clock.monotonic_ns(),
            status=self._board.picture(),
        )
        return signed(status, key.sign)

    def _snapshot(self, outbox: Outbox) -> LocalStatus:
        now_s = self._clock.monotonic()
        board = self._board
        return LocalStatus(
            agent_id=self._agent_id(),
            name=self._config.name,
            epoch=self._epoch,
            pid=os.getpid(),
            version=self._version,
            uptime_s=round(now_s - self._started_s, 1),
            healthy=is_healthy(self._view, now_s),
            hub=hub_view(self._view, now_s=now_s, insecure=self._config.insecure),
            host=by_name(board.host),
            gpus=by_name(board.gpus),
            gpu_problem=board.gpu_problem,
            workers=by_name(board.workers()),
            jobs=by_name(board.jobs()),
            outbox=by_name(outbox.reading),
            observe=self._config.observe,
            engines=by_name(board.engines),
            streams=streams_view(outbox.counts),
            logs=by_name(self._shipper.readings() if self._shipper is not None else []),
        )


async def _when(stop: asyncio.Event, uplink: Uplink) -> None:
    await stop.wait()
    uplink.stop()
