"""What a session has to say, on its way into the channel. Never waits: whoever calls it goes on at once.

While the peer takes what it is given, frames are handed over on the spot. When it takes too little, a task waits for
it, each frame under a deadline; that task ends when all is out. An idle session has neither task nor timer.
"""

import asyncio
from collections.abc import Callable

from hub.channels.base import Channel, ChannelClosed
from hub.company import Company
from hub.traffic import Traffic
from wire.limits import PROTOCOL
from wire.reasons import WEBSOCKET_CLOSE_BASE, Reason

ANSWER_DELAY_MAX_S = 1.0
"""The acknowledgement of a status waits so long for company. What is stored is acknowledged at once, but in a rush."""
ANSWERS_PER_HEARTBEAT = 10
"""A peer that is told of short heartbeats is answered as much sooner."""
REASONS = {int(reason) for reason in Reason}


class Outlet:
    """One session's.

    Args:
        channel: where frames go.
        traffic: counts them.
        deadline_s: for the peer to take one.
        frames: gives what there is to send; asked again until there is none.
        company: of outlets whose acknowledgements wait for more.
        failed: told the reason when the peer is gone or too slow. Nothing is sent after that.
    """

    __slots__ = (
        "_channel",
        "_company",
        "_deadline_s",
        "_delay_s",
        "_failed",
        "_frames",
        "_sender",
        "_shut",
        "_timer",
        "_traffic",
    )

    def __init__(
        self,
        channel: Channel,
        traffic: Traffic,
        company: Company,
        deadline_s: float,
        frames: Callable[[], list[bytes]],
        failed: Callable[[int, str], None],
    ) -> None:
        self._channel = channel
        self._traffic = traffic
        self._company = company
        self._deadline_s = deadline_s
        self._frames = frames
        self._failed = failed
        self._delay_s = 0.0
        self._shut = False
        self._timer: asyncio.TimerHandle | None = None
        self._sender: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._timer is None and self._sender is None

    def shut(self) -> None:
        """Nothing more is sent: the peer has gone."""
        self._shut = True
        self._stop_waiting()

    def release(self) -> None:
        """Let go of the session, which is over: else both stay in memory until cycles are looked for."""
        self._frames, self._failed = _none, _nobody

    def opened(self, heartbeat_s: float) -> None:
        """The peer was told to send something this often: answers may keep company from now on."""
        self._delay_s = min(ANSWER_DELAY_MAX_S, heartbeat_s / ANSWERS_PER_HEARTBEAT)

    def soon(self) -> None:
        """Send within a tenth of a heartbeat."""
        if self._timer is None and not self._shut:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self.flush)

    def stored(self, *, pressing: bool) -> None:
        """Something was stored: send what there is, or soon, in a rush; ``pressing``: not soon."""
        if pressing or not self._company.rush:
            self.flush()
        elif not self._shut:
            self.soon()
            self._company.wait(self)

    def flush(self) -> None:
        """Send what there is."""
        self._stop_waiting()
        if self._sender is not None or self._shut:
            return
        frames = self._frames()
        try:
            for number, frame in enumerate(frames):
                if not self._channel.send_now(frame):
                    self._sender = asyncio.create_task(self._send(frames[number:]))
                    return
                self._traffic.sent(len(frame))
        except ChannelClosed as closed:
            self.shut()
            self._failed(*how_it_closed(closed))

    async def drained(self) -> None:
        """Wait until all is out, or cannot be."""
        if self._sender is not None:
            await asyncio.wait([self._sender])

    async def cancel(self) -> None:
        """Stop at once."""
        self.shut()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _stop_waiting(self) -> None:
        self._company.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _send(self, frames: list[bytes]) -> None:
        """Send these, and whatever is there to send when they are out."""
        try:
            while frames and not self._shut:
                for frame in frames:
                    async with asyncio.timeout(self._deadline_s):
                        await self._channel.send(frame)
                    self._traffic.sent(len(frame))
                frames = self._frames()
        except TimeoutError:
            self.shut()
            self._failed(Reason.SLOW_PEER, f"a frame was not taken within {self._deadline_s:g} s")
        except ChannelClosed as closed:
            self.shut()
            self._failed(*how_it_closed(closed))
        finally:
            self._sender = None


def how_it_closed(closed: ChannelClosed) -> tuple[int, str]:
    """The reason behind a close that no Bye announced."""
    number = closed.code - WEBSOCKET_CLOSE_BASE
    if number in REASONS:
        return number, closed.detail or Reason(number).sentence
    said = f": {closed.detail}" if closed.detail else ""
    return Reason.CONNECTION_LOST, f"the {PROTOCOL} connection closed without a goodbye (code {closed.code}){said}"


def _none() -> list[bytes]:
    return []


def _nobody(_code: int, _detail: str) -> None:
    return
