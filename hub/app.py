"""Composition root of the hub: makes the parts, wires them, runs them, and stops them in order. No logic of its own.

Start: lock, keys, store (migrated), registry from the store, desk with the open jobs, tasks, then the socket.
Stop, within ``shutdown_s``: no new sockets, Bye to every agent, last events committed, streams ended, tasks, store.
"""

import asyncio
import errno
import fcntl
import gc
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import sdnotify
import structlog
import uvloop
from aiohttp import hdrs, web

from hub import api, ports
from hub.alerts.desk import AlertDesk
from hub.alerts.levels import Queues
from hub.alerts.sealed import PURPOSE
from hub.api import login
from hub.api.errors import Handler
from hub.bus import Bus
from hub.clock import Clock, SystemClock
from hub.config import Config, ConfigError, environment, is_loopback, under_systemd
from hub.desk import Desk
from hub.doorstep import KEEP_ALIVE_S, Doorstep
from hub.gate import PATH, Gate
from hub.ingest import Ingest, read_status
from hub.judging import Judge
from hub.keys import KeyFileError, Keys, write_private
from hub.pulse import Pulse
from hub.registry import Registry
from hub.retention import Retention
from hub.rolling import Roller
from hub.sessions import Sessions
from hub.ssh.charting import Charting
from hub.ssh.desk import SshDesk
from hub.ssh.help import Help
from hub.ssh.hints import Hints
from hub.ssh.keys import KeyDesk
from hub.ssh.previews import Previews
from hub.ssh.recovery import Recovery
from hub.ssh.rotating import Rotator
from hub.ssh.unasked import Unasked
from hub.ssh.watch import Watch
from hub.store.base import PAGE_MAX, Store, StoreError
from hub.store.sqlite import open_sqlite
from hub.tempo import limits_of, tempo

log = structlog.get_logger(__name__)

EXIT_OK = 0
EXIT_INTERNAL = 6
FACTS_FILE = "hub.json"
LOCK_FILE = "hub.lock"
STORE_FILE = "hub.sqlite"
BACKLOG = 2048
"""Sockets the kernel keeps for us when a fleet comes back at once."""
LISTEN_HINTS = {
    errno.EADDRINUSE: ": another program has the port; stop it, or give another one",
    errno.EADDRNOTAVAIL: ": this machine has no such address",
    errno.EACCES: ": only root may take a port below 1024; give a higher one",
}
HANDLERS_S = 1.0
"""For requests still running when the hub stops."""
GOODBYE_SHARE = 0.6
"""Of ``shutdown_s``: for Bye and the last events."""
CLIENT_BYTES_MAX = 1024 * 1024
"""Body of a request that is read whole; artifacts are streamed."""

DESCRIPTORS_WANTED = 65_536
"""A socket for each agent and viewer; the usual soft limit of 1,024 is for programs that use ``select``."""

GC_THRESHOLDS = (50_000, 20, 50)
"""A fleet's sessions are a million objects that live long and hold no cycles: with Python's own (700, 10, 10) the hub
spends a fifth of its time looking for garbage among them."""

GATE = web.AppKey("GATE", Gate)
DOORSTEP = web.AppKey("DOORSTEP", Doorstep)
ALL_SESSIONS = web.AppKey("ALL_SESSIONS", Sessions)
Tell = Callable[[str], None]
"""Says something to systemd."""


class HubError(Exception):
    """The hub cannot run; the sentence says why."""

    exit_code = EXIT_INTERNAL


class Facts(msgspec.Struct, frozen=True):
    """``hub.json``: how to reach the hub that runs on this data directory."""

    url: str
    """By which nodes and browsers reach it."""
    local_url: str
    """By which this machine does."""
    certificate_sha256: str
    """Of the certificate it shows, in its binary form; empty without TLS."""
    pid: int
    hub_id: str
    fingerprint: str


def run(config: Config) -> int:
    """Run the hub until SIGTERM or SIGINT; the exit code.

    Raises:
        ConfigError: the data directory is in use or cannot be used (exit code 64).
        HubError: it could not start, or a part of it failed.
    """
    _prepare_data_dir(config.data_dir)
    take_descriptors()
    gc.set_threshold(*GC_THRESHOLDS)
    with _locked(config.data_dir / LOCK_FILE), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config))


async def serve(config: Config, clock: Clock | None = None, stop: asyncio.Event | None = None) -> int:
    """Listen and serve until ``stop`` is set or a signal comes."""
    stop = stop or asyncio.Event()
    notify = _notifier()
    tasks = Background(stop)
    app = make_app(config, clock or SystemClock(), tasks=tasks, tell_systemd=notify)
    facts_path = config.data_dir / FACTS_FILE
    facts_path.unlink(missing_ok=True)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=HANDLERS_S, keepalive_timeout=KEEP_ALIVE_S
    )
    try:
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - set up above
        tasks.start("doorstep", app[DOORSTEP].run(runner.server))
        url, local_url = await _listen(runner, config)
        app[ports.BASE_URL].append(url)
        facts = Facts(
            url, local_url, certificate_sha256(config), os.getpid(), app[ports.HUB].id, app[ports.KEYS].fingerprint
        )
        _stop_on_signals(stop)  # before anybody can know our process by the file
        write_private(facts_path, msgspec.json.encode(facts))
        log.info("the hub listens", url=url, hub=facts.hub_id, generation=app[ports.HUB].generation)
        if config.insecure and not is_loopback(config.listen_host):
            log.warning("INSECURE: tokens, witnesses and proofs cross the network in the clear")
        await _say_how_to_begin(app)
        notify("READY=1")
        await stop.wait()
        notify("STOPPING=1")
    except StoreError as error:
        raise HubError(str(error)) from error
    finally:
        try:
            async with asyncio.timeout(config.shutdown_s):
                await runner.cleanup()
        except TimeoutError:
            log.exception("the hub did not stop in time; what was acknowledged is safe", seconds=config.shutdown_s)
        facts_path.unlink(missing_ok=True)
    if tasks.failure is not None:
        raise HubError(f"a part of the hub failed: {tasks.failure}") from tasks.failure
    log.info("the hub stopped")
    return EXIT_OK


async def _say_how_to_begin(app: web.Application) -> None:
    """On standard output and in no log: the link is a secret."""
    if told := await login.how_to_begin(app, openly=not under_systemd()):
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()


def make_app(config: Config, clock: Clock, *, tasks: "Background", tell_systemd: Tell) -> web.Application:
    """The application, its parts made when it starts.

    Raises:
        ConfigError: a key file cannot be used.
    """
    app = web.Application(client_max_size=CLIENT_BYTES_MAX)
    try:
        app[ports.KEYS] = Keys.load(config.data_dir)
    except KeyFileError as error:
        raise ConfigError(str(error)) from error
    app[ports.CONFIG] = config
    app[ports.CLOCK] = clock
    app[ports.BUS] = Bus()
    app[ports.BASE_URL] = []
    app.cleanup_ctx.append(_store)
    app.cleanup_ctx.append(partial(_core, tasks=tasks, tell_systemd=tell_systemd))
    app[DOORSTEP] = Doorstep(config, clock)
    app.middlewares.extend([app[DOORSTEP].attend, _agents_first])
    app.on_shutdown.append(_goodbye)
    app.router.add_get(PATH, _agent_socket)
    api.setup(app)
    return app


async def _store(app: web.Application) -> AsyncIterator[None]:
    """The store; its generation counts this start."""
    async with open_sqlite(app[ports.CONFIG].data_dir / STORE_FILE) as store:
        app[ports.STORE] = store
        app[ports.HUB] = await store.begin_generation(app[ports.CLOCK].time_ms())
        yield


async def _core(app: web.Application, *, tasks: "Background", tell_systemd: Tell) -> AsyncIterator[None]:
    """Registry, desk, ingest, sessions, judge; and the tasks that keep them going."""
    config, clock, store, bus = app[ports.CONFIG], app[ports.CLOCK], app[ports.STORE], app[ports.BUS]
    registry = Registry(clock, limits_of(config, tempo(config, 0), 0))
    await _restore(registry, store)
    app[ports.SSH] = SshDesk(config=config, clock=clock, store=store, registry=registry, bus=bus, environ=environment())
    await app[ports.SSH].start()
    app[ports.SSH_WATCH] = Watch(
        config=config, clock=clock, registry=registry, desk=app[ports.SSH], store=store, bus=bus
    )
    desk = Desk(config=config, clock=clock, store=store, registry=registry, bus=bus, keys=app[ports.KEYS])
    await desk.load()
    ingest = Ingest(config=config, clock=clock, store=store, registry=registry, bus=bus, desk=desk)
    hints = Hints(registry, app[ports.SSH], clock)
    ingest.hinted = hints.told
    sessions = Sessions(
        config=config,
        clock=clock,
        keys=app[ports.KEYS],
        hub=app[ports.HUB],
        store=store,
        registry=registry,
        bus=bus,
        ingest=ingest,
        desk=desk,
    )
    desk.courier = sessions
    judge = Judge(store=store, desk=desk, artifacts=app[ports.ARTIFACTS], verifier=app[ports.VERIFIER])
    pulse = Pulse(config=config, clock=clock, registry=registry, bus=bus, desk=desk, tell_systemd=tell_systemd)
    app[ports.REGISTRY] = registry
    app[ports.JOBS] = desk
    app[ports.SESSIONS] = app[ALL_SESSIONS] = sessions
    app[GATE] = Gate(config, clock, sessions, lambda agent_id: registry.node(agent_id) is not None)
    app[ports.SSH_HELP] = helping = await _help(app)
    roller = Roller(clock=clock, store=store)
    retention = Retention(config=config, clock=clock, store=store)
    app[ports.KEEPERS] = ports.Keepers(ingest.quotas, roller, retention)
    parts = {"desk": desk.run, "judge": judge.run, "notes": ingest.run, "pulse": pulse.run, "sessions": sessions.run}
    parts |= {"rollups": roller.run, "retention": retention.run}
    parts |= {"ssh": app[ports.SSH_WATCH].run, "ssh hints": hints.run, "recovery": helping.unasked.run}
    app[ports.ALERTS] = alerts = await _alerts(app, desk, retention)
    parts["alerts"] = alerts.run
    charting = Charting(
        key=app[ports.CONFIG].ssh_doctor_key,
        keys=helping.keys,
        watch=app[ports.SSH_WATCH],
        registry=app[ports.REGISTRY],
        bus=app[ports.BUS],
        clock=app[ports.CLOCK],
    )
    parts["ssh doctor"] = charting.run
    for name, run in parts.items():
        tasks.start(name, run())
    yield
    await tasks.cancel()
    await app[ports.SSH].stop()
    try:
        await ingest.note()
    except StoreError as error:
        log.warning("the last status could not be written down", error=str(error))


async def _alerts(app: web.Application, desk: Desk, retention: Retention) -> AlertDesk:
    """What is told when something is wrong; what was told before is known again."""
    config, clock, store, registry = app[ports.CONFIG], app[ports.CLOCK], app[ports.STORE], app[ports.REGISTRY]
    queues = Queues(
        config=config,
        store=store,
        desk=desk,
        sessions=app[ports.SESSIONS],
        artifacts=app[ports.ARTIFACTS],
        verifier=app[ports.VERIFIER],
    )
    alerts = AlertDesk(
        config=config,
        clock=clock,
        store=store,
        registry=registry,
        bus=app[ports.BUS],
        ssh=app[ports.SSH],
        watch=app[ports.SSH_WATCH],
        retention=retention,
        levels=queues.levels,
        key=app[ports.KEYS].derived(PURPOSE),
        hub_id=app[ports.HUB].id,
    )
    await alerts.start()
    return alerts


async def _help(app: web.Application) -> Help:
    """What helps nodes back; a rotation that was cut off is found again."""
    config, clock, store, registry = app[ports.CONFIG], app[ports.CLOCK], app[ports.STORE], app[ports.REGISTRY]
    ssh = app[ports.SSH]
    keys = KeyDesk(ssh=ssh, clock=clock, registry=registry, messenger=app[ports.SESSIONS])
    rotator = Rotator(keys=keys, registry=registry, clock=clock)
    await rotator.start()
    recovery = Recovery(ssh=ssh, registry=registry)
    unasked = Unasked(
        config=config, clock=clock, registry=registry, watch=app[ports.SSH_WATCH], recovery=recovery, store=store
    )
    return Help(keys, rotator, recovery, unasked, Previews(clock), Previews(clock), Previews(clock))


async def _restore(registry: Registry, store: Store) -> None:
    after = ""
    while page := await store.agents(after=after):
        for agent in page:
            registry.add(agent, read_status(agent.last_status))
        after = page[-1].id
        if len(page) < PAGE_MAX:
            return


async def _goodbye(app: web.Application) -> None:
    """The sockets are closed before the server waits for its handlers."""
    await app[ALL_SESSIONS].stop(app[ports.CONFIG].shutdown_s * GOODBYE_SHARE)
    app[ports.BUS].close()


@web.middleware
async def _agents_first(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Past the web side's own middlewares: each of them would keep its frame for as long as a session lives."""
    if request.path == PATH and request.method == hdrs.METH_GET:
        return await _agent_socket(request)
    return await handler(request)


async def _agent_socket(request: web.Request) -> web.StreamResponse:
    """``/agent``."""
    return await request.app[GATE].handle(request)


class Background:
    """The long tasks of the hub: held, and the hub stops when one of them fails."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: BaseException | None = None

    def start(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that never returns."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        self.failure = task.exception() or RuntimeError(f"the task {task.get_name()} ended")
        log.error("a part of the hub failed; the hub stops", part=task.get_name(), exc_info=self.failure)
        self._stop.set()

    async def cancel(self) -> None:
        """Cancel them and wait."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(runner: web.AppRunner, config: Config) -> tuple[str, str]:
    """Bind the socket; our address for others, and for this machine."""
    site = web.TCPSite(
        runner, config.listen_host, config.listen_port, ssl_context=_tls(config), backlog=BACKLOG, reuse_address=True
    )
    try:
        await site.start()
    except OSError as error:
        why = "" if error.errno is None else LISTEN_HINTS.get(error.errno, f": {error.strerror}")
        raise ConfigError(f"listen: cannot listen on {config.listen_host}:{config.listen_port}{why}") from error
    host, port = runner.addresses[0][:2]
    scheme = "https" if config.tls else "http"

    def url(host: str) -> str:
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host)  # noqa: S104 - compared, not bound
    outside = host if here is None else socket.gethostname()
    return config.public_url.rstrip("/") or url(outside), url(here or host)


def certificate_sha256(config: Config) -> str:
    """The digest by which the operator's commands on this machine know the hub; empty without TLS."""
    if config.tls_cert is None:
        return ""
    pem = config.tls_cert.read_text("ascii", "replace")
    begin, end = pem.index(ssl.PEM_HEADER), pem.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    return sha256(ssl.PEM_cert_to_DER_cert(pem[begin:end])).hexdigest()


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.tls_cert is None or config.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls_cert and tls_key: {config.tls_cert} and {config.tls_key}: {error}") from error
    return context


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


def _notifier() -> Tell:
    """Tells systemd, where there is one."""
    if not under_systemd():
        return lambda _text: None
    notifier = sdnotify.SystemdNotifier()

    def tell(text: str) -> None:
        notifier.notify(text)

    return tell


def take_descriptors() -> None:
    """Raise the soft limit of open files to what this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _prepare_data_dir(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"data_dir: {path} cannot be made ({error.strerror})") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"data_dir: {path} cannot be written by this user")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Only one hub owns a data directory; the kernel lets go of the lock with the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"data_dir: another hub runs on {path.parent}; stop it, or give another --data-dir"
            ) from error
        yield
    finally:
        os.close(descriptor)
