"""A whole hub in this process, with nodes that have a real sshd each."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from hub import ports
from hub.clock import Clock
from hub.ssh.book import Asked
from hub.ssh.client import listeners
from hub.ssh.desk import SshDesk
from hub.ssh.record import Record
from hub.ssh.side import IDENTITY_FILE
from tests.hub.rig import Peer, RunningHub, running_hub
from tests.hub.ssh.sshd import Sshd, running

OPERATOR = Asked("the test", "127.0.0.1")


class Fleet:
    """The hub and its sshds."""

    def __init__(self, hub: RunningHub, folder: Path, stack: AsyncExitStack) -> None:
        self.hub = hub
        self.folder = folder
        self._stack = stack
        self.sshds: dict[str, Sshd] = {}

    @property
    def desk(self) -> SshDesk:
        return self.hub.app[ports.SSH]

    @property
    def identity(self) -> Path:
        return self.desk.way.known_hosts.parent / IDENTITY_FILE

    async def node(self, name: str = "node", *, authorized: bool = True, known: bool = True) -> Peer:
        """An enrolled node with an sshd that lets the hub in, whose host key is pinned."""
        peer = await self.hub.enroll(name)
        await self.sshd(peer, authorized=authorized, known=known)
        return peer

    async def sshd(self, peer: Peer, *extra: str, authorized: bool = True, known: bool = True) -> Sshd:
        """An sshd for a node, and the way in to it."""
        server = await self._stack.enter_async_context(running(self.folder / f"sshd-{peer.id}", *extra))
        if authorized:
            server.authorize(self.identity)
        self.sshds[peer.id] = server
        await self.desk.set_target(peer.id, server.target, OPERATOR)
        if known:
            await self.desk.book.pin(peer.id, [host_key_of(server)], OPERATOR)
        return server

    async def run(self, peer: Peer, script: str = "echo hello", **more: Any) -> Record:
        options: dict[str, Any] = {"asked_by": "the test", "deadline_s": 15.0, **more}
        return await self.desk.run(peer.id, "login", script, **options)


def host_key_of(server: Sshd) -> str:
    """``type base64``."""
    return " ".join(server.known_hosts_line.split()[1:])


@asynccontextmanager
async def fleet(
    folder: Path, *, clock: Clock | None = None, watching: bool = True, **settings: Any
) -> AsyncIterator[Fleet]:
    """A hub whose control sockets lie in a folder short enough, and nothing left of it at the end.

    Args:
        folder: for everything.
        clock: of the hub.
        watching: the hub tries its ways in by itself; else only who asks does.
        settings: of the hub.
    """
    runtime = Path(tempfile.mkdtemp(prefix="pw", dir="/tmp"))
    usual: dict[str, Any] = {"ssh_runtime_dir": runtime, "ssh_connect_timeout_s": 5}
    try:
        (folder / "hub").mkdir(mode=0o700, exist_ok=True)
        async with AsyncExitStack() as stack, running_hub(folder / "hub", clock=clock, **usual | settings) as hub:
            if not watching:
                (watch,) = [task for task in asyncio.all_tasks() if task.get_name() == "ssh"]
                watch.cancel()
            yield Fleet(hub, folder, stack)
    finally:
        for path in await asyncio.to_thread(lambda: list(runtime.iterdir())):
            for pid in listeners(path):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(runtime)


async def until(found: Callable[[], bool], deadline_s: float = 20.0) -> None:
    """Wait for what no message tells of."""
    async with asyncio.timeout(deadline_s):
        while not found():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
