"""Page-locked memory that everything passes on its way to a card and back, a few pieces used in turn."""

import ctypes
from dataclasses import dataclass
from typing import Final

from prover.backends.asking import Asking
from prover.backends.driver import Handle

PIECES: Final = 4
PIECE_BYTES: Final = 4 << 20


@dataclass(slots=True)
class _Piece:
    """Page-locked memory, and the event that marks when no copy reads it any more.

    Attributes:
        filled_bytes: how much of it has been written since it was wiped.
    """

    host: int
    event: Handle
    is_used: bool = False
    filled_bytes: int = 0


class Staging:
    """The pieces of one device."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._driver = asking.driver
        self._pieces: list[_Piece] = []
        self._next = 0

    def open(self) -> None:
        """Take the memory.

        Raises:
            DeviceError: the driver has none.
        """
        for _ in range(PIECES):
            host = self._asking.ask("page-locked memory", self._driver.allocate_pinned, PIECE_BYTES)
            self._pieces.append(_Piece(host, None))
            self._pieces[-1].event = self._asking.ask("", self._driver.make_event)

    def upload(self, address: int, source: memoryview, stream: Handle) -> None:
        """Put copies of bytes into a stream; they may change afterwards.

        Raises:
            DeviceError: the card failed.
        """
        for begin in range(0, source.nbytes, PIECE_BYTES):
            part = source[begin : begin + PIECE_BYTES]
            piece = self._free()
            memoryview((ctypes.c_char * part.nbytes).from_address(piece.host)).cast("B")[:] = part
            copy = (address + begin, piece.host, part.nbytes, stream)
            self._asking.ask("a copy to the card", self._driver.copy_in, *copy)
            self._asking.ask("", self._driver.record, piece.event, stream)
            piece.is_used = True
            piece.filled_bytes = max(piece.filled_bytes, part.nbytes)

    def download(self, address: int, nbytes: int, queue: int, stream: Handle) -> bytes:
        """Return a copy of device memory, after everything in a stream.

        Raises:
            DeviceError: the card failed.
        """
        got = bytearray()
        for begin in range(0, nbytes, PIECE_BYTES):
            piece = self._free()
            size = min(PIECE_BYTES, nbytes - begin)
            self._asking.ask("a copy from the card", self._driver.copy_out, piece.host, address + begin, size, stream)
            self._asking.synchronize(queue, stream)
            got += ctypes.string_at(piece.host, size)
            ctypes.memset(piece.host, 0, size)
        return bytes(got)

    def wipe(self) -> None:
        """Forget what passed; only when all streams are idle."""
        for piece in self._pieces:
            ctypes.memset(piece.host, 0, piece.filled_bytes)
            piece.filled_bytes = 0

    def close(self) -> None:
        """Give the memory back."""
        for piece in self._pieces:
            if piece.event is not None:
                self._asking.clean_up(self._driver.free_event, piece.event)
            self._asking.clean_up(self._driver.free_pinned, piece.host)
        self._pieces.clear()

    def _free(self) -> _Piece:
        """Return a piece that no copy reads any more."""
        piece = self._pieces[self._next]
        self._next = (self._next + 1) % PIECES
        if piece.is_used:
            self._asking.ask("waiting for a copy", self._driver.synchronize_event, piece.event)
            piece.is_used = False
        return piece
