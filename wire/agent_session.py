"""The agent's side of a session, without I/O."""

import hmac
from collections import deque
from collections.abc import Sequence

import msgspec

from wire.codec import UnknownFrame, decode_hub, encode, unsigned_sha256
from wire.deltas import NOTHING, NodeChanges, difference
from wire.errors import LocalProtocolError, MalformedFrame, RemoteProtocolError, UnexpectedFrame
from wire.events import streams_of
from wire.frames import (
    Ack,
    AssignJob,
    Bye,
    CancelJob,
    Challenge,
    Event,
    Hello,
    HubFrame,
    InstallKey,
    JobHeld,
    JobReply,
    KeyInstalled,
    LeaseRenew,
    Refused,
    ReportFull,
    Status,
    Stream,
    Unsupported,
    Welcome,
)
from wire.handshake import Sign, Verify, fingerprint, hello_message, welcome_message
from wire.inputs import (
    Acknowledged,
    AgentInput,
    FullStatusWanted,
    Heard,
    HeartbeatDue,
    JobAssigned,
    JobCancelled,
    KeyOffered,
    Opened,
    PeerUnsupported,
    RefusedByHub,
)
from wire.limits import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_UNAUTHENTICATED_MAX,
    HANDSHAKE_S,
    HEARTBEATS_UNHEARD_MAX,
)
from wire.peer import Peer, SilenceTimer
from wire.reasons import Reason
from wire.states import AGENT_TRANSITIONS, AgentState, Local
from wire.status import NodeStatus
from wire.streams import SentStream, Want

_STREAM_ORDER = tuple(Stream)


class _StatusDraft(msgspec.Struct, frozen=True):
    """The one status that waits to be sent; a newer one takes its place."""

    frame: bytes
    full: bool
    picture: NodeStatus


class AgentSession(Peer[AgentState]):
    """One session with the hub, from the agent's point of view.

    Args:
        agent_id: this agent's id, as in ``hello``.
        agent_key: this agent's Ed25519 public key, 32 bytes.
        hub_fingerprint: SHA-256 hex of the hub's public key, pinned at enrolment.
        sign: signs with the agent's private key.
        verify: checks a signature.
        hello: unsigned, with a nonce that was never used before; lists every epoch and stream still held.
        generation_seen: the highest generation a welcome of this hub has had.
        now: monotonic seconds.

    Raises:
        LocalProtocolError: the hello cannot be packed within 4 KiB.
    """

    def __init__(
        self,
        *,
        agent_id: str,
        agent_key: bytes,
        hub_fingerprint: str,
        sign: Sign,
        verify: Verify,
        hello: Hello,
        generation_seen: int,
        now: float,
    ) -> None:
        super().__init__(
            table=AGENT_TRANSITIONS,
            start=AgentState.AWAIT_CHALLENGE,
            open_state=AgentState.OPEN,
            ended_state=AgentState.ENDED,
        )
        if hello.agent_id != agent_id:
            raise LocalProtocolError(f"the hello is of agent {hello.agent_id}, the session of {agent_id}")
        self.welcome: Welcome | None = None
        self.minor = hello.minor
        """The minor version both sides speak, once the challenge has come."""
        self._hello = msgspec.structs.replace(hello, signature=b"")
        encode(msgspec.structs.replace(hello, signature=bytes(64)), FRAME_BYTES_UNAUTHENTICATED_MAX)
        self._agent_key = agent_key
        self._hub_fingerprint = hub_fingerprint
        self._sign = sign
        self._verify = verify
        self._generation_seen = generation_seen
        self._challenge: Challenge | None = None
        self._handshake_deadline = now + HANDSHAKE_S
        self._silence: SilenceTimer | None = None
        self._heartbeat_s = 0.0
        self._heartbeat_at = 0.0
        self._streams: dict[tuple[str, Stream], SentStream] = {}
        self._event_frames: dict[Stream, deque[bytes]] = {stream: deque() for stream in Stream}
        self._status_seq = 0
        self._status_sent = NodeStatus()
        self._full_due = True
        self._draft: _StatusDraft | None = None

    # --- what the shell feeds in ----------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[AgentInput]:
        """One binary message came. After the end it is passed over."""
        if self.has_ended:
            return []
        limit_bytes = FRAME_BYTES_MAX if self.is_open else FRAME_BYTES_UNAUTHENTICATED_MAX
        try:
            frame = decode_hub(data, limit_bytes)
            self._move(type(frame))
            return self._act_on(frame, data, now)
        except RemoteProtocolError as problem:
            return [self._ended_by_fault(Bye, problem)]

    def on_deadline(self, now: float) -> list[AgentInput]:
        """Time has passed, perhaps beyond ``next_deadline()``."""
        if self.has_ended:
            return []
        if self._silence is None:
            if now < self._handshake_deadline:
                return []
            return [self._end(Bye, Reason.HANDSHAKE_TIMEOUT, f"no welcome within {HANDSHAKE_S:g} s")]
        if self._silence.expired(now):
            beats = HEARTBEATS_UNHEARD_MAX
            return [self._end(Bye, Reason.SILENT_PEER, f"the hub acknowledged nothing for {beats} heartbeats")]
        if now < self._heartbeat_at:
            return []
        self._heartbeat_at = now + self._heartbeat_s
        return [HeartbeatDue()]

    def next_deadline(self) -> float | None:
        """When to call ``on_deadline`` next, in monotonic seconds; None after the end."""
        if self.has_ended:
            return None
        if self._silence is None:
            return self._handshake_deadline
        return min(self._silence.deadline, self._heartbeat_at)

    def frames_to_send(self) -> list[bytes]:
        """Everything to send now, in order: replies, the latest status, the streams in the order of their replay."""
        if self._peer_left:
            return []
        frames = self._take_control()
        if self._draft is not None:
            frames.append(self._draft.frame)
            self._status_seq += 1
            self._status_sent = self._draft.picture
            self._full_due = self._full_due and not self._draft.full
            self._draft = None
        for stream in _STREAM_ORDER:
            frames += self._event_frames[stream]
            self._event_frames[stream].clear()
        return frames + self._take_farewell()

    # --- what the shell sends -------------------------------------------------------------------------------------

    def send_status(self, status: NodeStatus, now: float, time_ms: int, monotonic_ns: int) -> None:
        """Send the node's whole picture: full the first time and when asked for, else what changed since.

        An unset field means "as before". A picture that was not yet taken by ``frames_to_send`` is replaced.

        Raises:
            LocalProtocolError: the session is not open, or the status is out of its declared ranges.
        """
        self._move(Local.SEND)
        picture = status.merged_into(self._status_sent)
        full = self._full_due
        told, changes = (picture, None) if full else self._difference(picture)
        frame = Status(
            status_seq=self._status_seq + 1,
            full=full,
            time_ms=time_ms,
            monotonic_ns=monotonic_ns,
            status=told,
            changes=changes,
        )
        self._draft = _StatusDraft(frame=encode(frame), full=full, picture=picture)
        self._heartbeat_at = now + self._heartbeat_s

    def _difference(self, picture: NodeStatus) -> tuple[NodeStatus, NodeChanges | None]:
        if self.minor < 1:
            return picture.changed_since(self._status_sent), None
        told, changes = difference(self._status_sent, picture)
        return told, None if changes == NOTHING else changes

    def wants_events(self) -> list[Want]:
        """Where the outbox may be read now, in the order of replay; empty unless the session is open.

        Send the first of these that has anything, and ask again: so jobs go before events, both before readings and
        logs, and a
        status in between waits for one frame at most.
        """
        if not self.is_open:
            return []
        return [want for cursor in self._streams.values() if (want := cursor.want()) is not None]

    def send_events(self, epoch: str, stream: Stream, events: Sequence[Event]) -> None:
        """Send events that directly follow ``Want.after_seq``. A gap that begins earlier is cut to what is new.

        Raises:
            LocalProtocolError: the session is not open, the stream is not of this session, the events do not follow,
                exceed the window, or one is out of its declared ranges; nothing was sent.
        """
        self._move(Local.SEND)
        cursor = self._streams.get((epoch, stream))
        if cursor is None:
            raise LocalProtocolError(f"stream {stream} of epoch {epoch} was not in this session's hello")
        self._event_frames[stream] += cursor.take(events)

    def send_reply(self, reply: JobReply) -> None:
        """Answer an assignment.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._queue(reply)

    def answer_key(self, answer: KeyInstalled) -> None:
        """Say what became of a key that was to be let in.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._queue(answer)

    def renew(self, jobs: list[JobHeld]) -> None:
        """Keep the leases of jobs whose worker answered within its deadline.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._move(Local.SEND)
        self._queue(LeaseRenew(jobs=jobs))

    def say_bye(self, reason: int, detail: str) -> None:
        """End the session; harmless when it has ended already."""
        if not self.has_ended:
            self._end(Bye, reason, detail)

    # --- what the hub said ----------------------------------------------------------------------------------------

    def _act_on(  # noqa: C901, PLR0911 - one case for each frame type
        self, frame: HubFrame | UnknownFrame, data: bytes, now: float
    ) -> list[AgentInput]:
        match frame:
            case Challenge():
                return self._on_challenge(frame)
            case Welcome():
                return self._on_welcome(frame, data, now)
            case Refused():
                return [RefusedByHub(frame.code, frame.detail, frame.wait_s), self._ended_by_peer(frame)]
            case Ack():
                return self._on_ack(frame, now)
            case ReportFull():
                self._full_due = True
                return [FullStatusWanted(frame.detail)]
            case AssignJob():
                return [JobAssigned(frame)]
            case CancelJob():
                return [JobCancelled(frame)]
            case InstallKey():
                return [KeyOffered(frame)]
            case Unsupported():
                return [PeerUnsupported(frame.tag)]
            case UnknownFrame():
                self._answer_unknown(frame)
                return []
            case Bye():
                return [self._ended_by_peer(frame)]

    def _on_challenge(self, challenge: Challenge) -> list[AgentInput]:
        seen = fingerprint(challenge.hub_key)
        if not hmac.compare_digest(seen, self._hub_fingerprint):
            raise RemoteProtocolError(
                Reason.WRONG_HUB_KEY, f"the hub's key has fingerprint {seen}, pinned is {self._hub_fingerprint}"
            )
        self._challenge = challenge
        self.minor = min(self._hello.minor, challenge.minor)
        # A hub that does not know a stream yet gets it later: what the outbox holds of it stays there.
        streams = streams_of(self.minor)
        self._hello = msgspec.structs.replace(
            self._hello, held=[item for item in self._hello.held if item.stream in streams]
        )
        message = hello_message(
            hub_key=challenge.hub_key,
            hub_nonce=challenge.nonce,
            agent_nonce=self._hello.nonce,
            hello_sha256=unsigned_sha256(encode(self._hello)),
        )
        self._queue(msgspec.structs.replace(self._hello, signature=self._sign(message)))
        return []

    def _on_welcome(self, welcome: Welcome, data: bytes, now: float) -> list[AgentInput]:
        challenge = self._challenge
        if challenge is None:
            raise UnexpectedFrame("Welcome", self.state)
        message = welcome_message(
            agent_key=self._agent_key,
            hub_nonce=challenge.nonce,
            agent_nonce=self._hello.nonce,
            welcome_sha256=unsigned_sha256(data),
        )
        if not self._verify(challenge.hub_key, message, welcome.signature):
            raise RemoteProtocolError(Reason.BAD_SIGNATURE, "the welcome is not signed by the pinned key")
        if welcome.minor != self.minor:
            raise RemoteProtocolError(
                Reason.UNSUPPORTED_VERSION, f"the welcome says minor version {welcome.minor}, agreed is {self.minor}"
            )
        if welcome.generation < self._generation_seen:
            raise RemoteProtocolError(
                Reason.GENERATION_WENT_BACK,
                f"the hub's generation is {welcome.generation}; {self._generation_seen} was seen",
            )
        self._place_streams({(have.epoch, have.stream): have.seq for have in welcome.have})
        self.welcome = welcome
        self._heartbeat_s = welcome.heartbeat_s
        self._heartbeat_at = now
        self._silence = SilenceTimer(
            limit_s=HEARTBEATS_UNHEARD_MAX * welcome.heartbeat_s, grace_s=welcome.heartbeat_s, now=now
        )
        stored: list[AgentInput] = [
            Acknowledged(cursor.epoch, cursor.stream, cursor.acknowledged_seq)
            for cursor in self._streams.values()
            if cursor.acknowledged_seq > 0
        ]
        return [Opened(welcome), *stored]

    def _place_streams(self, have: dict[tuple[str, Stream], int]) -> None:
        """Set a cursor on every stream, in the order of replay, in each the older epochs first."""
        hello = self._hello
        held = {(item.epoch, item.stream): item for item in hello.held}
        for stream in streams_of(self.minor):
            older = [item.epoch for item in hello.held if item.stream == stream and item.epoch != hello.epoch]
            for epoch in (*older, hello.epoch):
                stored_seq = have.get((epoch, stream))
                if stored_seq is None:
                    raise MalformedFrame(f"the welcome does not say what it has of stream {stream} of epoch {epoch}")
                item = held.get((epoch, stream))
                if item is not None and stored_seq < item.first - 1:
                    raise RemoteProtocolError(
                        Reason.GENERATION_WENT_BACK,
                        f"the hub has stream {stream} up to {stored_seq} and had acknowledged {item.first - 1}",
                    )
                if item is not None and stored_seq > item.last and epoch != hello.epoch:
                    # The outbox is an older copy of itself, of a restored disk: all that it holds is stored already.
                    stored_seq = item.last
                if item is not None and stored_seq > item.last:
                    raise RemoteProtocolError(
                        Reason.OUT_OF_ORDER,
                        f"the hub has stream {stream} up to {stored_seq}, it was written to {item.last}",
                    )
                last_seq = item.last if item is not None and epoch != hello.epoch else None
                self._streams[epoch, stream] = SentStream(epoch, stream, stored_seq=stored_seq, last_seq=last_seq)

    def _on_ack(self, ack: Ack, now: float) -> list[AgentInput]:
        if ack.status_seq > self._status_seq:
            raise RemoteProtocolError(
                Reason.OUT_OF_ORDER, f"status {ack.status_seq} acknowledged, only {self._status_seq} sent"
            )
        heard: list[AgentInput] = [Heard(ack.status_seq)]
        for have in ack.streams:
            cursor = self._streams.get((have.epoch, have.stream))
            if cursor is None:
                raise RemoteProtocolError(
                    Reason.OUT_OF_ORDER, f"stream {have.stream} of epoch {have.epoch} acknowledged, never sent"
                )
            if cursor.acknowledge(have.seq):
                heard.append(Acknowledged(have.epoch, have.stream, have.seq))
        if self._silence is not None:
            self._silence.heard(now)
        return heard
