"""Gives up what is kept too long or is too much, in small steps between everyone else's writes; and tells what is kept.

Every kind has an age and a size; whichever is reached first holds.
"""

import asyncio
import shutil
from collections import Counter, deque
from collections.abc import Awaitable, Callable

import structlog
from msgspec import Struct

from hub.clock import Clock
from hub.config import Config
from hub.rollups import Tier
from hub.store.base import Store, StoreUnavailable
from hub.store.records import Usage

log = structlog.get_logger(__name__)

STEP_ROWS = 500
"""In one transaction: some 10 ms of the writer."""
STEPS_MAX = 400
"""Of one kind in one sweep: what is left waits for the next, so that no kind keeps the others from their turn."""
PAUSE_S = 0.05
"""Between two steps."""
RECLAIM_ABOVE_RATIO = 0.2
"""Of the file: so much may be free in it for later rows; what is beyond goes back to the file system."""
RECLAIM_BYTES = 1024 * 1024
"""In one step."""
AUDIT_ROWS_MAX = 200_000
DAY_S = 86_400.0
GROWTH_SWEEPS = 60
"""Over so many sweeps growth is measured."""

Step = Callable[[], Awaitable[int]]


class Keeping(Struct, frozen=True):
    """What is kept, for the metrics. A forecast needs ``disk_free_bytes`` and ``growth_bytes_per_s``."""

    usage: Usage
    disk_free_bytes: int
    """On the file system of the data directory."""
    growth_bytes_per_s: float
    """Of the store, free pages not counted, over the last hour or less."""

    @property
    def full_in_s(self) -> float | None:
        """Seconds until the disk is full, should the store grow on like this; None while it does not grow."""
        if self.growth_bytes_per_s <= 0.0:
            return None
        return (self.disk_free_bytes + self.usage.free_bytes) / self.growth_bytes_per_s


class Retention:
    """The task."""

    def __init__(self, *, config: Config, clock: Clock, store: Store, pause_s: float = PAUSE_S) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._pause_s = pause_s
        self._sizes: deque[tuple[float, int]] = deque(maxlen=GROWTH_SWEEPS)
        """When, in monotonic seconds, and bytes in use."""
        self.deleted: Counter[str] = Counter()
        """For the metrics: rows given up, by kind."""
        self.keeping: Keeping | None = None
        """As of the last sweep."""

    async def run(self) -> None:
        """For ever. The first sweep comes at once: the hub may have been away."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                log.warning("retention could not go on", error=str(error))
            await asyncio.sleep(self._config.retention_every_s)

    async def sweep(self) -> None:
        """Give up what has to go now, and look at what is left."""
        config, store, now_ms = self._config, self._store, self._clock.time_ms()

        def before(keep_s: float) -> int:
            return now_ms - int(keep_s * 1000)

        tiers = {
            Tier.RAW: (config.keep_raw_s, config.keep_raw_bytes),
            Tier.MINUTE: (config.keep_minute_s, config.keep_minute_bytes),
            Tier.TEN_MINUTES: (config.keep_ten_minutes_s, config.keep_ten_minutes_bytes),
            Tier.HOUR: (config.keep_hour_s, config.keep_hour_bytes),
        }
        for tier, (keep_s, bytes_max) in tiers.items():
            await self._all(
                tier.name.lower(),
                lambda tier=tier, keep_s=keep_s, bytes_max=bytes_max: store.expire_tier(  # type: ignore[misc]  # one each
                    tier, before(keep_s), bytes_max, limit=STEP_ROWS
                ),
            )
        await self._all("sources", lambda: store.expire_sources(before(config.keep_hour_s), limit=STEP_ROWS))
        await self._all(
            "events",
            lambda: store.expire_events(before(config.keep_events_s), config.keep_events_bytes, limit=STEP_ROWS),
        )
        await self._all(
            "logs", lambda: store.expire_logs(before(config.keep_logs_s), config.keep_logs_bytes, limit=STEP_ROWS)
        )
        await self._all(
            "records",
            lambda: store.expire_records(before(config.keep_records_s), config.keep_records_max, limit=STEP_ROWS),
        )
        await self._all(
            "ssh_attempts",
            lambda: store.expire_ssh_attempts(before(config.ssh_attempts_kept_days * DAY_S), limit=STEP_ROWS),
        )
        await self._all(
            "audit",
            lambda: store.access.expire_audit(before(config.keep_audit_s), AUDIT_ROWS_MAX, limit=STEP_ROWS),
        )
        await self._all("alerts", lambda: store.alerts.expire(before(config.keep_records_s), limit=STEP_ROWS))
        await self._look()

    async def _all(self, kind: str, step: Step) -> None:
        for _ in range(STEPS_MAX):
            deleted = await step()
            if not deleted:
                return
            self.deleted[kind] += deleted
            await asyncio.sleep(self._pause_s)

    async def _look(self) -> None:
        usage = await self._store.usage()
        if usage.free_bytes > usage.file_bytes * RECLAIM_ABOVE_RATIO:
            for _ in range(STEPS_MAX):
                if not await self._store.reclaim(RECLAIM_BYTES):
                    break
                usage = await self._store.usage()
                if usage.free_bytes <= usage.file_bytes * RECLAIM_ABOVE_RATIO:
                    break
                await asyncio.sleep(self._pause_s)
        now_s = self._clock.monotonic()
        self._sizes.append((now_s, usage.file_bytes - usage.free_bytes))
        began_s, size_bytes = self._sizes[0]
        growth = 0.0 if now_s <= began_s else (self._sizes[-1][1] - size_bytes) / (now_s - began_s)
        disk = await asyncio.to_thread(shutil.disk_usage, self._config.data_dir)
        self.keeping = Keeping(usage, disk.free, growth)
