"""Log records in the store: order, pages, filters, and what is given up."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hub.store import sql_logs
from hub.store.base import PAGE_MAX, Store
from hub.store.log_records import LogFilter, StoredLog
from hub.store.sqlite import open_sqlite
from tests.hub.rig import numbered
from tests.hub.store.test_contract import an_agent
from wire.frames import EventBody, Gap, Level, LogRecord, Stream, UnknownBody

EPOCH = "00000000-0000-7000-8000-00000000000e"
NOW_MS = 1_000_000
ALL = LogFilter()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_sqlite(tmp_path / "hub.sqlite") as opened:
        yield opened


class Logs:
    """A node's log in a store."""

    def __init__(self, store: Store, agent_id: str) -> None:
        self.store = store
        self.agent_id = agent_id
        self.head = 0

    async def add(self, *bodies: EventBody | str, now_ms: int = NOW_MS, epoch: str = EPOCH, first: int = 0) -> None:
        records = [LogRecord("agent", body) if isinstance(body, str) else body for body in bodies]
        events = numbered(records, first or self.head + 1)
        result = await self.store.ingest(self.agent_id, epoch, Stream.LOGS, events, now_ms, lambda _: None)
        self.head = result.head

    async def read(self, wanted: LogFilter = ALL, *, newest_first: bool = False, limit: int = 3) -> list[StoredLog]:
        """Page by page to the end."""
        found: list[StoredLog] = []
        after = None
        while True:
            page = await self.store.log_page(self.agent_id, wanted, after=after, newest_first=newest_first, limit=limit)
            found += page.logs
            if page.next is None:
                return found
            after = page.next

    async def texts(self, wanted: LogFilter = ALL, *, newest_first: bool = False, limit: int = 3) -> list[str]:
        return [row.text for row in await self.read(wanted, newest_first=newest_first, limit=limit)]


@pytest.fixture
async def logs(store: Store) -> Logs:
    return Logs(store, (await an_agent(store)).id)


async def test_every_record_once_in_both_orders_whatever_the_page(logs: Logs, store: Store) -> None:
    other = Logs(store, (await an_agent(store, "n2")).id)
    for number in range(10):
        await logs.add(f"{number}")
        await other.add("another node's")
    expected = [str(number) for number in range(10)]
    for limit in (1, 3, 5, 10, 100):
        assert await logs.texts(limit=limit) == expected
        assert await logs.texts(limit=limit, newest_first=True) == expected[::-1]


async def test_what_was_sent_twice_is_stored_once(logs: Logs) -> None:
    await logs.add("1", "2")
    await logs.add("1", "2", "3", first=1)
    assert await logs.texts() == ["1", "2", "3"]


async def test_a_record_is_stored_whole(logs: Logs) -> None:
    await logs.add(LogRecord("worker:host", "späte \u2028 Worte", Level.ERROR, {"n": 1, "ok": None}))
    (row,) = await logs.read()
    assert (row.source, row.text, row.level, row.fields) == (
        "worker:host",
        "späte \u2028 Worte",
        Level.ERROR,
        '{"n":1,"ok":null}',
    )
    assert (row.epoch, row.seq, row.received_at_ms, row.gap) == (EPOCH, 1, NOW_MS, None)


async def test_a_gap_and_what_is_not_understood_show_in_their_place(logs: Logs) -> None:
    await logs.add(
        "1", Gap(first=2, last=2, count=1, reason="the outbox was full"), UnknownBody("new", b"\x81\xa1k\xa3new")
    )
    one, gap, unknown = await logs.read()
    assert (one.gap, gap.gap, unknown.gap) == (None, 1, None)
    assert "the outbox was full" in gap.text
    assert gap.level is Level.WARNING
    assert "packed" in unknown.fields
    assert [row.gap for row in await logs.read(LogFilter(level=Level.ERROR))] == [1]


async def test_a_range_of_time_is_by_the_hubs_receipt_which_never_goes_back(logs: Logs) -> None:
    await logs.add("1", now_ms=NOW_MS)
    await logs.add("2", now_ms=NOW_MS + 3_600_000)
    await logs.add("3", now_ms=NOW_MS + 10)  # the hub's clock was set back
    await logs.add("4", now_ms=NOW_MS + 3_600_001)
    assert await logs.texts(LogFilter(since_ms=NOW_MS + 1)) == ["2", "3", "4"]
    assert await logs.texts(LogFilter(until_ms=NOW_MS + 3_600_001)) == ["1", "2", "3"]
    assert await logs.texts(LogFilter(since_ms=NOW_MS, until_ms=NOW_MS)) == []
    assert await logs.texts(LogFilter(since_ms=NOW_MS + 10**9)) == []
    assert await logs.texts(LogFilter(since_ms=NOW_MS + 1, until_ms=10**12), newest_first=True) == ["4", "3", "2"]


async def test_filters(logs: Logs) -> None:
    await logs.add(
        LogRecord("worker:host", "100% done_so far", Level.DEBUG),
        LogRecord("worker:cuda:0", "it FAILED\\n", Level.ERROR),
        LogRecord("workers", "1000 done so far", Level.INFO),
    )
    assert len(await logs.read(LogFilter(level=Level.INFO))) == 2
    assert [row.level for row in await logs.read(LogFilter(level=Level.WARNING))] == [Level.ERROR]
    assert [row.source for row in await logs.read(LogFilter(source="worker"))] == ["worker:host", "worker:cuda:0"]
    assert [row.source for row in await logs.read(LogFilter(source="worker:host"))] == ["worker:host"]
    assert await logs.read(LogFilter(source="worker:%")) == []
    for text, count in (("%", 1), ("_", 1), ("failed\\", 1), ("DONE", 2), ("/", 0), ("'; DROP TABLE logs; --", 0)):
        assert len(await logs.read(LogFilter(contains=text))) == count, text


async def test_filters_agree_with_a_simple_search(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_logs, "SCAN_MAX", 7)
    rng = random.Random(3)
    records = [
        LogRecord(rng.choice(["a", "b:x"]), rng.choice(["one", "two", "x%y"]), rng.choice(list(Level)))
        for _ in range(200)
    ]
    await logs.add(*records)
    order = list(Level)
    for level in Level:
        for source in ("", "b"):
            for contains in ("", "%", "w"):
                expected = [
                    body.text
                    for body in records
                    if order.index(body.level) >= order.index(level)
                    and (not source or body.source.startswith("b:"))
                    and contains in body.text
                ]
                wanted = LogFilter(level=level, source=source, contains=contains)
                assert await logs.texts(wanted) == expected
                assert await logs.texts(wanted, newest_first=True) == expected[::-1]


async def test_a_filter_that_nothing_passes_looks_at_so_many_records_and_says_how_far_it_got(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_logs, "SCAN_MAX", 4)
    await logs.add(*(f"{number}" for number in range(10)))
    wanted = LogFilter(contains="nothing like it")
    page = await logs.store.log_page(logs.agent_id, wanted, newest_first=False)
    assert (page.logs, page.next, page.reached) == ([], 4, 4)
    page = await logs.store.log_page(logs.agent_id, wanted, after=8, newest_first=False)
    assert (page.logs, page.next, page.reached) == ([], None, 10)
    page = await logs.store.log_page(logs.agent_id, wanted, after=10, newest_first=False)
    assert (page.next, page.reached) == (None, 10)


async def test_how_far_behind_a_reader_is(logs: Logs) -> None:
    assert await logs.store.newest_log(logs.agent_id) == 0
    await logs.add(*(f"{number}" for number in range(10)))
    assert await logs.store.newest_log(logs.agent_id) == 10
    assert await logs.store.logs_behind(logs.agent_id, 3, 100) == 7
    assert await logs.store.logs_behind(logs.agent_id, 3, 5) == 5


# --- giving up


async def test_too_old_and_too_much_go_in_steps_and_the_count_is_kept(store: Store) -> None:
    quiet = Logs(store, (await an_agent(store, "quiet")).id)
    loud = Logs(store, (await an_agent(store, "loud")).id)
    await quiet.add(*(f"old {number}" for number in range(5)), now_ms=NOW_MS)
    await loud.add(*("x" * 1000 for _ in range(50)), now_ms=NOW_MS + 10)
    await quiet.add(*(f"new {number}" for number in range(5)), now_ms=NOW_MS + 10)
    before_ms = NOW_MS + 5
    assert await store.expire_logs(before_ms, 10**9, limit=3) == 3
    assert await store.expire_logs(before_ms, 10**9, limit=3) == 2
    assert await store.expire_logs(before_ms, 10**9, limit=3) == 0
    used = (await store.usage()).volumes["logs"]
    assert used.rows == 55
    while await store.expire_logs(before_ms, 20_000, limit=10):
        pass
    used = (await store.usage()).volumes["logs"]
    assert 18_000 < used.size_bytes <= 20_000
    assert len(await quiet.read()) == 5  # the talkative one gave up its own
    assert used.rows == 5 + len(await loud.read())
    while await store.expire_logs(10**12, 20_000, limit=PAGE_MAX):
        pass
    used = (await store.usage()).volumes["logs"]
    assert (used.rows, used.size_bytes) == (0, 0)
    await quiet.add("after")
    assert (await quiet.read())[0].id > 60  # an id is never given twice
