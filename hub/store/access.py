"""What the store keeps of who may come in: a protocol beside `hub.store.base.Store`, whose rules hold here too.

People, sessions and tokens are few, so the hub holds all of them in memory (`hub.access.roster`) and only writes here.
"""

from collections.abc import Sequence
from typing import Protocol

from hub.access.records import ApiToken, AuditEntry, AuditFilter, BrowserSession, Kept, Purpose, User


class AccessStore(Protocol):
    """People, their browsers, tokens for programs, the audit, and idempotency keys."""

    # --- people

    async def users(self) -> list[User]:
        """Everybody."""

    async def add_user(self, user: User) -> None:
        """A new one.

        Raises:
            hub.store.base.UserNameTaken: another has the name.
        """

    async def save_user(self, user: User) -> None:
        """Another role, password or time of login."""

    async def delete_user(self, user_id: str) -> None:
        """Forget somebody, and end their sessions."""

    # --- browsers

    async def browser_sessions(self) -> list[BrowserSession]:
        """Every session that was not ended."""

    async def add_browser_session(self, session: BrowserSession) -> None:
        """A browser is logged in."""

    async def end_browser_sessions(self, hashes: Sequence[bytes]) -> None:
        """Close sessions; unknown ones are fine."""

    async def add_code(self, code_hash: bytes, purpose: Purpose, expires_at_ms: int) -> None:
        """Keep a one-time code by its SHA-256."""

    async def log_in_by_code(self, code_hash: bytes, session: BrowserSession, now_ms: int) -> bool:
        """Use a login code up and open the session, in one transaction; False for unknown, used or expired."""

    async def set_up_by_code(self, code_hash: bytes, user: User, session: BrowserSession, now_ms: int) -> bool:
        """Use a setup code up, make the user and open the session, in one transaction; False as above.

        Raises:
            hub.store.base.UserNameTaken: another has the name; the code is still good.
        """

    # --- programs

    async def api_tokens(self) -> list[ApiToken]:
        """Every token, revoked ones too."""

    async def add_api_token(self, token: ApiToken) -> None:
        """A new one."""

    async def save_api_token(self, token: ApiToken) -> None:
        """Revoked."""

    async def delete_api_token(self, token_id: str) -> None:
        """Forget one that has not been good for long."""

    async def note_used(self, sessions: Sequence[BrowserSession], tokens: Sequence[ApiToken]) -> None:
        """Write down when these were last used."""

    # --- what was done

    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Keep what was done, or refused."""

    async def audit(self, wanted: AuditFilter, *, before: str, limit: int) -> list[AuditEntry]:
        """Entries, newest first, older than the id ``before`` if given."""

    async def expire_audit(self, before_ms: int, rows_max: int, *, limit: int) -> int:
        """Give up the oldest entries: made before, or more than ``rows_max``."""

    # --- requests that may be made again

    async def begin_kept(self, kept: Kept, *, forget_before_ms: int, rows_max: int) -> Kept | None:
        """Note a request under way; if its key is known already nothing is noted, and what is kept comes back.

        What is older than the bound, or too much, is forgotten on the way.
        """

    async def finish_kept(self, kept: Kept) -> None:
        """Keep the answer."""

    async def drop_kept(self, owner: str, route: str, key: str) -> None:
        """Nothing was done: the key is free again."""
