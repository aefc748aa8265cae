"""`hub.store.access.AccessStore` by SQL: the statements, and who hands them to the writer or to a reader."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, or_, select, update

from hub.access.records import ApiToken, AuditEntry, AuditFilter, BrowserSession, Kept, Purpose, User
from hub.ids import least
from hub.store.base import PAGE_MAX, UserNameTaken
from hub.store.rows import from_row, to_row
from hub.store.schema_access import API_TOKENS, AUDIT, BROWSER_SESSIONS, IDEMPOTENCY, LOGIN_CODES, USERS

Result = TypeVar("Result")
ESCAPE = "\\"


class Hand(Protocol):
    """Has a function run on a connection, in a thread of its own."""

    def __call__(self, operation: Callable[[Connection], Result], /) -> Awaitable[Result]:
        """Its result."""


class SqlAccess:
    """The one implementation; `hub.store.access` says what each method does."""

    def __init__(self, write: Hand, read: Hand) -> None:
        self._write = write
        self._read = read

    async def users(self) -> list[User]:
        """Everybody."""
        return await self._read(
            lambda c: [from_row(User, row) for row in c.execute(select(USERS).order_by(USERS.c.id)).mappings()]
        )

    async def add_user(self, user: User) -> None:
        """A new one."""
        await self._write(lambda c: _add_user(c, user))

    async def save_user(self, user: User) -> None:
        """Somebody changed."""
        await self._write(lambda c: c.execute(update(USERS).where(USERS.c.id == user.id).values(to_row(user))))

    async def delete_user(self, user_id: str) -> None:
        """Forget somebody."""

        def forget(connection: Connection) -> None:
            connection.execute(delete(BROWSER_SESSIONS).where(BROWSER_SESSIONS.c.user_id == user_id))
            connection.execute(delete(USERS).where(USERS.c.id == user_id))

        await self._write(forget)

    async def browser_sessions(self) -> list[BrowserSession]:
        """Every session."""
        query = select(BROWSER_SESSIONS).order_by(BROWSER_SESSIONS.c.id)
        return await self._read(lambda c: [from_row(BrowserSession, row) for row in c.execute(query).mappings()])

    async def add_browser_session(self, session: BrowserSession) -> None:
        """A browser is logged in."""
        await self._write(lambda c: c.execute(insert(BROWSER_SESSIONS), to_row(session)))

    async def end_browser_sessions(self, hashes: Sequence[bytes]) -> None:
        """Close sessions."""
        gone = delete(BROWSER_SESSIONS).where(BROWSER_SESSIONS.c.session_hash == bindparam("of"))
        if hashes:
            await self._write(lambda c: c.execute(gone, [{"of": one} for one in hashes]))

    async def add_code(self, code_hash: bytes, purpose: Purpose, expires_at_ms: int) -> None:
        """A one-time code."""
        row = {"code_hash": code_hash, "purpose": purpose.value, "expires_at_ms": expires_at_ms}
        await self._write(lambda c: c.execute(insert(LOGIN_CODES), row))

    async def log_in_by_code(self, code_hash: bytes, session: BrowserSession, now_ms: int) -> bool:
        """Use a login code up."""

        def log_in(connection: Connection) -> bool:
            used = _use_code(connection, code_hash, Purpose.LOGIN, now_ms)
            if used:
                connection.execute(insert(BROWSER_SESSIONS), to_row(session))
            return used

        return await self._write(log_in)

    async def set_up_by_code(self, code_hash: bytes, user: User, session: BrowserSession, now_ms: int) -> bool:
        """Use a setup code up."""

        def set_up(connection: Connection) -> bool:
            _check_name(connection, user.name)
            used = _use_code(connection, code_hash, Purpose.SETUP, now_ms)
            if used:
                connection.execute(insert(USERS), to_row(user))
                connection.execute(insert(BROWSER_SESSIONS), to_row(session))
            return used

        return await self._write(set_up)

    async def api_tokens(self) -> list[ApiToken]:
        """Every token."""
        query = select(API_TOKENS).order_by(API_TOKENS.c.id)
        return await self._read(lambda c: [from_row(ApiToken, row) for row in c.execute(query).mappings()])

    async def add_api_token(self, token: ApiToken) -> None:
        """A new one."""
        await self._write(lambda c: c.execute(insert(API_TOKENS), to_row(token)))

    async def save_api_token(self, token: ApiToken) -> None:
        """A token changed."""
        change = update(API_TOKENS).where(API_TOKENS.c.id == token.id).values(to_row(token))
        await self._write(lambda c: c.execute(change))

    async def delete_api_token(self, token_id: str) -> None:
        """Forget one."""
        await self._write(lambda c: c.execute(delete(API_TOKENS).where(API_TOKENS.c.id == token_id)))

    async def note_used(self, sessions: Sequence[BrowserSession], tokens: Sequence[ApiToken]) -> None:
        """When these were last used."""

        def note(connection: Connection) -> None:
            for session in sessions:
                one = update(BROWSER_SESSIONS).where(BROWSER_SESSIONS.c.session_hash == session.session_hash)
                connection.execute(one.values(used_at_ms=session.used_at_ms))
            for token in tokens:
                connection.execute(
                    update(API_TOKENS)
                    .where(API_TOKENS.c.id == token.id)
                    .values(used_at_ms=token.used_at_ms, used_from=token.used_from)
                )

        await self._write(note)

    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Keep what was done."""
        if entries:
            await self._write(lambda c: c.execute(insert(AUDIT), [to_row(entry) for entry in entries]))

    async def audit(self, wanted: AuditFilter, *, before: str, limit: int) -> list[AuditEntry]:
        """Entries, newest first."""
        return await self._read(lambda c: _audit(c, wanted, before, limit))

    async def expire_audit(self, before_ms: int, rows_max: int, *, limit: int) -> int:
        """Give up the oldest entries."""
        return await self._write(lambda c: _expire_audit(c, before_ms, rows_max, limit))

    async def begin_kept(self, kept: Kept, *, forget_before_ms: int, rows_max: int) -> Kept | None:
        """Note a request under way."""
        return await self._write(lambda c: _begin_kept(c, kept, forget_before_ms, rows_max))

    async def finish_kept(self, kept: Kept) -> None:
        """Keep the answer."""
        change = update(IDEMPOTENCY).where(*_is(kept.owner, kept.route, kept.key))
        answered = change.values(status=kept.status, headers=kept.headers, body=kept.body)
        await self._write(lambda c: c.execute(answered))

    async def drop_kept(self, owner: str, route: str, key: str) -> None:
        """The key is free again."""
        await self._write(lambda c: c.execute(delete(IDEMPOTENCY).where(*_is(owner, route, key))))


def _add_user(connection: Connection, user: User) -> None:
    _check_name(connection, user.name)
    connection.execute(insert(USERS), to_row(user))


def _check_name(connection: Connection, name: str) -> None:
    if connection.scalar(select(USERS.c.id).where(USERS.c.name == name)) is not None:
        raise UserNameTaken(f"there is a user {name!r} already")


def _use_code(connection: Connection, code_hash: bytes, purpose: Purpose, now_ms: int) -> bool:
    """What has expired is swept out on the way."""
    connection.execute(delete(LOGIN_CODES).where(LOGIN_CODES.c.expires_at_ms <= now_ms))
    used = connection.execute(
        delete(LOGIN_CODES).where(LOGIN_CODES.c.code_hash == code_hash, LOGIN_CODES.c.purpose == purpose.value)
    )
    return used.rowcount == 1


def _audit(connection: Connection, wanted: AuditFilter, before: str, limit: int) -> list[AuditEntry]:
    query = select(AUDIT)
    if before:
        query = query.where(AUDIT.c.id < before)
    if wanted.who:
        query = query.where(AUDIT.c.who == wanted.who)
    if wanted.action:
        part = f"%{_escaped(wanted.action)}%"
        query = query.where(or_(AUDIT.c.action.like(part, escape=ESCAPE), AUDIT.c.target.like(part, escape=ESCAPE)))
    if wanted.refused is not None:
        query = query.where(AUDIT.c.code != "" if wanted.refused else AUDIT.c.code == "")
    rows = connection.execute(query.order_by(AUDIT.c.id.desc()).limit(min(limit, PAGE_MAX)))
    return [from_row(AuditEntry, row) for row in rows.mappings()]


def _escaped(text: str) -> str:
    for special in (ESCAPE, "%", "_"):
        text = text.replace(special, f"{ESCAPE}{special}")
    return text


def _expire_audit(connection: Connection, before_ms: int, rows_max: int, limit: int) -> int:
    first = connection.scalar(select(AUDIT.c.id).order_by(AUDIT.c.id.desc()).offset(rows_max - 1).limit(1)) or ""
    old = select(AUDIT.c.id).where(AUDIT.c.id < max(first, least(before_ms))).order_by(AUDIT.c.id).limit(limit)
    return connection.execute(delete(AUDIT).where(AUDIT.c.id.in_(old))).rowcount


def _is(owner: str, route: str, key: str) -> tuple[ColumnElement[bool], ...]:
    return (IDEMPOTENCY.c.owner == owner, IDEMPOTENCY.c.route == route, IDEMPOTENCY.c.key == key)


def _begin_kept(connection: Connection, kept: Kept, forget_before_ms: int, rows_max: int) -> Kept | None:
    connection.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.begun_at_ms < forget_before_ms))
    row = connection.execute(select(IDEMPOTENCY).where(*_is(kept.owner, kept.route, kept.key))).mappings().one_or_none()
    if row is not None:
        return from_row(Kept, row)
    excess = (connection.scalar(select(func.count()).select_from(IDEMPOTENCY)) or 0) + 1 - rows_max
    if excess > 0:
        oldest = select(IDEMPOTENCY.c.begun_at_ms).order_by(IDEMPOTENCY.c.begun_at_ms).limit(excess)
        last = max(connection.scalars(oldest))
        connection.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.begun_at_ms <= last))
    connection.execute(insert(IDEMPOTENCY), to_row(kept))
    return None
