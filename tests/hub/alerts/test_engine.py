"""The engine in virtual time: each case is a course of conditions and what is told of it."""

from collections import Counter

import msgspec
import pytest

from hub.alerts import engine
from hub.alerts.facts import Condition, Fact, Rule
from hub.alerts.records import AlertState, Phase, Silence
from tests.hub.alerts.course import BAD, DECLARED, GOOD, HOLD, TICK_S, Course, fact


def lost(condition: Condition = BAD, count: int = 1, *, cause: str = "", common: bool = False) -> list[Fact]:
    return [fact(Rule.NODE_LOST, f"n{number:02}", condition, cause, common=common) for number in range(count)]


def hot(condition: Condition) -> Fact:
    return fact(Rule.GPU_TEMPERATURE, "n1", condition)


def test_it_fires_once_and_resolves_once() -> None:
    course = Course()
    course.go_on(3600, *lost())
    assert course.said == ["fire"]
    course.go_on(3600, *lost(GOOD))
    assert course.said == ["fire", "resolve"]
    (_, fired), (_, resolved) = course.told
    assert fired.id == resolved.id
    assert resolved.state is AlertState.RESOLVED
    assert fired.headline == "name of n00 is lost"


def test_nothing_is_told_of_what_was_bad_for_less_than_it_has_to_be() -> None:
    course = Course()
    hold_s = DECLARED[Rule.GPU_TEMPERATURE].hold_s
    course.go_on(hold_s, hot(BAD))
    course.go_on(600, hot(GOOD))
    assert course.said == []
    course.go_on(hold_s + engine.GROUP_WAIT_S + 2 * TICK_S, hot(BAD))
    assert course.said == ["fire"]


def test_between_the_thresholds_everything_stays_as_it_is() -> None:
    course = Course()
    course.go_on(3600, hot(HOLD))
    assert course.state.watched == {}
    course.go_on(600, hot(BAD))
    course.go_on(7200, hot(HOLD))
    assert course.said == ["fire"]
    course.go_on(DECLARED[Rule.GPU_TEMPERATURE].resolve_s - 2 * TICK_S, hot(GOOD))
    course.go_on(TICK_S, hot(HOLD))
    course.go_on(DECLARED[Rule.GPU_TEMPERATURE].resolve_s - 2 * TICK_S, hot(GOOD))
    assert course.said == ["fire"], "what was not good throughout has to be good anew"
    course.go_on(60, hot(GOOD))
    assert course.said == ["fire", "resolve"]


@pytest.mark.parametrize("period_s", [10, 30, 45, 60, 120, 300])
def test_flapping_for_a_day_is_told_a_few_times_and_then_no_more(period_s: int) -> None:
    course = Course()
    for _ in range(86_400 // (2 * period_s)):
        course.go_on(period_s, *lost(BAD))
        course.go_on(period_s, *lost(GOOD))
    assert Counter(course.said)["fire"] <= engine.FLAPS
    assert 0 <= Counter(course.said)["fire"] - Counter(course.said)["resolve"] <= 1
    assert course.said[-1:] == ["fire"], "what flaps is told"
    assert [alert.flapping for alert in course.state.alerts.values()] == [True]
    before = len(course.said)
    course.go_on(engine.FLAP_QUIET_S + 60, *lost(GOOD))
    assert course.said[before:] == ["resolve"]


def test_slow_turns_are_no_flapping() -> None:
    course = Course()
    for _ in range(5):
        course.go_on(900, *lost(BAD))
        course.go_on(900, *lost(GOOD))
    assert course.said == ["fire", "resolve"] * 5


# --- a restart in between


@pytest.mark.parametrize("at_s", range(0, 240, TICK_S))
@pytest.mark.parametrize("away_s", [0.0, 30.0, 7200.0])
def test_a_restart_at_any_time_neither_doubles_nor_loses(at_s: int, away_s: float) -> None:
    """Bad for two minutes, then good; the hub ends at one moment of it."""
    course = Course({Rule.NODE_LOST: msgspec.structs.replace(DECLARED[Rule.NODE_LOST], hold_s=45, resolve_s=45)})
    for passed_s in range(0, 300, TICK_S):
        if passed_s == at_s:
            course.restart(away_s)
            course.look(*lost(HOLD))  # its nodes come back, each in its own time
        course.go_on(TICK_S, *lost(BAD if passed_s < 120 else GOOD))
    course.go_on(600, *lost(GOOD))
    assert course.said == ["fire", "resolve"]


def test_a_step_that_was_not_kept_is_made_again() -> None:
    course = Course()
    course.go_on(engine.GROUP_WAIT_S, *lost())
    before = course.state
    course.go_on(TICK_S, *lost())
    assert course.said == ["fire"]
    course.state, course.told = before, []  # the transaction failed, and with it the notice
    course.go_on(60, *lost())
    assert course.said == ["fire"]


def test_a_hub_that_was_away_waits_the_whole_time_until_it_resolves() -> None:
    course = Course()
    course.go_on(60, *lost())
    course.go_on(TICK_S, *lost(GOOD))
    course.restart(away_s=86_400)
    course.look(*lost(GOOD))
    assert course.said == ["fire"]
    course.go_on(DECLARED[Rule.NODE_LOST].resolve_s + TICK_S, *lost(GOOD))
    assert course.said == ["fire", "resolve"]


def test_a_clock_set_back_while_the_hub_was_away_holds_nothing_up() -> None:
    course = Course()
    course.go_on(60, hot(BAD))
    course.restart(away_s=-86_400)
    course.go_on(600, hot(BAD))
    assert course.said == ["fire"]


def test_what_cannot_be_known_yet_resolves_nothing() -> None:
    course = Course()
    problem = fact(Rule.HUB_SELFCHECK, "key_missing", BAD)
    course.go_on(60, problem)
    course.restart()
    course.go_on(3600, unsure=[Rule.HUB_SELFCHECK])
    assert course.said == ["fire"]
    course.go_on(120)
    assert course.said == ["fire", "resolve"]


# --- many with one cause


def test_58_nodes_with_one_cause_are_one_alert() -> None:
    course = Course()
    course.go_on(600, *lost(count=58, cause="mass_drop", common=True))
    course.go_on(600, *lost(GOOD, count=58))
    assert course.said == ["fire", "resolve"]
    assert course.told[0][1].headline == "58 nodes are lost, one cause: mass drop"
    assert course.told[0][1].count == 58


def test_nodes_that_follow_within_a_while_belong_to_it() -> None:
    course = Course()
    for count in range(1, 10):
        course.go_on(TICK_S, *lost(count=count))
    course.go_on(600, *lost(count=9))
    assert course.said == ["fire"]
    course.go_on(600, *lost(GOOD, count=8), *lost(BAD, count=9)[8:])
    assert course.said == ["fire"], "one is lost still"
    course.go_on(600, *lost(GOOD, count=9))
    assert course.said == ["fire", "resolve"]


def test_another_node_an_hour_later_is_an_alert_of_its_own() -> None:
    course = Course()
    course.go_on(3600, *lost(count=1))
    course.go_on(3600, *lost(count=2))
    assert course.said == ["fire", "fire"]
    assert len(course.state.alerts) == 2


def test_single_alerts_go_over_to_the_one_about_their_common_cause() -> None:
    """Logins are rehearsed once a day, so an incident may begin with nodes that were told of one by one."""
    course = Course()

    def broken(count: int, condition: Condition = BAD, *, common: bool) -> list[Fact]:
        return [
            fact(Rule.FALLBACK_BROKEN, f"n{number}", condition, "identity_refused", common=common)
            for number in range(count)
        ]

    course.go_on(600, *broken(1, common=False))
    course.go_on(600, *broken(2, common=False))
    assert course.said == ["fire", "fire"]
    course.go_on(600, *broken(58, common=True))
    assert course.said == ["fire"] * 3
    assert course.told[-1][1].count == 58
    assert [alert.state for alert in course.ended.values()] == [AlertState.MERGED] * 2
    assert {alert.merged_into for alert in course.ended.values()} == {course.told[-1][1].id}
    course.go_on(600, *broken(60, common=True))
    course.go_on(600, *broken(60, common=False))  # too few of them now for an incident
    course.go_on(1200, *broken(60, GOOD, common=False))
    assert course.said == [*["fire"] * 3, "resolve"]


def test_another_cause_is_another_alert_where_the_rule_says_so() -> None:
    course = Course()
    course.go_on(600, fact(Rule.GPU_FAULT, "n1", BAD, "degraded"))
    course.go_on(600, fact(Rule.GPU_FAULT, "n1", BAD, "lost"))
    assert course.said == ["fire", "resolve", "fire"]
    course.go_on(600, fact(Rule.GPU_FAULT, "n1", GOOD))
    assert course.said == ["fire", "resolve", "fire", "resolve"]


def test_causes_that_change_all_the_time_are_flapping_too() -> None:
    course = Course()
    for _ in range(500):
        course.go_on(60, fact(Rule.GPU_FAULT, "n1", BAD, "degraded"))
        course.go_on(60, fact(Rule.GPU_FAULT, "n1", BAD, "lost"))
    assert len(course.said) <= 4 * engine.FLAPS


# --- silences and acknowledgements


def silence(until_s: float, rule: str = "", node_id: str = "") -> Silence:
    return Silence(
        id="s", rule=rule, node_id=node_id, reason="x", created_by="me", created_at_ms=0, until_ms=int(until_s * 1000)
    )


def test_a_silence_holds_the_notice_back_until_it_is_over() -> None:
    course = Course()
    course.silences = [silence(course.now_s + 1800, node_id="n00")]
    course.go_on(1700, *lost())
    assert course.said == []
    assert [one.phase for one in course.state.watched.values()] == [Phase.FIRING]
    course.go_on(300, *lost())
    assert course.said == ["fire"], "it is bad still"


def test_what_came_and_went_under_a_silence_is_not_told() -> None:
    course = Course()
    course.silences = [silence(course.now_s + 1800, rule=Rule.NODE_LOST.value)]
    course.go_on(600, *lost())
    course.go_on(600, *lost(GOOD))
    assert course.said == []


def test_a_silence_of_some_nodes_does_not_hide_the_others() -> None:
    course = Course()
    course.silences = [silence(course.now_s + 1800, node_id="n00")]
    course.go_on(600, *lost(count=2))
    assert course.said == ["fire"]


def test_an_acknowledgement_that_is_over_reminds_once() -> None:
    course = Course()
    course.go_on(60, *lost())
    (alert,) = course.state.alerts.values()
    acked = msgspec.structs.replace(alert, acked_by="me", acked_at_ms=0, acked_until_ms=course.now_ms + 600_000)
    course.state = engine.State(course.state.watched, {alert.id: acked})
    course.go_on(590, *lost())
    assert course.said == ["fire"]
    course.go_on(3600, *lost())
    assert course.said == ["fire", "remind"]
    course.go_on(600, *lost(GOOD))
    assert course.said == ["fire", "remind", "resolve"]


def test_a_rule_switched_off_ends_its_alerts() -> None:
    course = Course()
    course.go_on(60, *lost())
    course.limits[Rule.NODE_LOST] = msgspec.structs.replace(DECLARED[Rule.NODE_LOST], enabled=False)
    course.go_on(60, *lost())
    assert course.said == ["fire", "resolve"]
    assert course.state.watched == {}


def test_of_what_is_well_nothing_is_kept() -> None:
    course = Course()
    course.go_on(60, *lost(count=20))
    course.go_on(engine.FLAP_WINDOW_S + 60, *lost(GOOD, count=20))
    assert course.state == engine.State()


def test_only_what_changed_is_written() -> None:
    course = Course()
    course.go_on(600, *lost(count=20))
    made = course.look(*lost(count=20))
    assert (made.watched, made.alerts, made.gone) == ((), (), ())
