"""Whatever the course of facts, restarts, failed commits, silences and acknowledgements: the promises are kept."""

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.alerts import engine
from hub.alerts.facts import Condition, Fact, Rule
from hub.alerts.records import Alert, AlertState, Kind, Phase, Silence
from tests.hub.alerts.course import BAD, GOOD, Course, fact

RULES = (Rule.NODE_LOST, Rule.GPU_FAULT)
NODES = tuple(f"n{number}" for number in range(3))
CAUSES = ("", "degraded", "mass_drop")
LONG_S = engine.FLAP_QUIET_S + engine.FLAP_WINDOW_S


class Alerts(RuleBasedStateMachine):
    """The world changes, time goes on, and the hub comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.course = Course()
        self.world: dict[tuple[Rule, str], tuple[Condition, str, bool]] = {}

    @initialize()
    def begin(self) -> None:
        self.world = {(rule_, node): (GOOD, "", False) for rule_ in RULES for node in NODES}

    def facts(self) -> list[Fact]:
        return [
            fact(rule_, node, condition, cause, common=common)
            for (rule_, node), (condition, cause, common) in self.world.items()
        ]

    @rule(
        which=st.sampled_from(RULES),
        node=st.sampled_from(NODES),
        condition=st.sampled_from(Condition),
        cause=st.sampled_from(CAUSES),
    )
    def changes(self, which: Rule, node: str, condition: Condition, cause: str) -> None:
        self.world[which, node] = (condition, cause, False)

    @rule(which=st.sampled_from(RULES), condition=st.sampled_from([BAD, GOOD]), cause=st.sampled_from(CAUSES[1:]))
    def befalls_all(self, which: Rule, condition: Condition, cause: str) -> None:
        for node in NODES:
            self.world[which, node] = (condition, cause, True)

    @rule(which=st.sampled_from(RULES), node=st.sampled_from(NODES))
    def goes(self, which: Rule, node: str) -> None:
        self.world.pop((which, node), None)

    @rule(seconds=st.sampled_from([5, 20, 60, 300, 1800]))
    def time_goes_on(self, seconds: int) -> None:
        self.course.go_on(min(seconds, 300), *self.facts())
        self.course.now_s += max(0, seconds - 300)

    @rule(away_s=st.sampled_from([0, 30, 4000, -600]))
    def hub_restarts(self, away_s: int) -> None:
        self.course.restart(away_s)

    @rule()
    def commit_fails(self) -> None:
        before, told, ended = self.course.state, list(self.course.told), dict(self.course.ended)
        self.course.go_on(5, *self.facts())
        self.course.state, self.course.told, self.course.ended = before, told, ended

    @rule(node=st.sampled_from(NODES), for_s=st.sampled_from([30, 600]))
    def silenced(self, node: str, for_s: int) -> None:
        self.course.silences = [
            Silence(
                id="s",
                node_id=node,
                reason="x",
                created_by="me",
                created_at_ms=0,
                until_ms=self.course.now_ms + for_s * 1000,
            )
        ]

    @rule(for_s=st.sampled_from([None, 30, 600]))
    def acknowledged(self, for_s: int | None) -> None:
        until_ms = None if for_s is None else self.course.now_ms + for_s * 1000
        alerts = {
            alert.id: msgspec.structs.replace(alert, acked_by="me", acked_at_ms=0, acked_until_ms=until_ms)
            for alert in self.course.state.alerts.values()
        }
        self.course.state = engine.State(self.course.state.watched, alerts)

    def of(self, alert_id: str, kind: Kind) -> int:
        return sum(said is kind and alert.id == alert_id for said, alert in self.course.told)

    @invariant()
    def each_is_told_once_and_its_end_once(self) -> None:
        known: dict[str, Alert] = {**self.course.ended, **self.course.state.alerts}
        assert {alert.id for _, alert in self.course.told} <= known.keys()
        for alert in known.values():
            fired, resolved = self.of(alert.id, Kind.FIRE), self.of(alert.id, Kind.RESOLVE)
            assert fired == (alert.notified_at_ms is not None), "told once if it says so, and else not at all"
            assert resolved == (fired if alert.state is AlertState.RESOLVED else 0)

    @invariant()
    def who_fires_belongs_to_one_alert(self) -> None:
        firing = {one.alert_id for one in self.course.state.watched.values() if one.alert_id}
        assert firing == self.course.state.alerts.keys()
        for one in self.course.state.watched.values():
            assert bool(one.alert_id) == (one.phase in {Phase.FIRING, Phase.CLEARING})
            if one.alert_id:
                assert self.course.state.alerts[one.alert_id].rule is one.rule

    @invariant()
    def a_common_cause_has_one_alert(self) -> None:
        alerts = list(self.course.state.alerts.values())
        for alert in alerts:
            if alert.common:
                assert [one for one in alerts if (one.rule, one.cause) == (alert.rule, alert.cause)] == [alert]

    @rule()
    def what_stays_bad_is_told(self) -> None:
        self.course.silences = []
        self.course.state = engine.State(
            self.course.state.watched,
            {one.id: msgspec.structs.replace(one, acked_by="") for one in self.course.state.alerts.values()},
        )
        self.course.go_on(400, *self.facts())
        for (which, node), (condition, _, _) in self.world.items():
            if condition is BAD:
                watched = self.course.state.watched[which, node]
                assert self.course.state.alerts[watched.alert_id].notified_at_ms is not None

    @rule()
    def in_the_end_all_is_well(self) -> None:
        for key, (_, cause, _) in self.world.items():
            self.world[key] = (GOOD, cause, False)
        self.course.go_on(10, *self.facts())
        self.course.now_s += LONG_S
        self.course.go_on(10, *self.facts())
        assert self.course.state == engine.State()


Alerts.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAlerts = Alerts.TestCase
