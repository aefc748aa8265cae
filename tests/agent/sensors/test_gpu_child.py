"""The start of the NVML child: what is opened for it is closed, whenever the agent is told to stop."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.clock import SystemClock
from agent.sensors.gpu_child import Child
from tests.agent.virtual_time import turns


@pytest.mark.parametrize("cancelled", ["before a thread is free", "when the thread runs"])
async def test_a_start_that_nobody_waits_for_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: str
) -> None:
    pairs: list[tuple[socket.socket, socket.socket]] = []
    real = socket.socketpair

    def kept(family: int, kind: int) -> tuple[socket.socket, socket.socket]:
        pairs.append(real(family, kind))
        return pairs[-1]

    monkeypatch.setattr(socket, "socketpair", kept)
    free, taken = threading.Event(), threading.Event()

    def hold() -> None:
        taken.set()
        free.wait(60)

    with ThreadPoolExecutor(max_workers=1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        held = pool.submit(hold)
        taken.wait(60)
        starting = asyncio.create_task(
            Child.start(["/bin/true"], environ={}, log_path=tmp_path / "gpu.log", clock=SystemClock())
        )
        await turns()
        if cancelled == "when the thread runs":
            free.set()
            held.result(60)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        free.set()
    assert [[end.fileno() for end in pair] for pair in pairs] == [[-1, -1]]
