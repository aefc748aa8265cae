"""Agents over real sockets: the handshake, what replaces what, and what a hostile frame can and cannot do."""

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from hub import ports
from hub.app import ALL_SESSIONS
from hub.clones import TAKEOVERS_MAX
from hub.entrance import SESSIONS_BURST
from hub.ids import uuid7
from hub.liveness import NodeState
from hub.store.records import Agent, SessionRow
from hub.store.sql import SqlStore
from tests.hub.rig import Connection, Peer, RunningHub, dial, numbered, random_bytes, running_hub
from wire.codec import encode
from wire.frames import (
    Ack,
    Events,
    JobFailed,
    JobHeld,
    JobReply,
    JobStarted,
    LeaseRenew,
    NodeEvent,
    Status,
    Stream,
)
from wire.inputs import Ended, Heard, JobAssigned, RefusedByHub
from wire.limits import FRAME_BYTES_MAX, PROTOCOL
from wire.reasons import Reason
from wire.status import NodeStatus

NEWS = NodeEvent("some.thing", "happened")
SLOWLY_PER_S = 0.02
"""However slow the machine is, a burst of sessions is over before the next is allowed."""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path) as running:
        yield running


async def test_an_agent_is_online_with_its_status_and_its_events_are_stored_once(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as connection:
        await connection.status(NodeStatus(hostname="h1"))
        await connection.until(Heard)
        node = hub.app[ports.REGISTRY].node(peer.id)
        assert node is not None
        assert (node.state, node.status.hostname, node.version) == (NodeState.ONLINE, "h1", "0.1.0")
        await connection.events(Stream.EVENTS, NEWS, NEWS)
        await connection.acknowledged(Stream.EVENTS, 2)
    async with peer.connect() as connection:
        assert connection.session.welcome is not None
        have = {item.stream: item.seq for item in connection.session.welcome.have}
        assert have == dict.fromkeys(Stream, 0) | {Stream.EVENTS: 2}
        await connection.events(Stream.EVENTS, NEWS, first=3)
        await connection.acknowledged(Stream.EVENTS, 3)
    assert [event.seq for event in await hub.store.node_events(peer.id)] == [3, 2, 1]


async def test_an_end_the_store_could_not_take_is_written_down_when_it_can(hub: RunningHub) -> None:
    trigger = "CREATE TRIGGER failing BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'as a full disk does'); END"
    assert isinstance(hub.store, SqlStore)
    peer = await hub.enroll()
    async with peer.connect() as connection:
        await connection.status(NodeStatus(hostname="h1"))
        await hub.store.writer.submit(lambda c: c.exec_driver_sql(trigger))
        connection.session.say_bye(Reason.GOODBYE, "maintenance")
        await connection.flush()
        await connection.closed()
    await _no_session(hub)
    assert [row.closed_at_ms async for row in _rows(hub, peer)] == [None]
    await hub.store.writer.submit(lambda c: c.exec_driver_sql("DROP TRIGGER failing"))
    async with asyncio.timeout(20):
        while [row.reason_detail async for row in _rows(hub, peer)] != ["maintenance"]:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)


async def _rows(hub: RunningHub, peer: Peer) -> AsyncIterator[SessionRow]:
    for row in await hub.store.sessions(peer.id):
        yield row


async def test_a_session_that_ends_leaves_its_reason_on_the_node_also_after_a_restart(tmp_path: Path) -> None:
    expected = (NodeState.RECONNECTING, Reason.GOODBYE, "maintenance", "h1")
    async with running_hub(tmp_path) as hub:
        peer = await hub.enroll()
        async with peer.connect() as connection:
            await connection.status(NodeStatus(hostname="h1"))
            connection.session.say_bye(Reason.GOODBYE, "maintenance")
            await connection.flush()
            assert await connection.closed() == Reason.GOODBYE.close_code
        await _no_session(hub)
        assert _seen(hub, peer) == expected
    async with running_hub(tmp_path) as hub:
        assert _seen(hub, peer) == expected
        assert hub.app[ports.HUB].generation == 2


def _seen(hub: RunningHub, peer: Peer) -> tuple[object, ...]:
    node = hub.app[ports.REGISTRY].node(peer.id)
    assert node is not None
    return (node.state, node.last_reason_code, node.last_reason_detail, node.status.hostname)


async def test_a_cut_connection_is_told_from_a_goodbye(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as connection:
        connection.socket.transport.abort()
    await _no_session(hub)
    node = hub.app[ports.REGISTRY].node(peer.id)
    assert node is not None
    assert node.last_reason_code == Reason.CONNECTION_LOST


async def _no_session(hub: RunningHub) -> None:
    """Until the hub has noticed that every session is over: the bus says so."""

    def quiet() -> bool:
        return not any(node.connected for node in hub.app[ports.REGISTRY].nodes())

    with hub.app[ports.BUS].subscribe() as changes:
        async with asyncio.timeout(10):
            while not quiet():
                await anext(changes)


# --- who is let in


async def test_an_unknown_agent_is_refused(hub: RunningHub) -> None:
    peer = await hub.enroll()
    stranger = Peer(hub, msgspec.structs.replace(await _agent(hub, peer), id=uuid7()), peer.key)
    await _refused(stranger, Reason.UNKNOWN_AGENT)


async def test_a_hello_signed_by_another_key_is_refused_and_touches_nothing(hub: RunningHub) -> None:
    peer = await hub.enroll()
    thief = Peer(hub, await _agent(hub, peer), Ed25519PrivateKey.generate())
    async with peer.connect() as connection:
        await _refused(thief, Reason.BAD_SIGNATURE)
        await _still_heard(connection)
    node = hub.app[ports.REGISTRY].node(peer.id)
    assert node is not None
    assert node.last_reason_code != Reason.BAD_SIGNATURE


async def test_a_revoked_agent_is_closed_at_once_and_refused_afterwards(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as connection:
        await hub.store.revoke_agent(peer.id, 1)
        assert await hub.app[ports.SESSIONS].end(peer.id, Reason.REVOKED, "revoked")
        assert (await connection.until(Ended)).reason == Reason.REVOKED
        assert await connection.closed() == Reason.REVOKED.close_code
    await _refused(peer, Reason.REVOKED)


async def _agent(hub: RunningHub, peer: Peer) -> Agent:
    agent = await hub.store.agent(peer.id)
    assert agent is not None
    return agent


async def _refused(peer: Peer, reason: Reason) -> None:
    async with peer.connect(await_welcome=False) as connection:
        refusal = await connection.until(RefusedByHub)
        assert refusal.reason_code == reason
        assert await connection.closed() == reason.close_code


async def _still_heard(connection: Connection) -> None:
    await connection.status(NodeStatus(hostname=uuid7()))
    await connection.until(Heard)


# --- who replaces whom


async def test_the_same_boot_takes_over_and_the_old_session_is_told(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as old:
        await old.events(Stream.EVENTS, NEWS)
        async with peer.connect() as new:
            assert new.session.welcome is not None
            assert {item.stream: item.seq for item in new.session.welcome.have}[Stream.EVENTS] == 1
            assert (await old.until(Ended)).reason == Reason.REPLACED
            assert await old.closed() == Reason.REPLACED.close_code
            await _still_heard(new)
            assert hub.app[ports.SESSIONS].count() == 1


async def test_another_machine_with_the_same_key_is_refused_while_the_first_is_alive(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as first:
        clone = Peer(hub, await _agent(hub, peer), peer.key)
        clone.boot_id = "boot-of-a-clone"
        await _refused(clone, Reason.DUPLICATE_IDENTITY)
        await _still_heard(first)
    (seen,) = await hub.store.hub_events(peer.id)
    assert seen.kind == "identity.duplicate"
    assert "127.0.0.1" in seen.detail


async def test_two_processes_of_one_machine_that_replace_each_other_are_told_apart_and_the_first_stays(
    hub: RunningHub,
) -> None:
    first = await hub.enroll()
    double = Peer(hub, await _agent(hub, first), first.key)
    job = await hub.submit()
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(first.connect())]
        for number in range(TAKEOVERS_MAX):  # double, first, double: each takes over from the other
            newcomer = double if number % 2 == 0 else first
            sessions.append(await stack.enter_async_context(newcomer.connect()))
            assert (await sessions[-2].until(Ended)).reason == Reason.REPLACED
        stays = await stack.enter_async_context(first.connect())
        assert (await sessions[-1].until(Ended)).reason == Reason.DUPLICATE_IDENTITY
        for _ in range(3):
            await _refused(double, Reason.DUPLICATE_IDENTITY)
        restarted = Peer(hub, await _agent(hub, first), first.key)  # the same machine, a new epoch
        await _still_heard(stays)
        async with restarted.connect() as again:
            await _still_heard(again)
            await _refused(double, Reason.DUPLICATE_IDENTITY)
            assert (await again.until(JobAssigned)).frame.job == job
    alarms = [seen for seen in await hub.store.hub_events(first.id) if seen.kind == "identity.duplicate"]
    assert len(alarms) == 1, "one alarm, however often it knocks"
    assert alarms[0].detail.count("127.0.0.1") == 2


async def test_another_machine_takes_over_once_the_first_is_silent(tmp_path: Path) -> None:
    async with running_hub(tmp_path, heartbeat_s=0.01, stale_after_s=0.02) as hub:
        peer = await hub.enroll()
        async with peer.connect() as first:
            second = Peer(hub, await _agent(hub, peer), peer.key)
            second.boot_id = "boot-2"
            async with asyncio.timeout(10):
                while True:  # until the first has been silent for 20 milliseconds
                    async with second.connect(await_welcome=False) as connection:
                        try:
                            await _still_heard_after_welcome(connection)
                        except AssertionError:
                            continue
                        break
            assert await first.closed() == Reason.REPLACED.close_code


async def _still_heard_after_welcome(connection: Connection) -> None:
    from wire.inputs import Opened  # noqa: PLC0415

    await connection.until(Opened)
    await _still_heard(connection)


# --- hostile frames


def _status(seq: int, *, full: bool = True) -> bytes:
    return encode(Status(status_seq=seq, full=full, time_ms=1, monotonic_ns=1, status=NodeStatus(hostname="x")))


def _events(epoch: str, *seqs: int) -> bytes:
    events = [msgspec.structs.replace(numbered([NEWS])[0], seq=seq) for seq in seqs]
    return encode(Events(epoch=epoch, stream=Stream.EVENTS, events=events))


JOB = "00000000-0000-7000-8000-000000000000"

AUTHENTICATED: dict[str, tuple[Reason, Callable[[Peer], list[bytes | str]]]] = {
    "garbage": (Reason.MALFORMED_FRAME, lambda _: [random_bytes(64)]),
    "nothing": (Reason.MALFORMED_FRAME, lambda _: [b""]),
    "text": (Reason.MALFORMED_FRAME, lambda _: ["hello"]),
    "deep nesting": (Reason.MALFORMED_FRAME, lambda _: [b"\x91" * 5000]),
    "a frame just over the limit": (Reason.FRAME_TOO_LARGE, lambda _: [random_bytes(FRAME_BYTES_MAX + 1)]),
    "a frame far over the limit": (Reason.FRAME_TOO_LARGE, lambda _: [random_bytes(2 * FRAME_BYTES_MAX)]),
    "a second hello": (Reason.UNEXPECTED_FRAME, lambda peer: [encode(peer.hello())]),
    "a frame of the hub": (Reason.UNEXPECTED_FRAME, lambda _: [encode(Ack(status_seq=1))]),
    "a status twice": (Reason.REPLAYED, lambda _: [_status(1), _status(1)]),
    "an event twice": (Reason.REPLAYED, lambda peer: [_events(peer.epoch, 1, 2), _events(peer.epoch, 2)]),
    "a hole between events": (Reason.OUT_OF_ORDER, lambda peer: [_events(peer.epoch, 1), _events(peer.epoch, 3)]),
    "events backwards": (Reason.OUT_OF_ORDER, lambda peer: [_events(peer.epoch, 2, 1)]),
    "events of an epoch not in the hello": (Reason.OUT_OF_ORDER, lambda _: [_events(uuid7(), 1)]),
    "a reply for a job of nobody": (
        Reason.FOREIGN_REFERENCE,
        lambda _: [encode(JobReply(job=JOB, attempt=1, accepted=True))],
    ),
    "a lease of nobody": (Reason.FOREIGN_REFERENCE, lambda _: [encode(LeaseRenew(jobs=[JobHeld(JOB, 1)]))]),
    "a job event of nobody": (
        Reason.FOREIGN_REFERENCE,
        lambda peer: [
            encode(Events(epoch=peer.epoch, stream=Stream.JOBS, events=numbered([JobStarted(JOB, 1, "host", 1)])))
        ],
    ),
}
STRANGERS: dict[str, tuple[Reason, Callable[[Peer], bytes | str]]] = {
    "garbage": (Reason.MALFORMED_FRAME, lambda _: random_bytes(64)),
    "text": (Reason.MALFORMED_FRAME, lambda _: "GET / HTTP/1.1"),
    "more than 4 KiB": (Reason.FRAME_TOO_LARGE, lambda _: random_bytes(4097)),
    "a megabyte": (Reason.FRAME_TOO_LARGE, lambda _: random_bytes(1024 * 1024)),
    "a status before the hello": (Reason.UNEXPECTED_FRAME, lambda _: _status(1)),
    "events before the hello": (Reason.UNEXPECTED_FRAME, lambda peer: _events(peer.epoch, 1)),
    "a hello that is not signed": (Reason.BAD_SIGNATURE, lambda peer: encode(peer.hello())),
    "a hello of nobody": (
        Reason.UNKNOWN_AGENT,
        lambda peer: encode(msgspec.structs.replace(peer.hello(), agent_id=uuid7())),
    ),
}


@pytest.mark.parametrize("name", AUTHENTICATED)
async def test_a_hostile_frame_of_an_agent_closes_that_socket_with_a_number_and_nothing_else(
    hub: RunningHub, name: str
) -> None:
    reason, frames = AUTHENTICATED[name]
    honest, hostile = await hub.enroll("honest"), await hub.enroll("hostile")
    job = await hub.submit() if "reply" in name else None
    async with honest.connect() as bystander, hostile.connect() as attacker:
        for frame in frames(hostile):
            await attacker.socket.send(frame)
        assert await attacker.closed() == reason.close_code
        await _still_heard(bystander)
        await bystander.events(Stream.EVENTS, NEWS)
        await bystander.acknowledged(Stream.EVENTS, 1)
    node = hub.app[ports.REGISTRY].node(hostile.id)
    assert node is not None
    assert node.last_reason_code == reason
    assert node.last_reason_detail
    if job is not None:
        picture = await hub.store.job(job)
        assert picture is not None
        assert picture.job.state in {"queued", "leased"}


@pytest.mark.parametrize("name", STRANGERS)
async def test_a_hostile_frame_of_a_stranger_closes_that_socket_with_a_number_and_nothing_else(
    hub: RunningHub, name: str
) -> None:
    reason, frame = STRANGERS[name]
    honest = await hub.enroll("honest")
    async with honest.connect() as bystander, dial(hub.port) as stranger:
        await stranger.recv()
        await stranger.send(frame(honest))
        connection = Connection(honest, stranger, bystander.session)
        assert await connection.closed() == reason.close_code
        await _still_heard(bystander)
    assert await hub.store.node_events(honest.id) == []


async def test_a_replayed_hello_opens_no_second_session(hub: RunningHub) -> None:
    """The hub's nonce differs for each socket, so the signature of a recorded hello is worth nothing."""
    peer = await hub.enroll()
    recorded: list[bytes] = []
    async with peer.connect(await_welcome=False) as connection:
        challenge = await connection.socket.recv()
        assert isinstance(challenge, bytes)
        connection.session.receive(challenge, time.monotonic())
        recorded = connection.session.frames_to_send()
        assert len(recorded) == 1
    async with dial(hub.port) as thief:
        await thief.recv()
        await thief.send(recorded[0])
        assert await Connection(peer, thief, connection.session).closed() == Reason.BAD_SIGNATURE.close_code


async def test_an_agent_cannot_speak_for_another_agents_attempt(hub: RunningHub) -> None:
    owner, liar = await hub.enroll("owner"), await hub.enroll("liar")
    async with owner.connect() as owning:
        job = await hub.submit()
        assigned = (await owning.until(JobAssigned)).frame
        async with liar.connect() as lying:
            await lying.events(Stream.JOBS, JobFailed(job, assigned.attempt, 6, "I say it failed"))
            assert (await lying.until(Ended)).reason == Reason.FOREIGN_REFERENCE
        picture = await hub.store.job(job)
        assert picture is not None
        assert (picture.job.state, picture.job.failures) == ("leased", 0)
        await _still_heard(owning)
    (seen,) = await hub.store.hub_events(liar.id)
    assert seen.kind == "foreign.reference"
    async with liar.connect() as again:  # its event is its own history: stored, so that it does not come again
        assert again.session.welcome is not None
        assert {item.stream: item.seq for item in again.session.welcome.have}[Stream.JOBS] == 1


# --- the gate


async def test_what_is_no_websocket_of_ours_is_refused_before_the_upgrade(hub: RunningHub) -> None:
    async with ClientSession() as http, http.get(f"http://127.0.0.1:{hub.port}/agent") as answer:
        assert (answer.status, (await answer.json())["code"]) == (426, "upgrade_required")
    with pytest.raises(InvalidStatus) as refused:
        async with dial(hub.port, subprotocols=[Subprotocol("provewire.v9")]):
            pass
    assert refused.value.response.status_code == 400


async def test_compression_is_never_agreed(hub: RunningHub) -> None:
    async with dial(hub.port, compression="deflate") as socket:
        assert socket.subprotocol == PROTOCOL
        assert socket.protocol.extensions == []


async def test_a_crowd_is_told_when_to_come_again(tmp_path: Path) -> None:
    async with running_hub(tmp_path, accept_per_s=0.01, accept_burst=1) as hub:
        peer = await hub.enroll()
        async with peer.connect() as connection:
            with pytest.raises(InvalidStatus) as refused:
                async with dial(hub.port):
                    pass
            assert refused.value.response.status_code == 503
            assert 0 < int(refused.value.response.headers["Retry-After"]) <= 100
            await _still_heard(connection)


async def test_unfinished_handshakes_are_limited(tmp_path: Path) -> None:
    async with running_hub(tmp_path, unauthenticated_max=1) as hub, dial(hub.port) as idle:
        await idle.recv()
        with pytest.raises(InvalidStatus) as refused:
            async with dial(hub.port):
                pass
        assert refused.value.response.status_code == 503


async def test_one_address_leaves_room_for_the_handshakes_of_others(tmp_path: Path) -> None:
    async with running_hub(tmp_path, unauthenticated_max=8) as hub, dial(hub.port) as one, dial(hub.port) as two:
        await one.recv()
        await two.recv()
        with pytest.raises(InvalidStatus) as refused:
            async with dial(hub.port):
                pass
        assert refused.value.response.status_code == 503
        assert hub.app[ALL_SESSIONS].unauthenticated < 8


@pytest.mark.parametrize("how", ["goodbye", "cut"])
async def test_a_session_that_is_over_is_no_garbage_that_waits_for_a_collection(hub: RunningHub, how: str) -> None:
    """The hub looks for cycles once in an hour or so, for a fleet's objects are many: so a session leaves none."""
    peer = await hub.enroll()
    gc.collect()
    gc.disable()
    try:
        async with peer.connect() as connection:
            await connection.events(Stream.EVENTS, NEWS)
            await connection.acknowledged(Stream.EVENTS, 1)
            life = hub.app[ALL_SESSIONS].life(peer.id)
            assert life is not None
            left = weakref.ref(life.channel.response)  # type: ignore[attr-defined]  # aiohttp's own, which holds the request
            finished = asyncio.create_task(life.finished())
            del life
            if how == "goodbye":
                connection.session.say_bye(Reason.GOODBYE, "")
                await connection.flush()
            else:
                connection.socket.transport.abort()
            await finished
            del finished
        async with asyncio.timeout(10):
            while left() is not None:  # noqa: ASYNC110 - the memory's end is told to nobody
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


async def test_an_agent_that_begins_anew_for_ever_is_slowed_down_and_writes_no_more(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.entrance.SESSIONS_PER_S", SLOWLY_PER_S)
    hostile, honest = await hub.enroll("hostile"), await hub.enroll("honest")
    for _ in range(SESSIONS_BURST):
        async with hostile.connect():
            pass
    async with hostile.connect(await_welcome=False) as connection:
        refused = await connection.until(RefusedByHub)
        assert refused.reason_code == Reason.OVERLOADED
        assert 0.0 < refused.wait_s <= 1.0 / SLOWLY_PER_S
    async with honest.connect() as connection:
        await _still_heard(connection)


async def test_a_stopping_hub_says_goodbye_with_a_wait_within_its_spread(tmp_path: Path) -> None:
    async with running_hub(tmp_path, reconnect_spread_s=3.0) as hub:
        peer = await hub.enroll()
        entered = peer.connect()
        connection = await entered.__aenter__()
    ended = await connection.until(Ended)
    assert (ended.reason, ended.by_peer) == (Reason.HUB_STOPPING, True)
    assert 0.0 <= ended.wait_s <= 3.0
    await entered.__aexit__(None, None, None)
