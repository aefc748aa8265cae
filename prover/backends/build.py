"""Building the host device: the kernels, compiled by whatever C++ compiler the machine has.

The shared object is kept in the user's cache folder under the digest of everything it was made from: sources, flags,
the compiler's file and the features of the CPU that it compiles for. Processes that build at once wait for each
other, and an object appears in its place only when it is whole.
"""

import fcntl
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from platformdirs import user_cache_dir

from kernels import ROOT
from prover.errors import DeviceError

log = logging.getLogger(__name__)

COMPILERS: Final = ("g++", "clang++", "c++")
"""Tried in this order where CXX does not name one."""
FLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden")
NATIVE: Final = "-march=native"
"""Also given where the compiler knows it: what is built runs where it is built."""
BUILD_DEADLINE_S: Final = 600
"""No compiler takes this long; one that hangs must not hang the prover for ever."""
HOST_SOURCE: Final = "host/host.cpp"

CPUINFO: Final = Path("/proc/cpuinfo")
_SUFFIXES: Final = {".cuh", ".cu", ".cpp"}


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler, split into words.

    Raises:
        DeviceError: there is none.
    """
    named = os.environ.get("CXX", "").strip()
    if named:
        try:
            command = shlex.split(named)
        except ValueError as error:
            raise DeviceError(f"the environment variable CXX, {named!r}, is no command: {error}") from None
        if shutil.which(command[0]) is None:
            raise DeviceError(f"the environment variable CXX names {command[0]!r}, which is not on this machine")
        return command
    found = next((compiler for compiler in COMPILERS if shutil.which(compiler)), None)
    if found is None:
        raise DeviceError(
            "the host device needs a C++ compiler, and none of g++, clang++ and c++ is on this machine; "
            "install one (Debian, Ubuntu: apt-get install g++) or name one in the environment variable CXX"
        )
    return [found]


def cache_folder() -> Path:
    """Return the folder of built objects; it may not exist yet.

    Raises:
        DeviceError: this user has no home directory for it.
    """
    try:
        return Path(user_cache_dir("provewire", appauthor=False)) / "host"
    except RuntimeError as error:  # a service's user without a home
        raise DeviceError(
            f"there is no folder to keep the built kernels in ({error}); name one in XDG_CACHE_HOME"
        ) from error


def build(files: tuple[str, ...], extra_flags: tuple[str, ...] = ()) -> Path:
    """Return the shared object of some entry files, building it where it is not in the cache.

    Args:
        files: entry files, as in ``kernels.entries.ENTRY_FILES``.
        extra_flags: flags of the compiler, after our own.

    Raises:
        DeviceError: there is no compiler, it failed, or the cache folder cannot be used.
    """
    return build_sources((HOST_SOURCE, *(f"entry/{file}.cu" for file in files)), extra_flags)


def build_sources(names: tuple[str, ...], extra_flags: tuple[str, ...] = ()) -> Path:
    """Return the shared object of some source files, building it where it is not in the cache.

    Args:
        names: files of ``kernels``, by their path in it.
        extra_flags: flags of the compiler, after our own.

    Raises:
        DeviceError: there is no compiler, it failed, or the cache folder cannot be used.
    """
    compiler = find_compiler()
    sources = [ROOT / name for name in names]
    library = _place(compiler, names, extra_flags)
    folder = library.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(folder)
        if library.exists():
            return library
        with _locked(library.with_suffix(".lock")):
            if not library.exists():
                _compile(compiler, [*FLAGS, *_native(compiler), *extra_flags], sources, library)
    except OSError as error:
        raise DeviceError(
            f"{error.filename or folder}: the built kernels cannot be kept there: {error.strerror or error}; "
            "name another folder in the environment variable XDG_CACHE_HOME"
        ) from error
    return library


def _check_owner(folder: Path) -> None:
    """Refuse a folder in which others could put what we then load.

    Raises:
        DeviceError: it is another user's, or others may write to it.
    """
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DeviceError(
            f"{folder}: belongs to another user or can be written by others, so what is built there cannot be trusted; "
            f"remove it, or set its mode with chmod 700 {folder}"
        )


def find_built(names: tuple[str, ...]) -> Path | None:
    """Return the shared object of some source files where it has been built for this machine and may be trusted."""
    with suppress(DeviceError, OSError):
        library = _place(find_compiler(), names, ())
        _check_owner(library.parent)
        return library if library.exists() else None
    return None


def _native(compiler: list[str]) -> list[str]:
    """Return the flag for this very CPU where the compiler has one."""
    known = _run([*compiler, NATIVE, "-E", "-x", "c++", os.devnull]).returncode == 0
    return [NATIVE] if known else []


def _place(compiler: list[str], names: tuple[str, ...], extra_flags: tuple[str, ...]) -> Path:
    """Return where an object belongs: under the digest of everything it depends on."""
    digest = sha256()
    for part in (*compiler, *FLAGS, NATIVE, *extra_flags, *names, *_identity(compiler[0]), _cpu_features()):
        digest.update(part.encode() + b"\0")
    digest.update(_sources_digest())
    return cache_folder() / f"{digest.hexdigest()[:32]}.so"


@cache
def _sources_digest() -> bytes:
    """Return the digest of every source file, since any may be included."""
    digest = sha256()
    for path in sorted(path for path in ROOT.rglob("*") if path.suffix in _SUFFIXES):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.digest()


def _identity(command: str) -> tuple[str, ...]:
    """Return what tells a compiler from another one, or from its next version: which file it is, and of when."""
    path = Path(shutil.which(command) or command).resolve()
    found = path.stat()
    return str(path), str(found.st_size), str(found.st_mtime_ns)


@cache
def _cpu_features() -> str:
    """Return what this CPU is and can do, as far as the system says."""
    with suppress(OSError):
        lines = CPUINFO.read_text(encoding="ascii", errors="replace").splitlines()
        told = {line.partition(":")[0].strip(): line for line in reversed(lines)}
        return "\n".join(told.get(name, "") for name in ("vendor_id", "model name", "flags", "Features"))
    return platform.processor()


def _compile(compiler: list[str], flags: list[str], sources: list[Path], library: Path) -> None:
    """Compile the sources side by side and link them; the object gets its name when it is on the disk."""
    log.info("building %s with %s", library, shlex.join(compiler))
    with tempfile.TemporaryDirectory(prefix="build-", dir=library.parent) as name:
        folder = Path(name)
        objects = [folder / f"{source.stem}.o" for source in sources]
        commands = [
            [*compiler, *flags, "-I", str(ROOT), "-x", "c++", "-c", str(source), "-o", str(made)]
            for source, made in zip(sources, objects, strict=True)
        ]
        with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
            # The large ones first, so that the last one to start is a short one.
            for done in [pool.submit(_checked, command, folder) for command in reversed(commands)]:
                done.result()
        linked = folder / "host.so"
        _checked([*compiler, "-shared", "-pthread", *map(str, objects), "-o", str(linked)], folder)
        with linked.open("rb") as file:
            os.fsync(file.fileno())
        linked.replace(library)


def _checked(command: list[str], scratch: Path) -> None:
    """Run a compiler; what it writes on its way goes to ``scratch``, because a service may have no /tmp to write to.

    Raises:
        DeviceError: it failed; the sentence has its first error line.
    """
    done = _run(command, TMPDIR=str(scratch))
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")
    raise DeviceError(f"{command[0]} could not compile the kernels (exit code {done.returncode}): {line}")


def _run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a deadline and return what it said."""
    environment = {**os.environ, "LC_ALL": "C", **variables}
    try:
        return subprocess.run(  # noqa: S603 - the compiler is the user's own choice
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_DEADLINE_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"{command[0]} did not end within {BUILD_DEADLINE_S} s; it was stopped") from None
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
