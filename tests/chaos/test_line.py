"""Each fault of the line, seen from both of its ends."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.chaos.line import DOWN, UP, FaultyLine

DEADLINE_S = 20.0
SILENT_S = 0.3
"""Long enough for what passes a loopback, when it passes."""

Ends = tuple[FaultyLine, socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A line, its near end (the agent's) and its far end (the hub's)."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        FaultyLine(server.getsockname()[1], record=True) as line,
        closing(socket.create_connection(("127.0.0.1", line.port), DEADLINE_S)) as near,
        closing(server.accept()[0]) as far,
    ):
        far.settimeout(DEADLINE_S)
        near.sendall(b"!")
        assert far.recv(1) == b"!"  # the line knows both of its ends
        yield line, near, far


def silent(end: socket.socket) -> bool:
    """Whether nothing comes, for a short time."""
    end.settimeout(SILENT_S)
    try:
        return not end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(DEADLINE_S)


def is_reset(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b"never"
    except ConnectionResetError:
        return True


def test_everything_passes_and_is_recorded(ends: Ends) -> None:
    line, near, far = ends
    near.sendall(b"up")
    assert far.recv(9) == b"up"
    far.sendall(b"down")
    assert near.recv(9) == b"down"
    assert line.passed == [(UP, 1, b"!"), (UP, 1, b"up"), (DOWN, 1, b"down")]


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_one_way_holds_and_the_other_passes(ends: Ends, direction: str) -> None:
    line, near, far = ends
    sender, receiver = (near, far) if direction == UP else (far, near)
    line.hold(direction)
    sender.sendall(b"held")
    receiver.sendall(b"passes")
    assert sender.recv(9) == b"passes"
    assert silent(receiver)
    line.heal()
    assert receiver.recv(9) == b"held"


def test_a_reset_is_one_at_both_ends(ends: Ends) -> None:
    line, near, far = ends
    line.reset()
    assert is_reset(near)
    assert is_reset(far)


def test_a_frame_is_cut_in_its_middle(ends: Ends) -> None:
    line, near, far = ends
    line.cut_in_mid_frame()
    near.sendall(b"x" * 1000)
    got = b""
    try:
        while data := far.recv(1000):
            got += data
    except ConnectionResetError:
        pass
    assert len(got) < 1000
    assert is_reset(near)


def test_half_open_is_a_reset_at_the_hub_and_silence_at_the_agent(ends: Ends) -> None:
    line, near, far = ends
    line.half_open()
    assert is_reset(far)
    near.sendall(b"into the void")
    assert silent(near)
    line.heal()
    assert is_reset(near)


def test_bytes_come_one_a_second_until_it_is_whole(ends: Ends) -> None:
    line, near, far = ends
    line.drip()
    near.sendall(b"abcdef")
    assert far.recv(9) == b"a"
    assert silent(far)
    line.heal()
    rest = b""
    while len(rest) < 5:
        rest += far.recv(9)
    assert rest == b"bcdef"


def test_what_is_late_comes_late(ends: Ends) -> None:
    line, near, far = ends
    line.delay(SILENT_S)
    began_s = time.monotonic()
    near.sendall(b"x")
    assert far.recv(9) == b"x"
    assert time.monotonic() - began_s >= SILENT_S
