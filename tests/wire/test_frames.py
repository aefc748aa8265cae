"""The declarations themselves: keys, tags, defaults, and the laws that fields obey together."""

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Struct, inspect

from tests.wire.examples import BODIES, BY_DIRECTION, EPOCH, JOB
from tests.wire.strategies import declared_fields, members, reachable
from wire.codec import decode_agent, decode_from_worker, decode_hub, decode_to_worker, encode
from wire.errors import LocalProtocolError, MalformedFrame
from wire.frames import (
    STREAMS_OF,
    AgentFrame,
    Event,
    EventBody,
    Events,
    Gap,
    HeldRange,
    Hello,
    HubFrame,
    JobHeld,
    JobStopped,
    LogRecord,
    NodeEvent,
    Stream,
)
from wire.limits import FRAME_BYTES_UNAUTHENTICATED_MAX, HELD_RANGES_MAX, JOBS_HELD_MAX, NESTING_MAX
from wire.worker import FromWorker, ToWorker

DIRECTIONS = {"agent": AgentFrame, "hub": HubFrame, "to-worker": ToWorker, "from-worker": FromWorker}
WIRE_STRUCTS = sorted(reachable(*DIRECTIONS.values()), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", WIRE_STRUCTS, ids=lambda kind: kind.__name__)
def test_keys_have_1_to_4_characters_and_are_unique_in_their_struct(kind: type[Struct]) -> None:
    keys = list(kind.__struct_encode_fields__)
    if kind.__struct_config__.tag_field is not None:
        keys.append(kind.__struct_config__.tag_field)
    assert all(1 <= len(key) <= 4 and key.isascii() for key in keys), keys
    assert len(set(keys)) == len(keys), keys


@pytest.mark.parametrize("kind", WIRE_STRUCTS, ids=lambda kind: kind.__name__)
def test_structs_are_frozen_and_leave_defaults_out(kind: type[Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.omit_defaults
    assert kind.__struct_config__.forbid_unknown_fields is False


@pytest.mark.parametrize("kind", WIRE_STRUCTS, ids=lambda kind: kind.__name__)
def test_everything_that_grows_has_a_limit(kind: type[Struct]) -> None:
    for item in declared_fields(kind):
        _assert_bounded(item.type, f"{kind.__name__}.{item.name}")


def _assert_bounded(declared: inspect.Type, place: str) -> None:
    match declared:
        case inspect.Metadata():
            _assert_bounded(declared.type, place)
        case inspect.UnionType():
            for item in declared.types:
                _assert_bounded(item, place)
        case inspect.StrType():
            assert declared.max_length is not None, place
        case inspect.BytesType():
            assert declared.max_length is not None or place == "UnknownBody.packed", place
        case inspect.IntType() | inspect.FloatType():
            assert declared.ge is not None, place
            assert declared.le is not None, place
        case inspect.ListType() | inspect.VarTupleType():
            assert declared.max_length is not None, place
            _assert_bounded(declared.item_type, place)
        case inspect.DictType():
            assert declared.max_length is not None, place
            _assert_bounded(declared.key_type, place)
            _assert_bounded(declared.value_type, place)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_frame_tags_are_t_and_unique_in_their_direction(direction: str) -> None:
    kinds = members(DIRECTIONS[direction])
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(tags)
    assert {kind.__struct_config__.tag_field for kind in kinds} == {"t"}


def test_a_tag_means_the_same_frame_in_both_directions_of_a_session() -> None:
    meanings: dict[object, set[type[Struct]]] = {}
    for kind in [*members(AgentFrame), *members(HubFrame)]:
        meanings.setdefault(kind.__struct_config__.tag, set()).add(kind)
    assert all(len(kinds) == 1 for kinds in meanings.values()), meanings


def test_body_tags_are_k_and_unique_and_every_body_has_its_streams() -> None:
    kinds = members(EventBody)
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(tags)
    assert {kind.__struct_config__.tag_field for kind in kinds} == {"k"}
    assert STREAMS_OF.keys() == set(kinds)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_frame_has_an_example(direction: str) -> None:
    assert {type(frame) for frame in BY_DIRECTION[direction].values()} == set(members(DIRECTIONS[direction]))


def test_every_body_has_an_example() -> None:
    assert {type(body) for body in BODIES.values()} == set(get_args(EventBody))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_examples_round_trip_and_are_nested_within_the_limit(direction: str) -> None:
    decoders: dict[str, Callable[[bytes], Any]] = {
        "agent": decode_agent,
        "hub": decode_hub,
        "to-worker": decode_to_worker,
        "from-worker": decode_from_worker,
    }
    decode = decoders[direction]
    for name, frame in BY_DIRECTION[direction].items():
        assert decode(encode(frame)) == frame, name


def test_the_deepest_frame_has_six_levels() -> None:
    depths = [_depth(msgspec.to_builtins(frame)) for frames in BY_DIRECTION.values() for frame in frames.values()]
    assert max(depths) <= 8 < NESTING_MAX


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def test_the_largest_sensible_hello_fits_before_authentication() -> None:
    uuids = [f"0197b2a4-0000-7000-8000-{number:012x}" for number in range(HELD_RANGES_MAX)]
    hello = Hello(
        agent_id=EPOCH,
        epoch=EPOCH,
        boot_id="b" * 36,
        nonce=bytes(32),
        version="100.100.100",
        minor=65_535,
        time_ms=2**53,
        name="n" * 64,
        capabilities=["groth16.host", "groth16.cuda", "observe"],
        jobs=[JobHeld(job=uuid, attempt=1_000_000) for uuid in uuids[:JOBS_HELD_MAX]],
        held=[HeldRange(epoch=uuid, stream=Stream.EVENTS, first=1, last=2**63 - 1) for uuid in uuids],
        signature=bytes(64),
    )
    assert len(encode(hello)) <= FRAME_BYTES_UNAUTHENTICATED_MAX


@pytest.mark.parametrize(("first", "last", "count"), [(2, 1, 0), (1, 3, 2), (1, 3, 4), (5, 5, 0)])
def test_a_gap_covers_its_count(first: int, last: int, count: int) -> None:
    with pytest.raises(ValueError, match="does not cover"):
        Gap(first=first, last=last, count=count, reason="")


def test_a_gap_stands_at_its_last_number() -> None:
    with pytest.raises(ValueError, match="ends at 3"):
        Event(seq=4, time_ms=0, monotonic_ns=0, body=Gap(first=1, last=3, count=3, reason=""))


@pytest.mark.parametrize(
    ("stream", "body"),
    [
        (Stream.JOBS, Gap(first=1, last=1, count=1, reason="")),
        (Stream.JOBS, LogRecord(source="a", text="")),
        (Stream.EVENTS, LogRecord(source="a", text="")),
        (Stream.LOGS, NodeEvent(kind="a", detail="")),
        (Stream.LOGS, JobStopped(job=JOB, attempt=1)),
    ],
)
def test_a_body_in_a_stream_not_its_own_can_neither_be_made_nor_received(stream: Stream, body: EventBody) -> None:
    event = Event(seq=1, time_ms=0, monotonic_ns=0, body=body)
    with pytest.raises(ValueError, match=f"stands in stream {stream}"):
        Events(epoch=EPOCH, stream=stream, events=[event])
    own = next(iter(STREAMS_OF[type(body)]))
    data = encode(Events(epoch=EPOCH, stream=own, events=[event]))
    forged = data.replace(_packed_text(own), _packed_text(stream), 1)
    with pytest.raises(MalformedFrame, match=f"stands in stream {stream}"):
        decode_agent(forged)


def _packed_text(text: str) -> bytes:
    return bytes([0xA0 + len(text)]) + text.encode()


def test_a_hello_names_nothing_twice() -> None:
    base = BY_DIRECTION["agent"]["hello"]
    assert isinstance(base, Hello)
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    with pytest.raises(ValueError, match="same stream"):
        Hello(**{**fields, "held": [*base.held, *base.held]})
    with pytest.raises(ValueError, match="same attempt"):
        Hello(**{**fields, "jobs": [*base.jobs, *base.jobs]})
    with pytest.raises(ValueError, match="goes from 3 to 2"):
        HeldRange(epoch=EPOCH, stream=Stream.LOGS, first=3, last=2)


def test_what_is_out_of_range_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="JobStopped"):
        encode(JobStopped(job="not a uuid", attempt=1))
    with pytest.raises(LocalProtocolError, match="JobStopped"):
        encode(JobStopped(job=JOB + "\n", attempt=1))
