"""Who follows which node's log: woken when records of it are committed, and ended when the hub stops.

A follower holds nothing but its place: it reads on from the store when it is woken and ready, so that a slow one costs
no memory. What it is woken by may come ten times before it looks.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from hub import ports
from hub.bus import LogsStored, NodeGone, Resync

FOLLOWERS_MAX = 64


class TooManyFollowers(Exception):
    """All places are taken."""


class Follower:
    """One stream of one node's log."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self._wake = asyncio.Event()
        self.closed = False

    def wake(self) -> None:
        """There may be more."""
        self._wake.set()

    def close(self) -> None:
        """The stream has to end."""
        self.closed = True
        self._wake.set()

    async def more(self, timeout_s: float) -> bool:
        """Wait until there may be more; False after ``timeout_s`` without."""
        try:
            await asyncio.wait_for(self._wake.wait(), timeout_s)
        except TimeoutError:
            return False
        self._wake.clear()
        return True


class LogFollowers:
    """All streams of logs."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._followers: dict[str, set[Follower]] = {}
        self._count = 0
        self._closed = False
        self.skipped = 0
        """Records passed over in streams of readers that were too slow, at least; for the metrics."""

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def follow(self, agent_id: str) -> Iterator[Follower]:
        """Follow within a ``with`` block.

        Raises:
            TooManyFollowers: all places are taken.
        """
        if self._count >= FOLLOWERS_MAX:
            raise TooManyFollowers(f"{FOLLOWERS_MAX} logs are followed already")
        follower = Follower(agent_id)
        if self._closed:
            follower.close()
        self._count += 1
        self._followers.setdefault(agent_id, set()).add(follower)
        try:
            yield follower
        finally:
            self._count -= 1
            self._followers[agent_id].discard(follower)
            if not self._followers[agent_id]:
                del self._followers[agent_id]

    def close(self) -> None:
        """End every stream, and those still to come."""
        self._closed = True
        for followers in self._followers.values():
            for follower in followers:
                follower.close()

    async def run(self) -> None:
        """Wake followers until the bus closes."""
        with self._app[ports.BUS].subscribe(kinds=(LogsStored, NodeGone)) as subscription:
            async for message in subscription:
                match message:
                    case LogsStored(agent_id=agent_id):
                        for follower in self._followers.get(agent_id, ()):
                            follower.wake()
                    case NodeGone(agent_id=agent_id):
                        for follower in self._followers.get(agent_id, ()):
                            follower.close()
                    case Resync():
                        for followers in self._followers.values():
                            for follower in followers:
                                follower.wake()
        self.close()


LOG_FOLLOWERS = web.AppKey("LOG_FOLLOWERS", LogFollowers)
