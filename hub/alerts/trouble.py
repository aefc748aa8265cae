"""The one alert that no store can keep: that the store itself fails. Pure; it lives in memory until it can be kept."""

import msgspec

from hub.alerts.facts import HUB, Rule
from hub.alerts.records import Alert, AlertState
from hub.alerts.rules import RULES, Limits
from hub.alerts.words import SINGLE
from hub.ids import uuid7

AGAIN_S = 60.0
"""Between two tries to tell it, while no channel has taken it."""


class Trouble:
    """Since when the store fails, and whether it was told."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._tried_ms: int | None = None
        self.alert: Alert | None = None
        """While it fires."""

    def failed(self, why: str, now_ms: int, limits: Limits) -> Alert | None:
        """The store failed; the alert, if it is to be told now."""
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        if not limits.enabled or now_ms - self._since_ms < limits.hold_s * 1000:
            return None
        if self.alert is None:
            self.alert = Alert(
                id=uuid7(now_ms),
                rule=Rule.HUB_STORE,
                severity=limits.severity,
                state=AlertState.FIRING,
                fired_at_ms=self._since_ms,
                headline=SINGLE[Rule.HUB_STORE].format(name=HUB),
                remedy=RULES[Rule.HUB_STORE].remedy,
                subjects=(HUB,),
                count=1,
                count_max=1,
            )
        self.alert = msgspec.structs.replace(self.alert, detail=why)
        waits = self._tried_ms is not None and now_ms - self._tried_ms < AGAIN_S * 1000
        if self.alert.notified_at_ms is not None or waits:
            return None
        self._tried_ms = now_ms
        return self.alert

    def told(self, now_ms: int) -> None:
        """Some channel took it."""
        if self.alert is not None:
            self.alert = msgspec.structs.replace(self.alert, notified_at_ms=now_ms)

    def works(self, now_ms: int) -> Alert | None:
        """The store works: the alert as it ended, for the store; None if it did not fail for long enough."""
        if self.alert is None:
            self._since_ms = None
            return None
        return msgspec.structs.replace(self.alert, state=AlertState.RESOLVED, ended_at_ms=now_ms, count=0)

    def forget(self) -> None:
        """It is kept."""
        self._since_ms = self._tried_ms = self.alert = None
