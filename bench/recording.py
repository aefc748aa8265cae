"""What one agent sends in some minutes, recorded from the real session of both sides in memory: the frames' true bytes.

A recording is of one epoch. Played in several sessions it gets another epoch's id in place of its own, which has the
same length, so that nothing else changes.
"""

import random
import time
import uuid

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from agent.identity import Key, verify
from bench.memory_outbox import MemoryOutbox
from bench.traffic import Scene
from wire.events import streams_of
from wire.frames import Hello, Stream, StreamHave, Welcome
from wire.inputs import Acknowledged, EventsReceived
from wire.limits import FRAME_BYTES_MAX, HEARTBEAT_S, LOST_AFTER_S, MINOR_VERSION, STALE_AFTER_S
from wire.session import AgentSession, HubSession, fingerprint

FULL_EVERY_S = 60
GPUS = 8


class Mix(Struct, frozen=True):
    """Seconds between two of each kind; 0 for none. A status is sent every second."""

    events_s: int = 30
    logs_s: int = 10
    readings_s: int = 0


class Recorded(Struct, frozen=True):
    """One frame: what it is, its bytes, and for events the stream and the last number in it."""

    kind: str
    """``delta``, ``full``, or a stream's name."""
    data: bytes
    stream: Stream | None = None
    last_seq: int = 0


class Recording:
    """Frames of one agent, in the order of their sending, after the handshake."""

    def __init__(self, epoch: str, frames: list[Recorded]) -> None:
        self.epoch = epoch
        self.frames = frames

    def of_epoch(self, epoch: str) -> "Recording":
        """The same frames in another epoch."""
        old, new = self.epoch.encode(), epoch.encode()
        return Recording(
            epoch,
            [
                Recorded(each.kind, each.data.replace(old, new), each.stream, each.last_seq) if each.stream else each
                for each in self.frames
            ],
        )

    def mean_bytes(self) -> dict[str, float]:
        """Bytes of a frame of each kind, on average."""
        sizes: dict[str, list[int]] = {}
        for each in self.frames:
            sizes.setdefault(each.kind, []).append(len(each.data))
        return {kind: round(sum(some) / len(some), 1) for kind, some in sizes.items()}

    def counts(self) -> dict[str, int]:
        """Frames of each kind."""
        found: dict[str, int] = {}
        for each in self.frames:
            found[each.kind] = found.get(each.kind, 0) + 1
        return found


def record(minutes: float, mix: Mix = Mix(), seed: int = 1) -> Recording:  # noqa: B008 - frozen
    """Play an agent for so long, in no time."""
    rng = random.Random(seed)
    hub = Key(Ed25519PrivateKey.generate())
    epoch, now = str(uuid.uuid4()), 0.0
    outbox = MemoryOutbox(epoch, events_max=10_000, on_held=lambda _more: None)
    scene = Scene(rng, name="node-of-a-fleet", gpus=GPUS)
    agent, session = _opened(hub, epoch)
    frames: list[Recorded] = []
    began_ms = time.time_ns() // 1_000_000 - int(minutes * 60_000)
    due = {Stream.EVENTS: mix.events_s, Stream.LOGS: mix.logs_s, Stream.READINGS: mix.readings_s}
    for second in range(int(minutes * 60)):
        now = float(second)
        time_ms, monotonic_ns = began_ms + second * 1000, (1000 + second) * 1_000_000_000
        if second % FULL_EVERY_S == 0 and second > 0:
            session.want_full()
            _to_agent(agent, session, outbox, now)
        scene.look(monotonic_ns)
        agent.send_status(scene.picture(outbox.reading()), now, time_ms, monotonic_ns)
        for stream, every_s in due.items():
            if every_s and second % every_s == every_s - 1:
                outbox.append(stream, lambda seq, stream=stream: scene.body(stream, seq), time_ms, monotonic_ns)  # type: ignore[misc]  # one each
        for want in agent.wants_events():
            if events := outbox.read(want):
                agent.send_events(want.epoch, want.stream, events)
        full = second % FULL_EVERY_S == 0
        frames += [_received(session, data, now, full=full) for data in agent.frames_to_send()]
        _to_agent(agent, session, outbox, now)
    return Recording(epoch, frames)


def _received(session: HubSession, data: bytes, now: float, *, full: bool) -> Recorded:
    """The hub's session takes a frame, and acknowledges it; what it was."""
    for each in session.receive(data, now):
        if isinstance(each, EventsReceived):
            last_seq = each.events[-1].seq
            stream = Stream(each.stream)
            session.acknowledge(each.epoch, stream, last_seq)
            return Recorded(stream.value, data, stream, last_seq)
    return Recorded("full" if full else "delta", data)


def _to_agent(agent: AgentSession, session: HubSession, outbox: MemoryOutbox, now: float) -> None:
    for data in session.frames_to_send():
        for each in agent.receive(data, now):
            if isinstance(each, Acknowledged):
                outbox.acknowledge(each.epoch, each.stream, each.seq)


def _opened(hub: Key, epoch: str) -> tuple[AgentSession, HubSession]:
    """Both sides of a session whose handshake is over."""
    key, agent_id = Key(Ed25519PrivateKey.generate()), str(uuid.uuid4())
    hello = Hello(
        agent_id=agent_id,
        epoch=epoch,
        boot_id="b0071d",
        nonce=bytes(32),
        version="bench",
        minor=MINOR_VERSION,
        time_ms=1,
        name="node",
    )
    agent = AgentSession(
        agent_id=agent_id,
        agent_key=key.public,
        hub_fingerprint=fingerprint(hub.public),
        sign=key.sign,
        verify=verify,
        hello=hello,
        generation_seen=0,
        now=0.0,
    )
    session = HubSession(hub_key=hub.public, sign=hub.sign, verify=verify, nonce=bytes(32), now=0.0)
    for data in session.frames_to_send():
        agent.receive(data, 0.0)
    for data in agent.frames_to_send():
        session.receive(data, 0.0)
    if not session.authenticate(key.public):
        raise RuntimeError("a session of our own making was refused")
    session.welcome(
        Welcome(
            session=str(uuid.uuid4()),
            hub_id=str(uuid.uuid4()),
            generation=1,
            minor=MINOR_VERSION,
            heartbeat_s=HEARTBEAT_S,
            stale_after_s=STALE_AFTER_S,
            lost_after_s=LOST_AFTER_S,
            reconnect_spread_s=0.0,
            frame_bytes_max=FRAME_BYTES_MAX,
            time_ms=1,
            have=[StreamHave(epoch=epoch, stream=stream, seq=0) for stream in streams_of(MINOR_VERSION)],
        )
    )
    for data in session.frames_to_send():
        agent.receive(data, 0.0)
    return agent, session
