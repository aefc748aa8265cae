"""Where a sum takes its points from: they stay on the device, or they come from the host chunk by chunk.

Chunks come on queue 1 into two buffers in turn, while queue 0 sorts and adds up: a chunk's copy waits until the sum
that read the buffer before has done so, and the sum waits for the copy.
"""

from typing import Protocol

from prover.backends.base import Backend, Buffer, Scope

BUFFERS = 2


class Bases(Protocol):
    """Points of one set, during one sum."""

    def fetch(self, first: int, count: int) -> None:
        """Begin to bring a chunk."""
        ...

    def take(self) -> int:
        """Return the address of the chunk that was fetched last; the current queue waits for it."""
        ...

    def used(self) -> None:
        """Say that the current queue has been given all that reads the chunk."""
        ...

    def finish(self) -> None:
        """Bring everything to its end in the current queue."""
        ...


class Resident:
    """Points that are on the device."""

    def __init__(self, address: int, point_bytes: int) -> None:
        self._address = address
        self._point_bytes = point_bytes
        self._first = 0

    def fetch(self, first: int, count: int) -> None:
        """Remember which."""
        del count
        self._first = first

    def take(self) -> int:
        """Return where they are."""
        return self._address + self._first * self._point_bytes

    def used(self) -> None:
        """They stay."""

    def finish(self) -> None:
        """Nothing is under way."""


class Streamed:
    """Points that come from the host."""

    def __init__(self, backend: Backend, scope: Scope, host: memoryview | int, chunk: int, point_bytes: int) -> None:
        """Take two buffers.

        Args:
            backend: the device.
            scope: takes the buffers.
            host: the points: an address of registered memory, or any memory.
            chunk: points of a buffer.
            point_bytes: of a point.
        """
        self._backend = backend
        self._host = host
        self._point_bytes = point_bytes
        self._buffers: list[Buffer] = [scope.allocate(chunk * point_bytes) for _ in range(BUFFERS)]
        self._readers: list[object | None] = [None] * BUFFERS
        self._turn = 0
        self._copied: object | None = None
        # What was in the buffers' memory before was wiped on queue 0.
        self._wiped: object | None = backend.mark()

    def fetch(self, first: int, count: int) -> None:
        """Put the copy of a chunk into queue 1."""
        backend = self._backend
        self._turn = (self._turn + 1) % BUFFERS
        buffer, reader = self._buffers[self._turn], self._readers[self._turn]
        begin, nbytes = first * self._point_bytes, count * self._point_bytes
        with backend.on(1):
            for mark in (self._wiped, reader):
                if mark is not None:
                    backend.wait(mark)
            self._wiped = self._readers[self._turn] = None
            if isinstance(self._host, int):
                backend.upload_locked(buffer.address, self._host + begin, nbytes)
            else:
                backend.upload(buffer, self._host[begin : begin + nbytes])
            self._copied = backend.mark()

    def take(self) -> int:
        """Let the current queue wait for the copy."""
        if self._copied is not None:
            self._backend.wait(self._copied)
            self._copied = None
        return self._buffers[self._turn].address

    def used(self) -> None:
        """Mark where the current queue has read the chunk."""
        self._readers[self._turn] = self._backend.mark()

    def finish(self) -> None:
        """Wait for what nobody waited for yet: a copy that was not read, and the marks, whose events come back."""
        for mark in (self._wiped, self._copied, *self._readers):
            if mark is not None:
                self._backend.wait(mark)
        self._wiped = self._copied = None
        self._readers = [None] * BUFFERS
