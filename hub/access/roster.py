"""Everybody who may come in, in memory: people, their browsers' sessions, tokens for programs.

They are few, and every request asks; so the store is read once, written first at each change, and never asked again.
When something was last used is written down now and then (`run`).
"""

import asyncio
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final

import msgspec
import structlog
from aiohttp import web

from hub.access.records import ApiToken, BrowserSession, Purpose, User
from hub.access.roles import Identity, Kind, Role
from hub.clock import Clock
from hub.ids import uuid7
from hub.store.access import AccessStore
from hub.store.base import StoreError

log = structlog.get_logger(__name__)

USERS_MAX: Final = 500
TOKENS_MAX: Final = 1000
"""Good and past ones; of the past ones the oldest make room."""
SESSIONS_OF_ONE_MAX: Final = 32
"""Of one user; the one unused for longest is ended by a new one."""
NOTE_S: Final = 60.0
"""Between two notes of when things were last used."""
AGENT_CHARS_MAX: Final = 200
LINK_NAME: Final = "somebody at the hub"


class TooMany(Exception):
    """All places are taken; the sentence says what to do."""


class NoOtherAdmin(Exception):
    """The last admin stays one."""


def digest(secret: str) -> bytes:
    """How codes, tokens and session secrets are kept: never themselves."""
    return sha256(secret.encode()).digest()


class Roster:
    """Who may come in.

    Args:
        store: where they are kept.
        clock: the hub's.
        idle_s: a browser that asks nothing for so long is logged out.
        session_s: and in any case after so long.
    """

    def __init__(self, store: AccessStore, clock: Clock, *, idle_s: int, session_s: int) -> None:
        self._store = store
        self._clock = clock
        self._idle_ms = idle_s * 1000
        self._session_ms = session_s * 1000
        self._users: dict[str, User] = {}
        self._by_name: dict[str, str] = {}
        self._sessions: dict[bytes, BrowserSession] = {}
        self._tokens: dict[str, ApiToken] = {}
        self._by_hash: dict[bytes, str] = {}
        self._used_sessions: set[bytes] = set()
        self._used_tokens: set[str] = set()
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Read all of it."""
        for user in await self._store.users():
            self._put_user(user)
        for token in await self._store.api_tokens():
            self._put_token(token)
        self._sessions = {session.session_hash: session for session in await self._store.browser_sessions()}
        await self._sweep()

    async def run(self) -> None:
        """Write down what was used, and end what is over, for ever."""
        while True:
            await asyncio.sleep(NOTE_S)
            try:
                await self.note()
            except StoreError as error:
                log.warning("when tokens and sessions were used waits for the store", error=str(error))

    async def note(self) -> None:
        """Write down what was used since the last time, and end what is over."""
        sessions, self._used_sessions = self._used_sessions, set()
        tokens, self._used_tokens = self._used_tokens, set()
        await self._store.note_used(
            [self._sessions[one] for one in sessions if one in self._sessions],
            [self._tokens[one] for one in tokens if one in self._tokens],
        )
        await self._sweep()

    async def _sweep(self) -> None:
        now_ms = self._clock.time_ms()
        await self._end(session.session_hash for session in self._sessions.values() if not self._open(session, now_ms))

    # --- recognising

    def by_session(self, secret: str, *, seen: bool = True) -> Identity | None:
        """Whose browser this is; None if it is not logged in. ``seen`` counts as use."""
        session_hash, now_ms = digest(secret), self._clock.time_ms()
        session = self._sessions.get(session_hash)
        if session is None or not self._open(session, now_ms):
            return None
        user = self._users.get(session.user_id)
        if seen and now_ms - session.used_at_ms >= 1000:  # noqa: PLR2004 - a second: often enough, and cheap
            self._sessions[session_hash] = msgspec.structs.replace(session, used_at_ms=now_ms)
            self._used_sessions.add(session_hash)
        if user is None:
            return Identity(kind=Kind.LINK, name=LINK_NAME, role=Role.ADMIN, session_id=session.id)
        return Identity(kind=Kind.USER, name=user.name, role=user.role, id=user.id, session_id=session.id)

    def by_token(self, secret: str, remote: str) -> Identity | None:
        """Whose token this is; None for an unknown, revoked or expired one."""
        token = self._tokens.get(self._by_hash.get(digest(secret), ""))
        now_ms = self._clock.time_ms()
        if token is None or not good(token, now_ms):
            return None
        if now_ms - (token.used_at_ms or 0) >= 1000 or token.used_from != remote:  # noqa: PLR2004 - as above
            self._tokens[token.id] = msgspec.structs.replace(token, used_at_ms=now_ms, used_from=remote)
            self._used_tokens.add(token.id)
        return Identity(kind=Kind.TOKEN, name=token.name, role=token.role, id=token.id, areas=frozenset(token.areas))

    def _open(self, session: BrowserSession, now_ms: int) -> bool:
        if now_ms >= min(session.expires_at_ms, session.used_at_ms + self._idle_ms):
            return False
        user = self._users.get(session.user_id)
        return not session.user_id or (user is not None and user.disabled_at_ms is None)

    # --- people

    def users(self) -> list[User]:
        """Everybody, by id."""
        return sorted(self._users.values(), key=lambda user: user.id)

    def user(self, user_id: str) -> User | None:
        """One of them."""
        return self._users.get(user_id)

    def user_named(self, name: str) -> User | None:
        """One of them, by name."""
        return self._users.get(self._by_name.get(name, ""))

    async def add_user(self, user: User) -> None:
        """A new one.

        Raises:
            TooMany: there are as many as there may be.
            hub.store.base.UserNameTaken: another has the name.
        """
        async with self._changing:
            self._room_for_user()
            await self._store.add_user(user)
            self._put_user(user)

    async def change_user(self, user_id: str, **changes: object) -> User | None:
        """Change somebody; None if there is nobody. Who is disabled or has a new password is logged out everywhere.

        Raises:
            NoOtherAdmin: nobody else would be left who can let people in.
        """
        async with self._changing:
            before = self._users.get(user_id)
            if before is None:
                return None
            after = msgspec.structs.replace(before, **changes)
            self._keep_an_admin(before, after)
            await self._store.save_user(after)
            self._put_user(after)
        if after.disabled_at_ms is not None or after.password_hash != before.password_hash:
            await self.log_out(user_id)
        return after

    async def rehashed(self, user_id: str, password_hash: str) -> User | None:
        """The same password by today's costs: nobody is logged out for it."""
        async with self._changing:
            user = self._users.get(user_id)
            if user is None:
                return None
            after = msgspec.structs.replace(user, password_hash=password_hash)
            await self._store.save_user(after)
            self._put_user(after)
            return after

    async def change_password(self, user_id: str, password_hash: str, *, keep_session: str) -> None:
        """Another password; every session ends but one."""
        user = await self.rehashed(user_id, password_hash)
        if user is not None:
            changed = msgspec.structs.replace(user, password_at_ms=self._clock.time_ms())
            await self._store.save_user(changed)
            self._put_user(changed)
        await self.log_out(user_id, lambda session: session.id != keep_session)

    async def delete_user(self, user_id: str) -> bool:
        """Forget somebody, and log them out; False if there is nobody.

        Raises:
            NoOtherAdmin: as for a change.
        """
        async with self._changing:
            user = self._users.get(user_id)
            if user is None:
                return False
            self._keep_an_admin(user, None)
            await self._store.delete_user(user_id)
            del self._users[user_id]
            del self._by_name[user.name]
            for session in [one for one in self._sessions.values() if one.user_id == user_id]:
                del self._sessions[session.session_hash]
            return True

    def _keep_an_admin(self, before: User, after: User | None) -> None:
        if _can_let_in(before) and not (after is not None and _can_let_in(after)):
            others = [user for user in self._users.values() if user.id != before.id and _can_let_in(user)]
            if not others:
                raise NoOtherAdmin(f"{before.name} is the only admin; make another one first")

    def _room_for_user(self) -> None:
        if len(self._users) >= USERS_MAX:
            raise TooMany(f"there are {USERS_MAX} users already; delete one first")

    def _put_user(self, user: User) -> None:
        self._users[user.id] = user
        self._by_name[user.name] = user.id

    # --- browsers

    def sessions_of(self, user_id: str) -> list[BrowserSession]:
        """Open sessions, newest first; with an empty id those opened at the hub's machine."""
        now_ms = self._clock.time_ms()
        found = [one for one in self._sessions.values() if one.user_id == user_id and self._open(one, now_ms)]
        return sorted(found, key=lambda session: session.id, reverse=True)

    def new_session(self, secret: str, user_id: str, remote: str, agent: str) -> BrowserSession:
        """A session that begins now, not open yet."""
        now_ms = self._clock.time_ms()
        printable = "".join(char for char in agent[:AGENT_CHARS_MAX] if char.isprintable())
        return BrowserSession(
            session_hash=digest(secret),
            id=uuid7(now_ms),
            user_id=user_id,
            opened_at_ms=now_ms,
            used_at_ms=now_ms,
            expires_at_ms=now_ms + self._session_ms,
            remote=remote,
            agent=printable,
        )

    async def log_in(self, session: BrowserSession) -> None:
        """Open a user's session."""
        await self._store.add_browser_session(session)
        await self._opened(session)
        if (user := self._users.get(session.user_id)) is not None:
            changed = msgspec.structs.replace(user, last_login_at_ms=session.opened_at_ms)
            await self._store.save_user(changed)
            self._put_user(changed)

    async def log_in_by_code(self, code: str, session: BrowserSession) -> bool:
        """Open an admin's session with a one-time code; False for one that is not good."""
        if not await self._store.log_in_by_code(digest(code), session, self._clock.time_ms()):
            return False
        await self._opened(session)
        return True

    async def set_up_by_code(self, code: str, user: User, session: BrowserSession) -> bool:
        """Make a user with a one-time code, logged in at once; False for one that is not good.

        Raises:
            TooMany: there are as many users as there may be.
            hub.store.base.UserNameTaken: another has the name.
        """
        async with self._changing:
            self._room_for_user()
            if not await self._store.set_up_by_code(digest(code), user, session, self._clock.time_ms()):
                return False
            self._put_user(user)
        await self._opened(session)
        return True

    async def add_code(self, code: str, purpose: Purpose, expires_at_ms: int) -> None:
        """A code that is good once."""
        await self._store.add_code(digest(code), purpose, expires_at_ms)

    async def _opened(self, session: BrowserSession) -> None:
        self._sessions[session.session_hash] = session
        others = sorted(self.sessions_of(session.user_id), key=lambda one: one.used_at_ms, reverse=True)
        await self._end(one.session_hash for one in others[SESSIONS_OF_ONE_MAX:])

    async def log_out(self, user_id: str, only: Callable[[BrowserSession], bool] = lambda _session: True) -> int:
        """End sessions of a user, all of them or only some; how many."""
        found = [one.session_hash for one in self._sessions.values() if one.user_id == user_id and only(one)]
        await self._end(found)
        return len(found)

    async def _end(self, hashes: Iterable[bytes]) -> None:
        """In memory first: what is ended opens nothing any more, whatever the store says."""
        gone = list(hashes)
        for one in gone:
            self._sessions.pop(one, None)
        await self._store.end_browser_sessions(gone)

    # --- programs

    def tokens(self) -> list[ApiToken]:
        """Every token, by id."""
        return sorted(self._tokens.values(), key=lambda token: token.id)

    def token(self, token_id: str) -> ApiToken | None:
        """One of them."""
        return self._tokens.get(token_id)

    async def add_token(self, token: ApiToken) -> None:
        """A new one; where there is no room, the oldest that is not good any more is forgotten.

        Raises:
            TooMany: all of them are good.
        """
        async with self._changing:
            if len(self._tokens) >= TOKENS_MAX:
                now_ms = self._clock.time_ms()
                past = next((one for one in self.tokens() if not good(one, now_ms)), None)
                if past is None:
                    raise TooMany(f"there are {TOKENS_MAX} tokens that are good; revoke one first")
                await self._store.delete_api_token(past.id)
                del self._tokens[past.id]
                del self._by_hash[past.token_hash]
            await self._store.add_api_token(token)
            self._put_token(token)

    async def revoke_token(self, token_id: str) -> ApiToken | None:
        """It opens nothing from now on; the first time stands. None for an unknown one."""
        token = self._tokens.get(token_id)
        if token is None or token.revoked_at_ms is not None:
            return token
        revoked = msgspec.structs.replace(token, revoked_at_ms=self._clock.time_ms())
        self._put_token(revoked)  # in memory first, as for sessions
        await self._store.save_api_token(revoked)
        return revoked

    def _put_token(self, token: ApiToken) -> None:
        self._tokens[token.id] = token
        self._by_hash[token.token_hash] = token.id


def good(token: ApiToken, now_ms: int) -> bool:
    """Whether a token opens anything."""
    return token.revoked_at_ms is None and (token.expires_at_ms is None or now_ms < token.expires_at_ms)


def _can_let_in(user: User) -> bool:
    return user.role is Role.ADMIN and user.disabled_at_ms is None


ROSTER = web.AppKey("ROSTER", Roster)
