"""`hub.store.alerts.AlertStore` by SQL: the statements, and who hands them to the writer or to a reader."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from hub.alerts.facts import Rule
from hub.alerts.records import Alert, AlertState, Channel, Notice, NoticeState, Silence, Watched
from hub.alerts.rules import Limits
from hub.ids import least
from hub.store.alerts import AlertChange, AlertsKept, FailingCircuit, JobsGlance
from hub.store.base import PAGE_MAX
from hub.store.rows import from_row, to_row
from hub.store.schema import CIRCUITS, JOBS
from hub.store.schema_alerts import (
    ALERT_CHANNELS,
    ALERT_LOOK,
    ALERT_NOTICES,
    ALERT_RULES,
    ALERT_SILENCES,
    ALERT_WATCHED,
    ALERTS,
)
from hub.store.sql_access import Hand
from hub.store.sql_these import one_of_these, these
from wire.jobs import JobState

FAILED_LOOKED_AT = 1000
"""Of the jobs that lately failed, the latest."""
DETAIL_CHARS_MAX = 500


class SqlAlerts:
    """The one implementation; `hub.store.alerts` says what each method does."""

    def __init__(self, write: Hand, read: Hand) -> None:
        self._write = write
        self._read = read

    async def load(self, now_ms: int) -> AlertsKept:
        """Everything that goes on."""
        return await self._read(lambda c: _load(c, now_ms))

    async def keep(self, change: AlertChange) -> None:
        """Write rows, all or none."""
        await self._write(lambda c: _keep(c, change))

    async def save_limits(self, rule: Rule, limits: Limits | None) -> None:
        """Change a rule."""

        def save(connection: Connection) -> None:
            connection.execute(delete(ALERT_RULES).where(ALERT_RULES.c.rule == rule.value))
            if limits is not None:
                row = {"rule": rule.value, "limits": msgspec.json.encode(limits).decode()}
                connection.execute(insert(ALERT_RULES), row)

        await self._write(save)

    async def save_silence(self, silence: Silence) -> None:
        """A new one, or one changed."""

        def save(connection: Connection) -> None:
            connection.execute(delete(ALERT_SILENCES).where(ALERT_SILENCES.c.id == silence.id))
            connection.execute(insert(ALERT_SILENCES), to_row(silence))

        await self._write(save)

    async def silences(self, *, before: str = "", limit: int) -> list[Silence]:
        """Newest first."""
        query = select(ALERT_SILENCES)
        if before:
            query = query.where(ALERT_SILENCES.c.id < before)
        query = query.order_by(ALERT_SILENCES.c.id.desc()).limit(min(limit, PAGE_MAX))
        return await self._read(lambda c: [from_row(Silence, row) for row in c.execute(query).mappings()])

    async def save_channel(self, channel: Channel) -> None:
        """A new one, or one changed."""

        def save(connection: Connection) -> None:
            row = to_row(channel)
            done = connection.execute(update(ALERT_CHANNELS).where(ALERT_CHANNELS.c.id == channel.id).values(row))
            if not done.rowcount:
                connection.execute(insert(ALERT_CHANNELS), row)

        await self._write(save)

    async def delete_channel(self, channel_id: str) -> None:
        """With all that waits for it, and what was sent."""

        def forget(connection: Connection) -> None:
            connection.execute(delete(ALERT_NOTICES).where(ALERT_NOTICES.c.channel_id == channel_id))
            connection.execute(delete(ALERT_CHANNELS).where(ALERT_CHANNELS.c.id == channel_id))

        await self._write(forget)

    async def alert(self, alert_id: str) -> Alert | None:
        """One."""
        query = select(ALERTS).where(ALERTS.c.id == alert_id)

        def read(connection: Connection) -> Alert | None:
            row = connection.execute(query).mappings().one_or_none()
            return None if row is None else from_row(Alert, row)

        return await self._read(read)

    async def alerts(self, *, state: AlertState | None = None, before: str = "", limit: int) -> list[Alert]:
        """Newest first."""
        query = select(ALERTS)
        if state is not None:
            query = query.where(ALERTS.c.state == state.value)
        if before:
            query = query.where(ALERTS.c.id < before)
        query = query.order_by(ALERTS.c.id.desc()).limit(min(limit, PAGE_MAX))
        return await self._read(lambda c: [from_row(Alert, row) for row in c.execute(query).mappings()])

    async def due(self, now_ms: int, *, limit: int) -> list[Notice]:
        """Those that wait and are due."""
        query = (
            select(ALERT_NOTICES)
            .where(ALERT_NOTICES.c.state == NoticeState.WAITING.value, ALERT_NOTICES.c.due_at_ms <= now_ms)
            .order_by(ALERT_NOTICES.c.id)
            .limit(limit)
        )
        return await self._read(lambda c: [from_row(Notice, row) for row in c.execute(query).mappings()])

    async def waiting(self) -> int:
        """How many wait."""
        query = (
            select(func.count()).select_from(ALERT_NOTICES).where(ALERT_NOTICES.c.state == NoticeState.WAITING.value)
        )
        return await self._read(lambda c: int(c.scalar(query) or 0))

    async def tried(self, notices: Sequence[Notice], channel: Channel | None) -> None:
        """What became of some."""

        def save(connection: Connection) -> None:
            for notice in notices:
                connection.execute(update(ALERT_NOTICES).where(ALERT_NOTICES.c.id == notice.id).values(to_row(notice)))
            if channel is not None:
                told = {name: getattr(channel, name) for name in ("delivered_at_ms", "failed_at_ms", "failure")}
                connection.execute(update(ALERT_CHANNELS).where(ALERT_CHANNELS.c.id == channel.id).values(told))

        await self._write(save)

    async def notices(self, *, alert_id: str = "", before: str = "", limit: int) -> list[Notice]:
        """Newest first."""
        query = select(ALERT_NOTICES)
        if alert_id:
            query = query.where(ALERT_NOTICES.c.alert_id == alert_id)
        if before:
            query = query.where(ALERT_NOTICES.c.id < before)
        query = query.order_by(ALERT_NOTICES.c.id.desc()).limit(min(limit, PAGE_MAX))
        return await self._read(lambda c: [from_row(Notice, row) for row in c.execute(query).mappings()])

    async def glance(self, since_ms: int) -> JobsGlance:
        """What jobs look like."""
        return await self._read(lambda c: _glance(c, since_ms))

    async def expire(self, before_ms: int, *, limit: int) -> int:
        """Give up what ended before."""
        return await self._write(lambda c: _expire(c, before_ms, limit))


def _load(connection: Connection, now_ms: int) -> AlertsKept:
    rules = {row.rule: row.limits for row in connection.execute(select(ALERT_RULES))}
    known = {rule.value: rule for rule in Rule}
    watched = connection.execute(select(ALERT_WATCHED).where(ALERT_WATCHED.c.rule.in_(known))).mappings().all()
    firing = select(ALERTS).where(ALERTS.c.state == AlertState.FIRING.value, ALERTS.c.rule.in_(known))
    silences = select(ALERT_SILENCES).where(ALERT_SILENCES.c.until_ms > now_ms).order_by(ALERT_SILENCES.c.id)
    channels = select(ALERT_CHANNELS).order_by(ALERT_CHANNELS.c.id)
    return AlertsKept(
        limits={
            known[rule]: msgspec.json.decode(limits, type=Limits) for rule, limits in rules.items() if rule in known
        },
        watched=tuple(from_row(Watched, row) for row in watched),
        alerts=tuple(from_row(Alert, row) for row in connection.execute(firing).mappings()),
        silences=tuple(from_row(Silence, row) for row in connection.execute(silences).mappings()),
        channels=tuple(from_row(Channel, row) for row in connection.execute(channels).mappings()),
    )


def _keep(connection: Connection, change: AlertChange) -> None:
    keys = [*change.gone, *(one.key for one in change.watched)]
    for start in range(0, len(keys), PAGE_MAX // 2):  # a statement takes so many values
        some = keys[start : start + PAGE_MAX // 2]
        alike = or_(
            *(and_(ALERT_WATCHED.c.rule == rule.value, ALERT_WATCHED.c.subject == subject) for rule, subject in some)
        )
        connection.execute(delete(ALERT_WATCHED).where(alike))
    if change.watched:
        connection.execute(insert(ALERT_WATCHED), [to_row(one) for one in change.watched])
    for alert in change.alerts:
        connection.execute(delete(ALERTS).where(ALERTS.c.id == alert.id))
        connection.execute(insert(ALERTS), to_row(alert))
    if change.looked_at_ms is not None:
        connection.execute(delete(ALERT_LOOK))
        connection.execute(insert(ALERT_LOOK), {"id": 1, "at_ms": change.looked_at_ms})
    if change.notices:
        # A channel that was removed at this very moment takes no notices.
        there = set(connection.scalars(select(ALERT_CHANNELS.c.id)))
        rows = [to_row(notice) for notice in change.notices if notice.channel_id in there]
        if rows:
            connection.execute(insert(ALERT_NOTICES), rows)


def _glance(connection: Connection, since_ms: int) -> JobsGlance:
    oldest = connection.scalar(select(func.min(JOBS.c.created_at_ms)).where(JOBS.c.state == JobState.QUEUED.value))
    done = {
        row.circuit_id: row.at_ms
        for row in connection.execute(
            select(JOBS.c.circuit_id, func.max(JOBS.c.ended_at_ms).label("at_ms"))
            .where(JOBS.c.state == JobState.DONE.value, JOBS.c.ended_at_ms >= since_ms)
            .group_by(JOBS.c.circuit_id)
        )
    }
    failed = connection.execute(
        select(JOBS.c.id, JOBS.c.circuit_id, JOBS.c.ended_at_ms, JOBS.c.error_detail)
        .where(JOBS.c.state == JobState.FAILED.value, JOBS.c.ended_at_ms >= since_ms)
        .order_by(JOBS.c.ended_at_ms.desc())
        .limit(FAILED_LOOKED_AT)
    ).all()
    counts = Counter[str]()
    latest: dict[str, tuple[str, str]] = {}
    for row in failed:
        if row.ended_at_ms >= done.get(row.circuit_id, -1):
            counts[row.circuit_id] += 1
            latest.setdefault(row.circuit_id, (row.id, row.error_detail[:DETAIL_CHARS_MAX]))
    named = {row.id: row.name for row in connection.execute(select(CIRCUITS.c.id, CIRCUITS.c.name))}
    return JobsGlance(
        oldest_queued_at_ms=oldest,
        failing=tuple(
            FailingCircuit(
                circuit_id=circuit_id,
                name=named.get(circuit_id, circuit_id),
                failed=count,
                last_job=latest[circuit_id][0],
                last_detail=latest[circuit_id][1],
            )
            for circuit_id, count in counts.items()
        ),
        well=tuple((circuit_id, named.get(circuit_id, circuit_id)) for circuit_id in done if circuit_id not in counts),
    )


def _expire(connection: Connection, before_ms: int, limit: int) -> int:
    gone = 0
    for table, over in (
        (ALERT_NOTICES, ALERT_NOTICES.c.state != NoticeState.WAITING.value),
        (ALERTS, and_(ALERTS.c.state != AlertState.FIRING.value, ALERTS.c.ended_at_ms < before_ms)),
        (ALERT_SILENCES, ALERT_SILENCES.c.until_ms < before_ms),
    ):
        query = select(table.c.id).where(table.c.id < least(before_ms), over).order_by(table.c.id).limit(limit - gone)
        ids = list(connection.scalars(query))
        if ids:
            connection.execute(delete(table).where(one_of_these(table.c.id)), these(ids))
        gone += len(ids)
    return gone
