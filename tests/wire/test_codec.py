"""The codec: round trips, limits, unknown types, and nothing but protocol errors whatever the bytes."""

import random
import tracemalloc
from collections.abc import Callable
from typing import Any, get_args

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tests.wire.examples import AGENT_FRAMES, BODIES, BY_DIRECTION, EPOCH, JOB
from tests.wire.strategies import event_frames, events, members, patiently, structs
from wire.codec import (
    StreamReader,
    UnknownFrame,
    decode_agent,
    decode_event,
    decode_from_worker,
    decode_hub,
    decode_known_agent,
    decode_to_worker,
    encode,
    encode_event,
    encode_events,
    length_prefixed,
    unsigned_sha256,
)
from wire.errors import FrameTooLarge, LocalProtocolError, MalformedFrame, RemoteProtocolError, UnexpectedFrame
from wire.frames import (
    AgentFrame,
    Bye,
    Event,
    EventBody,
    Events,
    Hello,
    HubFrame,
    JobSucceeded,
    LogRecord,
    NodeEvent,
    Status,
    Stream,
    UnknownBody,
)
from wire.jobs import Output
from wire.limits import (
    ARRAY_ITEMS_MAX,
    BINARY_BYTES_MAX,
    EVENT_BYTES_MAX,
    EVENTS_PER_FRAME_MAX,
    FRAME_BYTES_MAX,
    FRAME_BYTES_UNAUTHENTICATED_MAX,
    MAP_ITEMS_MAX,
    NESTING_MAX,
    STRING_BYTES_MAX,
    TEXT_CHARS_MAX,
)
from wire.plain import PlainStatus
from wire.worker import FromWorker, Ping, ToWorker

Decode = Callable[[bytes], Any]
DECODERS: dict[str, tuple[Decode, object]] = {
    "agent": (decode_agent, AgentFrame),
    "hub": (decode_hub, HubFrame),
    "to-worker": (decode_to_worker, ToWorker),
    "from-worker": (decode_from_worker, FromWorker),
}
ALL_FRAMES = [(direction, kind) for direction, (_, union) in DECODERS.items() for kind in members(union)]
ALL_DATA = [(direction, encode(frame)) for direction, frames in BY_DIRECTION.items() for frame in frames.values()]


def event(body: EventBody, seq: int = 1) -> Event:
    return Event(seq=seq, time_ms=1, monotonic_ns=2, body=body)


# --- round trips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "kind"), ALL_FRAMES, ids=lambda value: getattr(value, "__name__", value))
def test_every_frame_round_trips(direction: str, kind: type[Struct]) -> None:
    decode, _ = DECODERS[direction]

    @patiently(40)
    @given(structs(kind))
    def round_trips(frame: Struct) -> None:
        data = encode(frame)
        again = decode(data)
        assert again == frame
        assert type(again) is kind
        assert encode(again) == data

    round_trips()


@patiently(150)
@given(events())
def test_every_event_round_trips_as_a_row(one: Event) -> None:
    data = encode_event(one)
    assert decode_event(data) == one
    assert encode_event(decode_event(data)) == data


@patiently(60)
@given(event_frames())
def test_an_events_frame_is_its_packed_events_behind_a_head(frame: Events) -> None:
    packed = [encode_event(one) for one in frame.events]
    assert encode(frame) == encode_events(frame.epoch, frame.stream, packed)
    assert encode(frame).endswith(b"".join(packed))


# --- unknown types ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DECODERS)
def test_a_frame_of_an_unknown_type_is_peeked(direction: str) -> None:
    decode, _ = DECODERS[direction]
    assert decode(msgpack.packb({"t": "new", "x": [1, {"y": None}]})) == UnknownFrame("new")


def test_a_frame_of_the_other_direction_is_unexpected() -> None:
    for direction, data in ALL_DATA:
        for other, (decode, union) in DECODERS.items():
            tags = {kind.__struct_config__.tag for kind in get_args(union)}
            if {direction, other} not in ({"agent", "hub"}, {"to-worker", "from-worker"}):
                continue
            if msgpack.unpackb(data)["t"] not in tags:
                with pytest.raises(UnexpectedFrame, match="listening to"):
                    decode(data)


def test_unknown_fields_are_passed_over_at_every_level() -> None:
    for direction, data in ALL_DATA:
        decode, _ = DECODERS[direction]
        grown = _with_unknown_fields(msgpack.unpackb(data))
        assert decode(msgpack.packb(grown)) == decode(data)


def _with_unknown_fields(value: object, depth: int = 1, key: str = "") -> object:
    # Free maps (fields, timings, counters by kind) have no unknown keys; an unknown body's bytes are kept as they are.
    if isinstance(value, dict) and key not in {"f", "tm", "ck", "fk", "fl"} and value.get("k") != "new":
        return {name: _with_unknown_fields(item, depth + 1, name) for name, item in value.items()} | {"~new": [depth]}
    if isinstance(value, list):
        return [_with_unknown_fields(item, depth + 1) for item in value]
    return value


# Not as msgpack packs them today: a long integer, a 32-bit float, a map header of 2 bytes. Kept as they are.
STRANGE_BODY = bytes.fromhex("de0003a16ba36e6577a171d300000000 00000001a172ca3f800000".replace(" ", ""))


def test_an_unknown_body_is_kept_and_packed_again_byte_for_byte() -> None:
    known = encode_event(event(BODIES["node"], 1))
    head = msgpack.packb({"s": 2, "w": 1, "m": 2, "b": None})[:-1]
    data = encode_events(EPOCH, Stream.EVENTS, [known, head + STRANGE_BODY, encode_event(event(BODIES["node"], 3))])
    frame = decode_agent(data)
    assert isinstance(frame, Events)
    assert frame.events[1].body == UnknownBody(kind="new", packed=STRANGE_BODY)
    assert encode(frame) == data
    assert decode_event(encode_event(frame.events[1])) == frame.events[1]


def test_a_peer_cannot_send_our_own_word_for_unknown() -> None:
    packed = msgpack.packb({"k": "?", "kd": "x", "b": b""})
    head = msgpack.packb({"s": 2, "w": 1, "m": 2, "b": None})[:-1]
    assert decode_event(head + packed).body == UnknownBody(kind="?", packed=packed)


@pytest.mark.parametrize("body", [None, 1, [], {}, {"k": None}, {"k": ""}, {"k": "x" * 129}, {"k": 1}])
def test_a_body_without_a_tag_is_malformed(body: object) -> None:
    data = msgpack.packb({"t": "ev", "e": EPOCH, "st": "events", "x": [{"s": 1, "w": 1, "m": 1, "b": body}]})
    with pytest.raises(MalformedFrame):
        decode_agent(data)
    with pytest.raises(MalformedFrame):
        decode_event(msgpack.packb({"s": 1, "w": 1, "m": 1, "b": body}))


# --- limits -----------------------------------------------------------------------------------------------------------


def nested(depth: int) -> bytes:
    """An unknown frame whose deepest value stands ``depth`` containers deep."""
    value: object = 1
    for _ in range(depth - 1):
        value = [value]
    return msgpack.packb({"t": "new", "x": value})


PROBLEMS = {
    "empty": (b"", "incomplete"),
    "cut": (encode(AGENT_FRAMES["hello"])[:-1], "incomplete"),
    "trailing": (encode(AGENT_FRAMES["bye"]) + b"\0", "extra data"),
    "two frames": (encode(AGENT_FRAMES["bye"]) * 2, "extra data"),
    "not a map": (msgpack.packb(["t", "by"]), "a list"),
    "a number": (b"\x01", "an? int"),
    "reserved byte": (b"\xc1", "MessagePack"),
    "no tag": (msgpack.packb({"c": 1}), "no tag 't'"),
    "tag not text": (msgpack.packb({"t": b"by", "c": 1}), "no tag 't'"),
    "tag empty": (msgpack.packb({"t": ""}), "no tag 't'"),
    "tag long": (msgpack.packb({"t": "x" * 129}), "no tag 't'"),
    "missing field": (msgpack.packb({"t": "by"}), "missing required field `c`"),
    "wrong type": (msgpack.packb({"t": "by", "c": "1"}), "Expected `int`"),
    "out of range": (msgpack.packb({"t": "by", "c": 1000}), "<= 999"),
    "not a number": (msgpack.packb({"t": "by", "c": 1, "w": float("nan")}), ">= 0"),
    "infinite": (msgpack.packb({"t": "by", "c": 1, "w": float("inf")}), "<= 86400"),
    "uuid with a newline": (msgpack.packb({"t": "jr", "job": JOB + "\n", "a": 1, "ok": True}), "length"),
    "key twice": (b"\x83\xa1t\xa2by\xa1c\x01\xa1c\x02", "same key twice"),
    "key not text": (b"\x81\xc4\x01t\xa2by", "not a string"),
    "key a number": (b"\x81\x01\xa2by", "map key"),
    "key a list": (b"\x81\x90\xa2by", "map key"),
    "not unicode": (b"\x81\xa1t\xa2\xff\xff", "utf-8"),
    "extension": (msgpack.packb({"t": "new", "x": msgpack.ExtType(5, b"abc")}), "ext"),
    "extension, empty": (b"\x82\xa1t\xa3new\xa1x\xc7\x00\x05", "extension type 5"),
    "timestamp": (msgpack.packb({"t": "new", "x": msgpack.Timestamp(1)}), "ext"),
    "string": (msgpack.packb({"t": "new", "x": "a" * (STRING_BYTES_MAX + 1)}), "max_str_len"),
    "binary": (msgpack.packb({"t": "new", "x": bytes(BINARY_BYTES_MAX + 1)}), "max_bin_len"),
    "array": (msgpack.packb({"t": "new", "x": [0] * (ARRAY_ITEMS_MAX + 1)}), "max_array_len"),
    "map": (msgpack.packb({"t": "new", "x": {str(n): n for n in range(MAP_ITEMS_MAX + 1)}}), "max_map_len"),
    "array announced": (b"\x82\xa1t\xa3new\xa1x\xdd\xff\xff\xff\xff", "max_array_len"),
    "string announced": (b"\x82\xa1t\xa3new\xa1x\xdb\xff\xff\xff\xff", "incomplete"),
    "nesting": (nested(NESTING_MAX + 1), "levels"),
    "nesting beyond the parser's stack": (nested(1)[:-1] + b"\x91" * 100_000, "MessagePack"),
    "text": (msgpack.packb({"t": "by", "c": 1, "txt": "x" * (TEXT_CHARS_MAX + 1)}), "length"),
    "empty events": (msgpack.packb({"t": "ev", "e": EPOCH, "st": "logs", "x": []}), "length >= 1"),
    "unknown stream": (msgpack.packb({"t": "ev", "e": EPOCH, "st": "new", "x": [1]}), "Invalid enum value|Expected"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_is_refused_and_why(problem: str) -> None:
    data, words = PROBLEMS[problem]
    with pytest.raises(MalformedFrame, match=words):
        decode_agent(data)


def test_at_the_limits_frames_pass() -> None:
    assert decode_agent(nested(NESTING_MAX)) == UnknownFrame("new")
    for value in ("a" * STRING_BYTES_MAX, bytes(BINARY_BYTES_MAX), [0] * ARRAY_ITEMS_MAX):
        assert decode_agent(msgpack.packb({"t": "new", "x": value})) == UnknownFrame("new")


def test_a_frame_over_the_limit_is_not_even_read() -> None:
    with pytest.raises(FrameTooLarge, match=f"{FRAME_BYTES_MAX + 1} bytes") as caught:
        decode_agent(bytes(FRAME_BYTES_MAX + 1))
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (FRAME_BYTES_MAX + 1, FRAME_BYTES_MAX)
    with pytest.raises(FrameTooLarge):
        decode_hub(encode(BY_DIRECTION["hub"]["bye"]), limit_bytes=5)
    with pytest.raises(FrameTooLarge):
        decode_event(bytes(EVENT_BYTES_MAX + 1))


def test_a_free_number_is_finite_and_of_64_bits() -> None:
    for value in (float("nan"), float("-inf"), 2**63, -(2**63) - 1):
        with pytest.raises(LocalProtocolError, match="NodeEvent"):
            encode_event(event(NodeEvent(kind="a", detail="", fields={"x": value})))
    packed = encode_event(event(NodeEvent(kind="a", detail="", fields={"x": 1.5})))
    with pytest.raises(MalformedFrame):
        decode_event(packed.replace(msgpack.packb(1.5), msgpack.packb(float("nan"))))


def test_what_cannot_be_sent_is_the_callers_fault() -> None:
    with pytest.raises(LocalProtocolError, match="surrogates"):
        encode_event(event(LogRecord(source="a", text="\udc80")))
    with pytest.raises(LocalProtocolError, match="LogRecord"):
        encode_event(event(LogRecord(source="a", text="x" * (TEXT_CHARS_MAX + 1))))
    big = [Output(role="proof", sha256="0" * 64, bytes_=1, data=bytes(64 * 1024)) for _ in range(4)]
    with pytest.raises(LocalProtocolError, match=f"at most {EVENT_BYTES_MAX}"):
        encode_event(event(JobSucceeded(job=JOB, attempt=1, outputs=big)))
    with pytest.raises(LocalProtocolError, match="at most 10"):
        encode(AGENT_FRAMES["hello"], limit_bytes=10)
    with pytest.raises(LocalProtocolError, match="epoch"):
        encode_events("no uuid", Stream.LOGS, [b""])
    one = encode_event(event(LogRecord(source="a", text="")))
    with pytest.raises(LocalProtocolError, match="in one frame"):
        encode_events(EPOCH, Stream.LOGS, [one] * (EVENTS_PER_FRAME_MAX + 1))
    with pytest.raises(LocalProtocolError, match="in one frame"):
        encode_events(EPOCH, Stream.LOGS, [])


def test_the_largest_event_still_fits_a_frame() -> None:
    room = EVENT_BYTES_MAX
    outputs = [Output(role="o", sha256="0" * 64, bytes_=1, data=bytes(size)) for size in (65_536, 65_536, 65_536, 1)]
    spent = len(encode_event(event(JobSucceeded(job=JOB, attempt=1, outputs=outputs), 2**63 - 1)))
    outputs[-1] = msgspec.structs.replace(outputs[-1], data=bytes(room - spent - 10))
    frame = Events(
        epoch=EPOCH, stream=Stream.JOBS, events=[event(JobSucceeded(job=JOB, attempt=1, outputs=outputs), 2**63 - 1)]
    )
    assert room - 20 <= len(encode_event(frame.events[0])) <= room
    assert decode_agent(encode(frame)) == frame


# --- whatever the bytes -----------------------------------------------------------------------------------------------

EVERY_DECODER = [*(decode for decode, _ in DECODERS.values()), decode_event, unsigned_sha256]


def survives(data: bytes) -> None:
    for decode in EVERY_DECODER:
        problem = refusal(decode, data)
        if problem is not None:
            assert str(problem)
            assert len(problem.detail) < 1_000


def refusal(decode: Decode, data: bytes) -> RemoteProtocolError | None:
    try:
        decode(data)
    except RemoteProtocolError as problem:
        return problem
    return None


@patiently(300)
@given(st.binary(max_size=200))
def test_garbage_never_escapes_as_anything_else(data: bytes) -> None:
    survives(data)


@patiently(300)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3) | st.sampled_from("tkbxs"), inner),
    ),
    st.sampled_from([msgpack.unpackb(data)["t"] for _, data in ALL_DATA]),
)
def test_well_formed_nonsense_under_a_known_tag_never_escapes_either(value: Any, tag: str) -> None:
    plain = {**value, "t": tag} if isinstance(value, dict) else {"t": tag, "x": value, "b": value, "s": value}
    survives(msgpack.packb(plain))


@patiently(200)
@given(st.sampled_from(ALL_DATA), st.randoms(use_true_random=False))
def test_mutated_frames_never_escape_either(example: tuple[str, bytes], rng: random.Random) -> None:
    data = bytearray(example[1])
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                data[place] ^= 1 << rng.randrange(8)
            case 2:
                del data[place : place + rng.randint(1, 8)]
            case _:
                data[place:place] = rng.randbytes(rng.randint(1, 8))
        if not data:
            break
    survives(bytes(data))


HEAD = b"\x82\xa1t\xa3new\xa1x"
BOMBS = {
    "empty arrays": HEAD + b"\xdc\x01\xff" + (b"\xdc\x01\xff" + b"\x90" * 511) * 509,
    "empty maps": HEAD + b"\xdc\x01\xff" + (b"\xdc\x01\xff" + b"\x80" * 511) * 509,
    "strings of one character": HEAD + b"\xdc\x00\xff" + (b"\xdc\x01\xff" + b"\xa1x" * 511) * 255,
    "arrays announced": HEAD + b"\xdc\x02\x00" * 1000,
    "maps announced": HEAD + b"\xde\x01\x00\xa1x" * 1000,
    "bytes announced": HEAD + b"\xc6\x00\x02\xff\xff",
}


def peak_bytes(decode: Decode, data: bytes) -> int:
    """The most memory that decoding takes at once."""
    tracemalloc.start()
    try:
        refusal(decode, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bomb", BOMBS)
def test_memory_is_bounded_by_a_small_multiple_of_the_frame(bomb: str) -> None:
    assert len(BOMBS[bomb]) <= FRAME_BYTES_MAX
    assert peak_bytes(decode_agent, BOMBS[bomb]) < 100 * FRAME_BYTES_MAX


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_stranger_costs_less_than_a_mebibyte(bomb: str) -> None:
    limit_bytes = FRAME_BYTES_UNAUTHENTICATED_MAX
    small = HEAD + b"\xdc\x00\x40" * 1000 if bomb == "arrays announced" else BOMBS[bomb][:limit_bytes]
    small = HEAD + b"\xde\x00\x40\xa1x" * 800 if bomb == "maps announced" else small
    assert peak_bytes(lambda data: decode_agent(data, limit_bytes), small[:limit_bytes]) < 2**20


# --- the signed part --------------------------------------------------------------------------------------------------


def test_the_digest_covers_every_entry_but_the_signature() -> None:
    hello = AGENT_FRAMES["hello"]
    assert isinstance(hello, Hello)
    unsigned = encode(msgspec.structs.replace(hello, signature=b""))
    assert unsigned_sha256(encode(hello)) == unsigned_sha256(unsigned)
    others = {
        unsigned_sha256(encode(msgspec.structs.replace(hello, **{name: value}))) for name, value in CHANGES.items()
    }
    assert len(others | {unsigned_sha256(unsigned)}) == len(CHANGES) + 1


CHANGES: dict[str, Any] = {
    "agent_id": EPOCH,
    "epoch": JOB,
    "boot_id": "other",
    "nonce": b"\1" * 32,
    "version": "9",
    "minor": 1,
    "time_ms": 1,
    "name": "other",
    "capabilities": [],
    "jobs": [],
    "held": [],
}


def test_the_changes_above_name_every_field_of_a_hello() -> None:
    assert {*CHANGES, "signature"} == set(Hello.__struct_fields__)


def test_the_digest_covers_fields_this_version_does_not_know() -> None:
    plain = msgpack.unpackb(encode(AGENT_FRAMES["hello"]))
    grown = msgpack.packb({**plain, "new": 1})
    assert unsigned_sha256(grown) != unsigned_sha256(encode(AGENT_FRAMES["hello"]))
    assert unsigned_sha256(grown) == unsigned_sha256(msgpack.packb({**plain, "new": 1, "sig": b"other"}))


# --- the worker's byte stream -----------------------------------------------------------------------------------------


@patiently(100)
@given(st.lists(st.integers(0, 2**63 - 1), max_size=12), st.data())
def test_a_byte_stream_is_split_however_it_is_cut(numbers: list[int], data: st.DataObject) -> None:
    stream = b"".join(length_prefixed(Ping(number=number)) for number in numbers)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = StreamReader()
    frames = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += reader.feed(stream[start:end])
    assert [decode_to_worker(frame) for frame in frames] == [Ping(number=number) for number in numbers]


def test_a_byte_stream_of_a_frame_too_large_is_given_up_before_it_is_held() -> None:
    reader = StreamReader()
    with pytest.raises(FrameTooLarge):
        reader.feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))


# --- an agent that has proved who it is -------------------------------------------------------------------------------


def known(data: bytes) -> object:
    """As the hub reads it, with a status put into its struct again."""
    frame = decode_known_agent(data)
    if not isinstance(frame, PlainStatus):
        return frame
    plain = {"t": "st", **msgspec.to_builtins(frame, builtin_types=(bytes,))}
    return msgspec.convert(plain, Status, builtin_types=(bytes,))


def test_a_known_agents_frames_are_read_alike() -> None:
    for direction, data in ALL_DATA:
        if direction == "agent":
            assert known(data) == decode_agent(data)


@patiently(150)
@given(st.one_of([structs(kind) for kind in members(AgentFrame) if kind is not Hello]).map(encode))
def test_whatever_a_known_agent_sends_is_read_alike(data: bytes) -> None:
    assert known(data) == decode_agent(data)


@patiently(300)
@given(
    st.sampled_from([data for direction, data in ALL_DATA if direction == "agent"]), st.randoms(use_true_random=False)
)
def test_a_known_agent_gets_nothing_in_that_no_frame_could_hold(data: bytes, rng: random.Random) -> None:
    """Only in what nobody reads may it say what a stranger may not: repeated keys, bad Unicode, deep nesting."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    try:
        taken = known(bytes(changed))
    except RemoteProtocolError as problem:
        with pytest.raises(type(problem)):
            decode_agent(bytes(changed))
        return
    if isinstance(taken, Struct) and not isinstance(taken, UnknownFrame):
        assert decode_agent(encode(taken)) == taken


def test_of_a_key_that_stands_twice_the_last_one_counts() -> None:
    assert decode_known_agent(b"\x83\xa1t\xa2by\xa1c\x01\xa1c\x02") == Bye(code=2)


def test_a_tag_that_is_only_ours_inside_cannot_be_sent() -> None:
    """Else an agent could have any bytes stored as a body, unread."""
    event = {"s": 1, "w": 1, "m": 1, "b": {"k": "?", "kd": "x", "b": b"\xc1"}}
    frame = decode_known_agent(msgpack.packb({"t": "ev", "e": EPOCH, "st": "jobs", "x": [event]}))
    assert isinstance(frame, Events)
    (body,) = [event.body for event in frame.events]
    assert body == UnknownBody(kind="?", packed=msgpack.packb({"k": "?", "kd": "x", "b": b"\xc1"}))


def test_a_body_that_is_kept_unread_is_not_nested_for_ever() -> None:
    deep: object = 1
    for _ in range(NESTING_MAX):
        deep = [deep]
    event = {"s": 1, "w": 1, "m": 1, "b": {"k": "nova", "x": deep}}
    with pytest.raises(MalformedFrame, match="levels"):
        decode_known_agent(msgpack.packb({"t": "ev", "e": EPOCH, "st": "jobs", "x": [event]}))


@pytest.mark.parametrize("claim", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"])
def test_what_is_announced_and_not_there_takes_no_memory(claim: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decode_known_agent(b"\x86\xa1t\xa2st\xa1s\x01\xa1f\xc3\xa1w\x01\xa1m\x01\xa1b\x81\xa1g" + claim)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
