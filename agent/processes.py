"""Processes that outlive us: started in sessions of their own, watched without owning them.

Not by asyncio's subprocesses: those kill their child when their loop closes, and a worker must go on.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.clock import Clock

POLL_S = 1.0
"""Between looks at a process where the kernel has no pidfd."""
LOG_BYTES_MAX = 8 * 1024 * 1024
NOT_PASSED_ON = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}
)
"""What systemd gave to the agent alone."""


def start_detached(argv: Sequence[str], *, environ: Mapping[str, str], log_path: Path, stdin: int | None = None) -> int:
    """Start a process in a session of its own, its output appended to ``log_path``; its pid.

    ``stdin`` is the descriptor that becomes its standard input; without one it reads nothing.

    Raises:
        OSError: it cannot be started.
    """
    trim_log(log_path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        argv[0],
        list(argv),
        {key: value for key, value in environ.items() if key not in NOT_PASSED_ON},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0) if stdin is None else (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_path), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
    )


def trim_log(path: Path) -> None:
    """Keep a log that others append to within its bound: what is there becomes ``.1``, and the file begins anew."""
    try:
        if path.stat().st_size <= LOG_BYTES_MAX:
            return
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        os.truncate(path, 0)
    except OSError:
        return  # a log that cannot be trimmed is no reason to do without the process


def alive(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def wait_exit(pid: int, clock: Clock) -> str:
    """Wait until a process is no more; how it ended, in words. The status is known only for our own children."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return _reaped(pid)
    except OSError:
        while alive(pid):
            await clock.sleep(POLL_S)
        return _reaped(pid)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return _reaped(pid)


def _reaped(pid: int) -> str:
    with contextlib.suppress(ChildProcessError):
        reaped, status = os.waitpid(pid, os.WNOHANG)
        if reaped == pid:
            return describe(os.waitstatus_to_exitcode(status))
    return "exit status unknown: an earlier run of the agent started it"


def describe(code: int) -> str:
    """An exit code, or a negative signal number, in words."""
    return f"signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit {code}"


def log_tail(path: Path, bytes_max: int) -> str:
    """The last lines of a log; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - bytes_max))
            return file.read(bytes_max).decode("utf-8", "replace").strip()
    except OSError:
        return ""
