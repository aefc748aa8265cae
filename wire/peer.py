"""What both sides of a session do alike; this module does not know which side it is on.

State by table, a bounded queue of frames to send, one answer to each unknown frame type, the end of a session and the
silence of the peer.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from wire.codec import UnknownFrame, encode
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.frames import Bye, Refused, Unsupported
from wire.inputs import Ended
from wire.limits import CONTROL_FRAMES_QUEUED_MAX, FAREWELL_CHARS_MAX, TIMER_LATE_S, UNKNOWN_TAGS_MAX
from wire.reasons import Reason
from wire.states import AgentState, HubState, Local, Trigger, advance
from wire.text import clipped

State = TypeVar("State", AgentState, HubState)


class SilenceTimer:
    """When to give a peer up. A timer that fires late excuses the peer once: its own side was asleep, not the peer."""

    def __init__(self, *, limit_s: float, grace_s: float, now: float) -> None:
        self._limit_s = limit_s
        self._grace_s = grace_s
        self._excused = False
        self.deadline = now + limit_s

    def heard(self, now: float) -> None:
        """The peer was heard."""
        self._excused = False
        self.deadline = now + self._limit_s

    def expired(self, now: float) -> bool:
        """Whether the peer was silent for too long."""
        if now < self.deadline:
            return False
        if now - self.deadline > TIMER_LATE_S and not self._excused:
            self._excused = True
            self.deadline = now + self._grace_s
            return False
        return True


class Peer(Generic[State]):
    """One side of a session: the role-neutral part."""

    def __init__(
        self, *, table: Mapping[State, Mapping[Trigger, State]], start: State, open_state: State, ended_state: State
    ) -> None:
        self.state: State = start
        self._table: Mapping[State, Mapping[Trigger, State]] = table
        self._open_state: State = open_state
        self._ended_state: State = ended_state
        self._control: list[bytes] = []
        self._farewell: bytes | None = None
        self._peer_left = False
        self._answered_tags: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether handshake is over and the session has not ended."""
        return self.state is self._open_state

    @property
    def has_ended(self) -> bool:
        """Whether the session is over."""
        return self.state is self._ended_state

    def _move(self, trigger: Trigger) -> None:
        self.state = advance(self._table, self.state, trigger)

    def _queue(self, frame: Struct) -> None:
        """Queue a frame that goes before status and events.

        Raises:
            LocalProtocolError: too many are queued already, or the frame cannot be packed.
        """
        if len(self._control) >= CONTROL_FRAMES_QUEUED_MAX:
            raise LocalProtocolError(f"{len(self._control)} frames are queued; send them before more are added")
        self._control.append(encode(frame))

    def _take_control(self) -> list[bytes]:
        frames, self._control = self._control, []
        return frames

    def _take_farewell(self) -> list[bytes]:
        farewell, self._farewell = self._farewell, None
        return [] if farewell is None else [farewell]

    def _answer_unknown(self, frame: UnknownFrame) -> None:
        """Say once for each type that it is not known here; the set is bounded, whatever the peer invents."""
        if frame.tag in self._answered_tags or len(self._answered_tags) >= UNKNOWN_TAGS_MAX:
            return
        self._answered_tags.add(frame.tag)
        self._control.append(encode(Unsupported(tag=frame.tag)))

    def _end(self, farewell: type[Bye | Refused], reason: int, detail: str, wait_s: float = 0.0) -> Ended:
        """End by this side: what is queued is still sent, then the farewell."""
        self._move(Local.END)
        detail = clipped(detail, FAREWELL_CHARS_MAX)
        self._farewell = encode(farewell(code=int(reason), detail=detail, wait_s=wait_s))
        return Ended(reason=reason, detail=detail, wait_s=wait_s, by_peer=False)

    def _ended_by_peer(self, frame: Bye | Refused) -> Ended:
        """The peer ended it: nothing more is sent."""
        self._peer_left = True
        try:
            reason: int = Reason(frame.code)
        except ValueError:
            reason = frame.code
        return Ended(reason=reason, detail=frame.detail, wait_s=frame.wait_s, by_peer=True)

    def _ended_by_fault(self, farewell: type[Bye | Refused], problem: RemoteProtocolError) -> Ended:
        return self._end(farewell, problem.reason, problem.detail)
