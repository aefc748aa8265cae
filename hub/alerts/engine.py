"""Pure: from facts and time to alerts. Nothing here waits, reads a clock or knows who is told.

::

             bad                 for hold_s              good               for resolve_s
    quiet ────────> pending ─────────────────> firing <────────> clearing ────────────────> quiet
      ^                │                                  bad
      └────── good ────┘

A subject that becomes bad `FLAPS` times within `FLAP_WINDOW_S` flaps: it fires at once and does not resolve before it
was good for `FLAP_QUIET_S`, so that it is told once and not at every turn. Subjects that fire with one cause are one
alert: those within `GROUP_S`, and all of them where the hub knows the cause to be common. An alert is told once, after
`GROUP_WAIT_S` in which others may join it, and once when the last of its subjects is well.

`step` says what becomes of what was, as rows to be kept. Whoever calls it takes the new state over when they are kept,
in one transaction with the notices. So a hub that is killed at any time finds what it told, and tells nothing twice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from hub.alerts.facts import Condition, Fact, Picture, Rule
from hub.alerts.records import Alert, AlertState, Kind, Phase, Silence, Watched
from hub.alerts.rules import RULES, Limits
from hub.alerts.words import headline

FLAPS = 5
FLAP_WINDOW_S = 7200.0
FLAP_QUIET_S = 1800.0
"""More than a part of the window: what turns so slowly that it is quiet for so long flaps no more."""
GROUP_WAIT_S = 20.0
GROUP_S = 60.0
SUBJECTS_NAMED_MAX = 50
"""In an alert's row; how many there are is counted beside."""

Key = tuple[Rule, str]


class Told(Struct, frozen=True):
    """Something is to be said about an alert."""

    kind: Kind
    alert: Alert


class State(Struct, frozen=True):
    """All that is kept of what is not well."""

    watched: Mapping[Key, Watched] = field(default_factory=dict)
    alerts: Mapping[str, Alert] = field(default_factory=dict)
    """Those that fire, by id."""


class Step(Struct, frozen=True, kw_only=True):
    """What becomes of it: rows to be kept, and what to tell."""

    state: State
    watched: tuple[Watched, ...] = ()
    """New or changed."""
    gone: tuple[Key, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """New or changed, ended ones too."""
    told: tuple[Told, ...] = ()


def restarted(state: State, now_ms: int) -> State:
    """What was kept, for a hub that was away: nobody saw that what seemed good stayed so, hence that begins anew.

    What was bad counts from when it was first seen: if it is bad at the next look, it was long enough. A clock that was
    set back while the hub was away makes nothing wait for it.
    """

    def since(watched: Watched) -> Watched:
        since_ms = now_ms if watched.phase is Phase.CLEARING else min(watched.since_ms, now_ms)
        return msgspec.structs.replace(
            watched, since_ms=since_ms, bad_starts=tuple(min(at_ms, now_ms) for at_ms in watched.bad_starts)
        )

    alerts = {
        one.id: msgspec.structs.replace(one, fired_at_ms=min(one.fired_at_ms, now_ms)) for one in state.alerts.values()
    }
    return State({key: since(watched) for key, watched in state.watched.items()}, alerts)


def step(
    before: State,
    picture: Picture,
    now_ms: int,
    limits: Mapping[Rule, Limits],
    silences: Sequence[Silence],
    new_id: Callable[[], str],
) -> Step:
    """One look at everything."""
    watched: dict[Key, Watched] = {}
    seen: set[Key] = set()
    for fact in picture.facts:
        if not limits[fact.rule].enabled:
            continue
        key = (fact.rule, fact.subject)
        seen.add(key)
        after = _turned(before.watched.get(key), fact, now_ms, limits[fact.rule])
        if after is not None:
            watched[key] = after
    watched |= {  # of any other rule what is not seen is gone, and with it what was wrong with it
        key: one
        for key, one in before.watched.items()
        if key not in seen and one.rule in picture.unsure and limits[one.rule].enabled
    }
    alerts = dict(before.alerts)
    _fire(watched, alerts, now_ms, limits, new_id)
    after_alerts, told = _told(watched, alerts, now_ms, silences)
    firing = {alert.id: alert for alert in after_alerts if alert.state is AlertState.FIRING}
    return Step(
        state=State(watched, firing),
        watched=tuple(one for key, one in watched.items() if one != before.watched.get(key)),
        gone=tuple(key for key in before.watched if key not in watched),
        alerts=tuple(alert for alert in after_alerts if alert != before.alerts.get(alert.id)),
        told=tuple(told),
    )


def flaps(watched: Watched) -> bool:
    """Whether it comes and goes."""
    return len(watched.bad_starts) >= FLAPS


# --- one subject


def _turned(before: Watched | None, fact: Fact, now_ms: int, limits: Limits) -> Watched | None:
    """Where a subject stands after a look at it; None for one that is well, and was."""
    if before is None:
        if fact.condition is not Condition.BAD:
            return None
        before = Watched(rule=fact.rule, subject=fact.subject, phase=Phase.QUIET, since_ms=now_ms)
    kept = tuple(at_ms for at_ms in before.bad_starts if now_ms - at_ms < FLAP_WINDOW_S * 1000)
    one = msgspec.structs.replace(before, bad_starts=kept, name=fact.name)
    match fact.condition:
        case Condition.BAD:
            return _bad(one, fact, now_ms, limits)
        case Condition.GOOD:
            return _good(one, now_ms, limits)
        case Condition.HOLD:
            return _held(one)


def _bad(one: Watched, fact: Fact, now_ms: int, limits: Limits) -> Watched:
    fires = one.phase in {Phase.FIRING, Phase.CLEARING}
    turned = fires and RULES[fact.rule].follows_cause and fact.cause != one.cause_seen
    if turned or one.phase not in _ALREADY_BAD:
        one = msgspec.structs.replace(one, bad_starts=(*one.bad_starts, now_ms)[-FLAPS:])
    moves = fires and RULES[fact.rule].follows_cause and fact.cause != one.cause and not flaps(one)
    cause = fact.cause if moves or not fires else one.cause  # what was told stands
    one = msgspec.structs.replace(
        one,
        node_id=fact.node_id,
        detail=fact.detail,
        cause=cause,
        cause_seen=fact.cause,
        common=fact.common if cause == fact.cause else one.common,
        remedy=fact.remedy,
        alert_id="" if moves else one.alert_id,
    )
    if one.phase is Phase.QUIET:
        one = msgspec.structs.replace(one, phase=Phase.PENDING, since_ms=now_ms)
    if one.phase is Phase.PENDING and not flaps(one) and now_ms - one.since_ms < limits.hold_s * 1000:
        return one
    if one.phase is Phase.FIRING:
        return one
    return msgspec.structs.replace(one, phase=Phase.FIRING, since_ms=now_ms)


_ALREADY_BAD = frozenset({Phase.PENDING, Phase.FIRING})


def _good(one: Watched, now_ms: int, limits: Limits) -> Watched | None:
    if one.phase is Phase.FIRING:
        one = msgspec.structs.replace(one, phase=Phase.CLEARING, since_ms=now_ms)
    if one.phase is Phase.CLEARING:
        wait_s = max(limits.resolve_s, FLAP_QUIET_S) if flaps(one) else limits.resolve_s
        if now_ms - one.since_ms < wait_s * 1000:
            return one
    if not one.bad_starts:
        return None
    if one.phase is Phase.QUIET:
        return one
    return msgspec.structs.replace(one, phase=Phase.QUIET, since_ms=now_ms, alert_id="", common=False)


def _held(one: Watched) -> Watched | None:
    """Neither good nor bad: what fired fires on, and what was clearing has to begin anew."""
    if one.phase is Phase.CLEARING:
        return msgspec.structs.replace(one, phase=Phase.FIRING)
    return one if one.bad_starts or one.phase is not Phase.QUIET else None


# --- which alert it belongs to


def _fire(
    watched: dict[Key, Watched],
    alerts: dict[str, Alert],
    now_ms: int,
    limits: Mapping[Rule, Limits],
    new_id: Callable[[], str],
) -> None:
    """Give every subject that fires its alert; those whose cause has turned out to be common go over to one."""
    groups: dict[tuple[Rule, str], list[Watched]] = {}
    for one in watched.values():
        if one.phase in {Phase.FIRING, Phase.CLEARING} and not one.alert_id:
            groups.setdefault((one.rule, one.cause), []).append(one)
    common = {(one.rule, one.cause) for one in watched.values() if one.common and one.phase is Phase.FIRING}
    for rule, cause in dict.fromkeys((*groups, *common)):
        alert = _joined(alerts.values(), rule, cause, now_ms, common=(rule, cause) in common)
        if alert is None:
            alert = Alert(
                id=new_id(), rule=rule, severity=limits[rule].severity, state=AlertState.FIRING, fired_at_ms=now_ms
            )
        alert = msgspec.structs.replace(alert, cause=cause, common=alert.common or (rule, cause) in common)
        alerts[alert.id] = alert
        for one in groups.get((rule, cause), ()):
            watched[one.key] = msgspec.structs.replace(one, alert_id=alert.id)
        if alert.common:
            _merge(watched, alerts, alert, now_ms)


def _joined(alerts: Iterable[Alert], rule: Rule, cause: str, now_ms: int, *, common: bool) -> Alert | None:
    """The alert that more subjects with this cause belong to now."""
    alike = [one for one in alerts if one.rule is rule and one.cause == cause and one.state is AlertState.FIRING]
    for alert in alike:
        if alert.common:
            return alert
    waiting = [one for one in alike if one.notified_at_ms is None and now_ms - one.fired_at_ms < GROUP_S * 1000]
    if common:
        return waiting[0] if waiting else None  # one that was told spoke of few; this is of many
    return next((one for one in alike if now_ms - one.fired_at_ms < GROUP_S * 1000), None)


def _merge(watched: dict[Key, Watched], alerts: dict[str, Alert], into: Alert, now_ms: int) -> None:
    for other in list(alerts.values()):
        alike = other.rule is into.rule and other.cause == into.cause and other.state is AlertState.FIRING
        if not alike or other.id == into.id:
            continue
        alerts[other.id] = msgspec.structs.replace(
            other, state=AlertState.MERGED, ended_at_ms=now_ms, merged_into=into.id
        )
        for one in list(watched.values()):
            if one.alert_id == other.id:
                watched[one.key] = msgspec.structs.replace(one, alert_id=into.id)


# --- what is told of an alert


def _told(
    watched: Mapping[Key, Watched], alerts: Mapping[str, Alert], now_ms: int, silences: Sequence[Silence]
) -> tuple[list[Alert], list[Told]]:
    """Every alert as it is now, and what is to be said."""
    members: dict[str, list[Watched]] = {}
    for one in watched.values():
        if one.alert_id:
            members.setdefault(one.alert_id, []).append(one)
    after: list[Alert] = []
    told: list[Told] = []
    for alert in alerts.values():
        if alert.state is not AlertState.FIRING:
            after.append(alert)
            continue
        mine = members.get(alert.id, [])
        if not mine:
            ended = msgspec.structs.replace(alert, state=AlertState.RESOLVED, ended_at_ms=now_ms, count=0)
            after.append(ended)
            if alert.notified_at_ms is not None:
                told.append(Told(Kind.RESOLVE, ended))
            continue
        pictured, kind = _spoken(_pictured(alert, mine), mine, now_ms, silences)
        after.append(pictured)
        if kind is not None:
            told.append(Told(kind, pictured))
    return after, told


def _pictured(alert: Alert, members: Sequence[Watched]) -> Alert:
    """With what its subjects are now."""
    ordered = sorted(members, key=lambda one: (one.name, one.subject))
    first = ordered[0]
    return msgspec.structs.replace(
        alert,
        headline=headline(alert.rule, alert.cause, ordered),
        detail=first.detail if len(ordered) == 1 or alert.common else "; ".join(one.detail for one in ordered[:3]),
        remedy=first.remedy or RULES[alert.rule].remedy,
        subjects=tuple(one.name for one in ordered[:SUBJECTS_NAMED_MAX]),
        count=len(ordered),
        count_max=max(alert.count_max, len(ordered)),
        flapping=any(map(flaps, ordered)),
    )


def _spoken(
    alert: Alert, members: Sequence[Watched], now_ms: int, silences: Sequence[Silence]
) -> tuple[Alert, Kind | None]:
    """Whether something is to be said of an alert that fires."""
    if alert.acked_until_ms is not None and now_ms >= alert.acked_until_ms:
        alert = msgspec.structs.replace(alert, acked_by="", acked_at_ms=None, acked_until_ms=None, ack_note="")
        if alert.notified_at_ms is not None:
            return alert, Kind.REMIND
    if alert.notified_at_ms is not None or now_ms - alert.fired_at_ms < GROUP_WAIT_S * 1000 or alert.acked_by:
        return alert, None
    if all(any(silence.matches(one, now_ms) for silence in silences) for one in members):
        return alert, None
    return msgspec.structs.replace(alert, notified_at_ms=now_ms), Kind.FIRE
