"""Runs ssh: one child process for one attempt, under one deadline, everything it says kept within bounds.

The deadline covers connection and command: ssh's own ConnectTimeout ends neither a server that hangs after its banner
nor a control master that was stopped. The whole process group is ended; and since a master that outlives its client may
hold our end of stderr open for ever, the streams are left after a moment once the process itself is gone.
"""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from hub.children import Bounded, Child, child
from hub.clock import Clock
from hub.ssh.argv import Way, framed, master_argv, socket_argv, ssh_argv, unframed
from hub.ssh.cause import Cause
from hub.ssh.causes import SSH_FAILED, Diagnosis, Ending, diagnose
from hub.ssh.streams import shown
from hub.ssh.targets import Target

log = structlog.get_logger(__name__)

STDERR_BYTES_MAX = 1024 * 1024
STDOUT_BYTES_MAX = 4 * 1024 * 1024
LINGER_S = 0.5
"""For what is still in the pipes when the process has ended."""
MASTER_ORDER_S = 2.0
"""For a master to answer ``-O check`` or ``-O exit``; one that is stopped never does."""
END_S = 2.0
"""For the process group to take SIGTERM, before SIGKILL."""
NONCE_BYTES = 8
SPAWNS_RETRIED = frozenset({Cause.MASTER_HUNG, Cause.MASTER_DIED})
"""The only causes after which an attempt is made once more: the way itself was never tried."""
AUTHENTICATION = frozenset(
    {Cause.IDENTITY_REFUSED, Cause.NO_IDENTITY, Cause.TOO_MANY_FAILURES, Cause.SECOND_FACTOR, Cause.MUX_REFUSED}
)
"""After which it is asked what became of each key. A refused master leads to a login that failed by itself."""


class Spoken(Struct, frozen=True, kw_only=True):
    """What came of running ssh once."""

    argv: tuple[str, ...]
    ending: Ending
    diagnosis: Diagnosis
    duration_s: float
    output: bytes
    before: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    note: str = ""


class _Ran(Struct, frozen=True):
    exit_code: int | None
    signal: int | None
    timed_out: bool
    spawn_error: str
    stdout: Bounded
    stderr: Bounded
    duration_s: float


class Client:
    """OpenSSH's client, as the hub uses it.

    Args:
        way: identities, known hosts, folders.
        clock: for durations.
        environ: of the children; the agent socket and the locale are set here.
    """

    def __init__(self, way: Way, clock: Clock, environ: Mapping[str, str]) -> None:
        self._way = way
        self._clock = clock
        kept = {"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD"}
        self._environ = {name: value for name, value in environ.items() if name in kept} | {"LC_ALL": "C.UTF-8"}

    @property
    def way(self) -> Way:
        """By what means."""
        return self._way

    async def run(self, target: Target, script: str, *, deadline_s: float, stdin: bytes = b"") -> list[Spoken]:
        """Run a POSIX shell script at ``target``; the tries made, one or two, the last of which counts.

        Only a control master that hung or died is a reason for a second try: it is ended first, its socket unlinked.
        """
        tries = [await self._once(target, script, deadline_s=deadline_s, stdin=stdin)]
        first = tries[0]
        if first.diagnosis.cause in SPAWNS_RETRIED:
            log.warning("ssh.master_ended", target=str(target), cause=first.diagnosis.cause.value)
            await self.end_master(target, force=True)
            tries.append(await self._once(target, script, deadline_s=deadline_s, stdin=stdin))
        return tries

    async def _once(self, target: Target, script: str, *, deadline_s: float, stdin: bytes) -> Spoken:
        nonce = secrets.token_hex(NONCE_BYTES)
        argv = ssh_argv(self._way, target, framed(script, nonce))
        socket = await self._socket(target)
        existed = socket is not None and socket.exists()
        stale = existed and not await self._master_answers(target)
        ran = await self._spawn(argv, deadline_s=deadline_s, stdin=stdin)
        # In threads: a node that floods its output would hold the hub up for as long as that is looked through.
        remote = await asyncio.to_thread(unframed, ran.stdout.kept(), nonce)
        silent = ran.exit_code == SSH_FAILED and not ran.stderr.total_bytes
        alive = await self._master_answers(target) if existed and (ran.timed_out or silent) else None
        ending = Ending(
            stderr=ran.stderr.kept().decode("utf-8", "replace").replace("\r", ""),
            exit_code=ran.exit_code,
            signal=ran.signal,
            spawn_error=ran.spawn_error,
            timed_out=ran.timed_out,
            began=remote.began,
            remote_exit_code=remote.exit_code,
            master_alive=alive,
            through_master=existed,
        )
        replaced = stale and remote.began
        return Spoken(
            argv=tuple(argv),
            ending=ending,
            diagnosis=await asyncio.to_thread(diagnose, ending, identities=self._identities_there()),
            duration_s=ran.duration_s,
            output=remote.output,
            before=remote.before,
            stderr=ran.stderr.kept(),
            stdout_bytes=ran.stdout.total_bytes,
            stderr_bytes=ran.stderr.total_bytes,
            note="a stale control socket was replaced by ssh itself" if replaced else "",
        )

    def _identities_there(self) -> int:
        return sum(path.exists() for path in self._way.identities) + (self._way.agent_socket is not None)

    async def offered(self, target: Target, *, deadline_s: float) -> str:
        """Which keys are offered and what becomes of each: the telling lines of one login with ``-v``."""
        way = msgspec.structs.replace(self._way, multiplexed=False)
        ran = await self._spawn(ssh_argv(way, target, "exit 0", verbose=True), deadline_s=deadline_s)
        lines = shown(ran.stderr.kept()).splitlines()
        return "\n".join(line for line in lines if _TELLING.search(line))

    # --- control masters

    async def _socket(self, target: Target) -> Path | None:
        """Where the control socket of ``target`` lies; None without masters, or if ssh cannot say."""
        if not self._way.multiplexed:
            return None
        ran = await self._spawn([*ssh_argv(self._way, target)[:1], "-G", *ssh_argv(self._way, target)[1:]])
        found = re.search(rb"^controlpath (.+)$", ran.stdout.kept(), re.MULTILINE)
        return Path(os.fsdecode(found[1])) if found else None

    async def _master_answers(self, target: Target) -> bool:
        ran = await self._spawn(master_argv(self._way, target, "check"), deadline_s=MASTER_ORDER_S)
        return ran.exit_code == 0

    async def end_master(self, target: Target, *, force: bool = False) -> None:
        """End the target's master: asked first, then, with ``force``, by signal; its socket does not stay behind."""
        socket = await self._socket(target)
        if socket is None or not socket.exists():
            return
        ran = await self._spawn(master_argv(self._way, target, "exit"), deadline_s=MASTER_ORDER_S)
        if ran.exit_code != 0 and force:
            for pid in await asyncio.to_thread(listeners, socket):
                _kill(pid)
        await asyncio.to_thread(socket.unlink, missing_ok=True)

    async def end_masters(self) -> None:
        """Ask every master whose socket lies in our folder to end: nobody needs them when the hub has stopped."""

        async def end(socket: Path) -> None:
            ran = await self._spawn(socket_argv(self._way, socket, "exit"), deadline_s=MASTER_ORDER_S)
            if ran.exit_code == 0:  # it will remove its socket, but says so first
                await asyncio.to_thread(socket.unlink, missing_ok=True)

        sockets = await asyncio.to_thread(lambda: [path for path in _listed(self._way.runtime_dir) if path.is_socket()])
        await asyncio.gather(*map(end, sockets))

    # --- the child

    async def _spawn(self, argv: Sequence[str], *, deadline_s: float = MASTER_ORDER_S, stdin: bytes = b"") -> _Ran:
        began_s = self._clock.monotonic()
        stdout, stderr = Bounded(STDOUT_BYTES_MAX), Bounded(STDERR_BYTES_MAX)
        code: int | None = None
        spawn_error = ""
        try:
            async with child(argv, stdout.add, stderr.add, env=self._environ, stdin=stdin) as running:
                try:
                    async with asyncio.timeout(deadline_s):
                        code = await running.wait()
                finally:
                    await _end(running)
                    await running.heard(LINGER_S)
        except TimeoutError:
            pass
        except OSError as error:
            spawn_error = f"{argv[0]}: {error.strerror}"
        return _Ran(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=code is None and not spawn_error,
            spawn_error=spawn_error,
            stdout=stdout,
            stderr=stderr,
            duration_s=self._clock.monotonic() - began_s,
        )


_TELLING = re.compile(
    r"debug1: (?:Offering|Trying private key|Server accepts key|Authentications that can|Authenticated|Will attempt"
    r"|Skipping|No more auth|send_pubkey_test|Next auth)|Load key|Permission denied|Permissions \d"
)


async def _end(running: Child) -> None:
    """Have what is left of the process and its group end; the jump hosts' clients are in it too."""
    running.signal(signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await running.wait()


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError) as error:
        log.warning("ssh.master_not_ended", pid=pid, error=str(error))


def listeners(socket: Path) -> list[int]:
    """The processes of this user that listen on a unix socket, from ``/proc``: a stopped master does not answer."""
    table = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()
    inodes = {line.split()[6] for line in table[1:] if line.split()[7:8] and line.split()[7].startswith(str(socket))}
    wanted = {f"socket:[{inode}]" for inode in inodes}
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(str(item.readlink()) in wanted for item in folder.iterdir()):
                found.append(int(folder.parent.name))
        except OSError:
            continue  # another user's, or gone
    return found
