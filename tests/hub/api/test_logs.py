"""A node's log over real HTTP at a real hub: pages, ranges, and streams that follow."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hub import ports
from hub.api import log_follow, logs
from hub.api.log_follow import LOG_FOLLOWERS
from hub.bus import NodeGone
from hub.store import sql_logs
from tests.hub.api.conftest import Web
from tests.hub.api.test_openapi import fits
from tests.hub.rig import Connection, Peer
from wire.frames import EventBody, Gap, Level, LogRecord, Stream

WAIT_S = 20.0


class Node:
    """A connected node that says things."""

    def __init__(self, peer: Peer, connection: Connection) -> None:
        self.peer = peer
        self.connection = connection
        self.said = 0

    @property
    def path(self) -> str:
        return f"/api/v1/nodes/{self.peer.id}/logs"

    async def say(self, *bodies: EventBody | str, at_once: int = 200) -> None:
        records = [LogRecord("agent", body) if isinstance(body, str) else body for body in bodies]
        for start in range(0, len(records), at_once):
            some = records[start : start + at_once]
            await self.connection.events(Stream.LOGS, *some, first=self.said + 1)
            self.said += len(some)
            await self.connection.acknowledged(Stream.LOGS, self.said)


@pytest.fixture
async def node(web: Web) -> AsyncIterator[Node]:
    peer = await web.hub.enroll("node-a")
    async with peer.connect(name="node-a") as connection:
        yield Node(peer, connection)


class Reader:
    """One open stream; ``next`` gives what comes."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def line(self) -> str:
        async with asyncio.timeout(WAIT_S):
            return (await self.answer.content.readline()).decode()

    async def next(self) -> Any:
        """The next object of an NDJSON stream that is no beat."""
        while line := await self.line():
            told = json.loads(line)
            if told["kind"] != "beat":
                return told
        return None

    async def texts(self, count: int) -> list[str]:
        return [(await self.next())["text"] for _ in range(count)]

    async def event(self) -> dict[str, str]:
        """The next Server-Sent Event."""
        found: dict[str, str] = {}
        while line := (await self.line()).rstrip("\n"):
            name, _, value = line.partition(": ")
            found[name] = value
        return found


@asynccontextmanager
async def following(web: Web, path: str, **headers: str) -> AsyncIterator[Reader]:
    async with web.client.get(path, headers={**web.admin, **headers}) as answer:
        assert answer.status == 200, await answer.read()
        yield Reader(answer)


async def test_pages_in_both_orders(web: Web, node: Node) -> None:
    await node.say(*(f"{number}" for number in range(5)))
    seen, after = [], ""
    while after is not None:
        reply = await web.ask("GET", f"{node.path}?limit=2&after={after}")
        seen += [told["text"] for told in reply.json["logs"]]
        after = reply.json["next"]
    assert seen == ["4", "3", "2", "1", "0"]
    reply = await web.ask("GET", f"{node.path}?limit=3&order=oldest")
    assert [told["text"] for told in reply.json["logs"]] == ["0", "1", "2"]


async def test_a_record_is_told_whole_and_as_the_document_says(web: Web, node: Node) -> None:
    await node.say(LogRecord("unit:x", "<b>späte</b>", Level.ERROR, {"n": 1}), Gap(2, 2, 1, "the outbox was full"))
    reply = await web.ask("GET", f"{node.path}?order=oldest")
    record, gap = reply.json["logs"]
    assert (record["text"], record["level"], record["source"], record["fields"], record["given_up"]) == (
        "<b>späte</b>",
        "error",
        "unit:x",
        {"n": 1},
        None,
    )
    assert record["node_time_ms"] == 1_700_000_000_000
    assert abs(record["received_at_ms"] - web.clock.time_ms()) < 60_000
    assert gap["given_up"] == 1
    document = (await web.ask("GET", "/api/v1/openapi.json")).json
    answers = document["paths"]["/api/v1/nodes/{id}/logs"]["get"]["responses"]["200"]
    assert fits(document, answers["content"]["application/json"]["schema"], reply.json)


async def test_filters_and_times(web: Web, node: Node) -> None:
    await node.say("one", LogRecord("worker:host", "two% failed", Level.ERROR))

    async def texts(query: str) -> list[str]:
        reply = await web.ask("GET", f"{node.path}?order=oldest&{query}")
        return [told["text"] for told in reply.json["logs"]]

    now_ms = web.clock.time_ms()
    assert await texts("level=warning") == ["two% failed"]
    assert await texts("source=worker") == ["two% failed"]
    assert await texts("contains=FAILED") == ["two% failed"]
    assert await texts("contains=%25") == ["two% failed"]
    assert await texts("since=10m") == ["one", "two% failed"]
    assert await texts("until=10m") == []
    assert await texts(f"since={now_ms + 60_000}") == []
    assert await texts("since=2020-01-01T00:00:00Z&until=2100-01-01T00:00:00%2B01:00") == ["one", "two% failed"]


@pytest.mark.parametrize(
    "query",
    [
        "level=loud",
        "since=yesterday",
        "since=2026-11-30",
        "until=99999999999999999999",
        "order=up",
        "after=x",
        "after=-1",
        "limit=0",
        "format=xml",
        "format=sse",
        "follow=1&until=1",
        "follow=1&tail=99999",
        f"contains={'x' * 300}",
        "contains=%00",
    ],
)
async def test_what_cannot_be_answered_is_refused(web: Web, node: Node, query: str) -> None:
    reply = await web.ask("GET", f"{node.path}?{query}")
    assert (reply.status, reply.code) == (422, "invalid")


async def test_a_credential_is_needed(web: Web, node: Node) -> None:
    assert (await web.ask("GET", node.path, stranger=True)).status == 401


async def test_a_node_by_the_beginning_of_its_name_and_several_are_listed(web: Web, node: Node) -> None:
    assert (await web.ask("GET", "/api/v1/nodes/node/logs")).status == 200
    assert (await web.ask("GET", "/api/v1/nodes/nope/logs")).status == 404
    other = await web.hub.enroll("node-b")
    reply = await web.ask("GET", "/api/v1/nodes/node/logs")
    assert (reply.status, reply.code) == (409, "ambiguous")
    for peer, name in ((node.peer, "node-a"), (other, "node-b")):
        assert f"{name} ({peer.id})" in reply.json["detail"]
    assert (await web.ask("GET", "/api/v1/nodes/node-b/logs")).status == 200


async def test_a_range_is_streamed_to_its_end(web: Web, node: Node) -> None:
    await node.say(*(f"{number}" for number in range(1234)))
    expected = [str(number) for number in range(1234)]
    for how in ({"path": f"{node.path}?format=ndjson"}, {"path": node.path, "accept": "application/x-ndjson"}):
        reply = await web.ask("GET", how["path"], headers={"Accept": how.get("accept", "*/*")})
        assert reply.headers["Content-Type"] == "application/x-ndjson"
        assert [json.loads(line)["text"] for line in reply.body.splitlines()] == expected
    reply = await web.ask("GET", f"{node.path}?format=ndjson&limit=7&order=newest")
    assert [json.loads(line)["text"] for line in reply.body.splitlines()] == expected[::-1][:7]


async def test_a_long_search_shows_that_it_lives(web: Web, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_logs, "SCAN_MAX", 3)
    await node.say(*(f"{number}" for number in range(10)), "the needle")
    reply = await web.ask("GET", f"{node.path}?format=ndjson&contains=needle")
    told = [json.loads(line) for line in reply.body.splitlines()]
    assert [one["kind"] for one in told] == ["beat", "beat", "beat", "log"]
    assert [one["after"] for one in told[:3]] == [3, 6, 9]


async def test_what_comes_is_told_at_once_and_only_what_is_wanted(web: Web, node: Node) -> None:
    await node.say("before")
    async with (
        following(web, f"{node.path}?follow=1") as all_of_it,
        following(web, f"{node.path}?follow=1&level=error&tail=5") as errors,
    ):
        await node.say("one", LogRecord("agent", "two", Level.ERROR))
        await node.say("three", LogRecord("agent", "four", Level.ERROR))
        assert await all_of_it.texts(4) == ["one", "two", "three", "four"]
        assert await errors.texts(2) == ["two", "four"]


async def test_the_tail_comes_first_without_a_seam(web: Web, node: Node) -> None:
    await node.say(*(f"{number}" for number in range(1500)))
    async with following(web, f"{node.path}?follow=1&tail=1200") as stream:
        await node.say("new")
        assert await stream.texts(1201) == [*(str(number) for number in range(300, 1500)), "new"]


async def test_since_a_time_and_then_what_comes(web: Web, node: Node) -> None:
    await node.say(*(f"{number}" for number in range(600)))
    async with following(web, f"{node.path}?follow=1&since=1h") as stream:
        assert await stream.texts(600) == [str(number) for number in range(600)]
        await node.say("new")
        assert await stream.texts(1) == ["new"]


async def test_a_stream_goes_on_where_it_broke_off(web: Web, node: Node) -> None:
    await node.say("1", "2", "3")
    async with following(web, f"{node.path}?follow=1&tail=2", Accept="text/event-stream") as stream:
        assert await stream.event() == {"retry": "2000"}
        first = await stream.event()
        assert first["event"] == "log"
        assert json.loads(first["data"])["text"] == "2"
    async with following(
        web, f"{node.path}?follow=1&tail=2", Accept="text/event-stream", **{"Last-Event-ID": first["id"]}
    ) as stream:
        await stream.event()
        assert json.loads((await stream.event())["data"])["text"] == "3"
    async with following(web, f"{node.path}?follow=1&after={first['id']}") as stream:
        assert await stream.texts(1) == ["3"]


async def test_a_reader_that_is_too_far_behind_is_told_what_it_missed(
    web: Web, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "BEHIND_MAX", 20)
    monkeypatch.setattr(logs, "KEPT", 5)
    await node.say(*(f"{number}" for number in range(100)))
    async with following(web, f"{node.path}?follow=1&after=10") as stream:
        assert await stream.texts(5) == ["10", "11", "12", "13", "14"]
        skipped = await stream.next()
        assert skipped["kind"] == "skipped"
        assert (skipped["after"], skipped["until"]) == (15, 95)
        assert skipped["records"] >= 16
        assert await stream.texts(5) == ["95", "96", "97", "98", "99"]
    assert web.app[LOG_FOLLOWERS].skipped == skipped["records"]
    metrics = (await web.ask("GET", "/metrics")).body.decode()
    assert f"provewire_log_records_skipped_total {float(skipped['records'])}" in metrics
    assert 'provewire_queue_depth{queue="log_streams"} ' in metrics


@pytest.fixture
def stuck() -> Iterator[socket.socket]:
    """A socket that is never read from."""
    with socket.socket() as made:
        yield made


async def test_a_reader_that_takes_nothing_is_cut_off_and_holds_up_nobody(
    web: Web, node: Node, monkeypatch: pytest.MonkeyPatch, stuck: socket.socket
) -> None:
    monkeypatch.setattr(logs, "SEND_DEADLINE_S", 2.0)
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.settimeout(0)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(stuck, ("127.0.0.1", web.hub.port))
    headers = f"Host: x\r\nAuthorization: {web.admin['Authorization']}\r\n\r\n"
    await loop.sock_sendall(stuck, f"GET {node.path}?follow=1 HTTP/1.1\r\n{headers}".encode())
    async with following(web, f"{node.path}?follow=1") as quick, asyncio.timeout(2 * WAIT_S):
        while len(web.app[LOG_FOLLOWERS]) < 2:
            await web.ask("GET", "/healthz")
        rounds = 0
        while len(web.app[LOG_FOLLOWERS]) > 1:
            await node.say(*(f"{rounds} " + "x" * 7000 for _ in range(100)), at_once=20)
            assert (await quick.texts(100))[-1].startswith(f"{rounds} ")
            rounds += 1


async def test_a_quiet_stream_shows_that_it_lives(web: Web, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BEAT_S", 0.01)
    await node.say("1")
    async with following(web, f"{node.path}?follow=1") as stream:
        beat = json.loads(await stream.line())
        assert (beat["kind"], beat["after"]) == ("beat", 1)
    async with following(web, f"{node.path}?follow=1&format=sse") as stream:
        await stream.event()
        assert (await stream.event())["event"] == "beat"


async def test_only_so_many_may_follow(web: Web, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follow, "FOLLOWERS_MAX", 1)
    async with following(web, f"{node.path}?follow=1&tail=1") as stream:
        await node.say("1")
        await stream.next()
        reply = await web.ask("GET", f"{node.path}?follow=1")
        assert (reply.status, reply.code) == (503, "busy")
        assert reply.headers["Retry-After"]
    async with asyncio.timeout(WAIT_S):
        while len(web.app[LOG_FOLLOWERS]):
            await node.say("writing is how the hub finds out")


async def test_streams_end_with_their_node_and_with_the_hub(web: Web, node: Node) -> None:
    async with following(web, f"{node.path}?follow=1") as stream:
        await node.say("1")
        await stream.next()
        web.app[ports.BUS].publish(NodeGone(node.peer.id))
        assert await stream.next() is None
    async with following(web, f"{node.path}?follow=1") as stream:
        await node.say("2")
        await stream.next()
        web.app[LOG_FOLLOWERS].close()
        assert await stream.next() is None
