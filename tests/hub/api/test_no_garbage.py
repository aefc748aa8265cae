"""The hub looks for cycles of references rarely, for a fleet has many objects: so what it does all day leaves none."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from hub import ports
from hub.rollups import Tier
from tests.hub.api.conftest import Web
from tests.hub.api.test_board import CARDS, HOST, board_of, shows
from tests.hub.rig import Peer
from wire.frames import NodeEvent, Stream
from wire.inputs import Heard
from wire.status import NodeStatus

ASYNCIO = {"socket", "_SelectorSocketTransport", "TransportSocket", "dict", "method", "tuple"}
"""A transport of asyncio's own loop; uvloop's, which the hub runs on, is none."""


@pytest.fixture
def collected() -> Iterator[None]:
    """Nothing is collected meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


async def an_hour(web: Web, peers: list[Peer], number: int) -> None:
    """What happens to a fleet, its page and its store."""
    async with board_of(web) as (_, first):
        assert await shows(web, first, nodes=[peer.id for peer in peers], node=peers[0].id, jobs=True) == 204
        for peer in peers:
            async with peer.connect() as connection:
                await connection.status(NodeStatus(host=HOST, gpus=CARDS))
                await connection.until(Heard)
                await connection.events(Stream.EVENTS, NodeEvent(kind="test", detail="news"), first=number)
                await connection.acknowledged(Stream.EVENTS, number)
    node = f"/api/v1/nodes/{peers[0].id}"
    for path in ("/metrics", "/api/v1/jobs", "/api/v1/alerts", node, f"{node}/sessions", f"{node}/events"):
        assert (await web.ask("GET", path)).status == 200, path
    assert (await web.ask("GET", "/api/v1/nodes/nobody")).status == 404
    store, now_ms = web.app[ports.STORE], web.app[ports.CLOCK].time_ms()
    await store.roll(now_ms, limit=16)
    await store.expire_tier(Tier.RAW, now_ms, 0, limit=100)
    await store.expire_sources(now_ms, limit=100)
    await store.expire_events(now_ms, 0, limit=100)
    await store.expire_logs(now_ms, 0, limit=100)
    await store.expire_records(now_ms, 0, limit=100)


@pytest.mark.usefixtures("collected")
async def test_what_a_hub_does_all_day_leaves_no_cycles(web: Web) -> None:
    peers = [await web.hub.enroll(f"node-{number}") for number in range(2)]
    await an_hour(web, peers, 1)  # what is made once and kept
    gc.collect()
    await an_hour(web, peers, 2)
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    left = Counter(type(one).__qualname__ for one in gc.garbage)
    assert set(left) <= ASYNCIO, left
