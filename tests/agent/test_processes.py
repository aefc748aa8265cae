import asyncio
import os
import signal
from pathlib import Path

import pytest

from agent import processes
from agent.clock import SystemClock
from agent.processes import alive, describe, log_tail, start_detached, wait_exit
from tests.agent.virtual_time import VirtualClock, eventually

SHELL = "/bin/sh"


def start(tmp_path: Path, script: str, **environ: str) -> int:
    return start_detached([SHELL, "-c", script], environ=environ, log_path=tmp_path / "log")


async def test_a_detached_process_leads_its_own_session_and_logs(tmp_path: Path) -> None:
    pid = start(
        tmp_path, "echo out; echo err >&2; echo $NOTIFY_SOCKET$KEPT; read x; exit 3", NOTIFY_SOCKET="no", KEPT="yes"
    )
    session = os.getsid(pid)
    assert await wait_exit(pid, SystemClock()) == "exit 3"
    assert session == pid
    assert (tmp_path / "log").read_text().split() == ["out", "err", "yes"]
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


async def test_a_kill_is_told_by_its_signal(tmp_path: Path) -> None:
    pid = start(tmp_path, "sleep 1000 & wait")
    assert alive(pid)
    waiter = asyncio.create_task(wait_exit(pid, SystemClock()))
    os.killpg(pid, signal.SIGKILL)
    assert await waiter == "signal 9, Killed"
    assert not alive(pid)


async def test_the_end_of_anothers_child_has_no_known_status(tmp_path: Path) -> None:
    """As after an agent's restart: the worker is the child of a process that is gone."""
    pid = start(tmp_path, "sleep 1000 & echo $!; exit 0")
    assert await wait_exit(pid, SystemClock()) == "exit 0"
    orphan = int((tmp_path / "log").read_text())
    waiter = asyncio.create_task(wait_exit(orphan, SystemClock()))
    os.kill(orphan, signal.SIGKILL)
    assert "exit status unknown" in await waiter


async def test_a_process_long_gone_is_no_error() -> None:
    assert "exit status unknown" in await wait_exit(2**22 - 3, SystemClock())


async def test_without_pidfd_the_process_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError("not in this kernel")

    monkeypatch.setattr("agent.processes.os.pidfd_open", refuse)
    clock = VirtualClock()
    pid = start(tmp_path, "sleep 1000 & wait")
    waiter = asyncio.create_task(wait_exit(pid, clock))
    await eventually(lambda: clock.sleeping, "the first look")
    os.killpg(pid, signal.SIGTERM)
    await eventually(lambda: not alive(pid), "the end")
    await clock.advance(processes.POLL_S)
    assert await waiter == "signal 15, Terminated"


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        start_detached(["/does/not/exist"], environ={}, log_path=tmp_path / "log")


async def test_a_large_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOG_BYTES_MAX", 10)
    (tmp_path / "log").write_text("x" * 11)
    await wait_exit(start(tmp_path, "echo fresh"), SystemClock())
    assert (tmp_path / "log").read_text() == "fresh\n"
    assert (tmp_path / "log.1").read_text() == "x" * 11


def test_words() -> None:
    assert describe(2) == "exit 2"
    assert describe(-9) == "signal 9, Killed"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "none", 10) == ""
    (tmp_path / "log").write_bytes(b"0123456789\xff\nlast\n")
    assert log_tail(tmp_path / "log", 7).endswith("last")
    assert len(log_tail(tmp_path / "log", 7)) <= 7
