"""Plays recordings into a server as fast as it takes them, at as little cost as Python allows.

Every agent sends a frame (or a burst of some), and the next when the server has kept up, so that a server reads from
each connection what it would read from an agent of a large fleet: one frame at a time. What tells that it has kept up
is a ping behind every `SECTION`-th agent's frame, the same for every server.

Frames are masked and framed beforehand and written raw, so that the generator is not what is measured. What a session
demands is kept: its handshake is the real `AgentSession`'s, numbers run on without holes, and no more events are in
flight than a window allows. A hub has taken everything when it has acknowledged the last event and answered the last
ping, a bare sink when it has answered the ping.
"""

import asyncio
import base64
import os
import secrets
import struct
import time
from dataclasses import dataclass
from typing import cast

import msgspec

from agent.identity import verify
from bench.enrolment import Identity
from bench.recording import Recording
from wire.frames import Ack, Capability, Hello, Stream
from wire.limits import EVENTS_IN_FLIGHT_MAX, MINOR_VERSION, PROTOCOL
from wire.session import AgentSession

MASK = b"\x5a\xa5\x3c\xc3"
BINARY, PING, PONG, CLOSE = 2, 9, 10, 8
SHORT_MAX, MEDIUM = 125, 126
SECTION = 20
"""Agents to one ping: it costs a server little, and nobody runs away."""
OPEN_S = 60.0
_DECODE = msgspec.msgpack.Decoder().decode
_ACK = Ack.__struct_config__.tag
_ACK_STREAMS = Ack.__struct_encode_fields__[0]


def masked(payload: bytes, opcode: int = BINARY) -> bytes:
    """One WebSocket message of a client."""
    size = len(payload)
    if size <= SHORT_MAX:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 2**16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | MEDIUM, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | MEDIUM + 1, size)
    mask = (MASK * (size // 4 + 1))[:size]
    body = (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
    return head + MASK + body


PING_FRAME = masked(b"", PING)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some frames that are written at once."""

    data: bytes
    last_seq: dict[Stream, int]
    """Of each stream that has events in it."""


@dataclass(frozen=True, slots=True)
class Score:
    """A recording made ready to be played."""

    epoch: str
    chunks: list[Chunk]
    frames: int
    last_seq: dict[Stream, int]


def score_of(recording: Recording, burst: int) -> Score:
    """``burst`` frames at a time."""
    chunks: list[Chunk] = []
    last_seq: dict[Stream, int] = {}
    for at in range(0, len(recording.frames), burst):
        some = recording.frames[at : at + burst]
        ends = {each.stream: each.last_seq for each in some if each.stream is not None}
        last_seq |= ends
        chunks.append(Chunk(b"".join(masked(each.data) for each in some), ends))
    return Score(recording.epoch, chunks, len(recording.frames), last_seq)


class Player(asyncio.Protocol):
    """One agent's connection: handshake, then its score."""

    def __init__(self, score: Score, identity: Identity | None, section: "Section") -> None:
        """``identity`` is None for a bare sink, which has no sessions."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pongs = 0
        self.acks = 0
        self._score = score
        self._section = section
        self._over = False
        self._session = None if identity is None else _session(identity, score.epoch)
        self._upgraded = False
        self._buffer = b""
        self._acked = dict.fromkeys(score.last_seq, 0) if identity is not None else score.last_seq
        self._transport: asyncio.Transport | None = None

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        self._transport = transport = cast("asyncio.Transport", transport)  # TCP; uvloop's derives from none of these
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ("GET /agent HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade")
        more = (f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {PROTOCOL}")
        transport.write("\r\n".join((*lines, *more, "", "")).encode())

    def data_received(self, data: bytes) -> None:
        """Take the server's frames apart; they are small and not masked."""
        buffer = self._buffer + data if self._buffer else data
        if not self._upgraded:
            head, end, buffer = buffer.partition(b"\r\n\r\n")
            if not end:
                self._buffer = head
                return
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                self._fail(f"the server did not upgrade: {head[:200]!r}")
                return
            self._upgraded = True
            if self._session is None:
                self.opened.set_result(None)
        at, size = 0, len(buffer)
        while size - at >= 2:  # noqa: PLR2004 - opcode and length
            length, begin = buffer[at + 1], at + 2
            if length == MEDIUM:
                length, begin = int.from_bytes(buffer[at + 2 : at + 4], "big"), at + 4
            if size < begin + length or (begin == at + 4 and size < at + 4):
                break
            self._take(buffer[at] & 0x0F, buffer[begin : begin + length])
            at = begin + length
        self._buffer = buffer[at:]

    def connection_lost(self, exc: Exception | None) -> None:
        """The server is gone."""
        if not self._over:
            self._fail(f"the server closed the connection: {exc}")

    # --- playing

    def may_play(self, turn: int) -> bool:
        """Whether the windows allow this turn."""
        if self._session is None:
            return True
        ends = self._score.chunks[turn].last_seq
        return all(seq - self._acked[stream] <= EVENTS_IN_FLIGHT_MAX // 2 for stream, seq in ends.items())

    def play(self, turn: int, *, ping: bool) -> None:
        """Write one turn's frames, and a ping behind them."""
        data = self._score.chunks[turn].data
        assert self._transport is not None  # noqa: S101 - opened
        self._transport.write(data + PING_FRAME if ping else data)

    def close(self) -> None:
        """Cut the connection."""
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == PONG:
            self.pongs += 1
            self._section.moved()
        elif opcode == CLOSE:
            self._fail(f"the server ended the session: {payload[2:]!r}")
        elif opcode == BINARY and self._session is not None:
            if self._session.is_open:
                self._on_ack(payload)
            else:
                self._shake_hands(self._session, payload)

    def _shake_hands(self, session: AgentSession, payload: bytes) -> None:
        session.receive(payload, time.monotonic())
        assert self._transport is not None  # noqa: S101 - a frame came from it
        for frame in session.frames_to_send():
            self._transport.write(masked(frame))
        if session.is_open:
            self.opened.set_result(None)

    def _on_ack(self, payload: bytes) -> None:
        frame = _DECODE(payload)
        if frame["t"] != _ACK:
            return
        self.acks += 1
        for have in frame.get(_ACK_STREAMS, ()):
            self._acked[Stream(have["st"])] = have["s"]
        self._section.moved()

    @property
    def acknowledged(self) -> bool:
        """Whether every event of the score is."""
        return self._acked == self._score.last_seq

    def _fail(self, sentence: str) -> None:
        error = ConnectionError(sentence)
        if not self.opened.done():
            self.opened.set_exception(error)
        self._section.failed(error)


def _session(identity: Identity, epoch: str) -> AgentSession:
    hello = Hello(
        agent_id=identity.enrolled.agent_id,
        epoch=epoch,
        boot_id="bench",
        nonce=secrets.token_bytes(32),
        version="bench",
        minor=MINOR_VERSION,
        time_ms=time.time_ns() // 1_000_000,
        name=identity.name,
        capabilities=[Capability.OBSERVE.value],
    )
    return AgentSession(
        agent_id=identity.enrolled.agent_id,
        agent_key=identity.key.public,
        hub_fingerprint=identity.enrolled.hub_fingerprint,
        sign=identity.key.sign,
        verify=verify,
        hello=hello,
        generation_seen=0,
        now=time.monotonic(),
    )


class Section:
    """Some players that take their turns together: the last one's pong says that all of them may go on."""

    def __init__(self, score: Score) -> None:
        self.players: list[Player] = []
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns = len(score.chunks)
        self._turn = 0
        self._playing = False

    def start(self) -> None:
        """The first turn."""
        self._playing = True
        self.moved()

    def moved(self) -> None:
        """A pong or an acknowledgement came: the next turn may be due."""
        if not self._playing or self.finished.done() or self.players[-1].pongs < self._turn:
            return
        if self._turn == self._turns:
            if all(player.pongs > 0 and player.acknowledged for player in self.players):
                self.finished.set_result(None)
            return
        turn = self._turn
        if all(player.may_play(turn) for player in self.players):
            self._turn += 1
            for player in self.players:
                player.play(turn, ping=player is self.players[-1] or self._turn == self._turns)

    def failed(self, error: ConnectionError) -> None:
        """A player cannot go on."""
        if not self.finished.done():
            self.finished.set_exception(error)


class Band:
    """All players of one round. ``open`` them, then ``play``, then ``close``."""

    def __init__(self, port: int, score: Score, identities: list[Identity] | None, count: int) -> None:
        self._port = port
        self._score = score
        self._who: list[Identity | None] = [None] * count if identities is None else [*identities[:count]]
        self._sections: list[Section] = []

    @property
    def frames(self) -> int:
        """What all of them send."""
        return self._score.frames * len(self._who)

    @property
    def acks(self) -> int:
        """Acknowledgements that came."""
        return sum(player.acks for section in self._sections for player in section.players)

    async def open(self) -> None:
        """Connect and shake hands, all of them."""
        loop = asyncio.get_running_loop()
        for at in range(0, len(self._who), SECTION):
            section = Section(self._score)
            self._sections.append(section)
            for who in self._who[at : at + SECTION]:
                _, player = await loop.create_connection(
                    lambda who=who, section=section: Player(self._score, who, section),  # type: ignore[misc]  # one each
                    "127.0.0.1",
                    self._port,
                )
                section.players.append(player)
                async with asyncio.timeout(OPEN_S):
                    await player.opened

    async def play(self) -> float:
        """Everybody plays until the server has taken everything; the seconds it took.

        Raises:
            ConnectionError: the server ended a connection.
        """
        began_s = time.perf_counter()
        for section in self._sections:
            section.start()
        await asyncio.gather(*(section.finished for section in self._sections))
        return time.perf_counter() - began_s

    def close(self) -> None:
        """Cut every connection."""
        for section in self._sections:
            for player in section.players:
                player.close()
