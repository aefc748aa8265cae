"""Samples, rollups and retention: what every store must do."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub.rollups import TIERS, Rolled, Tier, combined, of_sample
from hub.series import values_of
from hub.store.base import HoleInStream, Store
from hub.store.records import HubEvent, SessionRow
from hub.store.sqlite import open_sqlite
from tests.hub.rig import numbered
from tests.hub.store.test_contract import EPOCH, JOB, NEWS, a_job, an_agent, nothing_to_apply, with_circuit
from wire.frames import Event, Gap, JobStarted, LogRecord, Readings, Stream, UnknownBody
from wire.readings import GpuReading, HostReading

BASE_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000
HOUR_MS = 3_600_000
LATER_MS = BASE_MS + 100 * HOUR_MS
FOREVER = 2**62


def sample(seq: int, at_ms: int, **host: float) -> Event:
    return Event(seq=seq, time_ms=at_ms, monotonic_ns=0, body=Readings(HostReading(**host)))  # type: ignore[arg-type]


async def keep(
    store: Store, agent_id: str, events: Sequence[Event], now_ms: int = LATER_MS, epoch: str = EPOCH
) -> None:
    result = await store.ingest(agent_id, epoch, Stream.READINGS, events, now_ms, nothing_to_apply)
    assert result.head == events[-1].seq


async def roll_all(store: Store, now_ms: int = LATER_MS + HOUR_MS) -> int:
    total = 0
    while done := await store.roll(now_ms, limit=5):
        total += done
    return total


async def everything(store: Store, agent_id: str, tier: Tier) -> list[tuple[int, Rolled]]:
    return [tuple(row) for row in await store.history(agent_id, tier, 0, FOREVER)]  # type: ignore[misc]


async def test_readings_become_samples_and_their_series_are_known(store: Store) -> None:
    agent = await an_agent(store)
    body = Readings(HostReading(cpu_used_ratio=0.5), (GpuReading("GPU-1", temperature_c=40),))
    await keep(
        store,
        agent.id,
        [Event(seq=1, time_ms=BASE_MS, monotonic_ns=0, body=body), sample(2, BASE_MS + 5, load_1min=3.0)],
    )
    host, card = await store.sources(agent.id)
    assert (host.name, host.fields) == ("host", 0b11)
    assert (card.name, card.fields) == ("gpu.GPU-1", 1 | 1 << 11)
    (first, second) = await store.history(agent.id, Tier.RAW, BASE_MS, BASE_MS + 6)
    expected = values_of(body)
    assert first.time_ms == BASE_MS
    assert first.rolled == of_sample({host.number: expected["host"], card.number: expected["gpu.GPU-1"]})
    assert second.rolled == of_sample({host.number: {1: 3.0}})
    assert await store.history(agent.id, Tier.RAW, BASE_MS + 1, BASE_MS + 5) == []
    assert len(await store.history(agent.id, Tier.RAW, 0, FOREVER, limit=1)) == 1
    assert await store.node_events(agent.id) == []
    assert [head.seq for head in await store.heads(agent.id, [EPOCH])] == [2]


async def test_samples_that_come_again_are_stored_once_and_a_hole_is_refused(store: Store) -> None:
    agent = await an_agent(store)
    events = [sample(1, BASE_MS, load_1min=1.0), sample(2, BASE_MS + 1, load_1min=2.0)]
    await keep(store, agent.id, events[:1])
    await keep(store, agent.id, events)
    await keep(store, agent.id, events)
    with pytest.raises(HoleInStream):
        await store.ingest(
            agent.id, EPOCH, Stream.READINGS, [sample(4, BASE_MS, load_1min=1.0)], LATER_MS, nothing_to_apply
        )
    assert len(await everything(store, agent.id, Tier.RAW)) == 2


async def test_the_caller_says_when_a_sample_was_made(store: Store) -> None:
    agent = await an_agent(store)
    event = sample(1, 5, load_1min=1.0)
    await store.ingest(
        agent.id, EPOCH, Stream.READINGS, [event], LATER_MS, nothing_to_apply, sampled_at=lambda _: BASE_MS
    )
    assert [row[0] for row in await everything(store, agent.id, Tier.RAW)] == [BASE_MS]


async def test_what_the_node_gave_up_of_its_readings_is_an_event(store: Store) -> None:
    agent = await an_agent(store)
    await keep(
        store, agent.id, numbered([Gap(1, 7, 7, "the outbox was full"), UnknownBody("xx", b"\x81\xa1k\xa2xx")], first=7)
    )
    assert [(event.seq, event.kind) for event in await store.node_events(agent.id, stream=Stream.READINGS)] == [
        (8, "xx"),
        (7, "gap"),
    ]


async def test_a_store_that_is_opened_again_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    for seq in (1, 2):
        async with open_sqlite(tmp_path / "hub.sqlite") as store:
            agent = await an_agent(store) if seq == 1 else (await store.agents())[0]
            await keep(store, agent.id, [sample(seq, BASE_MS + seq, load_1min=1.0, cpu_used_ratio=0.1)])
            (source,) = await store.sources(agent.id)
            assert source.number == 1
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        assert len(await everything(store, agent.id, Tier.RAW)) == 2


async def test_a_node_may_have_so_many_sources_and_no_more(store: Store) -> None:
    agent = await an_agent(store)
    for seq in range(1, 6):
        cards = tuple(GpuReading(f"GPU-{seq}-{card}", temperature_c=1) for card in range(64))
        await keep(store, agent.id, [Event(seq=seq, time_ms=BASE_MS + seq, monotonic_ns=0, body=Readings(gpus=cards))])
    assert len(await store.sources(agent.id)) == 256
    assert store.stats().sources_refused == 64
    assert len(await everything(store, agent.id, Tier.RAW)) == 4, "the last sample had nothing that may be kept"


# --- rollups


def direct(samples: Sequence[tuple[int, Rolled]], tier: Tier) -> dict[int, Rolled]:
    """Rollups by plain arithmetic over all samples."""
    by_start: dict[int, list[Rolled]] = defaultdict(list)
    for at_ms, rolled in samples:
        by_start[tier.start_of(at_ms)].append(rolled)
    return {start_ms: combined(rows) for start_ms, rows in by_start.items()}


def assert_alike(one: Rolled, other: Rolled) -> None:
    assert one.keys() == other.keys()
    for source, fields in one.items():
        assert fields.keys() == other[source].keys()
        for field, rollup in fields.items():
            same = other[source][field]
            assert (rollup.samples, rollup.low, rollup.high, rollup.last) == (
                same.samples,
                same.low,
                same.high,
                same.last,
            )
            assert rollup.mean == pytest.approx(same.mean, rel=1e-9)


async def test_each_tier_says_what_all_samples_say(store: Store) -> None:
    agent = await an_agent(store)
    dice = random.Random(5)
    events = [sample(seq, BASE_MS + seq * 10_000, load_1min=dice.random() * 9, uptime_s=seq) for seq in range(1, 800)]
    await keep(store, agent.id, events)
    await roll_all(store)
    raw = await everything(store, agent.id, Tier.RAW)
    for tier in TIERS[1:]:
        made = dict(await everything(store, agent.id, tier))
        expected = direct(raw, tier)
        assert made.keys() == expected.keys()
        for start_ms, rolled in made.items():
            assert_alike(rolled, expected[start_ms])
    assert (await store.usage()).rollups_due == 0


async def test_a_gap_shows_in_the_count(store: Store) -> None:
    agent = await an_agent(store)
    times = [0, 10, 20, 30, 40, 50, 60, 110, 240]
    await keep(store, agent.id, [sample(n + 1, BASE_MS + s * 1000, load_1min=1.0) for n, s in enumerate(times)])
    await roll_all(store)
    counts = {row[0] - BASE_MS: row[1][1][1].samples for row in await everything(store, agent.id, Tier.MINUTE)}
    assert counts == {0: 6, 60_000: 2, 240_000: 1}


async def test_what_is_not_over_yet_waits(store: Store) -> None:
    agent = await an_agent(store)
    await keep(store, agent.id, [sample(1, BASE_MS + 5, load_1min=1.0)], now_ms=BASE_MS + 5)
    assert await store.roll(BASE_MS + 59_999, limit=10) == 0
    assert await store.roll(BASE_MS + 60_000, limit=10) == 1
    assert await store.roll(BASE_MS + 60_000, limit=10) == 0, "ten minutes are not over"


MINUTES = st.integers(0, 180)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at_s=st.lists(st.integers(0, 3 * 3600), min_size=1, max_size=60),
    order=st.randoms(use_true_random=False),
    data=st.data(),
)
async def test_any_order_and_any_interruption_give_the_same_rollups(
    at_s: list[int], order: random.Random, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Replayed, late, rolled up in between, and the hub killed after any step: as if all had been there at once."""
    values = [(BASE_MS + second * 1000, float(number % 7) / 3) for number, second in enumerate(at_s)]
    reference = await _rolled_at_once(tmp_path_factory.mktemp("once"), sorted(values))
    shuffled = list(values)
    order.shuffle(shuffled)
    path = tmp_path_factory.mktemp("piecemeal") / "hub.sqlite"
    seq = 0
    async with open_sqlite(path) as store:
        agent = await an_agent(store)
    while seq < len(shuffled):
        async with open_sqlite(path) as store:  # each round ends like a kill: nothing is carried over but the file
            batch = data.draw(st.integers(1, 20))
            events = [
                sample(seq + n + 1, at_ms, load_1min=value)
                for n, (at_ms, value) in enumerate(shuffled[seq : seq + batch])
            ]
            await keep(store, agent.id, events)
            seq += len(events)
            await store.roll(LATER_MS, limit=data.draw(st.integers(1, 8)))
    async with open_sqlite(path) as store:
        await roll_all(store)
        assert {tier: await everything(store, agent.id, tier) for tier in TIERS} == reference


async def _rolled_at_once(folder: Path, values: Sequence[tuple[int, float]]) -> dict[Tier, list[tuple[int, Rolled]]]:
    async with open_sqlite(folder / "hub.sqlite") as store:
        agent = await an_agent(store)
        await keep(store, agent.id, [sample(n + 1, at_ms, load_1min=value) for n, (at_ms, value) in enumerate(values)])
        await roll_all(store)
        return {tier: await everything(store, agent.id, tier) for tier in TIERS}


# --- retention


async def drain(step: Callable[[], object]) -> int:
    total = 0
    while done := await step():  # type: ignore[misc]
        total += done
    return total


async def test_old_samples_go_and_their_rollups_stay_as_they_were_made(store: Store) -> None:
    agent = await an_agent(store)
    await keep(store, agent.id, [sample(n + 1, BASE_MS + n * 10_000, load_1min=float(n)) for n in range(60)])
    await roll_all(store)
    minutes = await everything(store, agent.id, Tier.MINUTE)
    gone = await drain(lambda: store.expire_tier(Tier.RAW, BASE_MS + 330_000, FOREVER, limit=7))
    assert gone == 30, "whole minutes only"
    assert min(row[0] for row in await everything(store, agent.id, Tier.RAW)) == BASE_MS + 300_000
    assert (await store.horizons())[Tier.RAW] == BASE_MS + 300_000
    late = sample(61, BASE_MS + 1_000, load_1min=99.0)
    await keep(store, agent.id, [late])
    await roll_all(store)
    assert await everything(store, agent.id, Tier.MINUTE) == minutes, "nothing is made from a part of its time"
    assert store.stats().samples_late == 1


async def test_what_is_not_rolled_up_yet_is_not_given_up(store: Store) -> None:
    agent = await an_agent(store)
    await keep(store, agent.id, [sample(1, BASE_MS, load_1min=1.0)])
    assert await store.expire_tier(Tier.RAW, LATER_MS, FOREVER, limit=10) == 0
    await roll_all(store)
    assert await store.expire_tier(Tier.RAW, LATER_MS, FOREVER, limit=10) == 1
    assert len(await everything(store, agent.id, Tier.MINUTE)) == 1


async def test_too_much_goes_too_the_oldest_first(store: Store) -> None:
    agent = await an_agent(store)
    await keep(store, agent.id, [sample(n + 1, BASE_MS + n * 60_000, load_1min=float(n)) for n in range(600)])
    await roll_all(store)
    for tier in (Tier.RAW, Tier.MINUTE):
        half = (await store.usage()).volumes[tier.name.lower()].size_bytes // 2
        await drain(lambda tier=tier, half=half: store.expire_tier(tier, 0, half, limit=50))  # type: ignore[misc]
        volume = (await store.usage()).volumes[tier.name.lower()]
        rows = await everything(store, agent.id, tier)
        assert half * 0.7 < volume.size_bytes <= half
        assert volume.rows == len(rows)
        assert rows[-1][0] == BASE_MS + 599 * 60_000


async def test_volumes_are_what_is_there(store: Store) -> None:
    agent = await an_agent(store)
    await keep(store, agent.id, [sample(n + 1, BASE_MS + n * 10_000, load_1min=float(n)) for n in range(100)])
    await roll_all(store)
    await keep(store, agent.id, [sample(101, BASE_MS + 5, load_1min=-0.0)])
    await roll_all(store)
    usage = await store.usage()
    for tier in TIERS:
        assert usage.volumes[tier.name.lower()].rows == len(await everything(store, agent.id, tier))
        await drain(lambda tier=tier: store.expire_tier(tier, LATER_MS, FOREVER, limit=1000))  # type: ignore[misc]
        volume = (await store.usage()).volumes[tier.name.lower()]
        assert (volume.rows, volume.size_bytes) == (0, 0)
    assert usage.file_bytes > usage.free_bytes >= 0


async def test_series_of_a_card_that_is_gone_are_given_up_and_its_number_is_not_mixed_up(store: Store) -> None:
    agent = await an_agent(store)
    card = Readings(gpus=(GpuReading("GPU-1", temperature_c=1),))
    await keep(store, agent.id, [Event(seq=1, time_ms=BASE_MS, monotonic_ns=0, body=card)], now_ms=BASE_MS)
    await keep(store, agent.id, [sample(2, BASE_MS, load_1min=1.0)])
    assert await store.expire_sources(LATER_MS, limit=10) == 1
    assert [source.name for source in await store.sources(agent.id)] == ["host"]
    await keep(store, agent.id, [Event(seq=3, time_ms=BASE_MS, monotonic_ns=0, body=card)])
    numbers = [source.number for source in await store.sources(agent.id)]
    assert len(numbers) == len(set(numbers)) == 2


async def test_old_events_go_and_those_of_open_jobs_stay(store: Store) -> None:
    await with_circuit(store)
    agent = await an_agent(store)
    await store.add_job(a_job(JOB))
    said = numbered([JobStarted(JOB, 1, "host", 4), JobStarted(EPOCH, 1, "host", 4), JobStarted(JOB, 1, "host", 4)])
    await store.ingest(agent.id, EPOCH, Stream.JOBS, said, 10, nothing_to_apply)
    await store.ingest(agent.id, EPOCH, Stream.EVENTS, numbered([NEWS] * 5), 10, nothing_to_apply)
    await store.ingest(agent.id, EPOCH, Stream.EVENTS, numbered([NEWS] * 2, first=6), 20, nothing_to_apply)
    await drain(lambda: store.expire_events(20, FOREVER, limit=2))
    left = {(event.stream, event.seq) for event in await store.node_events(agent.id)}
    assert left == {("jobs", 1), ("jobs", 3), ("events", 6), ("events", 7)}
    assert (await store.usage()).volumes["events"].rows == 4
    await store.ingest(agent.id, EPOCH, Stream.EVENTS, numbered([NEWS], first=8), 30, nothing_to_apply)
    await drain(lambda: store.expire_events(FOREVER - 1, FOREVER, limit=2))
    assert {event.seq for event in await store.node_events(agent.id)} == {1, 3}
    heads = {head.stream: head.seq for head in await store.heads(agent.id, [EPOCH])}
    assert heads == {"jobs": 3, "events": 8}, "heads never go back"


async def test_when_events_are_too_much_the_node_with_most_gives_up_its_oldest(store: Store) -> None:
    quiet, loud = await an_agent(store, "quiet"), await an_agent(store, "loud")
    await store.ingest(quiet.id, EPOCH, Stream.EVENTS, numbered([NEWS] * 20), 5, nothing_to_apply)
    for epoch in (EPOCH, "other"):
        await store.ingest(loud.id, epoch, Stream.EVENTS, numbered([NEWS] * 200), 6, nothing_to_apply)
    quarter = (await store.usage()).volumes["events"].size_bytes // 4
    await drain(lambda: store.expire_events(0, quarter, limit=30))
    assert (await store.usage()).volumes["events"].size_bytes <= quarter
    assert len(await store.node_events(quiet.id)) == 20
    assert 0 < len(await store.node_events(loud.id)) < 110


async def test_old_records_of_the_hub_go_and_open_sessions_stay(store: Store) -> None:
    agent, other = await an_agent(store), await an_agent(store, "other")

    def id_at(at_ms: int, number: int) -> str:
        return f"{at_ms:012x}"[:8] + "-" + f"{at_ms:012x}"[8:] + f"-7000-8000-{number:012d}"

    for number in range(4):
        row = SessionRow(
            id=id_at(1000 + number, number),
            agent_id=agent.id if number else other.id,
            opened_at_ms=1000 + number,
            generation=1,
            remote="r",
            boot_id="b",
            epoch=EPOCH,
        )
        await store.open_session(row, agent if number else other)
        if number:
            await store.close_session(row.id, 2000, 1, "over")
        seen = HubEvent(
            id=id_at(1000 + number, number), agent_id=agent.id, time_ms=1000 + number, kind="k", level="info", detail=""
        )
        await store.add_hub_event(seen)
    assert await drain(lambda: store.expire_records(1002, FOREVER, limit=1)) == 3
    assert [event.time_ms for event in await store.hub_events(agent.id)] == [1003, 1002]
    assert await drain(lambda: store.expire_records(0, 1, limit=10)) == 3
    assert [event.time_ms for event in await store.hub_events(agent.id)] == [1003]


# --- what is left out


async def test_what_is_left_out_moves_the_head_and_is_told_once_an_hour(store: Store) -> None:
    agent = await an_agent(store)
    records = numbered([LogRecord("s", "x")] * 30)
    for start, now_ms in ((0, BASE_MS), (10, BASE_MS + 5), (20, BASE_MS + HOUR_MS)):
        result = await store.ingest(
            agent.id, EPOCH, Stream.LOGS, records[start : start + 10], now_ms, nothing_to_apply, left_out="too much"
        )
        assert result.head == start + 10
    assert (await store.usage()).volumes["logs"].rows == 0
    told = [(event.kind, event.detail) for event in await store.hub_events(agent.id)]
    assert told == [
        ("quota.exceeded", "logs: events 21 to 30 were left out, 10 of them: too much"),
        ("quota.exceeded", "logs: events 1 to 20 were left out, 20 of them: too much"),
    ]
    again = await store.ingest(
        agent.id, EPOCH, Stream.LOGS, records, BASE_MS + HOUR_MS, nothing_to_apply, left_out="too much"
    )
    assert (again.head, again.stored) == (30, 0)
    assert len(await store.hub_events(agent.id)) == 2
    await drain(lambda: store.expire_records(LATER_MS, FOREVER, limit=1))
    assert await store.hub_events(agent.id) == []
