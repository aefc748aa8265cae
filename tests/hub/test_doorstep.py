"""Strangers that open sockets and ask nothing, or ask slowly."""

import asyncio
import contextlib
import http.client
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

from aiohttp import web

from hub.app import DESCRIPTORS_WANTED
from hub.config import Config
from hub.doorstep import Doorstep
from tests.hub.rig import FakeClock
from tests.hub.test_app import process

WAIT_S = 20.0


class Transport:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Connection:
    """As much of aiohttp's as is looked at."""

    def __init__(self) -> None:
        self.transport = Transport()


def doorstep(tmp_path: Path, clock: FakeClock, idle_max: int = 100) -> Doorstep:
    return Doorstep(Config(data_dir=tmp_path, first_request_s=10.0, idle_connections_max=idle_max), clock)


def sweep(door: Doorstep, *connections: Connection) -> list[bool]:
    """Which of all connections are cut."""
    door.sweep(cast("list[web.RequestHandler]", list(connections)))
    return [connection.transport.aborted for connection in connections]


async def ask(door: Doorstep, connection: Connection, answered: asyncio.Event) -> None:
    class Request:
        protocol = connection

    async def handler(_: web.Request) -> web.StreamResponse:
        await answered.wait()
        return web.Response()

    await door.attend(cast("web.Request", Request()), handler)


def test_a_connection_that_asks_nothing_is_cut_in_time(tmp_path: Path) -> None:
    clock = FakeClock()
    door, silent, newcomer = doorstep(tmp_path, clock), Connection(), Connection()
    assert sweep(door, silent) == [False]
    clock.move(9.9)
    assert sweep(door, silent, newcomer) == [False, False]
    clock.move(0.1)
    assert sweep(door, silent, newcomer) == [True, False]


async def test_a_connection_that_is_being_answered_or_has_asked_before_stays(tmp_path: Path) -> None:
    clock = FakeClock()
    door, connection, answered = doorstep(tmp_path, clock), Connection(), asyncio.Event()
    asking = asyncio.create_task(ask(door, connection, answered))
    await asyncio.sleep(0)
    for _ in range(3):
        clock.move(1000)
        assert sweep(door, connection) == [False]
    answered.set()
    await asking
    clock.move(60)
    assert sweep(door, connection) == [False]


async def test_when_too_many_idle_the_longest_idle_goes_first(tmp_path: Path) -> None:
    clock = FakeClock()
    door = doorstep(tmp_path, clock, idle_max=2)
    regular, answered = Connection(), asyncio.Event()
    answered.set()
    await ask(door, regular, answered)
    strangers = [Connection() for _ in range(3)]
    for number in range(1, 3):
        clock.move(1)
        assert not any(sweep(door, *strangers[:number]))
    clock.move(1)
    assert sweep(door, *strangers) == [True, False, False]


def test_connections_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    clock = FakeClock()
    door = doorstep(tmp_path, clock)
    for _ in range(10):
        sweep(door, *(Connection() for _ in range(50)))
    sweep(door)
    assert not door._idle_since_s
    assert not door._asked


def test_a_stranger_with_many_slow_sockets_loses_them_and_keeps_nobody_out(tmp_path: Path) -> None:
    with process(tmp_path, environ={"PROVEWIRE_FIRST_REQUEST_S": "1"}) as (_, facts):
        address = "127.0.0.1", int(facts["url"].rsplit(":", 1)[1])
        strangers = [socket.create_connection(address, timeout=WAIT_S) for _ in range(200)]
        for number, stranger in enumerate(strangers):
            if number % 2:
                stranger.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ")  # and never ends
        with contextlib.closing(http.client.HTTPConnection(*address, timeout=WAIT_S)) as honest:
            assert healthy(honest)
            for stranger in strangers:
                with stranger, contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(1) == b""
            assert healthy(honest)


def healthy(connection: http.client.HTTPConnection) -> bool:
    """Whether the hub answers on this connection, which it keeps open."""
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status == http.HTTPStatus.OK


def test_the_hub_takes_as_many_descriptors_as_it_may() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}));"
        "from hub.app import take_descriptors; take_descriptors();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program.format(hard=hard)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    assert int(said.stdout) == wanted
