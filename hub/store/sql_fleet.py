"""Statements about the hub itself, its agents, their sessions and enrolment."""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, insert, select, update

from hub.ids import uuid7
from hub.store.base import PAGE_MAX
from hub.store.records import Agent, EnrollRefusal, EnrollToken, Hub, SessionRow, StatusNote
from hub.store.rows import from_row, to_row
from hub.store.schema import AGENTS, ENROLL_TOKENS, HUB, SESSIONS
from wire.reasons import Reason

SESSION_LEFT_OPEN = "the hub stopped without closing it"
SESSION_FOLLOWED = "its end could not be written down before the next began"


def begin_generation(connection: Connection, now_ms: int) -> Hub:
    """Count this start."""
    row = connection.execute(select(HUB)).mappings().one_or_none()
    if row is None:
        hub = Hub(id=uuid7(now_ms), generation=1, created_at_ms=now_ms, started_at_ms=now_ms)
        connection.execute(insert(HUB), to_row(hub))
    else:
        hub = Hub(
            id=row["id"],
            generation=row["generation"] + 1,
            created_at_ms=row["created_at_ms"],
            started_at_ms=now_ms,
        )
        connection.execute(update(HUB).values(generation=hub.generation, started_at_ms=now_ms))
    connection.execute(
        update(SESSIONS)
        .where(SESSIONS.c.closed_at_ms.is_(None))
        .values(closed_at_ms=now_ms, reason_code=int(Reason.HUB_STOPPING), reason_detail=SESSION_LEFT_OPEN)
    )
    return hub


def open_session(connection: Connection, session: SessionRow, agent: Agent) -> None:
    """A session and what its hello said. An earlier one whose end could not be written down ends here."""
    connection.execute(_LEFT_OPEN, {"of_agent": agent.id, "at_ms": session.opened_at_ms})
    connection.execute(insert(SESSIONS), to_row(session))
    row = to_row(agent)
    said = ("name", "boot_id", "epoch", "version", "capabilities")
    connection.execute(
        update(AGENTS)
        .where(AGENTS.c.id == agent.id)
        .values(last_heard_at_ms=session.opened_at_ms, **{column: row[column] for column in said})
    )


def close_session(connection: Connection, session_id: str, now_ms: int, reason_code: int, detail: str) -> None:
    """A session's end, also as its agent's last reason."""
    connection.execute(
        update(SESSIONS)
        .where(SESSIONS.c.id == session_id)
        .values(closed_at_ms=now_ms, reason_code=reason_code, reason_detail=detail)
    )
    agent_id = connection.scalar(select(SESSIONS.c.agent_id).where(SESSIONS.c.id == session_id))
    if agent_id is not None:
        note_reason(connection, agent_id, now_ms, reason_code, detail)


def refused_session(connection: Connection, session: SessionRow) -> None:
    """A newcomer that was refused."""
    connection.execute(insert(SESSIONS), to_row(session))


def sessions(connection: Connection, agent_id: str, before: str, limit: int) -> list[SessionRow]:
    """An agent's sessions, newest first."""
    query = select(SESSIONS).where(SESSIONS.c.agent_id == agent_id)
    if before:
        query = query.where(SESSIONS.c.id < before)
    rows = connection.execute(query.order_by(SESSIONS.c.id.desc()).limit(min(limit, PAGE_MAX)))
    return [from_row(SessionRow, row) for row in rows.mappings()]


def note_reason(connection: Connection, agent_id: str, now_ms: int, reason_code: int, detail: str) -> None:
    """The agent's last reason, unless a later one is known."""
    reason = {"of_agent": agent_id, "at_ms": now_ms, "code": reason_code, "detail": detail}
    connection.execute(_LAST_REASON, reason)


# Made once: a statement is a net of objects that refer to each other, and sessions come and go.
_LEFT_OPEN = (
    update(SESSIONS)
    .where(SESSIONS.c.agent_id == bindparam("of_agent"), SESSIONS.c.closed_at_ms.is_(None))
    .values(closed_at_ms=bindparam("at_ms"), reason_code=int(Reason.CONNECTION_LOST), reason_detail=SESSION_FOLLOWED)
)
_LAST_REASON = (
    update(AGENTS)
    .where(AGENTS.c.id == bindparam("of_agent"), func.coalesce(AGENTS.c.last_reason_at_ms, 0) <= bindparam("at_ms"))
    .values(
        last_reason_code=bindparam("code"), last_reason_detail=bindparam("detail"), last_reason_at_ms=bindparam("at_ms")
    )
)
_HEARD = (
    update(AGENTS).where(AGENTS.c.id == bindparam("of_agent")).values(last_heard_at_ms=bindparam("last_heard_at_ms"))
)
_HEARD_AND_STATUS = _HEARD.values(last_status=bindparam("last_status"))


def note_status(connection: Connection, notes: Sequence[StatusNote]) -> None:
    """When agents were last heard, and their last status: all in two statements."""
    heard = [{"of_agent": note.agent_id, "last_heard_at_ms": note.heard_at_ms} for note in notes if note.packed is None]
    with_status = [
        {"of_agent": note.agent_id, "last_heard_at_ms": note.heard_at_ms, "last_status": note.packed}
        for note in notes
        if note.packed is not None
    ]
    if heard:
        connection.execute(_HEARD, heard)
    if with_status:
        connection.execute(_HEARD_AND_STATUS, with_status)


def agent(connection: Connection, agent_id: str) -> Agent | None:
    """One agent."""
    row = connection.execute(select(AGENTS).where(AGENTS.c.id == agent_id)).mappings().one_or_none()
    return None if row is None else from_row(Agent, row)


def agents(connection: Connection, after: str, limit: int) -> list[Agent]:
    """Agents by id."""
    rows = connection.execute(
        select(AGENTS).where(AGENTS.c.id > after).order_by(AGENTS.c.id).limit(min(limit, PAGE_MAX))
    )
    return [from_row(Agent, row) for row in rows.mappings()]


def revoke_agent(connection: Connection, agent_id: str, now_ms: int) -> Agent | None:
    """Revoke; the first time stands."""
    connection.execute(
        update(AGENTS).where(AGENTS.c.id == agent_id, AGENTS.c.revoked_at_ms.is_(None)).values(revoked_at_ms=now_ms)
    )
    return agent(connection, agent_id)


# --- enrolment


def add_enroll_token(connection: Connection, token: EnrollToken) -> None:
    """A new token."""
    connection.execute(insert(ENROLL_TOKENS), to_row(token))


def enroll_token(connection: Connection, token_id: str) -> EnrollToken | None:
    """One token."""
    row = connection.execute(select(ENROLL_TOKENS).where(ENROLL_TOKENS.c.id == token_id)).mappings().one_or_none()
    return None if row is None else from_row(EnrollToken, row)


def enroll_tokens(connection: Connection, after: str, limit: int) -> list[EnrollToken]:
    """Tokens by id."""
    rows = connection.execute(
        select(ENROLL_TOKENS).where(ENROLL_TOKENS.c.id > after).order_by(ENROLL_TOKENS.c.id).limit(min(limit, PAGE_MAX))
    )
    return [from_row(EnrollToken, row) for row in rows.mappings()]


def revoke_enroll_token(connection: Connection, token_id: str, now_ms: int) -> EnrollToken | None:
    """Revoke; the first time stands."""
    connection.execute(
        update(ENROLL_TOKENS)
        .where(ENROLL_TOKENS.c.id == token_id, ENROLL_TOKENS.c.revoked_at_ms.is_(None))
        .values(revoked_at_ms=now_ms)
    )
    return enroll_token(connection, token_id)


def enroll(
    connection: Connection,
    *,
    secret_hash: bytes,
    enrollment_id: str,
    public_key: bytes,
    name: str,
    agent_id: str,
    now_ms: int,
) -> Agent | EnrollRefusal:
    """Use a token up once and make the agent; the same request again gives the same agent."""
    row = (
        connection.execute(select(ENROLL_TOKENS).where(ENROLL_TOKENS.c.secret_hash == secret_hash))
        .mappings()
        .one_or_none()
    )
    if row is None:
        return EnrollRefusal.UNKNOWN
    token = from_row(EnrollToken, row)
    before = (
        connection.execute(
            select(AGENTS).where((AGENTS.c.enrollment_id == enrollment_id) | (AGENTS.c.public_key == public_key))
        )
        .mappings()
        .all()
    )
    if before:
        known = from_row(Agent, before[0])
        same = (known.enrollment_id, known.public_key, known.token_id) == (enrollment_id, public_key, token.id)
        return known if same and len(before) == 1 and known.revoked_at_ms is None else EnrollRefusal.KEY_IN_USE
    refusal = _refusal(token, now_ms)
    if refusal is not None:
        return refusal
    made = Agent(
        id=agent_id,
        name=name,
        public_key=public_key,
        enrollment_id=enrollment_id,
        token_id=token.id,
        created_at_ms=now_ms,
        labels=token.labels,
    )
    connection.execute(_USE_TOKEN, {"of_token": token.id})
    connection.execute(insert(AGENTS), to_row(made))
    return made


_USE_TOKEN = (
    update(ENROLL_TOKENS).where(ENROLL_TOKENS.c.id == bindparam("of_token")).values(uses=ENROLL_TOKENS.c.uses + 1)
)


def _refusal(token: EnrollToken, now_ms: int) -> EnrollRefusal | None:
    if token.revoked_at_ms is not None:
        return EnrollRefusal.REVOKED
    if now_ms >= token.expires_at_ms:
        return EnrollRefusal.EXPIRED
    return EnrollRefusal.USED_UP if token.uses >= token.uses_max else None
