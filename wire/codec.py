"""Frames to bytes and back: the only MessagePack calls of the project.

Decoding is in three steps, and each may refuse: msgpack with explicit limits, a check of what msgpack leaves open
(nesting, repeated keys), then msgspec's typed conversion. What an agent sends once it has proved who it is, is decoded
by msgspec in one pass where it can be: that takes no memory for what is not in the bytes.

Types a newer peer may send and this version does not know are peeked first: an unknown frame becomes an `UnknownFrame`,
the unknown body of an event an `UnknownBody`, which holds the packed bytes and is packed again exactly as it came.
Whatever the bytes, decoding raises nothing but `RemoteProtocolError`; encoding raises nothing but `LocalProtocolError`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar, cast, get_args

import msgpack
import msgspec
from msgspec import Struct

from wire.errors import FrameTooLarge, LocalProtocolError, MalformedFrame, UnexpectedFrame
from wire.frames import (
    AgentFrame,
    Bye,
    Event,
    EventBody,
    Events,
    HubFrame,
    JobReply,
    KeyInstalled,
    LeaseRenew,
    Status,
    Stream,
    UnknownBody,
    Unsupported,
)
from wire.jobs import Uuid
from wire.limits import (
    ARRAY_ITEMS_MAX,
    BINARY_BYTES_MAX,
    EVENT_BYTES_MAX,
    EVENTS_PER_FRAME_MAX,
    FRAME_BYTES_MAX,
    ITEM_BYTES_TYPICAL,
    MAP_ITEMS_MAX,
    NAME_CHARS_MAX,
    NESTING_MAX,
    STRING_BYTES_MAX,
)
from wire.plain import PlainStatus
from wire.worker import LENGTH_BYTES, FromWorker, ToWorker

Outside = TypeVar("Outside", bound=Struct)
_SIGNATURE_KEY = "sig"
_UNPACK_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)
"""All that msgpack raises for bad input: most of its own errors are ValueErrors."""


class UnknownFrame(Struct, frozen=True):
    """A frame of a type this version does not know: its tag, 1-128 characters."""

    tag: str


def _by_tag(union: object) -> dict[str, type[Struct]]:
    return {str(kind.__struct_config__.tag): kind for kind in get_args(union)}


_AGENT_FRAMES = _by_tag(AgentFrame)
_HUB_FRAMES = _by_tag(HubFrame)
KnownAgentFrame = PlainStatus | Events | JobReply | LeaseRenew | KeyInstalled | Unsupported | Bye
"""What an agent sends once its session is open."""
_KNOWN_AGENT = msgspec.msgpack.Decoder(KnownAgentFrame)
_TO_WORKER = _by_tag(ToWorker)
_FROM_WORKER = _by_tag(FromWorker)
_BODIES = {tag: kind for tag, kind in _by_tag(EventBody).items() if kind is not UnknownBody}
_EVENT_KEYS = dict(zip(Event.__struct_fields__, Event.__struct_encode_fields__, strict=True))
_EVENTS_KEYS = dict(zip(Events.__struct_fields__, Events.__struct_encode_fields__, strict=True))


# --- bytes to plain objects -----------------------------------------------------------------------------------------


def _refuse_extension(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code} of {len(data)} bytes; none is allowed")


def _map_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A map whose keys are strings, none twice: what a peer means by a repeated key is anyone's guess."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a map holds the same key twice")
    for key in entries:
        if type(key) is not str:
            raise ValueError("a map has a key that is not a string")
    return entries


_LIMITS: dict[str, Any] = {
    "raw": False,
    "strict_map_key": True,
    "object_pairs_hook": _map_of,
    "ext_hook": _refuse_extension,
    "max_str_len": STRING_BYTES_MAX,
    "max_bin_len": BINARY_BYTES_MAX,
    "max_ext_len": 0,
}


def _limits(limit_bytes: int) -> dict[str, Any]:
    """The limits of a frame of at most ``limit_bytes``.

    msgpack sets memory aside for every array that is announced, filled or not, a thousand levels deep: what a few bytes
    can claim has to shrink with the frame. An item of our arrays and maps has some dozens of bytes.
    """
    items_max = limit_bytes // ITEM_BYTES_TYPICAL
    return {
        **_LIMITS,
        "max_array_len": min(ARRAY_ITEMS_MAX, items_max),
        "max_map_len": min(MAP_ITEMS_MAX, items_max),
    }


def _check_nesting(plain: object) -> None:
    level = [plain]
    for _ in range(NESTING_MAX):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else cast("list[object]", parent))
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    raise MalformedFrame(f"more than {NESTING_MAX} levels of maps and arrays")


def _unpacked(data: bytes, limit_bytes: int) -> dict[str, Any]:
    """The map in ``data``, within all limits and with nothing behind it."""
    if len(data) > limit_bytes:
        raise FrameTooLarge(len(data), limit_bytes)
    try:
        plain = msgpack.unpackb(data, **_limits(limit_bytes))
    except _UNPACK_ERRORS as problem:
        raise MalformedFrame(f"not valid MessagePack: {_sentence(problem)}") from None
    if type(plain) is not dict:
        raise MalformedFrame(f"a {type(plain).__name__} where a map was expected")
    _check_nesting(plain)
    return plain


def _sentence(problem: Exception) -> str:
    """What a library said, short enough for a frame's detail."""
    return (str(problem) or type(problem).__name__)[:NAME_CHARS_MAX]


def _converted(plain: dict[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(plain, kind, builtin_types=(bytes,))
    except (msgspec.ValidationError, ValueError, OverflowError) as problem:
        raise MalformedFrame(_sentence(problem)) from None


def _tag_of(plain: dict[str, Any], key: str) -> str:
    tag = plain.get(key)
    if type(tag) is not str or not 1 <= len(tag) <= NAME_CHARS_MAX:
        raise MalformedFrame(f"no tag '{key}' of 1-{NAME_CHARS_MAX} characters")
    return tag


# --- decoding -------------------------------------------------------------------------------------------------------


def decode_agent(data: bytes, limit_bytes: int = FRAME_BYTES_MAX) -> AgentFrame | UnknownFrame:
    """The frame an agent sent.

    Raises:
        FrameTooLarge: longer than ``limit_bytes``.
        MalformedFrame: not MessagePack within the limits, or not of its declared shape.
        UnexpectedFrame: a frame only hubs send.
    """
    plain = _unpacked(data, limit_bytes)
    tag = _tag_of(plain, "t")
    kind = _AGENT_FRAMES.get(tag)
    if kind is None:
        return _unknown(tag, _HUB_FRAMES, "listening to an agent")
    if kind is Events:
        _keep_unknown_bodies(plain.get(_EVENTS_KEYS["events"]), data)
    return cast("AgentFrame", _converted(plain, kind))


def decode_known_agent(data: bytes, limit_bytes: int = FRAME_BYTES_MAX) -> AgentFrame | PlainStatus | UnknownFrame:
    """The frame of an agent that has proved who it is, several times faster: nearly all a hub reads.

    What has its declared shape is decoded in one pass; of a key that stands twice the last one counts, and fields
    nobody declares are passed over unseen. Whatever does not is left to `decode_agent`, which says why.

    Raises:
        RemoteProtocolError: as for `decode_agent`.
    """
    if len(data) > limit_bytes:
        raise FrameTooLarge(len(data), limit_bytes)
    try:
        frame = _KNOWN_AGENT.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        frame = None
    if type(frame) is PlainStatus:
        return frame
    if frame is None or (type(frame) is Events and any(type(event.body) is UnknownBody for event in frame.events)):
        slowly = decode_agent(data, limit_bytes)
        if type(slowly) is not Status:
            return slowly
        return cast("PlainStatus", _converted(_unpacked(data, limit_bytes), PlainStatus))
    return frame


def decode_hub(data: bytes, limit_bytes: int = FRAME_BYTES_MAX) -> HubFrame | UnknownFrame:
    """The frame a hub sent.

    Raises:
        FrameTooLarge: longer than ``limit_bytes``.
        MalformedFrame: not MessagePack within the limits, or not of its declared shape.
        UnexpectedFrame: a frame only agents send.
    """
    plain = _unpacked(data, limit_bytes)
    tag = _tag_of(plain, "t")
    kind = _HUB_FRAMES.get(tag)
    if kind is None:
        return _unknown(tag, _AGENT_FRAMES, "listening to a hub")
    return cast("HubFrame", _converted(plain, kind))


def decode_to_worker(data: bytes) -> ToWorker | UnknownFrame:
    """The frame an agent sent to its worker.

    Raises:
        RemoteProtocolError: as for `decode_agent`.
    """
    plain = _unpacked(data, FRAME_BYTES_MAX)
    tag = _tag_of(plain, "t")
    kind = _TO_WORKER.get(tag)
    if kind is None:
        return _unknown(tag, _FROM_WORKER, "listening to an agent")
    return cast("ToWorker", _converted(plain, kind))


def decode_from_worker(data: bytes) -> FromWorker | UnknownFrame:
    """The frame a worker sent to its agent.

    Raises:
        RemoteProtocolError: as for `decode_agent`.
    """
    plain = _unpacked(data, FRAME_BYTES_MAX)
    tag = _tag_of(plain, "t")
    kind = _FROM_WORKER.get(tag)
    if kind is None:
        return _unknown(tag, _TO_WORKER, "listening to a worker")
    return cast("FromWorker", _converted(plain, kind))


def decode_event(data: bytes) -> Event:
    """An event as `encode_event` packed it, perhaps by a newer version.

    Raises:
        FrameTooLarge: longer than ``EVENT_BYTES_MAX``.
        MalformedFrame: not of its declared shape.
    """
    plain = _unpacked(data, EVENT_BYTES_MAX)
    if _has_unknown_body(plain):
        unpacker = _raw_reader(data)
        _take_body(unpacker, plain, data)
    return cast("Event", _converted(plain, Event))


def decode_signed_status(data: bytes, kind: type[Outside]) -> Outside:
    """A struct that travels outside of any session, as `wire.signed_status` declares it.

    Raises:
        FrameTooLarge: longer than ``FRAME_BYTES_MAX``.
        MalformedFrame: not of its declared shape.
    """
    return cast("Outside", _converted(_unpacked(data, FRAME_BYTES_MAX), kind))


def _unknown(tag: str, other_direction: dict[str, type[Struct]], state: str) -> UnknownFrame:
    misplaced = other_direction.get(tag)
    if misplaced is not None:
        raise UnexpectedFrame(misplaced.__name__, state)
    return UnknownFrame(tag)


# --- unknown bodies -------------------------------------------------------------------------------------------------


def _has_unknown_body(event: object) -> bool:
    """Whether a plain event has a well-tagged body that this version does not know."""
    if type(event) is not dict:
        return False
    body = event.get(_EVENT_KEYS["body"])
    if type(body) is not dict:
        return False
    return _tag_of(body, "k") not in _BODIES


def _keep_unknown_bodies(events: object, data: bytes) -> None:
    """Replace, in a plain events frame, every unknown body by an `UnknownBody` with its bytes cut out of ``data``."""
    if type(events) is not list or not any(_has_unknown_body(event) for event in events):
        return
    unpacker = _raw_reader(data)
    for _ in range(unpacker.read_map_header()):
        if unpacker.unpack() != _EVENTS_KEYS["events"]:
            unpacker.skip()
            continue
        unpacker.read_array_header()
        for event in events:
            if _has_unknown_body(event):
                _take_body(unpacker, event, data)
            else:
                unpacker.skip()


def _take_body(unpacker: "msgpack.Unpacker", event: dict[str, Any], data: bytes) -> None:
    """Read one packed event and put its body's bytes into the plain ``event``."""
    for _ in range(unpacker.read_map_header()):
        key = unpacker.unpack()
        start = unpacker.tell()
        unpacker.skip()
        if key == _EVENT_KEYS["body"]:
            body = UnknownBody(kind=event[key]["k"], packed=data[start : unpacker.tell()])
            event[key] = msgspec.to_builtins(body, builtin_types=(bytes,))


def _raw_reader(data: bytes) -> "msgpack.Unpacker":
    """A reader that knows its offset, over bytes that `_unpacked` has passed."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data), **_limits(FRAME_BYTES_MAX))
    unpacker.feed(data)
    return unpacker


# --- encoding -------------------------------------------------------------------------------------------------------


def encode(frame: Struct, limit_bytes: int = FRAME_BYTES_MAX) -> bytes:
    """One frame as bytes, checked against its own declaration.

    Raises:
        LocalProtocolError: a field is out of its declared range, or the frame is longer than ``limit_bytes``.
    """
    if isinstance(frame, Events):
        return encode_events(frame.epoch, frame.stream, [encode_event(event) for event in frame.events])
    name = type(frame).__name__
    return _within(_packed(frame, name), limit_bytes, name)


def encode_event(event: Event) -> bytes:
    """One event as the outbox and the store keep it, and as it stands in an events frame.

    Raises:
        LocalProtocolError: a field is out of its declared range, or the event is longer than ``EVENT_BYTES_MAX``.
    """
    body = event.body
    if not isinstance(body, UnknownBody):
        name = f"Event with {type(body).__name__}"
        return _within(_packed(event, name), EVENT_BYTES_MAX, name)
    packer = msgpack.Packer()
    parts = [packer.pack_map_header(len(_EVENT_KEYS))]
    for name, key in _EVENT_KEYS.items():
        parts += (packer.pack(key), body.packed if name == "body" else packer.pack(getattr(event, name)))
    return _within(b"".join(parts), EVENT_BYTES_MAX, "Event of an unknown kind")


def encode_events(epoch: str, stream: Stream, packed_events: Sequence[bytes]) -> bytes:
    """An events frame around events that `encode_event` packed.

    Raises:
        LocalProtocolError: longer than ``FRAME_BYTES_MAX``, none or too many events, or ``epoch`` is no UUID.
    """
    if not 1 <= len(packed_events) <= EVENTS_PER_FRAME_MAX:
        raise LocalProtocolError(f"Events cannot be sent: {len(packed_events)} in one frame")
    try:
        msgspec.convert(epoch, Uuid)
    except msgspec.ValidationError as problem:
        raise LocalProtocolError(f"Events cannot be sent: epoch: {_sentence(problem)}") from problem
    packer = msgpack.Packer()
    keys = _EVENTS_KEYS
    parts = [
        packer.pack_map_header(1 + len(keys)),
        packer.pack("t") + packer.pack(Events.__struct_config__.tag),
        packer.pack(keys["epoch"]) + packer.pack(epoch),
        packer.pack(keys["stream"]) + packer.pack(stream.value),
        packer.pack(keys["events"]) + packer.pack_array_header(len(packed_events)),
        *packed_events,
    ]
    return _within(b"".join(parts), FRAME_BYTES_MAX, "Events")


def length_prefixed(frame: Struct) -> bytes:
    """One frame as it stands on the worker's socket: its length in 4 bytes, big-endian, then the frame.

    Raises:
        LocalProtocolError: as for `encode`.
    """
    data = encode(frame)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def _packed(frame: Struct, name: str) -> bytes:
    try:
        plain = msgspec.to_builtins(frame, builtin_types=(bytes,))
        msgspec.convert(plain, type(frame), builtin_types=(bytes,))
        return cast("bytes", msgpack.packb(plain))
    except (ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise LocalProtocolError(f"{name} cannot be sent: {_sentence(problem)}") from problem


def _within(data: bytes, limit_bytes: int, name: str) -> bytes:
    if len(data) > limit_bytes:
        raise LocalProtocolError(f"{name} cannot be sent: {len(data)} bytes; at most {limit_bytes} are allowed")
    return data


# --- the signed part ------------------------------------------------------------------------------------------------


def unsigned_sha256(data: bytes) -> bytes:
    """SHA-256 of a packed frame without its ``sig`` entry, all other entries byte for byte as they stand.

    Taken from the bytes and not from the decoded frame, so that fields this version does not know are covered too.

    Raises:
        MalformedFrame: ``data`` is no map within the limits.
    """
    _unpacked(data, FRAME_BYTES_MAX)
    unpacker = _raw_reader(data)
    entries = []
    for _ in range(unpacker.read_map_header()):
        start = unpacker.tell()
        key = unpacker.unpack()
        unpacker.skip()
        if key != _SIGNATURE_KEY:
            entries.append(data[start : unpacker.tell()])
    header = msgpack.Packer().pack_map_header(len(entries))
    return hashlib.sha256(header + b"".join(entries)).digest()


# --- the worker's byte stream ---------------------------------------------------------------------------------------


class StreamReader:
    """Splits the byte stream of a worker's socket into frames; holds at most one unfinished frame."""

    def __init__(self, limit_bytes: int = FRAME_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes, without their lengths.

        Raises:
            FrameTooLarge: a length over the limit was announced; the stream cannot be followed any further.
        """
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= LENGTH_BYTES:
            body = start + LENGTH_BYTES
            size_bytes = int.from_bytes(self._buffer[start:body], "big")
            if size_bytes > self._limit_bytes:
                raise FrameTooLarge(size_bytes, self._limit_bytes)
            if len(self._buffer) < body + size_bytes:
                break
            frames.append(bytes(self._buffer[body : body + size_bytes]))
            start = body + size_bytes
        del self._buffer[:start]
        return frames
