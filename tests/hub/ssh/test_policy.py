"""Whom the hub restarts unasked: off by default, one at a time, a canary first, so many an hour."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.policy import CANARY_MS, HOUR_MS, Done, Rule, Suspect, decide, rule
from tests.wire.strategies import patiently

NOW_MS = 10 * HOUR_MS
EVERYBODY = Rule(everybody=True, per_hour=3)


def suspect(node: str, since_ms: int = 1, **labels: str) -> Suspect:
    return Suspect(node_id=node, labels=labels, since_ms=since_ms)


def done(node: str, ago_ms: int, *, ok: bool = True, back: bool = True) -> Done:
    return Done(node_id=node, at_ms=NOW_MS - ago_ms, ok=ok, back=back)


def chosen(allowed: Rule, suspects: list[Suspect], *before: Done) -> str | None:
    return decide(allowed, suspects, before, NOW_MS).node_id


def test_it_is_off_unless_labels_are_named() -> None:
    found = decide(rule("", 4), [suspect("a", pool="x")], [], NOW_MS)
    assert (found.node_id, found.reason) == (None, "the policy is off")


def test_only_nodes_with_a_named_label_and_the_longest_lost_first() -> None:
    allowed = rule("pool=x, zone=eu", 4)
    suspects = [suspect("a", 1), suspect("b", 9, pool="x"), suspect("c", 5, zone="eu"), suspect("d", 2, pool="y")]
    assert chosen(allowed, suspects) == "c"
    assert chosen(rule("*", 4), suspects) == "a"


@pytest.mark.parametrize("text", ["pool", "=x", "pool=x,nonsense"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no label"):
        rule(text, 4)


def test_nobody_else_while_the_canary_is_away_and_nobody_after_it_failed() -> None:
    waiting = decide(EVERYBODY, [suspect("b")], [done("a", 1000, back=False)], NOW_MS)
    assert (waiting.node_id, "waiting for the canary a" in waiting.reason) == (None, True)
    late = decide(EVERYBODY, [suspect("b")], [done("a", CANARY_MS, back=False)], NOW_MS)
    assert "did not come back" in late.reason
    failed = decide(EVERYBODY, [suspect("b")], [done("a", 1000, ok=False, back=False)], NOW_MS)
    assert "did not come back" in failed.reason
    assert chosen(EVERYBODY, [suspect("b")], done("a", 1000)) == "b"
    assert chosen(EVERYBODY, [suspect("b")], done("a", HOUR_MS, back=False)) == "b", "an hour later there is a new one"


def test_no_node_twice_and_no_more_than_allowed_within_an_hour() -> None:
    assert chosen(EVERYBODY, [suspect("a")], done("a", 1000)) is None
    three = (done("a", 3000), done("b", 2000, back=False), done("c", 1000))
    full = decide(EVERYBODY, [suspect("d")], three, NOW_MS)
    assert (full.node_id, "3 restarts" in full.reason) == (None, True)
    assert chosen(EVERYBODY, [suspect("d")], *three[1:], done("a", HOUR_MS)) is None  # b, the first now, is away
    assert chosen(EVERYBODY, [], done("a", 1000)) is None


@patiently(300)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2 * HOUR_MS), st.booleans(), st.booleans())),
    st.sets(st.sampled_from("abcdef")),
    st.integers(0, 5),
)
def test_whatever_happened_before_the_limits_hold(
    before: list[tuple[str, int, bool, bool]], lost: set[str], per_hour: int
) -> None:
    past = [done(node, ago_ms, ok=ok, back=back) for node, ago_ms, ok, back in before]
    found = decide(Rule(everybody=True, per_hour=per_hour), [suspect(node) for node in lost], past, NOW_MS)
    recent = [item for item in past if NOW_MS - item.at_ms < HOUR_MS]
    if found.node_id is not None:
        assert found.node_id in lost
        assert found.node_id not in {item.node_id for item in recent}
        assert not recent or len(recent) < per_hour
        assert all(item.back for item in recent if item.at_ms == min(r.at_ms for r in recent)) or len(recent) > 1
