"""Changes inside a status: what is told, put together again at the hub, is what was; and it is small."""

import itertools
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.examples import CUZK, FULL_STATUS, GPUS_READ
from tests.wire.pair import SessionPair, open_pair
from tests.wire.strategies import patiently, structs
from wire import limits
from wire.codec import decode_known_agent, encode
from wire.deltas import NOTHING, EngineChange, GpuChange, HostChange, NodeChanges, difference
from wire.engines import EngineReading
from wire.errors import RemoteProtocolError
from wire.frames import Status
from wire.inputs import StatusReceived
from wire.limits import TEXT_CHARS_MAX
from wire.picture import WAITING_BYTES_MAX, WAITING_MAX, Picture
from wire.plain import PlainStatus
from wire.readings import GpuReading, GpuState, HostReading
from wire.reasons import Reason
from wire.status import NodeStatus


def over_the_wire(status: NodeStatus, changes: NodeChanges | None, *, full: bool) -> tuple[PlainStatus, bytes]:
    """A status as its receiver has it, and as it came."""
    frame = Status(status_seq=1, full=full, time_ms=1, monotonic_ns=1, status=status, changes=changes)
    return read(encode(frame))


def read(data: bytes) -> tuple[PlainStatus, bytes]:
    plain = decode_known_agent(data)
    assert isinstance(plain, PlainStatus)
    return plain, data


def rebuilt(*pictures: NodeStatus) -> NodeStatus:
    """What a hub knows after a full status and a delta for each picture that follows."""
    picture = Picture(*over_the_wire(pictures[0], None, full=True))
    for before, after in itertools.pairwise(pictures):
        told, changes = difference(before, after)
        plain = over_the_wire(told, None if changes == NOTHING else changes, full=False)
        picture.take(*plain)
    return picture.status


@st.composite
def node_lives(draw: st.DrawFn) -> list[NodeStatus]:
    """Pictures of one node: cards and engines that mostly stay the same ones while their readings move."""
    cards = draw(st.lists(st.sampled_from(["GPU-a", "GPU-b", "GPU-c"]), unique=True))
    pictures = [draw(structs(NodeStatus))]
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 3)) == 0:
            cards = draw(st.permutations(cards))
        moved = NodeStatus(
            host=draw(structs(HostReading)),
            gpus=[msgspec.structs.replace(draw(structs(GpuReading)), uuid=uuid) for uuid in cards],
            engines=[msgspec.structs.replace(draw(structs(EngineReading)), engine="cuzk")],
        )
        pictures.append(moved.merged_into(pictures[-1]))
    return pictures


@patiently(25)
@given(node_lives())
def test_what_is_told_put_together_again_is_what_was(pictures: list[NodeStatus]) -> None:
    assert rebuilt(*pictures) == pictures[-1]


@patiently(10)
@given(node_lives())
def test_sessions_tell_pictures_by_changes(pictures: list[NodeStatus]) -> None:
    pair = open_pair()
    for number, picture in enumerate(pictures, start=1):
        pair.agent.send_status(picture, 1.0, number, number)
        (item,) = pair.to_hub()
        assert isinstance(item, StatusReceived)
        assert item.status == picture


def test_each_change_names_only_the_fields_that_moved() -> None:
    cards = list(GPUS_READ.gpus)  # type: ignore[arg-type]  # an example has them
    warmer = msgspec.structs.replace(cards[0], temperature_c=72, fan_ratio=None)
    after = NodeStatus(gpus=[warmer], engines=[msgspec.structs.replace(CUZK, answered_at_ms=1)])
    told, changes = difference(NodeStatus(engines=[CUZK]).merged_into(GPUS_READ), after)
    assert told == NodeStatus()
    assert changes.gpus == (GpuChange(slot=0, temperature_c=72, fan_ratio=None),)
    assert changes.engines == (EngineChange(slot=0, answered_at_ms=1),)
    assert changes.host is None


def test_a_list_whose_members_changed_is_told_whole() -> None:
    before = NodeStatus(gpus=[GpuReading(uuid="a"), GpuReading(uuid="b")])
    for uuids in (["a"], ["b", "a"], ["a", "b", "c"], []):
        after = NodeStatus(gpus=[GpuReading(uuid=uuid) for uuid in uuids])
        assert difference(before, after) == (after, NOTHING)


def test_to_an_older_hub_parts_are_told_whole() -> None:
    pair = SessionPair(agent=None)
    assert pair.agent.minor >= 1
    pair.agent.minor = 0
    told, changes = pair.agent._difference(FULL_STATUS)
    assert (told, changes) == (FULL_STATUS, None)


def eight_cards(step: int) -> NodeStatus:
    """A busy node: what moves from one reading to the next on every card, as the sensors round it."""
    cards = [
        GpuReading(
            uuid=f"GPU-{slot:08d}-aaaa-bbbb-cccc-123456789abc",
            name="NVIDIA H200",
            memory_total_bytes=150_754_820_096,
            memory_used_bytes=80_000_000_000,
            utilization_ratio=0.90 + 0.01 * ((slot + step) % 9),
            temperature_c=60 + (slot + step) % 9,
            power_draw_mw=600_000 + 1000 * ((3 * slot + step) % 50),
            sm_clock_mhz=1980,
        )
        for slot in range(8)
    ]
    host = HostReading(cpu_count=128, cpu_used_ratio=0.30 + 0.01 * (step % 5), load_1min=40.0, memory_used_bytes=2**36)
    return NodeStatus(hostname="gpu-7", host=host, gpus=cards)


def test_a_typical_change_of_a_node_with_eight_cards_has_less_than_300_bytes() -> None:
    pair = open_pair()
    sizes = []
    for step in range(20):
        pair.agent.send_status(eight_cards(step), 1.0, 1_764_000_000_123 + step, 987_654_321_000 + step)
        (frame,) = pair.agent.frames_to_send()
        sizes.append(len(frame))
    assert max(sizes[1:]) < 300, sizes
    assert sizes[0] < 1_600


# --- what a hostile peer may try --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        NodeChanges(host=HostChange(cpu_count=1)),
        NodeChanges(gpus=(GpuChange(slot=1, index=1),)),
        NodeChanges(engines=(EngineChange(slot=0, queued=1),)),
    ],
    ids=["host", "card", "engine"],
)
def test_a_change_of_what_was_never_told_is_refused_and_changes_nothing(changes: NodeChanges) -> None:
    picture = Picture(*over_the_wire(NodeStatus(gpus=[GpuReading(uuid="a")]), None, full=True))
    both = msgspec.structs.replace(changes, gpus=(GpuChange(slot=0, index=9), *changes.gpus))
    plain = over_the_wire(NodeStatus(hostname="new"), both, full=False)
    with pytest.raises(RemoteProtocolError) as refused:
        picture.take(*plain)
    assert refused.value.reason == Reason.OUT_OF_ORDER
    assert picture.status == NodeStatus(gpus=[GpuReading(uuid="a")])


def test_fields_nobody_knows_are_not_kept() -> None:
    """Else an agent that invents a field in each frame would fill the hub's memory."""

    def sent(number: int, **content: Any) -> tuple[PlainStatus, bytes]:
        return read(msgpack.packb({"t": "st", "s": 1, "f": False, "w": 1, "m": 1, f"new{number}": 1, **content}))

    picture = Picture(*sent(0, b={"hn": "a", "h": {"new": 1}, "g": [{"uuid": "a", "new": 1}], "new": [[1]]}))
    for number in range(3):
        invented = {f"new{number}": number}
        plain = sent(
            number, b={"h": invented, **invented}, c={"g": [{"i": 0, "ix": number, **invented}], "h": invented}
        )
        picture.take(*plain)
    assert picture._put_together() == {"hn": "a", "h": {}, "g": [{"uuid": "a", "ix": 2}]}


@patiently(20)
@given(node_lives())
def test_a_picture_that_rested_is_the_same_and_goes_on(pictures: list[NodeStatus]) -> None:
    picture = Picture(*over_the_wire(pictures[0], None, full=True))
    for before, after in itertools.pairwise(pictures):
        picture.rest()
        told, changes = difference(before, after)
        plain = over_the_wire(told, None if changes == NOTHING else changes, full=False)
        picture.take(*plain)
        assert msgspec.json.decode(picture.rest(), type=NodeStatus) == after
        assert picture.rest() == picture.rest()
        assert picture.status == after
        assert picture._awake is None, "a look does not wake it"


def test_a_status_that_was_looked_at_does_not_change_any_more() -> None:
    picture = Picture(*over_the_wire(NodeStatus(gpus=[GpuReading(uuid="a")]), None, full=True))
    seen = picture.status
    plain = over_the_wire(NodeStatus(), NodeChanges(gpus=(GpuChange(slot=0, state=GpuState.LOST),)), full=False)
    picture.take(*plain)
    assert seen == NodeStatus(gpus=[GpuReading(uuid="a")])
    assert picture.status == NodeStatus(gpus=[GpuReading(uuid="a", state=GpuState.LOST)])


def test_changes_that_nobody_looks_at_do_not_pile_up() -> None:
    picture = Picture(*over_the_wire(NodeStatus(gpus=[GpuReading(uuid="a")]), None, full=True))
    for number in range(10 * WAITING_MAX):
        picture.take(*over_the_wire(NodeStatus(), NodeChanges(gpus=(GpuChange(slot=0, index=number),)), full=False))
        assert len(picture._waiting) < WAITING_MAX
    large = NodeChanges(gpus=(GpuChange(slot=0, detail="x" * TEXT_CHARS_MAX),))
    for _ in range(WAITING_MAX - 1):
        picture.take(*over_the_wire(NodeStatus(), large, full=False))
        assert sum(map(len, picture._waiting)) <= WAITING_BYTES_MAX
    picture.take(*over_the_wire(NodeStatus(), NodeChanges(gpus=(GpuChange(slot=0, detail=""),)), full=False))
    assert picture.status == NodeStatus(gpus=[GpuReading(uuid="a", index=10 * WAITING_MAX - 1)])


def test_no_part_has_a_slot_beyond_the_limits() -> None:
    frame = {"t": "st", "s": 1, "f": False, "w": 1, "m": 1, "b": {}, "c": {"g": [{"i": limits.GPUS_MAX}]}}
    with pytest.raises(RemoteProtocolError):
        decode_known_agent(msgpack.packb(frame))
