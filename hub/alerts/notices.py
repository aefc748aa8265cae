"""Which channels are told what, and when it is tried again; pure."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from hub.alerts import words
from hub.alerts.engine import Told
from hub.alerts.facts import Rule, Severity
from hub.alerts.records import Channel, Kind, Notice, NoticeState

RETRIES_S = (30.0, 120.0, 600.0, 1800.0, 7200.0)
"""After each failed try the next; then it is given up."""
SINGLY_MAX = 3
"""More notices to one channel at once are told as one."""


def notices(told: Iterable[Told], channels: Sequence[Channel], now_ms: int, new_id: Callable[[], str]) -> list[Notice]:
    """One for each thing to be said and channel that wants to hear of it."""
    return [
        Notice(
            id=new_id(),
            channel_id=channel.id,
            alert_id=one.alert.id,
            kind=one.kind,
            severity=one.alert.severity,
            title=words.title(one.kind, one.alert),
            body=words.body(one.kind, one.alert, now_ms),
            created_at_ms=now_ms,
            due_at_ms=now_ms,
        )
        for one in told
        for channel in channels
        if channel.enabled and _wants(channel, one)
    ]


def _wants(channel: Channel, told: Told) -> bool:
    """A channel that takes nothing is not told that it takes nothing."""
    itself = told.alert.rule is Rule.NOTICE_UNDELIVERED and channel.name in told.alert.subjects
    return told.alert.severity.rank >= channel.severity.rank and not itself


def trial(channel: Channel, now_ms: int, by: str, notice_id: str) -> Notice:
    """That somebody asked for, to see whether it arrives."""
    return Notice(
        id=notice_id,
        channel_id=channel.id,
        alert_id="",
        kind=Kind.TEST,
        severity=Severity.INFO,
        title="[TEST] Provewire's notices arrive here",
        body=f"{words.plain(by)} asked for this test of the channel {words.plain(channel.name)}.",
        created_at_ms=now_ms,
        due_at_ms=now_ms,
    )


def tried(notice: Notice, *, delivered: bool, error: str, now_ms: int) -> Notice:
    """After a try."""
    tries = notice.tries + 1
    if delivered:
        return msgspec.structs.replace(notice, state=NoticeState.SENT, tries=tries, ended_at_ms=now_ms, error="")
    if tries > len(RETRIES_S) or notice.kind is Kind.TEST:
        return msgspec.structs.replace(notice, state=NoticeState.FAILED, tries=tries, ended_at_ms=now_ms, error=error)
    due_at_ms = now_ms + int(RETRIES_S[tries - 1] * 1000)
    return msgspec.structs.replace(notice, tries=tries, due_at_ms=due_at_ms, error=error)


def channel_after(channel: Channel, *, delivered: bool, error: str, now_ms: int) -> Channel:
    """After a try."""
    if delivered:
        return msgspec.structs.replace(channel, delivered_at_ms=now_ms, failed_at_ms=None, failure="")
    return msgspec.structs.replace(channel, failed_at_ms=channel.failed_at_ms or now_ms, failure=error)
