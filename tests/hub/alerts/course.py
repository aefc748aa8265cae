"""A hub's alerts in virtual time, without the hub."""

import itertools
from collections.abc import Iterable

import msgspec

from hub.alerts import engine
from hub.alerts.facts import Condition, Fact, Picture, Rule
from hub.alerts.records import Alert, AlertState, Kind, Silence, Watched
from hub.alerts.rules import RULES, Limits

BAD, GOOD, HOLD = Condition.BAD, Condition.GOOD, Condition.HOLD
TICK_S = 5
DECLARED = {rule: declared.limits for rule, declared in RULES.items()}


def fact(rule: Rule, subject: str, condition: Condition, cause: str = "", *, common: bool = False) -> Fact:
    return Fact(
        rule=rule,
        subject=subject,
        name=f"name of {subject}",
        condition=condition,
        node_id=subject,
        detail=f"{subject} is {condition.value}",
        cause=cause,
        common=common,
    )


class Course:
    """A hub's alerts as time goes on; what was told is kept."""

    def __init__(self, limits: dict[Rule, Limits] | None = None) -> None:
        self.limits = {**DECLARED, **(limits or {})}
        self.state = engine.State()
        self.now_s = 1000.0
        self.told: list[tuple[Kind, Alert]] = []
        self.ended: dict[str, Alert] = {}
        self.silences: list[Silence] = []
        self._ids = map(str, itertools.count(1))

    @property
    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def look(self, *facts: Fact, unsure: Iterable[Rule] = ()) -> engine.Step:
        picture = Picture(facts=facts, unsure=frozenset(unsure))
        made = engine.step(self.state, picture, self.now_ms, self.limits, self.silences, lambda: next(self._ids))
        self.state = made.state
        self.told += [(told.kind, told.alert) for told in made.told]
        self.ended |= {alert.id: alert for alert in made.alerts if alert.state is not AlertState.FIRING}
        return made

    def go_on(self, seconds: float, *facts: Fact, unsure: Iterable[Rule] = ()) -> None:
        """Look every five seconds, for so long."""
        for _ in range(int(seconds / TICK_S)):
            self.now_s += TICK_S
            self.look(*facts, unsure=unsure)

    def restart(self, away_s: float = 0.0) -> None:
        """The hub ends and comes back with what lay in its rows."""
        watched = msgspec.json.decode(msgspec.json.encode(list(self.state.watched.values())), type=list[Watched])
        alerts = msgspec.json.decode(msgspec.json.encode(list(self.state.alerts.values())), type=list[Alert])
        self.now_s += away_s
        kept = engine.State({one.key: one for one in watched}, {one.id: one for one in alerts})
        self.state = engine.restarted(kept, self.now_ms)

    @property
    def said(self) -> list[str]:
        return [kind.value for kind, _ in self.told]
