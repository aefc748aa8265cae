"""Who is let in when all come at once: the fleet, within a minute, whatever strangers do meanwhile."""

import asyncio
import random
from collections import deque
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from websockets.exceptions import InvalidStatus

from agent.backoff import Backoff, Fault, Kind
from hub.config import Config
from hub.gate import (
    BEHIND_NODES_MIN,
    BEHIND_S,
    FULL_RETRY_S,
    GONE,
    KNOCKS_BURST,
    PATH,
    REMEMBERED_MAX,
    RETRY_MAX_S,
    Gate,
)
from hub.sessions import Sessions
from hub.traffic import Traffic
from tests.hub.rig import FakeClock, dial, running_hub
from wire.limits import AGENT_HEADER, HANDSHAKE_S, PROTOCOL
from wire.reasons import Reason


class Inside:
    """As much of the sessions as the gate asks."""

    def __init__(self) -> None:
        self.unauthenticated = 0
        self.strangers = 0
        self.stopping = False
        self.reconnect_spread_s = 40.0
        self.traffic = Traffic()

    def strangers_from(self, _remote: str) -> int:
        return self.strangers

    def waiting_s(self) -> list[float]:
        return []


def gate(clock: FakeClock, inside: Inside, **settings: Any) -> Gate:
    config = Config(data_dir=Path("unused"), **settings)
    return Gate(config, clock, cast("Sessions", inside), lambda name: name.startswith("node"), random.Random(7))


def retry_s(gate: Gate, remote: str = "1.2.3.4", *, known: bool) -> int:
    """What a knock is told; 0 for come in."""
    problem = gate.crowded(remote, known=known)
    return 0 if problem is None else int(problem.headers["Retry-After"])


class Storm:
    """A fleet that comes back as agents do, second by tenth of a second, beside strangers that never tire."""

    def __init__(self, agents: int, strangers_per_s: int) -> None:
        self.clock = FakeClock()
        self.gate = gate(self.clock, Inside())
        rng = random.Random(3)
        self.backoffs = [Backoff(random.Random(number)) for number in range(agents)]
        self.due_s = [self.clock.now_s + rng.uniform(0.0, 20.0) for _ in range(agents)]
        self.strangers_per_s = strangers_per_s
        self.strangers_in = 0
        self.knocks = 0
        self.most_a_second = 0

    def run(self, seconds: float) -> int:
        """How many agents are still outside after so long."""
        outside = set(range(len(self.due_s)))
        admitted: list[float] = []
        for tenth in range(int(seconds * 10)):
            for number in range(self.strangers_per_s // 10):
                self.strangers_in += retry_s(self.gate, f"10.0.{tenth % 256}.{number}", known=False) == 0
            for agent in sorted(outside, key=self.due_s.__getitem__):
                if self.due_s[agent] > self.clock.now_s:
                    break
                self.knocks += 1
                wait_s = retry_s(self.gate, known=True)
                if wait_s == 0:
                    outside.discard(agent)
                    admitted.append(self.clock.now_s)
                    continue
                fault = Fault(Kind.REFUSED, "busy", "", code=Reason.OVERLOADED, wait_s=float(wait_s))
                self.due_s[agent] = self.clock.now_s + self.backoffs[agent].after(fault, session_s=None)
            self.clock.move(0.1)
        self.most_a_second = max(sum(at_s <= one < at_s + 1.0 for one in admitted) for at_s in admitted)
        return len(outside)


@pytest.mark.parametrize("strangers_per_s", [0, 500])
def test_two_thousand_agents_are_back_within_a_minute_and_strangers_do_not_change_that(strangers_per_s: int) -> None:
    storm = Storm(2000, strangers_per_s)
    assert storm.run(60.0) == 0
    assert storm.knocks < 4 * 2000, "they come together again and again"
    assert storm.most_a_second <= 160
    assert storm.strangers_in <= 60 * 50


class Slow(Inside):
    """A hub that welcomes so many a second, one after the other, also those who have left meanwhile."""

    def __init__(self, clock: FakeClock, per_s: float) -> None:
        super().__init__()
        self.clock = clock
        self.per_s = per_s
        self.queue: deque[tuple[float, int]] = deque()
        """Since when, and who."""
        self.free_s = clock.now_s

    def waiting_s(self) -> list[float]:
        return [self.clock.now_s - since_s for since_s, _ in self.queue]

    def work(self) -> list[tuple[float, int]]:
        """Since when they waited, and who is welcomed now."""
        welcomed = []
        while self.queue and self.free_s <= self.clock.now_s:
            self.free_s = max(self.free_s, self.queue[0][0]) + 1.0 / self.per_s
            welcomed.append(self.queue.popleft())
        self.unauthenticated = len(self.queue)
        return welcomed


@pytest.mark.parametrize("per_s", [8.0, 30.0])
def test_a_hub_slower_than_its_rate_is_not_kept_busy_by_those_who_gave_up(per_s: float) -> None:
    clock = FakeClock()
    slow = Slow(clock, per_s)
    door = gate(clock, slow)
    backoffs = [Backoff(random.Random(number)) for number in range(1000)]
    due_s = {number: clock.now_s + random.Random(-number).uniform(0.0, 20.0) for number in range(1000)}
    inside = set[int]()
    began_s = clock.now_s
    while len(inside) < 1000:
        clock.move(0.1)
        assert clock.now_s - began_s < 2.0 * 1000 / per_s + RETRY_MAX_S, f"{len(inside)} came in"
        for since_s, number in slow.work():
            if clock.now_s - since_s < HANDSHAKE_S:
                inside.add(number)
            else:
                gave_up = Fault(Kind.UNREACHABLE, "timeout", "")
                due_s[number] = since_s + HANDSHAKE_S + backoffs[number].after(gave_up, session_s=None)
        for number in sorted(due_s, key=due_s.__getitem__):
            if due_s[number] > clock.now_s:
                break
            if wait_s := retry_s(door, known=True):
                busy = Fault(Kind.REFUSED, "busy", "", code=Reason.OVERLOADED, wait_s=float(wait_s))
                due_s[number] = clock.now_s + backoffs[number].after(busy, session_s=None)
            else:
                del due_s[number]
                slow.queue.append((clock.now_s, number))
                slow.unauthenticated += 1


def test_a_few_nodes_that_stall_in_the_handshake_keep_nobody_out() -> None:
    clock = FakeClock()
    slow = Slow(clock, 1e-9)
    door = gate(clock, slow, accept_burst=1000)
    slow.queue.extend((clock.now_s, number) for number in range(BEHIND_NODES_MIN - 1))
    clock.move(BEHIND_S + 0.1)
    assert retry_s(door, known=True) == 0
    slow.queue.append((clock.now_s - 1.0, 99))
    assert retry_s(door, known=True) >= FULL_RETRY_S


def test_hints_are_spread_and_never_longer_than_a_minute() -> None:
    door = gate(FakeClock(), Inside(), accept_per_s=50.0, accept_burst=1)
    assert retry_s(door, known=True) == 0
    told = [retry_s(door, known=True) for _ in range(5000)]
    assert max(told) <= RETRY_MAX_S + 1
    assert min(told) >= 1
    assert max(told.count(second) for second in range(1, 61)) < 5000 / 60 * 4


def test_strangers_leave_half_of_what_was_saved_up_to_the_fleet() -> None:
    door = gate(FakeClock(), Inside(), accept_burst=100)
    let_in = sum(retry_s(door, f"10.0.0.{number}", known=False) == 0 for number in range(200))
    assert let_in == 50
    assert sum(retry_s(door, known=True) == 0 for _ in range(200)) == 50


def test_one_strangers_address_has_a_quarter() -> None:
    door = gate(FakeClock(), Inside(), accept_burst=100)
    assert sum(retry_s(door, "10.0.0.1", known=False) == 0 for _ in range(100)) == 25
    assert retry_s(door, "10.0.0.2", known=False) == 0


@pytest.mark.parametrize(
    ("places", "unfinished", "strangers", "stranger_waits", "node_waits"),
    [(8, 0, 0, False, False), (8, 2, 2, True, False), (8, 8, 0, True, True), (1, 1, 1, True, True)],
)
def test_strangers_leave_places_for_handshakes_to_the_fleet(
    *, places: int, unfinished: int, strangers: int, stranger_waits: bool, node_waits: bool
) -> None:
    inside = Inside()
    inside.unauthenticated, inside.strangers = unfinished, strangers
    door = gate(FakeClock(), inside, unauthenticated_max=places)
    assert (retry_s(door, known=False) > 0) == stranger_waits
    assert (retry_s(door, known=True) > 0) == node_waits


def test_a_stopping_hub_turns_everyone_away_over_its_spread() -> None:
    inside = Inside()
    inside.stopping = True
    told = {retry_s(gate(FakeClock(), inside), known=known) for known in (True, False) for _ in range(50)}
    assert all(1 <= wait_s <= 40 for wait_s in told)


def test_a_name_is_believed_only_as_often_as_one_node_may_come_and_few_are_remembered() -> None:
    clock = FakeClock()
    door = gate(clock, Inside())
    assert sum(door._known("node-1") for _ in range(100)) == KNOCKS_BURST
    clock.move(2.0)
    assert door._known("node-1")
    assert not door._known("node-1")
    assert not door._known("")
    assert not door._known("somebody")
    for number in range(2 * REMEMBERED_MAX):
        door._known(f"node-{number}")
    assert len(door._nodes) == REMEMBERED_MAX


async def test_a_node_comes_in_where_a_stranger_from_the_same_address_has_to_wait(tmp_path: Path) -> None:
    async with running_hub(tmp_path, accept_per_s=0.001, accept_burst=4) as hub:
        peer = await hub.enroll()
        async with dial(hub.port), peer.connect():
            with pytest.raises(InvalidStatus) as refused:
                async with dial(hub.port, additional_headers={AGENT_HEADER: "nobody"}):
                    pass
            assert refused.value.response.status_code == 503
            assert 10 <= int(refused.value.response.headers["Retry-After"]) <= 60
            async with (await hub.enroll()).connect():
                pass


async def test_who_gave_up_before_the_hub_came_to_it_costs_no_place_and_no_traceback() -> None:
    inside = Inside()
    door = gate(FakeClock(), inside)
    arrived, gone, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    statuses: list[int] = []

    async def busy(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await gone.wait()
        while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        answer = await door.handle(request)
        statuses.append(answer.status)
        answered.set()
        return answer

    app = web.Application()
    app.add_routes([web.get(PATH, busy)])
    async with asyncio.timeout(20), TestServer(app) as server:
        _, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(
            f"GET {PATH} HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n".encode()
        )
        await arrived.wait()
        writer.transport.abort()
        gone.set()
        await answered.wait()
    assert statuses == [503]
    assert inside.traffic.turned_away == {GONE: 1}
