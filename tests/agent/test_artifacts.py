import asyncio
import hashlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from agent.artifacts import CODE_INTERNAL, CODE_MALFORMED, GIVE_UP_S, Artifacts, FetchFault
from agent.hub_http import HttpClient
from tests.agent.small_hub import SmallHub, ranged, running_hub
from tests.agent.virtual_time import VirtualClock, eventually
from wire.jobs import Input
from wire.worker import InputFile

DATA = bytes(range(256)) * 5000
SHA256 = hashlib.sha256(DATA).hexdigest()
WANTED = Input(role="zkey", sha256=SHA256, bytes_=len(DATA))


class Fetching:
    """Artifacts of one agent, and the hub they come from."""

    def __init__(self, hub: SmallHub, folder: Path, client: HttpClient, keep_bytes: int) -> None:
        self.hub = hub
        self.clock = VirtualClock()
        self.folder = folder
        self.artifacts = Artifacts(folder, client, keep_bytes=keep_bytes, clock=self.clock, rng=random.Random(1))
        self.progress: list[tuple[int, int]] = []

    async def fetch(self, *inputs: Input) -> list[InputFile]:
        return await self.artifacts.fetch(
            inputs or [WANTED],
            base=self.hub.url,
            token="pwj.secret",  # noqa: S106 - a test's
            progress=lambda done, total: self.progress.append((done, total)),
        )

    async def with_time(self, *inputs: Input) -> list[InputFile]:
        """Fetch while virtual time runs over the pauses between attempts."""
        task = asyncio.create_task(self.fetch(*inputs))
        while not task.done():
            await eventually(lambda: task.done() or self.clock.sleeping, "the fetch to go on")
            if not task.done():
                await self.clock.advance(self.clock.sleeping[0] - self.clock.now_s)
        return await task


@pytest.fixture
async def fetching(tmp_path: Path) -> AsyncIterator[Fetching]:
    async with running_hub() as hub, HttpClient(ca=None, proxies=False) as client:
        hub.artifacts[SHA256] = DATA
        yield Fetching(hub, tmp_path / "artifacts", client, keep_bytes=10 * len(DATA))


def content(file: InputFile) -> bytes:
    return Path(file.path).read_bytes()


async def test_inputs_are_fetched_checked_and_found_again(fetching: Fetching) -> None:
    small = b"witness"
    wtns = Input(role="wtns", sha256=hashlib.sha256(small).hexdigest(), bytes_=len(small))
    fetching.hub.artifacts[wtns.sha256] = small
    files = await fetching.fetch(WANTED, wtns)
    assert [file.role for file in files] == ["zkey", "wtns"]
    assert content(files[0]) == DATA
    assert fetching.progress[-1] == (len(DATA) + 7, len(DATA) + 7)
    assert [done for done, _ in fetching.progress] == sorted(done for done, _ in fetching.progress)
    assert fetching.hub.requests[0].headers["Authorization"] == "Bearer pwj.secret"
    await fetching.fetch(WANTED, wtns)
    assert len(fetching.hub.requests) == 2


async def test_an_empty_input_is_an_input(fetching: Fetching) -> None:
    empty = Input(role="wtns", sha256=hashlib.sha256(b"").hexdigest(), bytes_=0)
    fetching.hub.artifacts[empty.sha256] = b""
    (file,) = await fetching.fetch(empty)
    assert content(file) == b""


async def test_a_broken_download_goes_on_where_it_stopped(fetching: Fetching) -> None:
    half = len(DATA) // 2

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Range") is not None:
            return ranged(request, DATA)
        response = web.StreamResponse(headers={"Content-Length": str(len(DATA))})
        await response.prepare(request)
        await response.write(DATA[:half])
        await eventually(lambda: fetching.progress and fetching.progress[-1][0] == half, "the first half to arrive")
        assert request.transport is not None
        request.transport.abort()
        return response

    fetching.hub.artifact_handler = handle
    (file,) = await fetching.with_time()
    assert content(file) == DATA
    assert [request.headers.get("Range") for request in fetching.hub.requests] == [None, f"bytes={half}-"]


async def test_a_part_of_an_earlier_run_is_used(fetching: Fetching) -> None:
    (fetching.folder / f"{SHA256}.part").write_bytes(DATA[:1000])
    await fetching.fetch()
    assert fetching.hub.requests[0].headers["Range"] == "bytes=1000-"


async def test_a_whole_part_of_an_earlier_run_needs_no_request(fetching: Fetching) -> None:
    (fetching.folder / f"{SHA256}.part").write_bytes(DATA)
    await fetching.fetch()
    assert not fetching.hub.requests


@pytest.mark.parametrize("part", [b"\x00" * 1000, DATA + b"more"], ids=["other bytes", "too long"])
async def test_a_wrong_part_of_an_earlier_run_is_thrown_away(fetching: Fetching, part: bytes) -> None:
    (fetching.folder / f"{SHA256}.part").write_bytes(part)
    (file,) = await fetching.fetch()
    assert content(file) == DATA


async def test_a_hub_that_ignores_ranges_sends_all_again(fetching: Fetching) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=DATA)

    (fetching.folder / f"{SHA256}.part").write_bytes(DATA[:1000])
    fetching.hub.artifact_handler = handle
    (file,) = await fetching.fetch()
    assert content(file) == DATA


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=416),
        web.Response(status=206, body=b"x", headers={"Content-Range": "bytes 5-5/9"}),
        web.Response(status=503),
        web.Response(body=DATA[:10]),
    ],
    ids=["416", "another range", "503", "short"],
)
async def test_what_can_heal_is_tried_again(fetching: Fetching, answer: web.Response) -> None:
    async def handle(request: web.Request) -> web.Response:
        if len(fetching.hub.requests) > 1:
            return ranged(request, DATA)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    (fetching.folder / f"{SHA256}.part").write_bytes(DATA[:1000])
    fetching.hub.artifact_handler = handle
    (file,) = await fetching.with_time()
    assert content(file) == DATA


async def test_the_wrong_content_is_refused_after_a_second_try(fetching: Fetching) -> None:
    fetching.hub.artifacts[SHA256] = bytes(len(DATA))
    with pytest.raises(FetchFault, match="does not have the SHA-256") as fault:
        await fetching.fetch()
    assert fault.value.code == CODE_MALFORMED
    assert len(fetching.hub.requests) == 2
    assert list(fetching.folder.iterdir()) == []


async def test_a_content_too_long_is_refused_before_it_fills_the_disk(fetching: Fetching) -> None:
    fetching.hub.artifacts[SHA256] = DATA + b"one more byte"
    with pytest.raises(FetchFault, match=f"longer than the {len(DATA)} bytes the job announced") as fault:
        await fetching.fetch()
    assert fault.value.code == CODE_MALFORMED
    assert list(fetching.folder.iterdir()) == []


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_of_the_hub_is_final(fetching: Fetching, status: int) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=status)

    fetching.hub.artifact_handler = handle
    with pytest.raises(FetchFault, match=f"refused input zkey with HTTP {status}") as fault:
        await fetching.fetch()
    assert fault.value.code == CODE_INTERNAL


async def test_a_hub_that_stays_away_fails_the_fetch_in_the_end(fetching: Fetching) -> None:
    await fetching.hub.stop()
    began_s = fetching.clock.now_s
    with pytest.raises(FetchFault, match="could not be fetched"):
        await fetching.with_time()
    assert fetching.clock.now_s - began_s > GIVE_UP_S


async def test_a_damaged_file_of_an_earlier_run_is_fetched_anew(fetching: Fetching) -> None:
    fetching.artifacts.path(SHA256).write_bytes(bytes(len(DATA)))
    (file,) = await fetching.fetch()
    assert content(file) == DATA
    fetching.artifacts.path(SHA256).write_bytes(DATA[:100])
    (file,) = await fetching.fetch()
    assert content(file) == DATA


async def test_the_least_recently_used_go_first_and_what_is_in_use_never(tmp_path: Path) -> None:
    contents = [bytes([number]) * 1000 for number in range(4)]
    inputs = [
        Input(role=f"r{n}", sha256=hashlib.sha256(data).hexdigest(), bytes_=1000) for n, data in enumerate(contents)
    ]
    async with running_hub() as hub, HttpClient(ca=None, proxies=False) as client:
        hub.artifacts = {each.sha256: data for each, data in zip(inputs, contents, strict=True)}
        fetching = Fetching(hub, tmp_path / "a", client, keep_bytes=2000)
        (fetching.folder / "notes").write_text("of somebody else")
        await fetching.fetch(inputs[0])
        await fetching.fetch(inputs[1])
        for age, each in enumerate(inputs[:2]):
            os.utime(fetching.artifacts.path(each.sha256), (1000 + age, 1000 + age))
        fetching.artifacts.release([inputs[1]])
        await fetching.fetch(inputs[2])
        here = {each.role for each in inputs if fetching.artifacts.path(each.sha256).exists()}
        assert here == {"r0", "r2"}
        fetching.artifacts.release([inputs[0]])
        await fetching.fetch(inputs[3])
        here = {each.role for each in inputs if fetching.artifacts.path(each.sha256).exists()}
        assert here == {"r2", "r3"}
        assert (fetching.folder / "notes").exists()


async def test_a_full_disk_is_named(fetching: Fetching) -> None:
    """/dev/full takes what is opened and refuses what is written, as a full disk does."""
    (fetching.folder / f"{SHA256}.part").symlink_to("/dev/full")
    with pytest.raises(FetchFault, match="the disk is full"):
        await fetching.fetch()


async def test_only_so_many_inputs_are_kept(fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.artifacts.FILES_KEPT_MAX", 3)
    names = []
    for number in range(5):
        data = b"witness %d" % number
        wanted = Input(role="wtns", sha256=hashlib.sha256(data).hexdigest(), bytes_=len(data))
        fetching.hub.artifacts[wanted.sha256] = data
        (file,) = await fetching.fetch(wanted)
        os.utime(file.path, ns=(number, number))
        fetching.artifacts.release([wanted])
        names.append(wanted.sha256)
    assert sorted(path.name for path in fetching.folder.iterdir()) == sorted(names[2:])
    assert fetching.artifacts._checked == set(names[2:])


async def test_two_jobs_that_want_the_same_input_at_once_share_one_download(fetching: Fetching) -> None:
    """Two devices of a fresh node get two jobs of one circuit: both would write the same file."""
    first, second = await asyncio.gather(fetching.fetch(), fetching.fetch())
    assert content(first[0]) == content(second[0]) == DATA
    assert len(fetching.hub.requests) == 1


async def test_a_fetch_that_is_called_off_leaves_the_input_to_the_next(fetching: Fetching) -> None:
    begun = asyncio.Event()

    async def stalls(_: web.Request) -> web.StreamResponse:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    fetching.hub.artifact_handler = stalls
    called_off = asyncio.create_task(fetching.fetch())
    await begun.wait()
    waiting = asyncio.create_task(fetching.fetch())
    fetching.hub.artifact_handler = None
    called_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await called_off
    assert content((await waiting)[0]) == DATA
    assert not fetching.artifacts._fetching
