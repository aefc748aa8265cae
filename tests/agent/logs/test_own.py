import asyncio
import logging
import threading
from collections.abc import AsyncIterator

import pytest
import structlog

from agent.logs.own import WAITING_MAX, OwnLog
from agent.logs.records import record
from cli import logs as log_setup
from wire.frames import Level


@pytest.fixture
async def own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[OwnLog]:
    """Installed beside the very setup that the command makes."""
    assert capsys.readouterr().err == ""  # captured from before the set-up on
    monkeypatch.setenv("PROVEWIRE_LOG", "json")
    before = logging.getLogger().handlers[:]
    log_setup.configure()
    made = OwnLog()
    made.install()
    yield made
    made.remove()
    logging.getLogger().handlers[:] = before
    structlog.reset_defaults()


def logger(name: str) -> structlog.stdlib.BoundLogger:
    made: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return made


async def test_structlog_and_the_standard_library_are_copied_alike(
    own: OwnLog, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logger("agent.workers")
    log.warning("worker.died", device="host", pid=7, reason=ValueError("x"))
    logging.getLogger("other.library").error("failed %s", "here")
    log.debug("not this")
    (first, second), left_out = own.take(10)
    assert left_out == 0
    assert (first.text, first.level) == ("worker.died", Level.WARNING)
    assert first.fields == {"logger": "agent.workers", "device": "host", "pid": 7, "reason": "ValueError('x')"}
    assert (second.text, second.level, second.fields) == ("failed here", Level.ERROR, {"logger": "other.library"})
    assert "worker.died" in capsys.readouterr().err  # stderr still has them


async def test_an_exception_comes_with_its_traceback_and_without_values(own: OwnLog) -> None:
    hunter2 = "a secret value"
    try:
        int("on purpose")
    except ValueError:
        logger("agent.x").exception("it.failed")
    ((line,), _) = own.take(10)
    assert line.text.startswith("it.failed\nTraceback")
    assert line.text.endswith("'on purpose'")
    assert hunter2 not in line.text


async def test_records_about_shipping_and_the_outbox_are_not_shipped(own: OwnLog) -> None:
    for name in ("agent.logs.batches", "agent.logs.sources", "agent.outbox", "agent.outbox_file"):
        logger(name).warning("outbox.refused")
    assert own.take(10) == ([], 0)


async def test_a_flood_from_many_threads_neither_blocks_nor_grows(own: OwnLog) -> None:
    log = logging.getLogger("flood")

    def flood() -> None:
        for number in range(1000):
            log.info("%d", number)

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # nobody takes anything meanwhile
    async with asyncio.timeout(20):
        await own.wait()
    lines, left_out = own.take(10_000)
    assert len(lines) == WAITING_MAX
    assert left_out == 4000 - WAITING_MAX
    log.info("after")
    assert [line.text for line in own.take(10)[0]] == ["after"]


async def test_values_that_fail_when_they_are_shown_harm_nobody(own: OwnLog) -> None:
    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("no")

    made = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (Hostile(),), None)
    own.handle(made)
    assert own.take(10) == ([], 1)


async def test_what_is_left_wakes_the_taker_again(own: OwnLog) -> None:
    for number in range(5):
        logging.getLogger("x").info("%d", number)
    taken: list[str] = []
    async with asyncio.timeout(20):
        while len(taken) < 5:
            await own.wait()
            taken += [line.text for line in own.take(2)[0]]
    assert taken == ["0", "1", "2", "3", "4"]


async def test_a_record_made_of_one_holds_its_logger(own: OwnLog) -> None:
    logger("agent.x").info("hello", n=1)
    ((line,), _) = own.take(1)
    body, _ = record("agent", line, line.time_ms or 0)
    assert (body.source, body.text, dict(body.fields)) == ("agent", "hello", {"logger": "agent.x", "n": 1})
