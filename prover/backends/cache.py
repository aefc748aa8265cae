"""What compilers made, kept between processes: a folder of this user's, and a file for each digest of what made it.

Both compilers of kernels use it. Processes that want the same file at once wait for the one that makes it, and a file
stands in its place only when it is whole and on the disk.

Every proof on a CPU passes here, and a small one takes as long as Python takes to load a few modules: so this loads
``hashlib`` only where something is hashed, and neither ``shutil`` nor ``platformdirs`` for a line of theirs.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernels import ROOT
from prover.errors import DeviceError

if TYPE_CHECKING:
    import subprocess

_SUFFIXES: Final = (".cuh", ".cu", ".cpp")
_SETTLED_NS: Final = 2_000_000_000
"""A file may be written twice within a tick of its file system's clock: until so long after a change its time is not
taken for its content."""


def cache_folder(kind: str) -> Path:
    """Return the folder of built objects of one kind by the XDG rules; it may not exist yet.

    Raises:
        DeviceError: this user has no home directory for it.
    """
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    home = os.path.expanduser("~")  # noqa: PTH111 - Path's raises, and says less
    if not named and home == "~":  # a service's user without a home
        raise DeviceError("there is no folder to keep the built kernels in; name one in XDG_CACHE_HOME")
    return Path(named or f"{home}/.cache") / "provewire" / kind


def find_command(name: str) -> str | None:
    """Return the file that a command's name means, as a shell would find it."""
    folders = [""] if os.sep in name else os.get_exec_path()
    candidates = (os.path.join(folder, name) for folder in folders)  # noqa: PTH118 - PATH may name ""
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)  # noqa: PTH113


def digest_of(parts: Iterable[str]) -> str:
    """Return the name of what is made of the sources and of ``parts``: flags, compiler, target."""
    from hashlib import sha256  # noqa: PLC0415 - see above

    digest = sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    digest.update(sources_digest())
    return digest.hexdigest()[:32]


@cache
def _sources() -> tuple[tuple[str, os.stat_result], ...]:
    """Return every source file by its path below the kernels' folder, in order, and what the system says of it."""
    found, folders = [], [str(ROOT)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(_SUFFIXES):
                    found.append((entry.path.removeprefix(f"{ROOT}/"), entry.stat()))
    return tuple(sorted(found))


@cache
def sources_digest() -> bytes:
    """Return the digest of every source file, since any may be included."""
    from hashlib import sha256  # noqa: PLC0415 - see above

    digest = sha256()
    for name, _ in _sources():
        text = (ROOT / name).read_bytes()
        digest.update(f"{name}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.digest()


def sources_stamp() -> str:
    """Return a text that is another one after any change to a source file, without reading one.

    The system sets a file's time of change at every write, and nobody can set it back.
    """
    return "\n".join(
        f"{name} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        for name, found in _sources()
    )


def sources_are_settled() -> bool:
    """Whether the last change to a source file is so long ago that its stamp stands for its content."""
    return max(found.st_ctime_ns for _, found in _sources()) < time.time_ns() - _SETTLED_NS


def identity(command: str) -> tuple[str, ...]:
    """Return what tells a compiler from another one, or from its next version: which file it is, and of when."""
    path = Path(find_command(command) or command).resolve()
    found = path.stat()
    return str(path), str(found.st_size), str(found.st_mtime_ns)


def obtain(place: Path, make: Callable[[Path], Path]) -> Path:
    """Return ``place``, made where it is not there yet.

    Args:
        place: a file of a cache folder.
        make: makes the file in the empty folder that it is given, and returns it.

    Raises:
        DeviceError: the folder cannot be used or trusted, or ``make`` failed.
    """
    folder = place.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(folder)
        if place.exists():
            return place
        import tempfile  # noqa: PLC0415 - where a compiler runs, which is not in every process

        with _locked(place.with_suffix(".lock")):
            if not place.exists():
                with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as name:
                    made = make(Path(name))
                    with made.open("rb") as file:
                        os.fsync(file.fileno())
                    made.replace(place)
    except OSError as error:
        raise DeviceError(
            f"{error.filename or folder}: the built kernels cannot be kept there: {error.strerror or error}; "
            "name another folder in the environment variable XDG_CACHE_HOME"
        ) from error
    return place


def check_owner(folder: Path) -> None:
    """Refuse a folder in which others could put what we then load.

    Raises:
        DeviceError: it is another user's, or others may write to it.
        OSError: it cannot be looked at.
    """
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DeviceError(
            f"{folder}: belongs to another user or can be written by others, so what is built there cannot be trusted; "
            f"remove it, or set its mode with chmod 700 {folder}"
        )


def compile_checked(command: list[str], scratch: Path, deadline_s: float) -> str:
    """Run a compiler; what it writes on its way goes to ``scratch``, because a service may have no /tmp to write to.

    Returns:
        What it said on its standard error.

    Raises:
        DeviceError: it failed; the sentence has its first error line.
    """
    done = run(command, deadline_s, TMPDIR=str(scratch))
    if done.returncode == 0:
        return done.stderr
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")
    raise DeviceError(f"{command[0]} could not compile the kernels (exit code {done.returncode}): {line}")


def run(command: list[str], deadline_s: float, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command with a deadline and return what it said.

    Raises:
        DeviceError: it cannot be run, or did not end.
    """
    import subprocess  # noqa: PLC0415 - where a compiler runs, which is not in every process

    environment = {**os.environ, "LC_ALL": "C", **variables}
    try:
        return subprocess.run(  # noqa: S603 - the compiler is the user's own choice
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"{command[0]} did not end within {deadline_s} s; it was stopped") from None
    except OSError as error:
        raise DeviceError(f"{command[0]} cannot be run: {error.strerror or error}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; it ends with the process at the latest."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
