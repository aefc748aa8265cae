"""The hub's side of a session, without I/O."""

from collections.abc import Sequence

import msgspec

from wire.codec import (
    UnknownFrame,
    decode_agent,
    decode_known_agent,
    encode,
    encode_event,
    unsigned_sha256,
)
from wire.errors import LocalProtocolError, RemoteProtocolError, UnexpectedFrame
from wire.events import streams_of
from wire.frames import (
    Ack,
    AgentFrame,
    AssignJob,
    Bye,
    CancelJob,
    Challenge,
    Event,
    Events,
    Hello,
    InstallKey,
    JobReply,
    KeyInstalled,
    LeaseRenew,
    Refused,
    ReportFull,
    Status,
    Stream,
    StreamHave,
    Unsupported,
    Welcome,
)
from wire.handshake import Sign, Verify, hello_message, welcome_message
from wire.inputs import (
    EventsReceived,
    HelloReceived,
    HubInput,
    KeyAnswered,
    PeerUnsupported,
    Renewed,
    Replied,
    StatusReceived,
)
from wire.limits import EVENT_BYTES_MAX, FRAME_BYTES_UNAUTHENTICATED_MAX, HANDSHAKE_S, MINOR_VERSION
from wire.peer import Peer, SilenceTimer
from wire.picture import Picture
from wire.plain import PlainStatus
from wire.reasons import Reason
from wire.states import HUB_TRANSITIONS, HubState, Local
from wire.streams import ReceivedStream
from wire.text import clipped


class HubSession(Peer[HubState]):
    """One session with an agent, from the hub's point of view.

    The challenge waits in ``frames_to_send()`` from the start. After `HelloReceived` the shell looks the agent up and
    calls ``authenticate``, then ``welcome`` or ``refuse``.

    Args:
        hub_key: the hub's Ed25519 public key, 32 bytes.
        sign: signs with the hub's private key.
        verify: checks a signature.
        nonce: 32 random bytes, never used before.
        now: monotonic seconds.
        minor: the minor version this hub speaks.
    """

    def __init__(
        self, *, hub_key: bytes, sign: Sign, verify: Verify, nonce: bytes, now: float, minor: int = MINOR_VERSION
    ) -> None:
        super().__init__(
            table=HUB_TRANSITIONS,
            start=HubState.AWAIT_HELLO,
            open_state=HubState.OPEN,
            ended_state=HubState.ENDED,
        )
        self.hello: Hello | None = None
        """What the agent said; to be believed once the session is authenticated."""
        self.minor = minor
        """The minor version both sides speak, once the hello has come."""
        self._hub_key = hub_key
        self._sign = sign
        self._verify = verify
        self._nonce = nonce
        self._hello_sha256 = b""
        self._agent_key = b""
        self._limit_bytes = FRAME_BYTES_UNAUTHENTICATED_MAX
        self._handshake_deadline = now + HANDSHAKE_S
        self._silence: SilenceTimer | None = None
        self._heard_at = now
        self._lost_after_s = 0.0
        self._streams: dict[tuple[str, Stream], ReceivedStream] = {}
        self._to_acknowledge: dict[tuple[str, Stream], int] = {}
        self._status_to_acknowledge = False
        self._status_seq = 0
        self._picture: Picture | None = None
        """The merged picture; None while a full status is awaited."""
        self._full_asked = False
        self._full_wanted: str | None = None
        self._queue(Challenge(nonce=nonce, hub_key=hub_key, minor=minor))

    # --- what the shell feeds in ----------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[HubInput]:
        """One binary message came. After the end it is passed over."""
        state = self.state
        if state is HubState.ENDED:
            return []
        try:
            decode = decode_known_agent if state is HubState.OPEN else decode_agent
            frame = decode(data, self._limit_bytes)
            if isinstance(frame, PlainStatus):  # nearly all there is; an open session stays open by it
                inputs = self._on_status(frame, data)
            else:
                self._move(type(frame))
                inputs = self._act_on(frame, data)
        except RemoteProtocolError as problem:
            return [self._ended_by_fault(Bye if state is HubState.OPEN else Refused, problem)]
        self._heard_at = now
        if self._silence is not None:
            self._silence.heard(now)
        return inputs

    def on_deadline(self, now: float) -> list[HubInput]:
        """Time has passed, perhaps beyond ``next_deadline()``."""
        if self.has_ended:
            return []
        if self._silence is None:
            if now < self._handshake_deadline:
                return []
            return [self._end(Refused, Reason.HANDSHAKE_TIMEOUT, f"no session within {HANDSHAKE_S:g} s")]
        if self._silence.expired(now):
            return [self._end(Bye, Reason.SILENT_PEER, f"no frame for {self._lost_after_s:g} s")]
        return []

    def next_deadline(self) -> float | None:
        """When to call ``on_deadline`` next, in monotonic seconds; None after the end."""
        if self.has_ended:
            return None
        return self._handshake_deadline if self._silence is None else self._silence.deadline

    def frames_to_send(self) -> list[bytes]:
        """Everything to send now; acknowledgements since the last call go as one frame."""
        if self._peer_left:
            return []
        frames = self._take_control()
        if self._full_wanted is not None:
            frames.append(encode(ReportFull(detail=self._full_wanted)))
            self._full_wanted = None
        if self._to_acknowledge or self._status_to_acknowledge:
            streams = [
                StreamHave(epoch=epoch, stream=stream, seq=seq) for (epoch, stream), seq in self._to_acknowledge.items()
            ]
            frames.append(encode(Ack(streams=streams, status_seq=self._status_seq)))
            self._to_acknowledge.clear()
            self._status_to_acknowledge = False
        return frames + self._take_farewell()

    # --- handshake ------------------------------------------------------------------------------------------------

    def authenticate(self, public_key: bytes) -> bool:
        """Check the hello's signature against the agent's registered key, 32 bytes.

        False: the session was refused with BAD_SIGNATURE and has ended.

        Raises:
            LocalProtocolError: there is no hello to check.
        """
        hello = self.hello
        if hello is None or self.state != HubState.LOOKUP:
            raise LocalProtocolError(f"cannot {Local.AUTHENTICATE} while the session is {self.state}")
        message = hello_message(
            hub_key=self._hub_key,
            hub_nonce=self._nonce,
            agent_nonce=hello.nonce,
            hello_sha256=self._hello_sha256,
        )
        if not self._verify(public_key, message, hello.signature):
            self._end(Refused, Reason.BAD_SIGNATURE, "the hello is not signed by the key this agent enrolled with")
            return False
        self._move(Local.AUTHENTICATE)
        self._agent_key = public_key
        return True

    def welcome(self, welcome: Welcome) -> None:
        """Open the session. ``minor`` and ``signature`` are filled in here.

        ``have`` must speak of every held range of the hello and of every stream of its epoch, with 0 for "nothing", and
        is to be read after everything of the agent's earlier sessions was committed or given up.

        Raises:
            LocalProtocolError: the agent is not authenticated, or ``have`` leaves something out.
        """
        hello = self.hello
        if hello is None or self.state != HubState.AUTHENTICATED:
            raise LocalProtocolError(f"cannot {Local.WELCOME} while the session is {self.state}")
        have = {(item.epoch, item.stream): item.seq for item in welcome.have}
        due = {(item.epoch, item.stream) for item in hello.held} | {
            (hello.epoch, stream) for stream in streams_of(self.minor)
        }
        if due != have.keys() or len(welcome.have) != len(have):
            raise LocalProtocolError(
                "the welcome must say once what it has of each stream held and of the running epoch"
            )
        unsigned = msgspec.structs.replace(welcome, minor=self.minor, signature=b"")
        message = welcome_message(
            agent_key=self._agent_key,
            hub_nonce=self._nonce,
            agent_nonce=hello.nonce,
            welcome_sha256=unsigned_sha256(encode(unsigned)),
        )
        signed = msgspec.structs.replace(unsigned, signature=self._sign(message))
        encode(signed, FRAME_BYTES_UNAUTHENTICATED_MAX)
        self._move(Local.WELCOME)
        self._queue(signed)
        self._streams = {key: ReceivedStream(key[1], stored_seq=seq) for key, seq in have.items()}
        self._limit_bytes = welcome.frame_bytes_max
        self._lost_after_s = welcome.lost_after_s
        self._silence = SilenceTimer(limit_s=welcome.lost_after_s, grace_s=welcome.heartbeat_s, now=self._heard_at)

    def refuse(self, reason: int, detail: str, wait_s: float = 0.0) -> None:
        """Refuse the session before it is open; harmless when it has ended already.

        Raises:
            LocalProtocolError: the session is open.
        """
        if self.is_open:
            raise LocalProtocolError("cannot refuse a session that is open; say bye")
        if not self.has_ended:
            self._end(Refused, reason, detail, wait_s)

    # --- what the shell sends -------------------------------------------------------------------------------------

    def acknowledge(self, epoch: str, stream: Stream, seq: int) -> bool:
        """Everything of this stream up to ``seq`` is committed. Passed over when the session has ended meanwhile.

        Returns:
            Whether the agent may soon have to wait for it: much of its window is in flight.

        Raises:
            LocalProtocolError: it never came in this session.
        """
        if self.has_ended:
            return False
        self._move(Local.SEND)
        cursor = self._streams.get((epoch, stream))
        if cursor is None:
            raise LocalProtocolError(f"stream {stream} of epoch {epoch} is not of this session")
        presses = cursor.presses
        if cursor.acknowledge(seq):
            self._to_acknowledge[epoch, stream] = seq
        return presses

    def want_full(self, detail: str = "") -> None:
        """Ask for a full status.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._full_wanted = clipped(detail)

    def assign(self, frame: AssignJob) -> None:
        """Assign a job.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._queue(frame)

    def cancel(self, frame: CancelJob) -> None:
        """Cancel a job.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._queue(frame)

    def install_key(self, frame: InstallKey) -> None:
        """Ask the agent to let an SSH key in.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._queue(frame)

    def say_bye(self, reason: int, detail: str, wait_s: float = 0.0) -> None:
        """End the session, open or not; harmless when it has ended already."""
        if not self.has_ended:
            self._end(Bye if self.is_open else Refused, reason, detail, wait_s)

    # --- what the agent said --------------------------------------------------------------------------------------

    def _act_on(  # noqa: PLR0911 - one case for each frame type
        self, frame: AgentFrame | UnknownFrame, data: bytes
    ) -> list[HubInput]:
        match frame:
            case Hello():
                self.hello = frame
                self.minor = min(self.minor, frame.minor)
                self._hello_sha256 = unsigned_sha256(data)
                return [HelloReceived(frame)]
            case Status():  # told in an open session, and then not as this
                raise UnexpectedFrame("Status", self.state)
            case Events():
                return self._on_events(frame, len(data))
            case JobReply():
                return [Replied(frame)]
            case KeyInstalled():
                return [KeyAnswered(frame)]
            case LeaseRenew():
                return [Renewed(frame.jobs)]
            case Unsupported():
                return [PeerUnsupported(frame.tag)]
            case UnknownFrame():
                self._answer_unknown(frame)
                return []
            case Bye():
                return [self._ended_by_peer(frame)]

    def _on_status(self, frame: PlainStatus, data: bytes) -> list[HubInput]:
        seq, before = frame.status_seq, self._status_seq
        if seq <= before:
            raise RemoteProtocolError(Reason.REPLAYED, f"status {seq} came after status {before}")
        self._status_seq = seq
        self._status_to_acknowledge = True
        if frame.full:
            self._picture = Picture(frame, data)
            self._full_asked = False
        elif seq == before + 1 and self._picture is not None:
            self._picture.take(frame, data)
        else:
            # What came between is lost, so nothing built on it may be shown: deltas are held back until a full one.
            self._picture = None
            if not self._full_asked:
                self._full_asked = True
                self._full_wanted = f"status {seq} does not follow a known one"
            return []
        # In the order of its fields: by their names it would take twice as long.
        told, changes, picture = frame.status, frame.changes, self._picture
        return [StatusReceived(seq, frame.full, told, changes, picture, frame.time_ms, frame.monotonic_ns)]

    def _on_events(self, frame: Events, frame_bytes: int) -> list[HubInput]:
        cursor = self._streams.get((frame.epoch, frame.stream))
        if cursor is None:
            raise RemoteProtocolError(
                Reason.OUT_OF_ORDER, f"stream {frame.stream} of epoch {frame.epoch} was not in the hello"
            )
        if frame_bytes > EVENT_BYTES_MAX:
            _check_sizes(frame.events)
        cursor.take(frame.events, frame_bytes)
        return [EventsReceived(frame.epoch, frame.stream, frame.events, frame_bytes)]


def _check_sizes(events: Sequence[Event]) -> None:
    """Refuse an event that fits its frame and is still too large to be kept: no agent of ours sends one."""
    for event in events:
        try:
            encode_event(event)
        except LocalProtocolError as problem:
            raise RemoteProtocolError(Reason.FRAME_TOO_LARGE, f"event {event.seq}: {problem}") from None
