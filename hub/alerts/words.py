"""How alerts and their notices read; pure."""

from collections.abc import Sequence

from hub.alerts.facts import Rule
from hub.alerts.records import Alert, Kind, Watched
from hub.alerts.rules import RULES

NAMES_SHOWN = 10
TITLE_CHARS_MAX = 150
BODY_CHARS_MAX = 2000
"""Every service takes so much."""
DIGEST_LINES_MAX = 20

SINGLE = {
    Rule.NODE_LOST: "{name} is lost",
    Rule.FALLBACK_BROKEN: "{name}: fallback broken",
    Rule.GPU_FAULT: "{name}: a card is faulty",
    Rule.GPU_TEMPERATURE: "{name}: a card is too hot",
    Rule.GPU_THROTTLING: "{name}: a card slows itself down",
    Rule.JOB_FAILING: "Jobs of {name} fail",
    Rule.QUEUE_AGE: "Jobs wait too long",
    Rule.OUTBOX_GROWING: "{name} cannot hand over its events",
    Rule.CLOCK_SKEW: "{name}: the clock is wrong",
    Rule.DUPLICATE_IDENTITY: "{name} exists twice",
    Rule.DISK_FORECAST: "{name}: a disk fills up",
    Rule.HUB_STORE: "The hub's store is in trouble",
    Rule.HUB_DISK: "The hub's disk fills up",
    Rule.HUB_LAG: "The hub runs late",
    Rule.HUB_OVERLOAD: "The hub is overloaded: {name}",
    Rule.HUB_SELFCHECK: "The hub's own side: {name}",
    Rule.NOTICE_UNDELIVERED: "Notices to {name} come to nothing",
}
"""A headline about one subject."""


def headline(rule: Rule, cause: str, members: Sequence[Watched]) -> str:
    """``58 nodes do not let the hub in by ssh, one cause: identity refused``."""
    if len(members) == 1:
        return SINGLE[rule].format(name=plain(members[0].name))
    why = f", one cause: {cause.replace('_', ' ')}" if cause else ""
    return f"{len(members)} {RULES[rule].many}{why}"


def title(kind: Kind, alert: Alert) -> str:
    """Of a notice."""
    mark = {Kind.FIRE: alert.severity.value.upper(), Kind.RESOLVE: "RESOLVED", Kind.REMIND: "STILL", Kind.TEST: "TEST"}
    return _cut(f"[{mark[kind]}] {alert.headline}", TITLE_CHARS_MAX)


def body(kind: Kind, alert: Alert, now_ms: int) -> str:
    """Of a notice: what, who, since when, what to do."""
    lines = [plain(alert.detail)] if alert.detail and kind is not Kind.RESOLVE else []
    if alert.count_max > 1:
        more = alert.count_max - NAMES_SHOWN
        named = ", ".join(plain(name) for name in alert.subjects[:NAMES_SHOWN])
        lines.append(named + (f" and {more} more" if more > 0 else ""))
    minutes = (now_ms - alert.fired_at_ms) // 60_000
    if kind is Kind.RESOLVE:
        lines.append(f"It lasted {minutes} min.")
    elif kind is Kind.REMIND:
        lines.append(f"The acknowledgement is over, and it still fires, for {minutes} min now.")
    if alert.flapping and kind is not Kind.RESOLVE:
        lines.append("It comes and goes: you hear of it once, and once when it has been quiet for half an hour.")
    if kind is not Kind.RESOLVE and alert.remedy:
        lines.append(f"What to do: {alert.remedy}")
    return _cut("\n".join(lines), BODY_CHARS_MAX)


def digest(titles: Sequence[str]) -> tuple[str, str]:
    """Many notices to one channel as one: title and body."""
    more = len(titles) - DIGEST_LINES_MAX
    lines = [*titles[:DIGEST_LINES_MAX], *([f"... and {more} more; the page has them all"] if more > 0 else [])]
    return f"{len(titles)} notices", _cut("\n".join(lines), BODY_CHARS_MAX)


def plain(text: str) -> str:
    """On one line, and nothing in it that a terminal or a chat would obey: names are what nodes call themselves.

    Chats link and ping by ``@``, ``<``, ``[`` and backticks.
    """
    kept = "".join(char if char.isprintable() else " " for char in text)
    return kept.translate(_NO_MARKUP)


_NO_MARKUP = str.maketrans({"<": "(", ">": ")", "`": "'", "@": "(at)", "[": "(", "]": ")"})


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 3]}..."
