"""The host device: the kernels run phase by phase on the CPU.

The interpreter's lock is free while a kernel runs. What a kernel leaves does not depend on the number of threads.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kernels.curves import Curve
from prover.backends.base import AtOnce, Buffer, Data, Launch, Traits
from prover.backends.build import build, build_sources, find_compiler, load
from prover.errors import DeviceError

if TYPE_CHECKING:
    from kernels.entries import Entry

SHARED_BYTES_MAX: Final = 32 * 1024
"""What a block's shared memory may take: about a first-level cache."""

MEMINFO: Final = Path("/proc/meminfo")
CGROUP_FILES: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
"""Limit and usage of the control group we are in, version 2 and version 1; ``max`` stands for no limit."""
_MEMORY_UNKNOWN_BYTES: Final = 1 << 62
_ALIGNMENT: Final = 64
"""Enough for every element type, and a cache line."""
_HUGE_PAGE_BYTES: Final = 1 << 21
"""Of x86-64 and, where the base page is 4 KiB, of arm64. Buffers are asked to lie in such pages, but for a rest of less
than half of one: there are 512 times fewer to be made, and to be found when a sort scatters over all of them."""

_TRIM_FROM_BYTES: Final = 1 << 24
"""Who gives back so much wants the memory for others, and the C library would keep what threads left behind too."""


class HostBuffer:
    """Memory of the process; address 0 once it has been released."""

    __slots__ = ("address", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes


class HostBackend(AtOnce):
    """The CPU as a device; a context manager.

    Attributes:
        name: ``host``.
    """

    name: Final = "host"

    def __init__(
        self,
        *,
        threads: int | None = None,
        files: tuple[str, ...] | None = None,
        flags: tuple[str, ...] = (),
        planned_as: Traits | None = None,
    ) -> None:
        """Find the compiler. Kernels take a while to build and load: they are, when the first of a group is launched.

        Args:
            threads: CPU threads of a launch; as many as the process may use if None.
            files: the entry files to take in, as in ``kernels.entries.ENTRY_FILES``, which are all if None.
            flags: more flags of the compiler.
            planned_as: what ``traits`` says instead of the truth: to run launches that were planned for another
                device, such as a GPU's blocks of many threads.

        Raises:
            DeviceError: this machine has no compiler.
        """
        self._threads = threads or len(os.sched_getaffinity(0))
        self._planned_as = planned_as
        self._files = files
        self._flags = flags
        self._buffers: dict[int, HostBuffer] = {}
        self._closers: list[Callable[[], None]] = []
        self._libraries: dict[str, _Library] = {}
        find_compiler()
        libc = ctypes.CDLL(None)
        self._allocate: Callable[[int, int], int | None] = libc.aligned_alloc
        libc.aligned_alloc.restype = ctypes.c_void_p
        libc.aligned_alloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
        self._free: Callable[[int], None] = libc.free
        libc.free.restype = None
        libc.free.argtypes = (ctypes.c_void_p,)
        self._advise: Callable[[int, int, int], int] = libc.madvise
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        # glibc's own; other C libraries keep less.
        self._trim: Callable[[int], object] = getattr(libc, "malloc_trim", lambda _pad: None)

    @property
    def description(self) -> str:
        """What it is, for people."""
        return f"{os.uname().machine} CPU, {self._threads} threads"

    def traits(self) -> Traits:
        """Return what plans depend on, as it is now."""
        return self._planned_as or Traits(
            kind="cpu",
            parallel=self._threads,
            shared_bytes_max=SHARED_BYTES_MAX,
            memory_bytes=_available_bytes(),
        )

    def allocate(self, nbytes: int) -> Buffer:
        """Return zeroed memory.

        Raises:
            DeviceError: there is not so much.
        """
        huge = (nbytes + _HUGE_PAGE_BYTES // 2) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
        whole = max(huge, -(-nbytes // _ALIGNMENT) * _ALIGNMENT, _ALIGNMENT)
        address = self._allocate(_HUGE_PAGE_BYTES if huge else _ALIGNMENT, whole) if whole <= sys.maxsize else None
        if not address:
            raise DeviceError(f"the host has no {nbytes} bytes of memory left for the proof")
        if huge:
            self._advise(address, huge, mmap.MADV_HUGEPAGE)  # a system that has none says no, and nothing is lost
        ctypes.memset(address, 0, whole)
        buffer = HostBuffer(address, nbytes)
        self._buffers[address] = buffer
        return buffer

    def release(self, buffer: Buffer) -> None:
        """Give a buffer back; releasing one twice does nothing."""
        own = self._buffers.pop(buffer.address, None)
        if own is not None:
            address, own.address = own.address, 0
            self._free(address)
            if own.nbytes >= _TRIM_FROM_BYTES:
                self._trim(0)

    def upload(self, buffer: Buffer, data: Data, offset: int = 0) -> None:
        """Copy ``data`` to ``offset`` in a buffer.

        Raises:
            ValueError: it does not fit.
        """
        source = memoryview(data).cast("B")
        self._check_part(buffer, offset, source.nbytes)
        if source.nbytes:
            target = (ctypes.c_char * source.nbytes).from_address(buffer.address + offset)
            memoryview(target).cast("B")[:] = source

    def download(self, buffer: Buffer, offset: int, nbytes: int) -> bytes:
        """Return a copy of a part of a buffer.

        Raises:
            ValueError: the part does not lie in it.
        """
        self._check_part(buffer, offset, nbytes)
        return ctypes.string_at(buffer.address + offset, nbytes)

    def zero(self, buffer: Buffer) -> None:
        """Set every byte of a buffer to zero."""
        self._check_part(buffer, 0, buffer.nbytes)
        ctypes.memset(buffer.address, 0, buffer.nbytes)

    def launch(self, entry: str, launch: Launch, arguments: Sequence[int]) -> None:
        """Run a kernel and wait for it.

        Raises:
            DeviceError: there is no such entry.
            ValueError: the number of arguments is not the entry's.
        """
        library = self._library_of(entry)
        if library is None:
            raise DeviceError(f"the host device was built without the kernel {entry}")
        expected = library.arity[entry]
        if len(arguments) != expected:
            raise ValueError(f"{entry} takes {expected} arguments, not {len(arguments)}")
        library.shape(launch.blocks_x, launch.blocks_y, launch.threads, launch.shared_bytes, self._threads)
        library.launchers[entry](*arguments)

    def runs(self, entry: str) -> int:
        """Return how often an entry has run to its end in this process."""
        library = self._library_of(entry)
        return int(library.runs(entry.encode())) if library else 0

    def closes_first(self, close: Callable[[], None]) -> None:
        """Have something that lives on this device closed before the device is."""
        self._closers.append(close)

    def close(self) -> None:
        """Release every buffer that is left."""
        while self._closers:
            self._closers.pop()()
        for buffer in list(self._buffers.values()):
            self.release(buffer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _library_of(self, entry: str) -> "_Library | None":
        """Return the kernels among which an entry is, loaded on first use; None where it is in none.

        Raises:
            DeviceError: they cannot be built or loaded.
        """
        if entry not in self._libraries:
            from kernels.entries import ENTRY_FILES, entries, file_groups  # noqa: PLC0415 - not for a CPU's own functions

            files = self._files or ENTRY_FILES
            known = entries(files).get(entry)
            if known is None:
                return None
            group = next(group for group in file_groups(files) if known.file in group)
            found = entries(group)
            self._libraries |= dict.fromkeys(found, _Library(load(lambda: build(group, self._flags)), found))
        return self._libraries[entry]

    def _check_part(self, buffer: Buffer, offset: int, nbytes: int) -> None:
        """Refuse a part that does not lie in a live buffer of this device."""
        if buffer.address not in self._buffers:
            raise ValueError("the buffer has been released, or is another device's")
        if offset < 0 or nbytes < 0 or offset + nbytes > buffer.nbytes:
            raise ValueError(f"bytes {offset} to {offset + nbytes} do not lie in a buffer of {buffer.nbytes}")


def build_for(curve: Curve) -> Path:
    """Build what proofs over a curve need on a CPU, where it is not built yet; return the object.

    Raises:
        DeviceError: it cannot be built.
    """
    return build_sources((f"native/{curve.ident}.cpp",))


class _Library:
    """A loaded object: its entries, and what its launches need.

    Attributes:
        shape: sets the shape of the next launch.
        runs: how often an entry has run.
        launchers: the entries by name.
        arity: how many arguments each takes.
    """

    def __init__(self, loaded: ctypes.CDLL, known: "Mapping[str, Entry]") -> None:
        self._loaded = loaded
        u32, u64 = ctypes.c_uint32, ctypes.c_uint64
        self.shape = self.function("provewire_shape", None, u64, u64, u32, u64, u32)
        self.runs = self.function("provewire_entry_runs", u64, ctypes.c_char_p)
        self.launchers = {
            entry.name: self.function(entry.name, None, *[u64] * len(entry.parameters)) for entry in known.values()
        }
        self.arity = {entry.name: len(entry.parameters) for entry in known.values()}

    def function(self, name: str, result: type | None, *arguments: type) -> Callable[..., int]:
        """Return a function of the library with its types declared."""
        function = getattr(self._loaded, name)
        function.restype = result
        function.argtypes = list(arguments)
        typed: Callable[..., int] = function
        return typed


def _available_bytes() -> int:
    """Return the memory that can be had without swapping; a very large number where the system does not say."""
    available = _MEMORY_UNKNOWN_BYTES
    with suppress(OSError, ValueError, StopIteration):
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    # A container's own limit, where it has one, counts what it has taken already.
    for limit_file, usage_file in CGROUP_FILES:
        with suppress(OSError, ValueError):
            limit, usage = (int(path.read_text(encoding="ascii")) for path in (limit_file, usage_file))
            available = min(available, max(0, limit - usage))
    return available
