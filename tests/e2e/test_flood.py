"""An enrolled node that floods the hub with all it may send: memory, answers and other nodes do not mind."""

import asyncio
import os
import time

import psutil
from websockets import ConnectionClosed, Subprotocol
from websockets.asyncio.client import connect

from agent.identity import load_enrolled, load_key, verify
from tests.e2e.rig import Agent, Hub, Rig
from wire.frames import Event, Hello, LogRecord, Stream
from wire.limits import PROTOCOL
from wire.session import AgentSession
from wire.status import NodeStatus, WorkerReading, WorkerState

EPOCH = "01900000-0000-7000-8000-0000000000bb"
FLOOD_S = 4.0
ANSWER_S_MAX = 2.0
GROWTH_BYTES_MAX = 96 * 1024**2
"""Queues of one session, the store's cache and the interpreter's own slack; a leak at this rate would be hundreds."""


def session_of(agent: Agent) -> AgentSession:
    """A session with the agent's own key."""
    key, enrolled = load_key(agent.folder), load_enrolled(agent.folder)
    assert enrolled is not None
    hello = Hello(
        agent_id=enrolled.agent_id,
        epoch=EPOCH,
        boot_id="rogue",
        nonce=os.urandom(32),
        version="0",
        minor=0,
        time_ms=1,
        name="rogue",
    )
    return AgentSession(
        agent_id=enrolled.agent_id,
        agent_key=key.public,
        hub_fingerprint=enrolled.hub_fingerprint,
        sign=key.sign,
        verify=verify,
        hello=hello,
        generation_seen=0,
        now=time.monotonic(),
    )


def picture(number: int) -> NodeStatus:
    """A status of almost a whole frame, a different one each time."""
    words = f"{number} " + "x" * 7800
    return NodeStatus(
        workers=[WorkerReading(device=f"cuda:{each}", state=WorkerState.DOWN, detail=words) for each in range(32)]
    )


async def flood(hub: Hub, agent: Agent) -> tuple[int, int]:
    """Send for `FLOOD_S` as fast as the socket takes it, statuses and log records; how many of each."""
    session = session_of(agent)
    url, protocols = f"ws://127.0.0.1:{hub.port}/agent", [Subprotocol(PROTOCOL)]
    statuses = records = 0
    async with connect(url, subprotocols=protocols, compression=None, max_size=None) as socket:

        async def listen() -> None:
            async for data in socket:
                assert isinstance(data, bytes)
                session.receive(data, time.monotonic())

        while not session.is_open:
            session.receive(await socket.recv(decode=False), time.monotonic())
            for frame in session.frames_to_send():
                await socket.send(frame)
        listening = asyncio.create_task(listen())
        end_s = time.monotonic() + FLOOD_S
        try:
            while time.monotonic() < end_s:
                statuses += 1
                session.send_status(picture(statuses), time.monotonic(), 1, 1)
                for want in session.wants_events():
                    if want.stream is Stream.LOGS and want.count_max >= 20:
                        body = LogRecord(source="rogue", text="y" * 7000)
                        session.send_events(
                            EPOCH,
                            Stream.LOGS,
                            [Event(want.after_seq + each, 1, 1, body) for each in range(1, 21)],
                        )
                        records += 20
                for frame in session.frames_to_send():
                    await socket.send(frame)
                await asyncio.sleep(0)
        except ConnectionClosed:
            raise AssertionError(
                f"the hub closed the session after {statuses} statuses: {socket.close_reason}"
            ) from None
        finally:
            listening.cancel()
    return statuses, records


def test_a_flooding_node_takes_neither_memory_nor_time_from_others(rig: Rig) -> None:
    hub = rig.hub()
    rig.agent("honest").join(hub)
    rogue = rig.agent("rogue").join(hub)
    rogue.kill()
    before = hub.nodes()["honest"]
    assert hub.process is not None
    process = psutil.Process(hub.process.pid)

    async def measured() -> tuple[tuple[int, int], float, int]:
        flooding = asyncio.create_task(flood(hub, rogue))
        slowest_s, rss_bytes = 0.0, 0
        while not flooding.done():
            began_s = time.monotonic()
            answer = await asyncio.to_thread(hub.request, "GET", "/healthz")
            assert answer.status == 200
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            rss_bytes = max(rss_bytes, process.memory_info().rss)
        return await flooding, slowest_s, rss_bytes

    rss_bytes = process.memory_info().rss
    (statuses, records), slowest_s, most_bytes = asyncio.run(measured())
    print(f"{statuses} statuses, {records} records, {slowest_s:.2f} s, +{(most_bytes - rss_bytes) / 1024**2:.0f} MiB")  # noqa: T201
    assert statuses > 20
    assert records > 20
    assert slowest_s < ANSWER_S_MAX
    assert most_bytes - rss_bytes < GROWTH_BYTES_MAX
    node = hub.nodes()["honest"]
    assert (node["session"], node["state"]) == (before["session"], "online")
