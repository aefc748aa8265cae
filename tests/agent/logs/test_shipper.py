"""The whole of the shipping over a real outbox: what is stored, when, and what is left of it after kill -9."""

import asyncio
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.logs.batches import BATCH_BYTES_MAX
from agent.logs.limits import WINDOW_S, Rates, Reason
from agent.logs.own import OwnLog
from agent.logs.settings import LogSettings
from agent.logs.shipper import LogShipper, WorkerLog, file_source, open_shipper
from agent.logs.sources import SourceState
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from tests.agent.samples import EPOCHS
from tests.agent.virtual_time import VirtualClock, eventually
from wire import codec
from wire.frames import Event, Gap, Level, LogRecord, NodeEvent, Stream

ROOT = Path(__file__).parents[3]


class Node:
    """A shipper over an outbox in a folder; ``running`` is one run of the agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.own = OwnLog()
        self.epochs = iter(EPOCHS)
        self.outbox: Outbox
        self.shipper: LogShipper

    @property
    def file(self) -> Path:
        return self.folder / "app.log"

    def add(self, *lines: str) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    @asynccontextmanager
    async def running(self, *, workers: tuple[WorkerLog, ...] = (), **settings: object) -> AsyncIterator[None]:
        told = LogSettings(**{"files": (self.file,), **settings})  # type: ignore[arg-type]  # as a test says them
        path = self.folder / "outbox.sqlite"
        self.outbox = await open_outbox(path, next(self.epochs), self.clock, Bounds())
        self.shipper = await open_shipper(
            told, workers=workers, own=self.own, outbox=self.outbox, clock=self.clock, environ={"PATH": ""}
        )
        self.own.install()
        task = asyncio.create_task(self.shipper.run())
        try:
            if told.files and self.file.exists():
                await settled(self)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.shipper.close()
            self.own.remove()
            await self.outbox.close()

    async def stored(self, stream: Stream = Stream.LOGS) -> list[Event]:
        return await self.outbox.read(self.outbox.epoch, stream, 0, 100_000, 1 << 30)

    async def records(self, source: str = "") -> list[LogRecord]:
        bodies = [event.body for event in await self.stored()]
        return [body for body in bodies if isinstance(body, LogRecord) and body.source == (source or self.source)]

    async def texts(self, source: str = "") -> list[str]:
        return [body.text for body in await self.records(source)]

    @property
    def source(self) -> str:
        return file_source(self.file)

    async def until(self, count: int, source: str = "") -> None:
        """Until as many records of a source are stored. Files are read in threads, so time alone does not tell."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + 20
        while len(await self.records(source)) < count:
            assert loop.time() < end_s, await self.texts(source)
            await self.clock.advance(0.5)
            await asyncio.sleep(0.005)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.INFO)
    yield Node(tmp_path)
    logging.getLogger().setLevel(level)


async def test_files_and_own_records_are_stored_and_a_restart_goes_on(node: Node) -> None:
    node.add("before the agent")
    async with node.running():
        node.add("one", '{"msg": "two", "level": "warn", "n": 2}')
        logging.getLogger("agent.x").warning("own words")
        await node.until(2)
        await node.until(1, "agent")
        two = (await node.records())[1]
        assert (two.text, two.level, two.fields) == ("two", Level.WARNING, {"n": 2})
    node.add("three", "four")
    async with node.running():
        await node.until(2)
        assert await node.texts() == ["three", "four"]


async def settled(node: Node) -> None:
    """Until the file's place is kept."""
    async with asyncio.timeout(20):
        while f"log:{node.file}" not in await node.outbox.marks():
            await node.clock.advance(0.5)
            await asyncio.sleep(0.005)


async def test_records_below_the_level_stay_on_the_node_and_are_no_loss(node: Node) -> None:
    node.file.touch()
    async with node.running(level=Level.WARNING):
        node.add('{"msg": "quiet"}', '{"msg": "loud", "level": "error"}', "plain words")
        await node.until(1)
        assert await node.texts() == ["loud"]
        assert node.shipper.counts().suppressed == {}


async def test_what_comes_within_a_moment_is_one_transaction(node: Node) -> None:
    node.file.touch()
    async with node.running():
        node.add(*(f"line {number}" for number in range(500)))
        await node.until(500)
        assert node.shipper._batches.batches < 20
        sizes = [len(line) for line in await node.texts()]
        assert sum(sizes) < BATCH_BYTES_MAX


async def test_a_full_disk_is_waited_for_and_nothing_is_lost(node: Node) -> None:
    node.file.touch()
    async with node.running():
        database = node.outbox._file._database
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        node.add(*(f"line {number} {'x' * 200}" for number in range(300)))
        await eventually(lambda: node.shipper.counts().waiting_for_disk, "the disk to refuse", clock=node.clock)
        database.execute("PRAGMA max_page_count = 100000")
        await node.until(300)
        assert [text.split()[1] for text in await node.texts()] == [str(number) for number in range(300)]
        assert not node.shipper.counts().waiting_for_disk


async def test_a_flood_is_counted_and_told_by_one_event(node: Node) -> None:
    async with node.running(rates=Rates(records_per_s=10.0, burst=50), files=()):
        for number in range(200):
            logging.getLogger("flood").info("%d", number)
        await node.until(50, "agent")
        await node.clock.advance(WINDOW_S + 2)
        counts = node.shipper.counts()
        lost = counts.suppressed["agent", Reason.RATE]
        assert counts.shipped["agent"] + lost == 200
        told = [event.body for event in await node.stored(Stream.EVENTS)]
        (suppressed,) = [body for body in told if isinstance(body, NodeEvent) and body.kind == "log.suppressed"]
        assert suppressed.fields["count"] == lost
        assert suppressed.fields["source"] == "agent"
        assert (await node.texts("agent"))[-1] == suppressed.detail  # whoever reads the log sees it too


async def test_the_log_of_a_worker_is_its_own_source(node: Node) -> None:
    log = node.folder / "worker.log"
    async with node.running(workers=(WorkerLog("host", log),), files=()):
        with log.open("w") as file:
            file.write('{"event": "job.done", "level": "info", "job": "x"}\nterminate called: abort\n')
        await node.until(2, "worker:host")
        done, abort = await node.records("worker:host")
        assert (done.text, done.level, done.fields) == ("job.done", Level.INFO, {"job": "x"})
        assert (abort.text, abort.level) == ("terminate called: abort", Level.WARNING)


async def test_what_cannot_be_read_is_an_event_and_a_sentence_in_the_status(node: Node) -> None:
    async with node.running(units=("app.service",), workers=(WorkerLog("host", unit="provewire-worker@host.service"),)):
        await eventually(
            lambda: all(each.detail for each in node.shipper.readings() if each.source != "agent"),
            "troubles",
            clock=node.clock,
        )
        states = {each.source: each.state for each in node.shipper.readings()}
        assert states == {
            "agent": SourceState.READING,
            "worker:host": SourceState.UNREADABLE,
            node.source: SourceState.WAITING,
            "unit:app.service": SourceState.UNREADABLE,
        }
        await node.clock.advance(120.0)
        kinds = [event.body.kind for event in await node.stored(Stream.EVENTS) if isinstance(event.body, NodeEvent)]
        assert kinds == ["log.unreadable"] * 3


# --- kill -9

CHILD = """
import asyncio, sys
from pathlib import Path
from agent.clock import SystemClock
from agent.ids import uuid7
from agent.logs.limits import Rates
from agent.logs.own import OwnLog
from agent.logs.settings import LogSettings
from agent.logs.shipper import open_shipper
from agent.outbox import open_outbox
from agent.outbox_bounds import Bounds
import random

async def main():
    clock = SystemClock()
    outbox = await open_outbox(Path(sys.argv[1]), uuid7(clock.unix_ms(), random.SystemRandom()), clock, Bounds())
    settings = LogSettings(files=(Path(sys.argv[2]),), rates=Rates(1e6, 10**6))
    own = OwnLog()
    shipper = await open_shipper(settings, workers=(), own=own, outbox=outbox, clock=clock, environ={})
    outbox.on_append = lambda: print("stored", flush=True)
    await shipper.run()

asyncio.run(main())
"""


def test_no_line_is_stored_twice_or_not_at_all_however_often_the_agent_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("PROVEWIRE_TEST_SEED", "7"))
    rng = random.Random(seed)
    path, log = tmp_path / "outbox.sqlite", tmp_path / "app.log"
    log.touch()
    written = 0

    def write(count: int) -> None:
        nonlocal written
        with log.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(written, written + count))
        written += count

    runs, rotations = 3, 0
    for run in range(runs + 1):
        argv = [sys.executable, "-c", CHILD, str(path), str(log)]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout is not None
                if run == 0:
                    wait_for_the_place(path)
                for _ in range(rng.randint(1, 3)):
                    write(rng.randint(1, 3000))
                    if rng.random() < 0.3:
                        rotations += 1
                        log.rename(log.with_name(f"app.log.{rotations}"))
                        log.touch()
                    child.stdout.readline()
                if run == runs:
                    until_stored(path, written)
            finally:
                child.send_signal(signal.SIGKILL)
    assert stored_lines(path) == [f"line {number}" for number in range(written)], f"seed {seed}"


def wait_for_the_place(path: Path) -> None:
    """The first look at a file decides where it begins."""
    end_s = time.monotonic() + 30
    while not any(name.endswith("app.log") for (name,) in asked(path, "SELECT name FROM marks")):
        assert time.monotonic() < end_s, "no place was kept"


def stored_lines(path: Path) -> list[str]:
    """Every line in the outbox, of all epochs in their order."""
    query = "SELECT packed FROM events JOIN epochs USING (epoch) WHERE stream = 'logs' ORDER BY ordinal, seq"
    bodies = [codec.decode_event(packed).body for (packed,) in asked(path, query)]
    assert not [body for body in bodies if isinstance(body, Gap)]
    return [body.text for body in bodies if isinstance(body, LogRecord)]


def until_stored(path: Path, count: int) -> None:
    end_s = time.monotonic() + 60
    while len(stored_lines(path)) < count:
        assert time.monotonic() < end_s, f"{len(stored_lines(path))} of {count}"


def asked(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of the outbox, from outside; none while it is being made."""
    if not path.exists():
        return []
    plain = sqlite3.connect(path)
    try:
        return plain.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        plain.close()
