"""Bodies about alerts, and how they are made."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from hub.alerts.facts import Rule, Severity
from hub.alerts.records import Alert, AlertState, Channel, Kind, Notice, NoticeState, Silence
from hub.alerts.rules import HOLD_S_MAX, RULES, Declared, Limits
from hub.api.models import Request, UnixMs
from wire.jobs import Uuid

SILENCE_S_MAX = 366 * 86_400
URL_CHARS_MAX = 2048
Note = Annotated[str, Meta(max_length=500)]
ForS = Annotated[int, Meta(ge=1, le=SILENCE_S_MAX)]
HoldS = Annotated[float, Meta(ge=0, le=HOLD_S_MAX)]
ChannelName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9][A-Za-z0-9 ._-]*$",
        description="letters, digits, space, dot, dash, underscore",
    ),
]
Address = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=URL_CHARS_MAX,
        description="an Apprise address, for example mailtos://..., slack://..., ntfys://..., jsons://host/path; "
        "kept encrypted and never shown again",
    ),
]


class AlertView(Struct, frozen=True, kw_only=True):
    """Something wrong: of one subject, or of many with one cause."""

    id: Uuid
    rule: Rule
    severity: Severity
    state: AlertState
    headline: str
    detail: str
    remedy: Annotated[str, Meta(description="what to do")]
    cause: str
    common: Annotated[bool, Meta(description="the hub knows that many have this cause: an incident, a mass drop")]
    subjects: Annotated[list[str], Meta(description="names of those it is about now, the first 50")]
    count: int
    count_max: int
    flapping: Annotated[bool, Meta(description="it comes and goes, and is told once")]
    fired_at_ms: UnixMs
    notified_at_ms: Annotated[
        UnixMs | None, Meta(description="null: it waits for its group, is silenced, or was acknowledged before")
    ]
    ended_at_ms: UnixMs | None
    merged_into: Uuid | None
    acked_by: str
    acked_at_ms: UnixMs | None
    acked_until_ms: Annotated[UnixMs | None, Meta(description="null: until it ends")]
    ack_note: str


class NoticeView(Struct, frozen=True, kw_only=True):
    """One message to one channel."""

    id: Uuid
    alert: Uuid | None
    channel: Uuid
    channel_name: str
    kind: Kind
    severity: Severity
    title: str
    state: NoticeState
    tries: int
    error: Annotated[str, Meta(description="of the last try, without secrets")]
    created_at_ms: UnixMs
    due_at_ms: Annotated[UnixMs, Meta(description="of one that waits: when it is tried next")]
    ended_at_ms: UnixMs | None


class FiringView(Struct, frozen=True):
    """What fires now, the worst first."""

    alerts: list[AlertView]
    pending: Annotated[int, Meta(description="subjects that are bad, and not yet for long enough")]
    undelivered: Annotated[int, Meta(description="channels whose last notice came to nothing")]


class AlertWhole(Struct, frozen=True):
    """One alert, and what was told of it."""

    alert: AlertView
    notices: Annotated[list[NoticeView], Meta(description="newest first, the first 100")]


class AlertsPage(Struct, frozen=True):
    """Alerts of all times, newest first."""

    alerts: list[AlertView]
    next: str | None


class NoticesPage(Struct, frozen=True):
    """Notices, newest first."""

    notices: list[NoticeView]
    next: str | None


class AckRequest(Request, frozen=True):
    """Somebody looks after it."""

    note: Note = ""
    for_s: Annotated[ForS | UnsetType, Meta(description="until it ends, if left out; once over, you are reminded")] = (
        UNSET
    )


class SilenceRequest(Request, frozen=True):
    """No notices for a time. What is left out matches everything."""

    for_s: ForS
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    rule: Rule | UnsetType = UNSET
    node: Annotated[str, Meta(max_length=64, description="a node's id")] = ""
    cause: Annotated[str, Meta(max_length=64)] = ""


class SilenceView(Struct, frozen=True, kw_only=True):
    """A silence."""

    id: Uuid
    rule: str
    node: str
    node_name: str
    cause: str
    reason: str
    created_by: str
    created_at_ms: UnixMs
    until_ms: UnixMs
    over: bool


class SilencesPage(Struct, frozen=True):
    """Silences, newest first."""

    silences: list[SilenceView]
    next: str | None


class RuleView(Struct, frozen=True, kw_only=True):
    """A rule as it holds now."""

    rule: Rule
    about: str
    remedy: str
    unit: Annotated[str, Meta(description="of bad and clear")]
    enabled: bool
    severity: Severity
    hold_s: Annotated[float, Meta(description="bad for so long, and it fires")]
    resolve_s: Annotated[float, Meta(description="good for so long, and it is over")]
    bad: Annotated[float | None, Meta(description="at this and beyond it is bad; null: the rule looks at a state")]
    clear: Annotated[float | None, Meta(description="back beyond this it is good")]
    changed: Annotated[bool, Meta(description="whether it differs from how it comes")]


class RulesView(Struct, frozen=True):
    """Every rule."""

    rules: list[RuleView]


class RuleChange(Request, frozen=True):
    """What is to be different; what is left out stays."""

    enabled: bool | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    hold_s: HoldS | UnsetType = UNSET
    resolve_s: HoldS | UnsetType = UNSET
    bad: float | UnsetType = UNSET
    clear: float | UnsetType = UNSET


class ChannelRequest(Request, frozen=True):
    """A new channel."""

    name: ChannelName
    url: Address
    severity: Annotated[Severity, Meta(description="alerts of less are not told here")] = Severity.WARNING
    enabled: bool = True


class ChannelChange(Request, frozen=True):
    """What is to be different; what is left out stays."""

    name: ChannelName | UnsetType = UNSET
    url: Address | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class ChannelView(Struct, frozen=True, kw_only=True):
    """A channel, without its address."""

    id: Uuid
    name: str
    shown: Annotated[str, Meta(description="of its address what may be seen")]
    severity: Severity
    enabled: bool
    created_by: str
    created_at_ms: UnixMs
    delivered_at_ms: UnixMs | None
    failed_at_ms: Annotated[UnixMs | None, Meta(description="since when notices come to nothing; null: they do not")]
    failure: str


class DeadmanView(Struct, frozen=True):
    """The dead-man's ping: never its address."""

    configured: bool
    every_s: float
    answered_at_ms: UnixMs | None
    failure: str


class ChannelsView(Struct, frozen=True):
    """Every channel."""

    channels: list[ChannelView]
    deadman: DeadmanView


def alert_view(alert: Alert) -> AlertView:
    """One alert."""
    return AlertView(
        id=alert.id,
        rule=alert.rule,
        severity=alert.severity,
        state=alert.state,
        headline=alert.headline,
        detail=alert.detail,
        remedy=alert.remedy,
        cause=alert.cause,
        common=alert.common,
        subjects=list(alert.subjects),
        count=alert.count,
        count_max=alert.count_max,
        flapping=alert.flapping,
        fired_at_ms=alert.fired_at_ms,
        notified_at_ms=alert.notified_at_ms,
        ended_at_ms=alert.ended_at_ms,
        merged_into=alert.merged_into or None,
        acked_by=alert.acked_by,
        acked_at_ms=alert.acked_at_ms,
        acked_until_ms=alert.acked_until_ms,
        ack_note=alert.ack_note,
    )


def notice_view(notice: Notice, channel_name: str) -> NoticeView:
    """One notice."""
    return NoticeView(
        id=notice.id,
        alert=notice.alert_id or None,
        channel=notice.channel_id,
        channel_name=channel_name,
        kind=notice.kind,
        severity=notice.severity,
        title=notice.title,
        state=notice.state,
        tries=notice.tries,
        error=notice.error,
        created_at_ms=notice.created_at_ms,
        due_at_ms=notice.due_at_ms,
        ended_at_ms=notice.ended_at_ms,
    )


def silence_view(silence: Silence, node_name: str, now_ms: int) -> SilenceView:
    """One silence."""
    return SilenceView(
        id=silence.id,
        rule=silence.rule,
        node=silence.node_id,
        node_name=node_name,
        cause=silence.cause,
        reason=silence.reason,
        created_by=silence.created_by,
        created_at_ms=silence.created_at_ms,
        until_ms=silence.until_ms,
        over=silence.until_ms <= now_ms,
    )


def rule_view(rule: Rule, limits: Limits) -> RuleView:
    """One rule."""
    declared: Declared = RULES[rule]
    return RuleView(
        rule=rule,
        about=declared.about,
        remedy=declared.remedy,
        unit=declared.unit,
        enabled=limits.enabled,
        severity=limits.severity,
        hold_s=limits.hold_s,
        resolve_s=limits.resolve_s,
        bad=limits.bad,
        clear=limits.clear,
        changed=limits != declared.limits,
    )


def channel_view(channel: Channel) -> ChannelView:
    """One channel."""
    return ChannelView(
        id=channel.id,
        name=channel.name,
        shown=channel.shown,
        severity=channel.severity,
        enabled=channel.enabled,
        created_by=channel.created_by,
        created_at_ms=channel.created_at_ms,
        delivered_at_ms=channel.delivered_at_ms,
        failed_at_ms=channel.failed_at_ms,
        failure=channel.failure,
    )
