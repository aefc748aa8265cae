"""The points of a key that does not fit a card, without infinity, in shared memory: once for all workers of a node.

Whoever needs the copy first makes it; whoever needs it last removes it. Workers that want it meanwhile wait. It lies in
memory, not on a disk, since it is read from end to end for every proof; each worker locks its pages for its own card.
"""

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from prover.backends.cache import cache_folder, check_owner
from prover.errors import DeviceError

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of ours in it, which must be ours alone
PAGE: Final = mmap.PAGESIZE
_LOCK: Final = "lock"
"""One for all copies: they are made one after the other."""


def name_of(path: str, *facts: object) -> str:
    """Return the name of a file's copy: it changes with the file, and with what else was decided about it."""
    try:
        found = Path(path).stat()
        parts: tuple[object, ...] = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    except OSError:
        parts = (path, os.getpid(), id(path))  # of no file: this process's alone
    return sha256(repr((*parts, *facts)).encode()).hexdigest()[:32]


class HostCopy:
    """A mapped copy.

    Attributes:
        address: where it begins; whole pages.
        nbytes: its size in whole pages.
    """

    def __init__(self, path: Path, descriptor: int, nbytes: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self.nbytes = nbytes
        # Writable, although nobody writes: drivers lock no other pages.
        self._map = mmap.mmap(descriptor, nbytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    @classmethod
    def open(cls, name: str, nbytes: int, fill: Callable[[memoryview], None], folder: Path | None = None) -> Self:
        """Return a copy, made where it is not there.

        Args:
            name: from ``name_of``.
            nbytes: its size.
            fill: writes all of it.
            folder: where copies lie; by default shared memory.

        Raises:
            DeviceError: the host has not so much memory, or the folder cannot be used or trusted.
        """
        size = max(1, -(-nbytes // PAGE)) * PAGE
        place = folder or _folder()
        path = place / f"{name}.points"
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_owner(place)
            with _Turn(place / _LOCK):
                if not path.exists() or path.stat().st_size != size:
                    _make(path, nbytes, size, fill)
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                return cls(path, descriptor, size)
        except OSError as error:
            raise DeviceError(
                f"{error.filename or place}: the {size} bytes of a key's points cannot be kept there: "
                f"{error.strerror or error}; give the host, or its shared memory, more room"
            ) from error

    @property
    def view(self) -> memoryview:
        """The bytes, for who cannot use the address; not after the copy was closed."""
        return memoryview((ctypes.c_char * self.nbytes).from_address(self.address)).cast("B")

    def close(self) -> None:
        """Let go; the last one removes the copy. Once more does nothing."""
        if self._descriptor < 0:
            return
        self._map = None  # type: ignore[assignment]
        with _Turn(self._path.parent / _LOCK):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._path.unlink(missing_ok=True)
            except BlockingIOError:
                pass  # another worker has it
            finally:
                os.close(self._descriptor)
                self._descriptor = -1


class _Turn:
    """One process's turn."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)


def _make(path: Path, nbytes: int, size: int, fill: Callable[[memoryview], None]) -> None:
    """Make a copy beside its place, and move it there when it is whole."""
    temporary = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)  # here, not by a signal while it is written
        with mmap.mmap(descriptor, size) as mapped, memoryview(mapped) as whole, whole[:nbytes] as view:
            fill(view)
        temporary.replace(path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)


def _folder() -> Path:
    """Return where copies lie: shared memory, and the cache where there is none."""
    if SHARED_MEMORY.is_dir():
        return SHARED_MEMORY / f"provewire-{os.geteuid()}"
    return cache_folder("points")
