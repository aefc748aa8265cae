"""What is kept of alerts: one record for each table. Times are Unix milliseconds of the hub's clock."""

from enum import StrEnum

from msgspec import Struct

from hub.alerts.facts import Rule, Severity


class Phase(StrEnum):
    """Where a subject stands with a rule."""

    QUIET = "quiet"
    """Good; kept for a while to know whether it flaps."""
    PENDING = "pending"
    """Bad, not yet for long enough."""
    FIRING = "firing"
    CLEARING = "clearing"
    """Good again, not yet for long enough."""


class Watched(Struct, frozen=True, kw_only=True):
    """One subject of one rule that is not, or was lately not, as it should be."""

    rule: Rule
    subject: str
    phase: Phase
    since_ms: int
    """Of the phase."""
    name: str = ""
    node_id: str = ""
    detail: str = ""
    cause: str = ""
    """Of its alert, once it fires."""
    cause_seen: str = ""
    """At the last look."""
    common: bool = False
    remedy: str = ""
    bad_starts: tuple[int, ...] = ()
    """When it lately became bad: many of them, and it flaps."""
    alert_id: str = ""
    """The alert it belongs to, while it fires."""

    @property
    def key(self) -> tuple[Rule, str]:
        """By which it is known."""
        return self.rule, self.subject


class AlertState(StrEnum):
    """How an alert is."""

    FIRING = "firing"
    RESOLVED = "resolved"
    MERGED = "merged"
    """Its subjects went over to an alert about their common cause; that one resolves."""


class Alert(Struct, frozen=True, kw_only=True):
    """Something wrong, told once: one subject, or many with one cause."""

    id: str
    rule: Rule
    severity: Severity
    state: AlertState
    fired_at_ms: int
    cause: str = ""
    common: bool = False
    headline: str = ""
    detail: str = ""
    remedy: str = ""
    subjects: tuple[str, ...] = ()
    """Names of those that fire now, of the first so many; of an ended alert those that last did."""
    count: int = 0
    """Subjects that fire now."""
    count_max: int = 0
    flapping: bool = False
    notified_at_ms: int | None = None
    """When its notice was handed to the outbox; None while it waits for its group, or is silenced."""
    ended_at_ms: int | None = None
    merged_into: str = ""
    acked_by: str = ""
    acked_at_ms: int | None = None
    acked_until_ms: int | None = None
    """None: until it ends."""
    ack_note: str = ""


class Silence(Struct, frozen=True, kw_only=True):
    """No notices about what it matches, for a time. What is empty matches everything."""

    id: str
    rule: str = ""
    node_id: str = ""
    cause: str = ""
    reason: str
    created_by: str
    created_at_ms: int
    until_ms: int
    """Ended early: when that was."""

    def matches(self, watched: Watched, now_ms: int) -> bool:
        """Whether it holds for a subject now."""
        return (
            now_ms < self.until_ms
            and self.rule in ("", watched.rule.value)
            and self.node_id in ("", watched.node_id)
            and self.cause in ("", watched.cause)
        )


class Channel(Struct, frozen=True, kw_only=True):
    """Where notices go."""

    id: str
    name: str
    address: bytes
    """An Apprise URL, encrypted: most hold a token."""
    shown: str
    """Of the address what may be seen."""
    severity: Severity = Severity.WARNING
    """Alerts of less are not told here."""
    enabled: bool = True
    created_by: str = ""
    created_at_ms: int = 0
    delivered_at_ms: int | None = None
    failed_at_ms: int | None = None
    """Of the first failure without a success since."""
    failure: str = ""
    """In one sentence, without secrets."""


class Kind(StrEnum):
    """What a notice says."""

    FIRE = "fire"
    RESOLVE = "resolve"
    REMIND = "remind"
    """An acknowledgement is over, and it still fires."""
    TEST = "test"


class NoticeState(StrEnum):
    """How a notice is."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    """Given up after the last try."""


class Notice(Struct, frozen=True, kw_only=True):
    """One message to one channel: in the outbox until it was taken or given up."""

    id: str
    channel_id: str
    alert_id: str
    """Empty: a test."""
    kind: Kind
    severity: Severity
    title: str
    body: str
    created_at_ms: int
    due_at_ms: int
    tries: int = 0
    state: NoticeState = NoticeState.WAITING
    ended_at_ms: int | None = None
    error: str = ""
    """Of the last try."""
