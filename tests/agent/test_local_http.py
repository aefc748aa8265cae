"""The small server, by raw bytes on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest

from agent.faults import FAULTS
from agent.local_http import HEAD_BYTES_MAX, Answer, LocalHttp, Request
from tests.agent.virtual_time import VirtualClock


class Echo:
    """Says what it understood."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.path == "/fault":
            raise ZeroDivisionError("a fault of ours")
        return Answer(b"hello\n", HTTPStatus.OK, headers={"X-Way": "unix" if request.over_unix else "tcp"})


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def path(tmp_path: Path, echo: Echo) -> AsyncIterator[Path]:
    http = LocalHttp(echo, VirtualClock())
    await http.listen_unix(tmp_path / "sock")
    yield tmp_path / "sock"
    await http.close()


async def say(path: Path, *pieces: bytes) -> bytes:
    """Everything that is answered to these bytes, sent one after the other."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_request_is_understood_and_answered_once(path: Path, echo: Echo) -> None:
    head = b"GET /a/b?x=1&y=%26&empty= HTTP/1.1\r\nhOsT: [::1]:8471\r\nAccept: */*\r\n\r\n"
    answer = await say(path, head[:7], head[7:40], head[40:])
    assert answer == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\nConnection: close\r\n"
        b"X-Way: unix\r\n\r\nhello\n"
    )
    assert echo.requests == [Request("/a/b", {"x": "1", "y": "&", "empty": ""}, "::1", over_unix=True)]


async def test_requests_behind_the_first_are_left_alone(path: Path, echo: Echo) -> None:
    answer = await say(path, b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 1
    assert [request.path for request in echo.requests] == ["/1"]


async def test_head_is_answered_without_a_body(path: Path) -> None:
    answer = await say(path, b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"Content-Length: 6\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://evil.example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost:80:evil\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX, 431),
        (b"GET /fault HTTP/1.1\r\nHost: localhost\r\n\r\n", 500),
    ],
)
async def test_what_is_no_request_is_refused(path: Path, echo: Echo, raw: bytes, status: int) -> None:
    before = FAULTS["local"]
    answer = await say(path, raw)
    assert FAULTS["local"] - before == (status == 500)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"fault of ours" not in answer
    assert len(echo.requests) == (status == 500)


async def test_who_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path, echo: Echo) -> None:
    http = LocalHttp(echo, VirtualClock())
    await http.listen_unix(tmp_path / "sock")
    assert await say(tmp_path / "sock", b"GET / HTTP/1.1\r\n\r\n")
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "sock"))
    writer.write(b"GET / HT")
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    assert http.connections == 0
    await http.close()
