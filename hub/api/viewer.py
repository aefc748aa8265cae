"""What waits for one live stream: a slot for each subject, holding its latest picture, and never without bound."""

import asyncio
import sys

from hub.api import board

VIEWER_BYTES_MAX = 256 * 1024
"""What may wait for one viewer, or as much as the whole picture if that is more: less than it costs to begin anew."""
PIECE_BYTES = 128 * 1024
"""Handed to a viewer at once: a change of state waits for no more than this to be taken."""

Said = tuple[str, bytes]
"""Event name and JSON after its number."""


class Viewer:
    """One live stream's slots.

    Args:
        stream: the name under which the page says what is in view; empty for a program, which sees everything whole.
    """

    def __init__(self, stream: str = "") -> None:
        self.stream = stream
        self.view = board.ViewRequest()
        """What the page shows now."""
        self.in_view = frozenset[str]()
        """Of its nodes."""
        self._urgent: dict[str, Said] = {}
        self._slots: dict[str, Said] = {}
        self._bytes = 0
        self._wake = asyncio.Event()
        self._whole = True
        self.bytes_max = VIEWER_BYTES_MAX
        """What may wait; without bound while the whole picture, that bounds it, is being made."""
        self.closed = False
        self.dropped = 0
        """How often it was too slow and got the whole picture again."""

    def put(self, slot: str, said: Said, *, urgent: bool = False) -> None:
        """Set a slot's latest picture; what was urgent before and was not taken yet stays so."""
        if self._whole:
            return  # the whole picture, taken later than this, is on its way
        slots = self._urgent if urgent or slot in self._urgent else self._slots
        previous = self._slots.pop(slot, None) or self._urgent.pop(slot, None)
        self._bytes += len(said[1]) - (0 if previous is None else len(previous[1]))
        slots[slot] = said
        if self._bytes > self.bytes_max:
            self.dropped += 1
            self.start_over()
        self._wake.set()

    def start_over(self) -> None:
        """Forget what waits; the whole picture comes next."""
        self._urgent.clear()
        self._slots.clear()
        self._bytes = 0
        self._whole = True
        self._wake.set()

    def close(self) -> None:
        """End the stream."""
        self.closed = True
        self._wake.set()

    async def next(self) -> list[Said] | None:
        """A piece of what waits, at least one; None for the whole picture. An empty list once the stream is closed."""
        while not (self._urgent or self._slots or self._whole or self.closed):
            self._wake.clear()
            await self._wake.wait()
        if self.closed:
            return []
        if self._whole:
            self._whole = False
            self.bytes_max = sys.maxsize
            return None
        piece: list[Said] = []
        size_bytes = 0
        for slots in (self._urgent, self._slots):
            while slots and size_bytes < PIECE_BYTES:
                said = slots.pop(next(iter(slots)))
                size_bytes += len(said[1])
                piece.append(said)
        self._bytes -= size_bytes
        return piece
