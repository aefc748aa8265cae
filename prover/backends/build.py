"""Building the host device: the kernels, compiled by whatever C++ compiler the machine has.

The shared object is kept in the cache under the digest of everything it was made from: sources, flags, the compiler's
file and the features of the CPU that it compiles for. Beside it stands which digest belonged to which times of the
sources, so that they are read only after a change.
"""

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Final

from kernels import ROOT
from prover.backends.cache import (
    cache_folder,
    check_owner,
    compile_checked,
    digest_of,
    find_command,
    identity,
    obtain,
    run,
    sources_are_settled,
    sources_stamp,
)
from prover.errors import DeviceError

COMPILERS: Final = ("g++", "clang++", "c++")
"""Tried in this order where CXX does not name one."""
FLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden")
NATIVE: Final = "-march=native"
"""Also given where the compiler knows it: what is built runs where it is built."""
BUILD_DEADLINE_S: Final = 600
"""No compiler takes this long; one that hangs must not hang the prover for ever."""
HOST_SOURCE: Final = "host/host.cpp"

CPUINFO: Final = Path("/proc/cpuinfo")
NOT_DAMAGE: Final = ("failed to map segment", "annot allocate memory", "Too many open files")
"""In the loader's words: the process has no memory or descriptor left, which says nothing of the file."""


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler, split into words.

    Raises:
        DeviceError: there is none.
    """
    named = os.environ.get("CXX", "").strip()
    if named:
        import shlex  # noqa: PLC0415 - a proof that compiles nothing does without

        try:
            command = shlex.split(named)
        except ValueError as error:
            raise DeviceError(f"the environment variable CXX, {named!r}, is no command: {error}") from None
        if find_command(command[0]) is None:
            raise DeviceError(f"the environment variable CXX names {command[0]!r}, which is not on this machine")
        return command
    found = next((compiler for compiler in COMPILERS if find_command(compiler)), None)
    if found is None:
        raise DeviceError(
            "the host device needs a C++ compiler, and none of g++, clang++ and c++ is on this machine; "
            "install one (Debian, Ubuntu: apt-get install g++) or name one in the environment variable CXX"
        )
    return [found]


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

    def make(folder: Path) -> Path:
        return _compile(compiler, [*FLAGS, *_native(compiler), *extra_flags], sources, folder)

    place = _Place(compiler, names, extra_flags)
    library = obtain(place.library, make)
    place.remember()
    return library


def load(built: Callable[[], Path]) -> ctypes.CDLL:
    """Load a shared object of ours; one that is damaged on the disk is built anew.

    Args:
        built: builds it where it is not in the cache, and returns its file.

    Raises:
        DeviceError: it cannot be built or loaded.
    """
    library = built()
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        if any(words in str(error) for words in NOT_DAMAGE):
            raise DeviceError(f"{library}: the built kernels cannot be loaded: {error}") from error
        import logging  # noqa: PLC0415 - takes as long to load as a small proof does

        log = logging.getLogger(__name__)
        log.warning("%s: the built kernels cannot be loaded and are built anew: %s", library, error)
    library.unlink(missing_ok=True)
    library = built()
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise DeviceError(f"{library}: the built kernels cannot be loaded: {error}; delete the file") from error


def find_built(names: tuple[str, ...]) -> Path | None:
    """Return the shared object of some source files where it has been built for this machine and may be trusted."""
    with suppress(DeviceError, OSError):
        library = _Place(find_compiler(), names, ()).library
        check_owner(library.parent)
        return library if library.exists() else None
    return None


def _native(compiler: list[str]) -> list[str]:
    """Return the flag for this very CPU where the compiler has one."""
    known = run([*compiler, NATIVE, "-E", "-x", "c++", os.devnull], BUILD_DEADLINE_S).returncode == 0
    return [NATIVE] if known else []


class _Place:
    """Where an object belongs.

    Attributes:
        library: its file, under the digest of everything it depends on.
    """

    def __init__(self, compiler: list[str], names: tuple[str, ...], extra_flags: tuple[str, ...]) -> None:
        parts = (*compiler, *FLAGS, NATIVE, *extra_flags, *names, *identity(compiler[0]), _cpu_features())
        folder = cache_folder("host")
        self._stamp = "\n".join((*parts, sources_stamp()))
        self._note = folder / f"{names[-1].replace('/', '-')}.digest"
        noted, _, digest = self._noted().rpartition("\n")
        self._is_noted = noted == self._stamp
        self._digest = digest if self._is_noted else digest_of(parts)
        self.library = folder / f"{self._digest}.so"

    def remember(self) -> None:
        """Note the digest for the next process; whoever cannot reads the sources again."""
        if self._is_noted or not sources_are_settled():
            return
        temporary = self._note.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            temporary.write_text(f"{self._stamp}\n{self._digest}", encoding="utf-8")
            temporary.replace(self._note)

    def _noted(self) -> str:
        """Return what was noted. Who could write that file could write the object: `check_owner` refuses both."""
        try:
            return self._note.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


@cache
def _cpu_features() -> str:
    """Return what this CPU is and can do, as far as the system says."""
    with suppress(OSError):
        with CPUINFO.open(encoding="ascii", errors="replace") as file:
            # The first CPU's lines end with an empty one; a machine of hundreds takes long to tell of all.
            lines = takewhile(str.strip, file)
            told = {line.partition(":")[0].strip(): line for line in lines}
        return "\n".join(told.get(name, "") for name in ("vendor_id", "model name", "flags", "Features"))
    import platform  # noqa: PLC0415 - only where the system has no such file

    return platform.processor()


def _compile(compiler: list[str], flags: list[str], sources: list[Path], folder: Path) -> Path:
    """Compile the sources side by side in a folder, and link them."""
    import logging  # noqa: PLC0415 - what a build needs and a proof with built kernels does not
    import shlex  # noqa: PLC0415 - same
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - same

    log = logging.getLogger(__name__)
    log.info("building %s with %s", ", ".join(source.name for source in sources), shlex.join(compiler))
    objects = [folder / f"{source.stem}.o" for source in sources]
    commands = [
        [*compiler, *flags, "-I", str(ROOT), "-x", "c++", "-c", str(source), "-o", str(made)]
        for source, made in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        # The large ones first, so that the last one to start is a short one.
        for done in [pool.submit(compile_checked, command, folder, BUILD_DEADLINE_S) for command in reversed(commands)]:
            done.result()
    linked = folder / "host.so"
    command = [*compiler, "-shared", "-pthread", *map(str, objects), "-o", str(linked)]
    compile_checked(command, folder, BUILD_DEADLINE_S)
    return linked
