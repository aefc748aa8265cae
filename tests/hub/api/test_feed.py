"""Slots for viewers: the latest picture of each subject, in bounded memory."""

import asyncio

import pytest

from hub.api import feed
from hub.api.feed import Feed
from hub.api.viewer import PIECE_BYTES, VIEWER_BYTES_MAX, Viewer
from tests.hub.api.conftest import Web


async def past_the_snapshot() -> Viewer:
    viewer = Viewer()
    assert await viewer.next() is None
    return viewer


async def test_a_viewer_begins_with_the_whole_picture() -> None:
    viewer = Viewer()
    viewer.put("n", ("node", b"1"))
    assert await viewer.next() is None


async def test_only_the_latest_picture_of_a_subject_waits() -> None:
    viewer = await past_the_snapshot()
    viewer.put("n", ("node", b"1"))
    viewer.put("m", ("node", b"2"))
    viewer.put("n", ("node", b"3"))
    assert await viewer.next() == [("node", b"2"), ("node", b"3")]


async def test_a_slow_viewer_gets_the_whole_picture_again() -> None:
    viewer = await past_the_snapshot()
    viewer.bytes_max = VIEWER_BYTES_MAX
    for number in range(5000):
        viewer.put(str(number), ("node", b"x" * 100))
    assert viewer.dropped == 1
    assert await viewer.next() is None
    viewer.put("n", ("node", b"1"))
    assert await viewer.next() == [("node", b"1")]


async def test_a_viewer_that_changes_the_same_subject_for_ever_stays_within_its_bytes() -> None:
    viewer = await past_the_snapshot()
    viewer.bytes_max = VIEWER_BYTES_MAX
    for _ in range(5000):
        viewer.put("n", ("node", b"x" * 1000))
    assert viewer.dropped == 0
    assert await viewer.next() == [("node", b"x" * 1000)]


async def test_what_is_urgent_overtakes_readings_and_a_piece_is_small() -> None:
    viewer = await past_the_snapshot()
    viewer.bytes_max = 100 * PIECE_BYTES
    for number in range(40):
        viewer.put(str(number), ("node", b"x" * (PIECE_BYTES // 10)))
    assert len(await viewer.next() or ()) == 10 + 1
    viewer.put("39", ("node", b"lost"), urgent=True)
    viewer.put("39", ("node", b"lost, warmer"))
    viewer.put("new", ("node", b"y"))
    assert (await viewer.next() or [])[0] == ("node", b"lost, warmer")
    rest = [said for _ in range(2) for said in await viewer.next() or ()]
    assert (len(rest), rest[-1]) == (40 - 11 - 1 - 10 + 1, ("node", b"y"))
    assert viewer._bytes == 0


async def test_while_the_whole_picture_is_made_no_change_asks_for_it_again() -> None:
    viewer = await past_the_snapshot()
    for number in range(5000):
        viewer.put(str(number), ("node", b"x" * 1000))
    assert viewer.dropped == 0


async def test_a_closed_viewer_ends_whoever_waits() -> None:
    viewer = await past_the_snapshot()
    waiting = asyncio.create_task(viewer.next())
    await asyncio.wait([waiting], timeout=0)
    viewer.close()
    assert await waiting == []


async def test_there_are_only_so_many_places(web: Web) -> None:
    live: Feed = web.app[feed.FEED]
    from contextlib import ExitStack  # noqa: PLC0415 - only here

    with ExitStack() as stack:
        for _ in range(feed.VIEWERS_MAX):
            stack.enter_context(live.viewer())
        with pytest.raises(feed.TooManyViewers):
            stack.enter_context(live.viewer())
        refused = await web.ask("GET", "/api/v1/live")
        assert (refused.status, refused.code) == (503, "busy")
    assert live.viewers == 0
