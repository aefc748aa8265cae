import asyncio
import socket
from pathlib import Path

import pytest

from agent.notify import STATUS_EVERY_S, Notifier, keep_told
from tests.agent.virtual_time import VirtualClock, turns


async def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.setblocking(False)  # noqa: FBT003 - the standard library's signature
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        notifier, clock = Notifier(supervised=True), VirtualClock()
        notifier.ready()
        assert systemd.recv(100) == b"READY=1"
        texts = iter(["hub open", "two\nlines"])
        task = asyncio.create_task(keep_told(notifier, lambda: next(texts), clock=clock, watchdog_s=1.0))
        await turns()
        assert systemd.recv(100) == b"STATUS=hub open\nWATCHDOG=1"
        await clock.advance(1.0)
        assert systemd.recv(100) == b"STATUS=two lines\nWATCHDOG=1"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        notifier.stopping()
        assert systemd.recv(100) == b"STOPPING=1"
        notifier.close()


async def test_without_systemd_nothing_happens() -> None:
    notifier, clock = Notifier(supervised=False), VirtualClock()
    notifier.ready()
    task = asyncio.create_task(keep_told(notifier, lambda: "x", clock=clock, watchdog_s=0.0))
    await turns()
    assert clock.sleeping == [clock.now_s + STATUS_EVERY_S]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    notifier.stopping()
    notifier.close()
