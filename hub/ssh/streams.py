"""What a child process says, read as fast as it comes and kept within bounds: the head and the tail of it."""

import asyncio
from collections import deque

HEAD_SHARE = 2
"""Half of the bound is for the head."""
CHUNK_BYTES = 64 * 1024


class Bounded:
    """Bytes of which only so many are kept: the first, and the last."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max // HEAD_SHARE
        self._tail_max = bytes_max - self._head_max
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """More came."""
        self.total_bytes += len(data)
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._tail_max:
                self._tail_bytes -= len(self._tail.popleft())

    @property
    def left_out_bytes(self) -> int:
        """How many are not kept."""
        return max(0, self.total_bytes - self._head_max - self._tail_max)

    def kept(self) -> bytes:
        """What is kept, with a line in place of what is not."""
        tail = b"".join(self._tail)[-self._tail_max :]
        if not self.left_out_bytes:
            return bytes(self._head) + tail
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % self.left_out_bytes + tail


def shortened(data: bytes, bytes_max: int) -> bytes:
    """At most so much of it: head and tail."""
    if len(data) <= bytes_max:
        return data
    bounded = Bounded(bytes_max)
    bounded.add(data)
    return bounded.kept()


async def drain(reader: asyncio.StreamReader, into: Bounded) -> None:
    """Read to the end."""
    while data := await reader.read(CHUNK_BYTES):
        into.add(data)


def shown(data: bytes) -> str:
    """Bytes of strangers as a terminal or a page may show them: valid Unicode, and no control characters but newlines.

    Escape sequences become visible text, so that nothing another machine said can move a cursor or hide a line.
    """
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return text.translate(_VISIBLE)


class _Visible(dict[int, str]):
    """What stands for a character, found once each."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = visible = char if char in "\n\t" or char.isprintable() else f"\\x{code:02x}"
        return visible


_VISIBLE = _Visible()
