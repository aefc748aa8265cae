"""The tasks that keep the history: rollups made, too old and too much given up, and what is told of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hub.config import Config
from hub.retention import Retention
from hub.rolling import STEP_ROLLUPS, Roller
from hub.rollups import TIERS, Tier
from hub.store.base import Store
from hub.store.records import Agent
from hub.store.sql import SqlStore
from hub.store.sqlite import open_sqlite
from tests.hub.rig import FakeClock, numbered
from tests.hub.store.test_contract import EPOCH, an_agent, nothing_to_apply
from wire.frames import Event, NodeEvent, Readings, Stream
from wire.readings import HostReading

DAY_S = 86_400.0


class Kept:
    """A store with its keepers on a clock that stands still."""

    def __init__(self, store: SqlStore, agent: Agent, folder: Path, **settings: Any) -> None:
        self.clock = FakeClock()
        self.store = store
        self.agent = agent
        self.roller = Roller(clock=self.clock, store=store, pause_s=0.0)
        config = Config(data_dir=folder, **settings)
        self.retention = Retention(config=config, clock=self.clock, store=store, pause_s=0.0)
        self._seq = 0

    async def samples(self, count: int, every_s: float = 10.0) -> None:
        """Time passes, with a sample now and then."""
        for start in range(0, count, 500):
            events = []
            for _ in range(min(500, count - start)):
                self.clock.move(every_s)
                self._seq += 1
                body = Readings(HostReading(load_1min=float(self._seq)))
                events.append(Event(seq=self._seq, time_ms=self.clock.time_ms(), monotonic_ns=0, body=body))
            await self.store.ingest(
                self.agent.id, EPOCH, Stream.READINGS, events, self.clock.time_ms(), nothing_to_apply
            )
            await self.roller.catch_up()

    async def rows(self, tier: Tier) -> list[int]:
        return [row.time_ms for row in await self.store.history(self.agent.id, tier, 0, 2**62)]


async def test_each_tier_is_kept_for_its_time(tmp_path: Path) -> None:
    hour_s = 3600.0
    settings = {
        "keep_raw_s": hour_s,
        "keep_minute_s": 2 * hour_s,
        "keep_ten_minutes_s": 4 * hour_s,
        "keep_hour_s": 8 * hour_s,
    }
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        kept = Kept(store, await an_agent(store), tmp_path, **settings)
        await kept.samples(12 * 360)
        await kept.retention.sweep()
        now_ms = kept.clock.time_ms()
        for tier, hours in zip(TIERS, (1, 2, 4, 8), strict=True):
            times = await kept.rows(tier)
            above_ms = tier.above.width_ms if tier.above else 0
            oldest_ms = now_ms - hours * 3_600_000
            assert oldest_ms - above_ms <= times[0] <= oldest_ms + max(10_000, tier.width_ms)
        assert kept.retention.deleted["raw"] > 10 * 360
        again = dict(kept.retention.deleted)
        await kept.retention.sweep()
        assert kept.retention.deleted == again


async def test_size_holds_where_age_does_not(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        kept = Kept(store, await an_agent(store), tmp_path, keep_raw_bytes=100_000, keep_events_bytes=50_000)
        events = numbered([NodeEvent("k", "d" * 100)] * 500)
        await store.ingest(kept.agent.id, EPOCH, Stream.EVENTS, events, kept.clock.time_ms(), nothing_to_apply)
        await kept.samples(2_000)
        await kept.retention.sweep()
        assert kept.retention.keeping is not None
        volumes = kept.retention.keeping.usage.volumes
        assert 0 < volumes["raw"].size_bytes <= 100_000
        assert 49_000 < volumes["events"].size_bytes <= 50_000
        assert len(await kept.rows(Tier.MINUTE)) == pytest.approx(333, abs=3), "rollups stay"


async def test_ingest_goes_on_while_much_is_given_up(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        kept = Kept(store, await an_agent(store), tmp_path, keep_events_s=1.0)
        for first in range(1, 20_001, 500):
            events = numbered([NodeEvent("k", "d")] * 500, first=first)
            await store.ingest(kept.agent.id, EPOCH, Stream.EVENTS, events, kept.clock.time_ms(), nothing_to_apply)
        kept.clock.move(10.0)
        sweep = asyncio.create_task(kept.retention.sweep())
        stored_meanwhile = 0
        while not sweep.done():
            events = numbered([NodeEvent("k", "d")], first=20_001 + stored_meanwhile)
            await store.ingest(kept.agent.id, EPOCH, Stream.EVENTS, events, kept.clock.time_ms(), nothing_to_apply)
            stored_meanwhile += 1
        await sweep
        assert kept.retention.deleted["events"] == 20_000
        assert stored_meanwhile >= 40, "at least once for each step"
        await kept.retention.sweep()
        assert len(await store.node_events(kept.agent.id)) == min(stored_meanwhile, 1000)


async def test_growth_and_what_is_left_are_told(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        kept = Kept(store, await an_agent(store), tmp_path)
        await kept.retention.sweep()
        assert kept.retention.keeping is not None
        assert kept.retention.keeping.full_in_s is None
        await kept.samples(3_000)
        await kept.retention.sweep()
        keeping = kept.retention.keeping
        assert keeping.growth_bytes_per_s > 0
        assert keeping.full_in_s is not None
        expected_s = (keeping.disk_free_bytes + keeping.usage.free_bytes) / keeping.growth_bytes_per_s
        assert keeping.full_in_s == pytest.approx(expected_s)
        assert keeping.usage.file_bytes > keeping.usage.free_bytes


async def test_a_file_that_is_mostly_free_shrinks(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        kept = Kept(store, await an_agent(store), tmp_path, keep_events_s=1.0)
        for first in range(1, 5_001, 500):
            events = numbered([NodeEvent("k", "d" * 500)] * 500, first=first)
            await store.ingest(kept.agent.id, EPOCH, Stream.EVENTS, events, kept.clock.time_ms(), nothing_to_apply)
        before = await store.usage()
        kept.clock.move(10.0)
        await kept.retention.sweep()
        assert kept.retention.keeping is not None
        after = kept.retention.keeping.usage
        assert after.file_bytes < before.file_bytes / 2
        assert after.free_bytes <= after.file_bytes * 0.25


async def test_a_backlog_of_rollups_is_made_in_steps(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        kept = Kept(store, await an_agent(store), tmp_path)
        events = []
        for number in range(100):
            kept.clock.move(60.0)
            body = Readings(HostReading(load_1min=1.0))
            events.append(Event(seq=number + 1, time_ms=kept.clock.time_ms(), monotonic_ns=0, body=body))
        await store.ingest(kept.agent.id, EPOCH, Stream.READINGS, events, kept.clock.time_ms(), nothing_to_apply)
        assert await kept.roller.step() == STEP_ROLLUPS
        assert len(await kept.rows(Tier.MINUTE)) == STEP_ROLLUPS
        await kept.roller.catch_up()
        assert len(await kept.rows(Tier.MINUTE)) >= 98
        assert kept.roller.made_total >= 98 + 9


def test_the_store_of_the_keepers_is_any_store() -> None:
    """What the keepers ask for is in the protocol, not only in this implementation."""
    for name in ("roll", "expire_tier", "expire_sources", "expire_events", "expire_records", "reclaim", "usage"):
        assert name in vars(Store)
