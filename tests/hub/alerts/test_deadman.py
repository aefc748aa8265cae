"""The dead-man's ping: what it says, and whom it may ask."""

import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from hub.alerts.deadman import Deadman, GuardedResolver, Unreachable, Word
from hub.alerts.targets import Allowed
from tests.hub.rig import FakeClock

WORD = Word("ok", "a-hub", 3, 2, 0)


@pytest.fixture
async def server() -> AsyncIterator[tuple[int, list[bytes]]]:
    got: list[bytes] = []

    async def hook(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response(status=int(request.match_info["status"]), headers={"Location": "/200"})

    app = web.Application()
    app.router.add_post("/{status}", hook)
    running = TestServer(app)
    await running.start_server()
    assert running.port is not None
    yield running.port, got
    await running.close()


def deadman(url: str, allowed: str = "127.0.0.1", word: Word | None = WORD) -> Deadman:
    return Deadman(url=url, every_s=60.0, allowed=Allowed.parse(allowed), clock=FakeClock(), word=lambda: word)


async def test_it_says_how_the_hub_is(server: tuple[int, list[bytes]]) -> None:
    port, got = server
    one = deadman(f"http://127.0.0.1:{port}/200")
    await one.say()
    assert one.failure == ""
    assert one.answered_at_ms is not None
    assert got == [b'{"status":"ok","hub":"a-hub","nodes":3,"online":2,"alerts":0}']


async def test_a_hub_that_is_not_well_says_nothing(server: tuple[int, list[bytes]]) -> None:
    port, got = server
    one = deadman(f"http://127.0.0.1:{port}/200", word=None)
    await one.say()
    assert "not well" in one.failure
    assert got == []


@pytest.mark.parametrize("status", [302, 307, 404, 500])
async def test_a_redirect_or_refusal_is_a_failure_and_not_followed(
    server: tuple[int, list[bytes]], status: int
) -> None:
    port, got = server
    one = deadman(f"http://127.0.0.1:{port}/{status}")
    await one.say()
    assert one.failure == f"it answered {status}"
    assert len(got) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1"])
async def test_this_machine_is_not_asked_by_default(server: tuple[int, list[bytes]], host: str) -> None:
    port, got = server
    one = deadman(f"http://{host}:{port}/200", allowed="")
    await one.say()
    assert one.failure
    assert "http" not in one.failure, "the address may be a secret"
    assert got == []


class Fixed(AbstractResolver):
    """Says of every name what a hostile server of names might."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=one, port=port, family=family, proto=0, flags=0)
            for one in self._addresses
        ]

    async def close(self) -> None:
        pass


async def test_of_a_names_addresses_only_public_ones_are_used() -> None:
    mixed = GuardedResolver(Allowed(), Fixed("10.0.0.1", "1.1.1.1"))
    assert [one["host"] for one in await mixed.resolve("x.example", 443)] == ["1.1.1.1"]
    with pytest.raises(Unreachable, match="private"):
        await GuardedResolver(Allowed(), Fixed("10.0.0.1")).resolve("x.example", 443)
    named = GuardedResolver(Allowed.parse("x.example"), Fixed("10.0.0.1"))
    assert [one["host"] for one in await named.resolve("x.example", 443)] == ["10.0.0.1"]
