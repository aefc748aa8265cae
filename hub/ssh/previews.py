"""What was shown is what is done: a preview is kept under its own token, used once, and forgotten after a while."""

import secrets
from typing import Generic, TypeVar

from msgspec import Struct

from hub.clock import Clock

KEPT_S = 900.0
KEPT_MAX = 256
TOKEN_BYTES = 12

Plan = TypeVar("Plan")


class PreviewGone(LookupError):
    """No preview goes by this token any more."""


class _Kept(Struct, Generic[Plan]):
    plan: Plan
    kept_s: float


class Previews(Generic[Plan]):
    """Previews that wait for a confirmation; the oldest go first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept[Plan]] = {}

    def keep(self, plan: Plan) -> str:
        """Keep one; its token."""
        self._forget()
        while len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        token = secrets.token_hex(TOKEN_BYTES)
        self._kept[token] = _Kept(plan, self._clock.monotonic())
        return token

    def __contains__(self, token: str) -> bool:
        self._forget()
        return token in self._kept

    def take(self, token: str) -> Plan:
        """The preview of this token, for this once.

        Raises:
            PreviewGone: there is none: used, too old, or made before the hub's restart.
        """
        self._forget()
        kept = self._kept.pop(token, None)
        if kept is None:
            raise PreviewGone(
                f"this preview was used already, is older than {KEPT_S / 60:g} minutes, or is another hub run's; "
                "make a new one and look at it"
            )
        return kept.plan

    def _forget(self) -> None:
        now_s = self._clock.monotonic()
        self._kept = {token: kept for token, kept in self._kept.items() if now_s - kept.kept_s <= KEPT_S}
