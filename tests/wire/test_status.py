"""Pictures of a node, their differences, and texts that fit."""

from hypothesis import given
from hypothesis import strategies as st

from tests.wire.examples import FULL_STATUS
from tests.wire.strategies import patiently, structs
from wire.limits import TEXT_CHARS_MAX
from wire.status import NodeStatus
from wire.text import clipped


@patiently(60)
@given(structs(NodeStatus), structs(NodeStatus))
def test_a_difference_merged_into_what_was_gives_what_is(before: NodeStatus, after: NodeStatus) -> None:
    now = after.merged_into(before)
    assert now.changed_since(before).merged_into(before) == now
    assert now.changed_since(now) == NodeStatus()
    assert NodeStatus().merged_into(now) == now
    assert after.merged_into(NodeStatus()) == after


@patiently(60)
@given(structs(NodeStatus), structs(NodeStatus), structs(NodeStatus))
def test_merging_is_associative(a: NodeStatus, b: NodeStatus, c: NodeStatus) -> None:
    assert c.merged_into(b.merged_into(a)) == c.merged_into(b).merged_into(a)


def test_only_what_differs_is_in_the_difference() -> None:
    after = NodeStatus(draining=False).merged_into(FULL_STATUS)
    assert after.changed_since(FULL_STATUS) == NodeStatus(draining=False)


@patiently(100)
@given(st.text(st.characters(codec=None), max_size=60), st.integers(16, 40))
def test_a_clipped_text_fits_and_is_unicode(text: str, chars_max: int) -> None:
    short = clipped(text, chars_max)
    assert len(short) <= chars_max
    short.encode("utf-8")
    if len(text) <= chars_max and text.isascii():
        assert short == text


def test_head_and_tail_are_kept() -> None:
    short = clipped("head " + "x" * 100_000 + " tail")
    assert len(short) == TEXT_CHARS_MAX
    assert short.startswith("head ")
    assert short.endswith(" tail")
    assert " [...] " in short
    assert clipped("\udcff") == "\\udcff"
