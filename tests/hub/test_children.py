"""Child processes on both event loops: what they say, how they end, and nothing of them left behind."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from hub.children import Bounded, child

SOON_S = 10.0
LONG_S = 60.0
ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs on one of the loops; nothing may stay."""

    def runs(coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.sleep(0))
            before = descriptors(), psutil.Process().children()
            found = runner.run(coroutine)
            assert (descriptors(), psutil.Process().children()) == before
            return found

    return runs


async def ended(script: str, stdin: bytes = b"", *, hear_s: float = SOON_S) -> tuple[int, bytes, bytes]:
    stdout, stderr = Bounded(1 << 20), Bounded(1 << 20)
    async with (
        asyncio.timeout(LONG_S),
        child(["sh", "-c", script], stdout.add, stderr.add, env=ENV, stdin=stdin) as one,
    ):
        code = await one.wait()
        await one.heard(hear_s)
    return code, stdout.kept(), stderr.kept()


Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_how_it_ends_and_what_it_says(run: Run) -> None:
    assert run(ended("echo out; echo err >&2; exit 3")) == (3, b"out\n", b"err\n")
    assert run(ended("kill -9 $$")) == (-signal.SIGKILL, b"", b"")
    assert run(ended("cat; cat", stdin=b"in")) == (0, b"in", b"")
    assert run(ended("cat")) == (0, b"", b"")


def test_what_it_reads_and_says_may_be_much(run: Run) -> None:
    code, said, _ = run(ended("wc -c; head -c 3000000 /dev/zero", stdin=b"x" * 3_000_000))
    assert (code, said.split(b"\n")[0].strip()) == (0, b"3000000")
    assert b"bytes left out" in said


def test_a_program_that_is_not_there(run: Run) -> None:
    async def tried() -> None:
        with pytest.raises(FileNotFoundError) as told:
            async with child(["/nowhere/program"], len, len, env={}):
                raise AssertionError
        assert told.value.strerror == "No such file or directory"

    run(tried())


def test_whoever_holds_its_pipes_open_holds_nobody_up(run: Run) -> None:
    async def tried() -> int:
        stdout = Bounded(1000)
        async with child(["sh", "-c", "setsid sleep 60 & echo $!"], stdout.add, len, env=ENV) as one:
            assert await one.wait() == 0
            await one.heard(0.1)
        return int(stdout.kept())

    other = psutil.Process(run(tried()))
    other.kill()


def test_the_end_of_the_block_is_the_end_of_its_group(run: Run) -> None:
    async def tried() -> list[int]:
        said, both = Bounded(1000), asyncio.Event()

        def add(data: bytes) -> None:
            said.add(data)
            if said.kept().count(b"\n") == 2:
                both.set()

        async with asyncio.timeout(LONG_S), child(["sh", "-c", "sleep 60 & echo $!; echo $$; wait"], add, len, env=ENV):
            await both.wait()
        return [int(line) for line in said.kept().split()]

    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in run(tried()) if psutil.pid_exists(pid)], SOON_S)
    assert alive == []


def test_one_that_starts_when_nobody_wants_it_any_more_is_ended(run: Run) -> None:
    async def tried() -> None:
        for turns in range(5):
            task = asyncio.create_task(ended("sleep 60"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)  # for what is done with those that started

    run(tried())
