"""The gRPC call against peers that are no gRPC servers, or bad ones."""

import contextlib
import socket
import threading
from collections.abc import Callable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config import GrpcAddress
from agent.sensors.cuzk.grpc_status import CallFailed, get_status, speaks_http2
from tests.agent.sensors.cuzk.fake_daemon import Play, daemon, grpc_server, hanging, saying, status_response

DEADLINE_S = 10.0
MESSAGE = status_response(total_proofs_completed=5).SerializeToString()


def server_bytes(
    headers: list[tuple[str, str]] | None,
    body: bytes = b"",
    trailers: list[tuple[str, str]] | None = None,
    then: Callable[[H2Connection], None] = lambda _: None,
) -> bytes:
    """What a server would send for the first call, made by h2 without looking at the call."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(
        1, [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/")], end_stream=True
    )
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    if headers is not None:
        server.send_headers(1, headers, end_stream=not body and trailers is None)
        for at in range(0, len(body), 16_384):
            server.send_data(1, body[at : at + 16_384], end_stream=trailers is None and at + 16_384 >= len(body))
        if trailers is not None:
            server.send_headers(1, trailers, end_stream=True)
    then(server)
    return server.data_to_send()


def message(packed: bytes, flag: int = 0) -> bytes:
    return bytes((flag,)) + len(packed).to_bytes(4, "big") + packed


OK = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]
GOOD = server_bytes(OK, message(MESSAGE), TRAILERS)


async def call(play: Play, deadline_s: float = DEADLINE_S) -> int:
    with daemon(dict) as fake:
        fake.play = play
        return (await get_status(GrpcAddress(host="127.0.0.1", port=fake.port), deadline_s)).completed


async def test_a_good_answer() -> None:
    assert await call(saying(GOOD)) == 5


async def test_a_real_server_speaks_http2_and_answers() -> None:
    with grpc_server(lambda: status_response(total_proofs_completed=6)) as address:
        where = GrpcAddress(host="127.0.0.1", port=int(address.rpartition(":")[2]))
        assert await speaks_http2(where, DEADLINE_S)
        assert (await get_status(where, DEADLINE_S)).completed == 6


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "closed the connection in the middle"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "closed the connection in the middle"),
        (bytes(9) + b"\0\0\4\x08\0\0\0\0\0" + bytes(4), "breaks HTTP/2"),
        (GOOD[:-20], "closed the connection in the middle"),
        (server_bytes([(":status", "404")], b"no"), "HTTP 404: no gRPC server"),
        (
            server_bytes([*OK, ("grpc-status", "12"), ("grpc-message", "unimplemented")]),
            "gRPC status 12: unimplemented",
        ),
        (server_bytes(OK, message(MESSAGE)), "gRPC status missing"),
        (server_bytes(OK, message(MESSAGE, flag=1), TRAILERS), "uncompressed"),
        (server_bytes(OK, message(MESSAGE)[:-1], TRAILERS), "not one uncompressed message"),
        (server_bytes(OK, message(MESSAGE) * 2, TRAILERS), "not one uncompressed message"),
        (server_bytes(OK, message(b"\xff"), TRAILERS), "malformed"),
        (server_bytes(None, then=lambda server: server.reset_stream(1, 7)), "reset the call with HTTP/2 error"),
        (
            server_bytes(None, then=lambda server: server.close_connection(11)),
            "closed the connection with HTTP/2 error",
        ),
    ],
    ids=range(13),
)
async def test_a_bad_answer(raw: bytes, words: str) -> None:
    with pytest.raises(CallFailed, match=words):
        await call(saying(raw))


async def test_no_answer() -> None:
    with pytest.raises(CallFailed, match="no answer within"):
        await call(hanging, deadline_s=0.3)


async def test_more_than_the_window_is_not_taken() -> None:
    """The server may send 65,535 bytes of data and not one more."""
    body = message(bytes(65_000))
    head = server_bytes(OK, body[:60_000])[:-9]
    more = b"".join((len(part).to_bytes(3, "big") + b"\0\0\0\0\0\1" + part) for part in [bytes(16_000)] * 3)
    with pytest.raises(CallFailed, match="breaks HTTP/2"):
        await call(saying(head + more))


async def test_endless_frames_that_are_no_data_are_not_taken() -> None:
    pings = b"\0\0\x08\x06\1\0\0\0\0" + bytes(8)

    def pinging(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(server_bytes(None))
        while not ended.is_set():
            connection.sendall(pings * 100)

    with pytest.raises(CallFailed, match="it sent more than"):
        await call(pinging)


@pytest.mark.parametrize(
    ("raw", "speaks"),
    [
        (b"", False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (bytes(9), False),
        (b"\0\0\0\4\0\0\0\0\1", False),
        (b"\xff\xff\xff\4\0\0\0\0\0", False),
        (b"\0\0\0\4\0\0\0\0\0", True),
        (GOOD, True),
    ],
)
async def test_what_speaks_http2(raw: bytes, speaks: bool) -> None:  # noqa: FBT001 - a column of the table
    with daemon(dict) as fake:
        fake.play = saying(raw)
        assert await speaks_http2(GrpcAddress(host="127.0.0.1", port=fake.port), DEADLINE_S) is speaks


@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255), cut=st.booleans())
@settings(max_examples=150, deadline=None)
async def test_a_damaged_answer_is_an_answer_or_a_failure(at: int, byte: int, *, cut: bool) -> None:
    raw = GOOD[:at] + (b"" if cut else bytes((byte,)) + GOOD[at + 1 :])
    with contextlib.suppress(CallFailed):
        assert await call(saying(raw), deadline_s=2.0) >= 0
