"""What a device is to the prover: memory, and kernels to launch on it.

A backend is used by one thread at a time. Launches of a queue run in the order they were made, and everything a launch
needs is on the device before it; ``download`` returns what the launches before it left. Marks order the queues.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from prover.errors import DeviceError

Data = bytes | bytearray | memoryview
"""Whole bytes to upload; a memoryview must be contiguous."""


class Traits(NamedTuple):
    """What a plan depends on.

    Attributes:
        kind: ``cpu`` where a block's threads run one after the other, ``gpu`` where they run at once.
        parallel: how many blocks run at once.
        shared_bytes_max: shared memory that a block may have.
        memory_bytes: what can be allocated at the time of asking, by the device's own account.
    """

    kind: Literal["cpu", "gpu"]
    parallel: int
    shared_bytes_max: int
    memory_bytes: int


class Launch(NamedTuple):
    """The shape of one launch.

    Attributes:
        blocks_x: blocks in the first direction, 1 to 2^31 - 1.
        blocks_y: blocks in the second direction, 1 to 65,535.
        threads: threads of a block, 1 to 1,024.
        shared_bytes: shared memory of a block.
    """

    blocks_x: int
    blocks_y: int = 1
    threads: int = 256
    shared_bytes: int = 0


class Buffer(Protocol):
    """Memory of a device."""

    @property
    def address(self) -> int:
        """Where it begins, as kernels see it; aligned to 64 bytes."""
        ...

    @property
    def nbytes(self) -> int:
        """Its size."""
        ...


class Reserve(Protocol):
    """Memory that parts are dealt out of."""

    @property
    def nbytes(self) -> int:
        """How much it is."""
        ...

    @property
    def peak_bytes(self) -> int:
        """The most that was in use since `reset_peak`."""
        ...

    def reset_peak(self) -> None:
        """Begin to watch anew."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class Backend(Protocol):
    """A device that runs the kernels; a context manager.

    Attributes:
        stage: what is being done, for messages; set by whoever does it.
        keeps_keys: whether a key should stay on it between proofs.
    """

    stage: str
    keeps_keys: bool

    @property
    def broken(self) -> bool:
        """Whether it failed in a way that only closing and opening it mends."""
        ...

    @property
    def name(self) -> str:
        """How a user names it: ``host`` or ``cuda:N``."""
        ...

    @property
    def description(self) -> str:
        """What it is, for people."""
        ...

    def traits(self) -> Traits:
        """Return what plans depend on, as it is now."""
        ...

    def allocate(self, nbytes: int) -> Buffer:
        """Return zeroed memory.

        Raises:
            DeviceError: there is not so much.
        """
        ...

    def release(self, buffer: Buffer) -> None:
        """Give a buffer back; releasing one twice does nothing."""
        ...

    def upload(self, buffer: Buffer, data: Data, offset: int = 0) -> None:
        """Copy ``data`` to ``offset`` in a buffer.

        Raises:
            ValueError: it does not fit.
        """
        ...

    def download(self, buffer: Buffer, offset: int, nbytes: int) -> bytes:
        """Return a copy of a part of a buffer.

        Raises:
            ValueError: the part does not lie in it.
        """
        ...

    def zero(self, buffer: Buffer) -> None:
        """Set every byte of a buffer to zero."""
        ...

    def launch(self, entry: str, launch: Launch, arguments: Sequence[int]) -> None:
        """Run a kernel.

        Args:
            entry: the entry's name.
            launch: its shape.
            arguments: addresses and numbers below 2^64, in the entry's order.

        Raises:
            DeviceError: the device has no such entry, or the launch failed.
            ValueError: the number of arguments is not the entry's.
        """
        ...

    def reserve(self, nbytes: int, what: str) -> Reserve:
        """Return memory that parts are dealt out of, `within` it; it lives until it is closed.

        Raises:
            DeviceError: there is not so much.
        """
        ...

    def within(self, reserve: Reserve) -> AbstractContextManager[None]:
        """Let what the body allocates come from a reserve."""
        ...

    def on(self, queue: int) -> AbstractContextManager[None]:
        """Put what the body asks for into a queue, 0 or 1; 0 where nobody says."""
        ...

    def mark(self) -> object:
        """Mark what the current queue has been given so far."""
        ...

    def wait(self, mark: object) -> None:
        """Let what the current queue is given from now on wait for a mark; once for each mark."""
        ...

    def finish(self) -> None:
        """Block until all queues have done everything.

        Raises:
            DeviceError: something of it failed.
        """
        ...

    def register(self, host: int, nbytes: int) -> bool:
        """Prepare pages of the host for `upload_locked`; false where the device cannot."""
        ...

    def unregister(self, host: int) -> None:
        """Let them go again."""
        ...

    def upload_locked(self, address: int, host: int, nbytes: int) -> None:
        """Copy from registered host memory, which stays as it is until this queue has passed."""
        ...

    def closes_first(self, close: Callable[[], None]) -> None:
        """Have something that lives on this device closed before the device is."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Nothing:
    """A reserve, or a mark, of a device that needs none."""

    address = 0
    nbytes = 0
    peak_bytes = 0

    def reset_peak(self) -> None:
        """Nothing is watched."""

    def close(self) -> None:
        """Nothing is held."""


class AtOnce:
    """What a device that does everything at once, in memory of its process, answers where others have queues.

    Attributes:
        stage: what is being done, for messages.
        keeps_keys: never: files are mapped.
    """

    stage = ""
    keeps_keys = False
    broken = False

    def reserve(self, nbytes: int, what: str) -> Reserve:
        """Return nothing: every buffer is allocated by itself."""
        del nbytes, what
        return Nothing()

    @contextmanager
    def within(self, reserve: Reserve) -> Iterator[None]:
        """Change nothing."""
        del reserve
        yield

    @contextmanager
    def on(self, queue: int) -> Iterator[None]:
        """Change nothing."""
        del queue
        yield

    def mark(self) -> object:
        """Everything has been done."""
        return Nothing()

    def wait(self, mark: object) -> None:
        """Everything has been done."""

    def finish(self) -> None:
        """Everything has been done."""

    def register(self, host: int, nbytes: int) -> bool:
        """Any memory will do."""
        return bool(host and nbytes)

    def unregister(self, host: int) -> None:
        """Any memory will do."""

    def upload_locked(self, address: int, host: int, nbytes: int) -> None:
        """Copy at once."""
        ctypes.memmove(address, host, nbytes)


class Scope:
    """Buffers that are released together; a context manager.

    Everything allocated as secret is zeroed before it is released, whatever ended the scope.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._buffers: list[tuple[Buffer, bool]] = []

    def allocate(self, nbytes: int, *, secret: bool = False) -> Buffer:
        """Return zeroed memory that lives as long as the scope.

        Raises:
            DeviceError: there is not so much.
        """
        buffer = self._backend.allocate(nbytes)
        self._buffers.append((buffer, secret))
        return buffer

    def uploaded(self, data: Data, *, secret: bool = False) -> Buffer:
        """Return memory holding a copy of ``data``.

        Raises:
            DeviceError: there is not so much memory.
        """
        buffer = self.allocate(memoryview(data).nbytes, secret=secret)
        self._backend.upload(buffer, data)
        return buffer

    def close(self) -> None:
        """Release everything, in the reverse of the order it was allocated in.

        Raises:
            DeviceError: the device failed; everything is released all the same.
        """
        failed: DeviceError | None = None
        while self._buffers:
            buffer, secret = self._buffers.pop()
            try:
                try:
                    if secret:
                        self._backend.zero(buffer)
                finally:
                    self._backend.release(buffer)
            except DeviceError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
