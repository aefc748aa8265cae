"""The SQLite store's own promises: acknowledged is on the disk, batches, old files, files that are none."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, event, text

from hub.faults import FAULTS
from hub.rollups import TIERS, Tier, of_sample
from hub.ssh.reach import Reach
from hub.store import migrate
from hub.store.base import HoleInStream, IngestResult, Step, StoreUnavailable, StoreVersionError
from hub.store.log_records import LogFilter
from hub.store.records import Artifact
from hub.store.schema import METADATA
from hub.store.sql import SqlStore
from hub.store.sqlite import open_sqlite
from hub.store.writer import POSTED_MAX
from tests.hub.rig import numbered
from tests.hub.store.test_contract import EPOCH, JOB, an_agent, nothing_to_apply
from wire.frames import EventBody, JobStarted, LogRecord, NodeEvent, Readings, Stream
from wire.readings import HostReading

OLD = Path(__file__).parent / "old"
WRITES_BEFORE_THE_KILL = 200

CHILD = """
import asyncio, sys
from pathlib import Path
from hub.store.records import Artifact
from hub.store.sqlite import open_sqlite

async def write(store, worker):
    for number in range(10**9):
        name = f"{worker}-{number}"
        await store.add_artifact(Artifact(sha256=name, bytes_=1, created_at_ms=1))
        print(name, flush=True)

async def main():
    async with open_sqlite(Path(sys.argv[1])) as store:
        await asyncio.gather(*(write(store, worker) for worker in range(8)))

asyncio.run(main())
"""


def test_every_row_that_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            said = [child.stdout.readline().strip() for _ in range(WRITES_BEFORE_THE_KILL)]
            os.kill(child.pid, signal.SIGKILL)
            said += [line.strip() for line in child.stdout if line.endswith("\n")]
        with sqlite3.connect(path) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            kept = {name for (name,) in plain.execute("SELECT sha256 FROM artifacts")}
        plain.close()
        assert set(said) <= kept


async def test_writes_that_queue_up_share_a_commit(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        before = store.writer.commits
        await asyncio.gather(*(add(store, f"{number}") for number in range(200)))
        assert store.writer.commits - before <= 10
        assert store.writer.operations >= 200


async def add(store: SqlStore, name: str) -> None:
    await store.add_artifact(Artifact(sha256=name, bytes_=1, created_at_ms=1))


async def test_an_operation_that_fails_takes_no_other_of_its_batch_with_it(tmp_path: Path) -> None:
    def fail(connection: Connection) -> None:
        connection.execute(text("INSERT INTO artifacts VALUES ('half', 1, 1)"))
        raise LookupError("on purpose")

    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        answers = await asyncio.gather(
            add(store, "1"), store.writer.submit(fail), add(store, "2"), return_exceptions=True
        )
        assert isinstance(answers[1], LookupError)
        assert await store.artifact("1") is not None
        assert await store.artifact("2") is not None
        assert await store.artifact("half") is None


async def test_a_cancelled_caller_does_not_stop_the_writer(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        task = asyncio.create_task(add(store, "1"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await add(store, "2")
        assert await store.artifact("2") is not None


async def test_what_is_queued_when_the_store_closes_is_committed(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        writes = [asyncio.create_task(add(store, f"{number}")) for number in range(50)]
        await asyncio.sleep(0)
    await asyncio.gather(*writes)
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        assert await store.artifact("49") is not None


async def test_the_file_is_wal_synced_and_private(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    async with open_sqlite(path) as store:
        pragmas = await store.writer.submit(
            lambda connection: {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys")
            }
        )
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert path.stat().st_mode & 0o077 == 0


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        with pytest.raises(StoreUnavailable, match="readonly"):
            await store._read(lambda c: c.execute(text("DELETE FROM artifacts")))


async def test_what_the_database_complains_of_holds_nobodys_data(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        statement = text("INSERT INTO circuits (id, name) VALUES (:secret, 'x')")
        with pytest.raises(StoreUnavailable) as refused:
            await store.writer.submit(lambda c: c.execute(statement, {"secret": "hunter2"}))
        assert "NOT NULL constraint failed" in str(refused.value)
        assert "hunter2" not in str(refused.value)


async def test_a_full_disk_fails_the_batch_and_the_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        pages = await store.writer.submit(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        await store.writer.submit(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}"))
        answers = await asyncio.gather(
            *(add(store, f"{number:0>4000}") for number in range(50)), return_exceptions=True
        )
        full = [answer for answer in answers if answer is not None]
        assert full
        assert all(isinstance(answer, StoreUnavailable) and "full" in str(answer) for answer in full)
        await store.writer.submit(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {10 * pages}"))
        await add(store, "after")
        assert await store.artifact("after") is not None


async def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    """A database may refuse a COMMIT and keep the transaction: every later one would fail for it."""

    def break_at_commit(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        connection.exec_driver_sql("INSERT INTO hub_events VALUES ('1', 'nobody', 1, 'k', 'info', 'd')")

    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        with pytest.raises(StoreUnavailable, match="FOREIGN KEY constraint failed"):
            await store.writer.submit(break_at_commit)
        await add(store, "after")
        assert await store.artifact("after") is not None
        assert await store.hub_events("nobody") == []


async def test_a_bug_in_the_writer_fails_its_batch_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    def fail(_: Connection) -> None:
        event.remove(store._writing, "commit", fail)
        raise ZeroDivisionError("a bug")

    before = FAULTS.counts().get("store", 0)
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        event.listen(store._writing, "commit", fail)
        async with asyncio.timeout(20):
            with pytest.raises(StoreUnavailable, match="writer failed"):
                await add(store, "1")
            assert FAULTS.counts()["store"] == before + 1
            await add(store, "2")
        assert await store.artifact("1") is None
        assert await store.artifact("2") is not None


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    path.write_bytes(b"this is no database, but long enough to look like one" * 100)
    with pytest.raises(StoreUnavailable, match=r"hub\.sqlite: cannot be opened"):
        async with open_sqlite(path):
            pass


def test_the_migrations_make_the_schema_of_the_code(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'new.sqlite'}")
    with engine.begin() as connection:
        assert migrate.upgrade(connection)
        assert migrate.upgrade(connection) == []
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


def load(path: Path, dump: Path) -> None:
    plain = sqlite3.connect(path)
    plain.executescript(dump.read_text())
    plain.close()


@pytest.mark.parametrize("dump", sorted(OLD.glob("*.sql")), ids=lambda path: path.stem)
async def test_a_file_an_older_version_left_is_taken_over_with_all_it_holds(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    load(path, dump)
    async with open_sqlite(path) as store:
        hub = await store.begin_generation(99)
        (agent,) = await store.agents()
        (picture,) = await store.open_jobs()
        (event,) = await store.node_events(agent.id)
        circuit = await store.circuit("merkle")
        heads = await store.heads(agent.id, [event.epoch])
        usage = await store.usage()
        await store.roll(10**9, limit=10)
        history = {tier: await store.history(agent.id, tier, 0, 10**9) for tier in TIERS}
        logs = await store.log_page(agent.id, LogFilter(), newest_first=True)
        assert await store.ssh_targets() == []
        await store.save_ssh_target(Reach(node_id=agent.id))
    assert hub.generation == 5
    assert (agent.name, agent.labels) == ("old-node", {"rack": "7"})
    assert (picture.job.circuit_id, picture.attempts[0].agent_id) == (circuit and circuit.id, agent.id)
    assert {head.stream: head.seq for head in heads}["events"] == event.seq
    assert (usage.volumes["events"].rows, usage.volumes["events"].size_bytes > len(event.packed)) == (1, True)
    assert [row.text for row in logs.logs] == (["an old word"] if dump.stem >= "0003" else [])
    if dump.stem >= "0002":
        (sample,) = history[Tier.RAW]
        assert sample == (60_005, of_sample({1: {0: 0.5, 3: 7}}))
        for tier in TIERS[1:]:
            assert [row.rolled for row in history[tier]] == [sample.rolled]


async def test_space_that_was_given_up_is_used_again_and_can_be_handed_back(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    async with open_sqlite(path) as store:
        await asyncio.gather(*(add(store, f"{name:0>4000}-") for name in range(2000)))
        full = await store.usage()
        await store.writer.submit(lambda c: c.execute(text("DELETE FROM artifacts")))
        empty = await store.usage()
        assert empty.file_bytes == full.file_bytes
        assert empty.free_bytes > full.file_bytes * 0.9
        assert 0 < await store.reclaim(1024 * 1024) <= 1024 * 1024
        while await store.reclaim(1024 * 1024):
            pass
        after = await store.usage()
        assert after.file_bytes < full.file_bytes * 0.1
        assert after.free_bytes == 0
        await add(store, "1")
        assert await store.artifact("1") is not None


async def test_on_a_full_disk_nothing_is_acknowledged_and_retention_makes_room(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        agent = await an_agent(store)
        events = numbered([NodeEvent("k", "d" * 200)] * 400)
        await store.ingest(agent.id, EPOCH, Stream.EVENTS, events, 10, nothing_to_apply)
        pages = await store.writer.submit(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        await store.writer.submit(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}"))
        more = numbered([NodeEvent("k", "d" * 200)] * 300, first=401)
        with pytest.raises(StoreUnavailable, match="full"):
            await store.ingest(agent.id, EPOCH, Stream.EVENTS, more, 20, nothing_to_apply)
        assert [head.seq for head in await store.heads(agent.id, [EPOCH])] == [400]
        while await store.expire_events(15, 2**60, limit=100):
            pass
        assert await store.node_events(agent.id) == []
        result = await store.ingest(agent.id, EPOCH, Stream.EVENTS, more, 20, nothing_to_apply)
        assert (result.head, result.stored) == (700, 300)


async def test_what_nobody_waits_for_is_bounded_while_the_disk_stands_still(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        agent = await an_agent(store)
        still, goes_on = threading.Event(), threading.Event()

        def stand_still(_connection: object) -> None:
            still.set()
            goes_on.wait(20.0)

        stands = asyncio.create_task(store.writer.submit(stand_still))
        await asyncio.to_thread(still.wait, 20.0)
        told: list[IngestResult | BaseException] = []
        seq = 0
        while store.ingest_soon(
            agent.id, EPOCH, Stream.EVENTS, numbered([NodeEvent("k", "d")], first=seq + 1), 10, told.append
        ):
            seq += 1
        assert seq == POSTED_MAX
        assert told == []
        goes_on.set()
        await stands
        result = await store.ingest(
            agent.id, EPOCH, Stream.EVENTS, numbered([NodeEvent("k", "d")], first=seq + 1), 10, nothing_to_apply
        )
        assert result.head == seq + 1
        assert [one.head for one in told if isinstance(one, IngestResult)] == list(range(1, seq + 1))
        assert store.ingest_soon(agent.id, EPOCH, Stream.EVENTS, numbered([NodeEvent("k", "d")]), 10, told.append)


async def test_batches_that_come_together_share_statements_and_one_that_fails_fails_alone(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        agents = [await an_agent(store, f"n{number}") for number in range(20)]
        statements: list[str] = []
        event.listen(store._writing, "before_cursor_execute", lambda *call: statements.append(call[2]))
        good = numbered([NodeEvent("k", "d")] * 3)
        hole = numbered([NodeEvent("k", "d")], first=7)
        results = await asyncio.gather(
            *(store.ingest(agent.id, EPOCH, Stream.EVENTS, good, 10, nothing_to_apply) for agent in agents),
            store.ingest(agents[3].id, EPOCH, Stream.EVENTS, hole, 11, nothing_to_apply),
            store.ingest("nobody", EPOCH, Stream.EVENTS, good, 12, nothing_to_apply),
            *(store.ingest(agent.id, EPOCH, Stream.LOGS, good, 13, nothing_to_apply) for agent in agents),
            return_exceptions=True,
        )
        assert isinstance(results[20], HoleInStream)
        assert isinstance(results[21], StoreUnavailable)
        assert all(
            isinstance(result, IngestResult) and result.head == 3
            for n, result in enumerate(results)
            if n not in {20, 21}
        )
        for agent in agents:
            assert {head.stream: head.seq for head in await store.heads(agent.id, [EPOCH])} == {"events": 3, "logs": 3}
        statements.clear()
        later = numbered([NodeEvent("k", "d")] * 3, first=4)
        await asyncio.gather(
            *(store.ingest(agent.id, EPOCH, Stream.EVENTS, later, 20, nothing_to_apply) for agent in agents)
        )
        assert sum("INSERT INTO events" in statement for statement in statements) <= 3


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    async with open_sqlite(path) as store:
        await store.writer.submit(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(StoreVersionError, match="schema 9999"):
        async with open_sqlite(path):
            pass


async def test_what_a_failed_run_undid_is_not_remembered(tmp_path: Path) -> None:
    """Sources, and the nodes that have logs, are remembered between batches: never those of an undone savepoint."""

    def fail(_body: EventBody) -> tuple[str, Step] | None:
        raise LookupError("on purpose")

    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        agents = [await an_agent(store, f"n{number}") for number in range(5)]
        reading = Readings(HostReading(load_1min=1.0))
        for first in (1, 2):
            results = await asyncio.gather(
                *(
                    store.ingest(
                        agent.id, EPOCH, stream, numbered([body], first=first), 1_800_000_000_000, nothing_to_apply
                    )
                    for agent in agents
                    for stream, body in ((Stream.READINGS, reading), (Stream.LOGS, LogRecord("s", "x")))
                ),
                store.ingest(agents[0].id, EPOCH, Stream.JOBS, numbered([JobStarted(JOB, 1, "host", 4)]), 10, fail),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [IngestResult] * 10 + [LookupError]
        for agent in agents:
            (source,) = await store.sources(agent.id)
            rows = await store.history(agent.id, Tier.RAW, 0, 2**62)
            assert [row.rolled for row in rows] == [of_sample({source.number: {1: 1.0}})] * 2
        volumes = (await store.usage()).volumes
        assert (volumes["raw"].rows, volumes["logs"].rows) == (10, 10)
