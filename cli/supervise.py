"""``provewire supervise agent ...``: the restart rules of the systemd unit, for containers without systemd.

Restarts for ever with a growing wait, but not after exit 64 (usage or configuration), which a restart cannot mend.
Stopping the supervisor stops its child by SIGTERM; workers run in sessions of their own and are left alone. SIGHUP has
it start its child anew at once, as ``systemctl restart`` would; one that does not end is killed.

How it was started is written down in the home of its user, so that a recovery over SSH can start it again when it was
killed together with its child, and nothing else would.
"""

import argparse
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cli.errors import EXIT_OK, EXIT_USAGE, UsageError

HELP = "run a command of this program and restart it when it ends, as the systemd unit would"
SUPERVISED = ("agent", "hub", "worker")

RESTART_FIRST_S = 2.0
RESTART_MAX_S = 120.0
RENEW_KILL_S = 15.0
"""For a child to end that is to be started anew; one that is stuck cannot be asked."""
STABLE_S = 60.0
"""A run this long counts as healthy: the next wait is the first one again."""

STARTED = ".local/share/provewire"
"""Below the home: where it is written how a command was started, ``supervise-agent.sh``."""
KEPT = ("PROVEWIRE_", "CUDA_", "NVIDIA_", "XDG_", "LC_", "VAST_TCP_PORT_", "RUNPOD_TCP_PORT_")
KEPT_WHOLE = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "TZ", "PUBLIC_IPADDR", "RUNPOD_PUBLIC_IP"}
)
"""Of the environment, what a start needs: no secret that happens to be in it is written to a file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("supervised", metavar="COMMAND", choices=SUPERVISED, help=f"one of {', '.join(SUPERVISED)}")
    parser.add_argument("rest", metavar="...", nargs=argparse.REMAINDER, help="its own options, passed on as they are")


def wait_before_restart_s(failures: int, ran_s: float) -> tuple[int, float]:
    """How long to wait after a run of ``ran_s`` seconds that followed ``failures`` short ones: (new count, seconds)."""
    failures = 0 if ran_s >= STABLE_S else failures
    return failures + 1, min(RESTART_MAX_S, RESTART_FIRST_S * 2.0**failures)


def run(args: argparse.Namespace) -> int:
    """Supervise until told to stop, or until the command exits with 0 or 64."""
    if args.supervised not in SUPERVISED:
        raise UsageError(f"{args.supervised!r} cannot be supervised; choose one of {', '.join(SUPERVISED)}")
    argv = [sys.executable, "-m", "cli.main"]
    try:
        write_down(args.supervised, [*argv, "supervise", args.supervised, *args.rest], os.environ)
    except OSError as error:
        print(f"supervise: how it was started could not be written down: {error}", file=sys.stderr)
    return Supervisor([*argv, args.supervised, *args.rest]).run()


def write_down(name: str, argv: list[str], environ: Mapping[str, str]) -> None:
    """Leave a script behind that starts the same again; for its user alone.

    Raises:
        OSError: it cannot be written.
    """
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        return
    path = Path(home, STARTED, f"supervise-{name}.sh")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = {
        key: value
        for key, value in environ.items()
        if key.isidentifier() and (key in KEPT_WHOLE or key.startswith(KEPT))
    }
    lines = [
        "# How `provewire supervise` was started last; a recovery over SSH may start it so again.",
        f"cd {shlex.quote(os.getcwd())} || exit 1",  # noqa: PTH109 - as a string, for a script
        *(f"export {key}={shlex.quote(value)}" for key, value in sorted(kept.items())),
        f"exec {shlex.join(argv)} >> {shlex.quote(_log(path))} 2>&1",
    ]
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    fresh.replace(path)


def _log(beside: Path) -> str:
    """Where our own words go: the file they go to now, or one of their own."""
    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            return str(Path("/proc/self/fd/2").readlink())
    except OSError:
        pass
    return str(beside.with_suffix(".log"))


class Supervisor:
    """Owns one child process at a time; the child is passed our standard streams."""

    def __init__(self, argv: list[str], say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)) -> None:
        self._argv = argv
        self._say = say
        self._stopping = False
        self._renewing = False
        # A self-pipe: a signal that lands between a check and a wait still ends the wait.
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def run(self) -> int:
        """Start, wait, restart; the exit code of the last run."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_renew)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only so that the child's end wakes us
        failures = 0
        while True:
            started_s = time.monotonic()
            code = self._one_run()
            if self._stopping:
                return EXIT_OK
            if self._renewing:
                self._say(f"supervise: it ended ({describe(code)}) and is started anew, as asked")
                self._renewing, failures = False, 0
                continue
            if code == EXIT_OK:
                return code
            if code == EXIT_USAGE:
                self._say("supervise: it exited with 64 (usage or configuration): a restart cannot mend that; stopping")
                return code
            failures, wait_s = wait_before_restart_s(failures, time.monotonic() - started_s)
            self._say(f"supervise: it ended ({describe(code)}); restarting in {wait_s:g} s")
            if self._wait(wait_s):
                return EXIT_OK
            if self._renewing:
                self._renewing, failures = False, 0

    def _one_run(self) -> int:
        with subprocess.Popen(self._argv) as child:  # noqa: S603 - our own program
            told = False
            kill_s: float | None = None
            while child.poll() is None:
                if (self._stopping or self._renewing) and not told:
                    child.terminate()
                    told = True
                    kill_s = None if self._stopping else time.monotonic() + RENEW_KILL_S
                self._wait(
                    None if kill_s is None else max(0.0, kill_s - time.monotonic()), until_told=not told, once=True
                )
                if kill_s is not None and time.monotonic() >= kill_s:
                    child.kill()
                    kill_s = None
            return child.returncode

    def _wait(self, timeout_s: float | None, *, until_told: bool = True, once: bool = False) -> bool:
        """Sleep until the time is up; whether we are to stop.

        Args:
            timeout_s: how long; None for ever.
            until_told: an order, given already or meanwhile, ends it.
            once: any signal ends it.
        """
        import select  # noqa: PLC0415 - only this command waits this way

        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not (until_told and (self._stopping or self._renewing)):
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            if not select.select([self._wake_read], [], [], left_s)[0]:
                break
            os.read(self._wake_read, 4096)
            if once:
                break
        return self._stopping

    def _on_stop(self, *_: object) -> None:
        self._stopping = True

    def _on_renew(self, *_: object) -> None:
        self._renewing = True


def describe(returncode: int) -> str:
    """``returncode`` of subprocess in words."""
    return f"signal {-returncode}, {signal.strsignal(-returncode)}" if returncode < 0 else f"exit {returncode}"
