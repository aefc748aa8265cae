"""A real login when anything changed, and daily; a broken way ever more seldom. All in virtual time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.cause import Cause
from hub.ssh.reach import Basis, Reach, Source, State
from hub.ssh.readiness import RETRY_MAX_MS, RETRY_MIN_MS, SETTLE_MS, Rehearsals
from hub.ssh.targets import Target
from tests.wire.strategies import patiently

T0 = 1_764_000_000_000
DAY_MS = 86_400_000
TARGET = Target("203.0.113.5", 22022)
NOBODY = Reach(node_id="node-1")
FIRST = NOBODY.with_target(TARGET, Source.OPERATOR, T0)
KEY = ("SHA256:a",)


def basis(fingerprints: tuple[str, ...] = KEY) -> Basis:
    return Basis(
        target=str(TARGET),
        host_keys=(),
        fingerprints=fingerprints,
        ssh_version="OpenSSH_9.2p1",
        version="1",
        host="hub",
        user="hub",
        pid=1,
    )


def rehearsals(fingerprints: tuple[str, ...] = KEY) -> Rehearsals:
    made = Rehearsals(DAY_MS / 1000)
    made.identities(fingerprints, T0)
    return made


def test_without_a_target_there_is_nothing_to_prove() -> None:
    assert rehearsals().due_ms(NOBODY) is None
    assert rehearsals().due([NOBODY], T0 + DAY_MS) == []


def test_a_first_target_is_proved_as_soon_as_it_has_settled() -> None:
    assert rehearsals().due([FIRST], T0 + SETTLE_MS - 1) == []
    assert rehearsals().due([FIRST], T0 + SETTLE_MS) == ["node-1"]


def test_an_imported_target_is_unproved_until_a_login_succeeds() -> None:
    imported = NOBODY.with_target(TARGET, Source.IMPORT, T0)
    assert imported.sentence(T0) == "fallback unproved"
    assert rehearsals().due([imported], T0 + SETTLE_MS) == ["node-1"]
    assert imported.proved(T0 + SETTLE_MS, basis()).state is State.PROVED


@patiently(100)
@given(st.integers(0, 10**9), st.text(min_size=1, max_size=20))
def test_a_proved_way_is_proved_daily_a_tenth_more_or_less(ago_ms: int, node_id: str) -> None:
    way = Reach(node_id=node_id, target=TARGET).proved(T0 + ago_ms, basis())
    due_ms = rehearsals().due_ms(way)
    assert due_ms is not None
    assert 0.9 * DAY_MS <= due_ms - (T0 + ago_ms) <= 1.1 * DAY_MS
    assert due_ms == rehearsals().due_ms(way), "asking again does not throw the dice again"


def test_a_fleet_proved_in_one_minute_is_not_proved_in_one_minute_the_next_day() -> None:
    fleet = [Reach(node_id=f"node-{n}", target=TARGET).proved(T0, basis()) for n in range(200)]
    due = sorted(due_ms for way in fleet if (due_ms := rehearsals().due_ms(way)) is not None)
    assert due[-1] - due[0] > 0.15 * DAY_MS
    busiest = max(sum(start <= at < start + 60_000 for at in due) for start in due)
    assert busiest < 10


@pytest.mark.parametrize(
    "change",
    [
        lambda way, at: way.with_target(Target("203.0.113.6", 22022), Source.OPERATOR, at),
        lambda way, at: way.with_target(Target("203.0.113.5", 22022, "prover"), Source.OPERATOR, at),
        lambda way, at: way.with_host_keys(("ssh-ed25519 AAAA",), Source.OPERATOR, at),
        lambda way, at: way.with_jump_keys("jump", ("ssh-ed25519 AAAA",), at),
    ],
    ids=["address", "user", "host key", "jump"],
)
def test_any_change_of_the_way_is_proved_anew(change: object) -> None:
    assert callable(change)
    later = T0 + 3_600_000
    changed = change(FIRST.proved(T0 + 10_000, basis()), later)
    assert changed.state is State.UNPROVED
    assert rehearsals().due_ms(changed) == later + SETTLE_MS


def test_another_key_of_the_hub_is_proved_at_every_node() -> None:
    fleet = [Reach(node_id=f"node-{n}", target=TARGET).proved(T0, basis()) for n in range(3)]
    broken = Reach(node_id="node-3", target=TARGET).broken(T0 + 100, Cause.REFUSED, "")
    known = rehearsals()
    assert known.due([*fleet, broken], T0 + 1000) == []
    assert not known.identities(KEY, T0 + 2000)
    assert known.identities(("SHA256:b",), T0 + 3000)
    assert sorted(known.due([*fleet, broken], T0 + 3000)) == ["node-0", "node-1", "node-2", "node-3"]
    again = [way.proved(T0 + 4000, basis(("SHA256:b",))) for way in fleet]
    assert known.due(again, T0 + 5000) == []


def test_a_hub_that_restarts_with_another_key_proves_it_everywhere() -> None:
    way = FIRST.proved(T0 + 10_000, basis())
    assert rehearsals(("SHA256:b",)).due([way], T0 + 20_000) == ["node-1"]
    assert rehearsals(KEY).due([way], T0 + 20_000) == []


def test_a_broken_way_is_tried_again_soon_and_then_ever_more_seldom() -> None:
    known = rehearsals()
    way, at_ms, waits = FIRST, T0 + 10_000, []
    for _ in range(14):
        way = way.broken(at_ms, Cause.IDENTITY_REFUSED, "Permission denied (publickey).")
        due_ms = known.due_ms(way)
        assert due_ms is not None
        waits.append(due_ms - at_ms)
        at_ms = due_ms
    assert 0.9 * RETRY_MIN_MS <= waits[0] <= 1.1 * RETRY_MIN_MS
    for before, after in itertools.pairwise(waits[1:]):
        assert 0.8 * before <= after <= 2.5 * before
    assert 0.9 * RETRY_MAX_MS <= waits[-1] <= 1.1 * RETRY_MAX_MS
    mended = known.due_ms(way.proved(at_ms, basis()))
    assert mended is not None
    assert mended - at_ms > 0.8 * DAY_MS


def test_a_way_broken_for_another_reason_begins_anew() -> None:
    way = FIRST.broken(T0 + 10_000, Cause.REFUSED, "").broken(T0 + 90_000_000, Cause.IDENTITY_REFUSED, "")
    due_ms = rehearsals().due_ms(way)
    assert due_ms is not None
    assert due_ms - (T0 + 90_000_000) <= 1.1 * RETRY_MIN_MS


def test_the_longest_due_goes_first() -> None:
    ways = [Reach(node_id=f"node-{n}", target=TARGET, changed_at_ms=T0 - n * 1000) for n in range(4)]
    assert rehearsals().due(ways, T0 + SETTLE_MS) == ["node-3", "node-2", "node-1", "node-0"]


def test_a_node_that_came_back_since_a_failure_is_tried_soon() -> None:
    way = FIRST.broken(T0 + 10_000, Cause.NO_ROUTE, "")
    before, after = T0 + 9_000, T0 + 30_000
    assert rehearsals().due([way], after + SETTLE_MS, {"node-1": before}) == []
    assert rehearsals().due([way], after + SETTLE_MS, {"node-1": after}) == ["node-1"]
    flapping = FIRST.broken(after, Cause.NO_ROUTE, "")
    assert rehearsals().due([flapping], after + 5_000, {"node-1": after + 1}) == [], "not at each coming and going"
