"""A two-way channel of whole frames, whatever carries it."""

from collections.abc import Callable
from typing import Protocol

Taker = Callable[[bytes], bool]
"""Takes a frame at once and never raises; False: not now, it is to be had by ``receive`` in its turn."""


class ChannelClosed(Exception):
    """The other end is gone, or the channel was closed here.

    Attributes:
        code: the WebSocket close code, 0 if there was none.
        detail: what the other end, or the operating system, said.
    """

    def __init__(self, code: int = 0, detail: str = "") -> None:
        self.code = code
        self.detail = detail
        super().__init__(code, detail)


class Channel(Protocol):
    """One connection of one agent."""

    @property
    def remote(self) -> str:
        """Where it comes from, for the log and the node's page."""

    async def receive(self) -> bytes:
        """The next frame.

        Raises:
            ChannelClosed: there is none any more.
            wire.errors.RemoteProtocolError: the other end sent what no frame can be.
        """

    def offer_to(self, taker: Taker) -> None:
        """From now on, frames that come while somebody waits in ``receive`` may be offered to ``taker`` as they come.

        A shortcut past the waiting task, never past another frame: what it takes is in order. A channel may do without.
        """

    def send_now(self, frame: bytes) -> bool:
        """Hand a frame over without waiting; False, and nothing is sent, while the other end takes too little.

        Raises:
            ChannelClosed: the other end is gone.
        """

    async def send(self, frame: bytes) -> None:
        """Hand a frame over; waits while the other end takes too little. The caller sets the deadline.

        Raises:
            ChannelClosed: the other end is gone.
        """

    async def close(self, code: int, detail: str) -> None:
        """Close with a code and a short text; never waits longer than a few seconds, never raises.

        Whoever waits in ``receive`` gets `ChannelClosed`.
        """
