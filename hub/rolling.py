"""Keeps the rollups made: a few at a time through the one writer, those first that are due longest.

Ingest marks, in its own transaction, each minute that samples came for; making a rollup settles its mark and sets the
one above, in one transaction as well. So this can be stopped or killed anywhere, and late samples need nothing special.
"""

import asyncio

import structlog

from hub.clock import Clock
from hub.store.base import Store, StoreUnavailable

log = structlog.get_logger(__name__)

SETTLE_S = 20.0
"""After a rollup's time is over, for samples that are still on their way."""
EVERY_S = 5.0
STEP_ROLLUPS = 16
"""In one transaction: some 10 ms of the writer for nodes of eight cards."""
PAUSE_S = 0.02
"""Between two steps, so that a backlog leaves the writer free half of the time."""


class Roller:
    """The task."""

    def __init__(self, *, clock: Clock, store: Store, pause_s: float = PAUSE_S) -> None:
        self._clock = clock
        self._store = store
        self._pause_s = pause_s
        self.made_total = 0
        """For the metrics: rollups made."""

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self.catch_up()
            except StoreUnavailable as error:
                log.warning("rollups could not be made; they stay due", error=str(error))
            await asyncio.sleep(EVERY_S)

    async def catch_up(self) -> None:
        """Make whatever is due now."""
        while await self.step() == STEP_ROLLUPS:  # noqa: ASYNC110 - a pause for others, nothing is waited for
            await asyncio.sleep(self._pause_s)

    async def step(self) -> int:
        """Make some of what is due; how many."""
        made = await self._store.roll(self._clock.time_ms() - int(SETTLE_S * 1000), limit=STEP_ROLLUPS)
        self.made_total += made
        return made
