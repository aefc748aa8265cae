"""Rented hosts lie and strangers knock: what they send touches nothing but themselves."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from websockets import ConnectionClosed, Subprotocol
from websockets.asyncio.client import ClientConnection, connect

from agent.identity import load_enrolled, load_key, verify
from tests.e2e.rig import CIRCUITS, ROOT, Agent, Hub, Process, Rig, until
from wire.codec import encode
from wire.frames import Event, Events, Hello, NodeEvent, Status, Stream
from wire.limits import FRAME_BYTES_MAX, FRAME_BYTES_UNAUTHENTICATED_MAX, PROTOCOL
from wire.reasons import Reason
from wire.session import AgentSession
from wire.status import NodeStatus

EPOCH = "01900000-0000-7000-8000-0000000000aa"


def liar(rig: Rig, hub: Hub, proof: bytes, name: str = "liar") -> Agent:
    """A node whose worker answers every job with ``proof``, enrolled and online."""
    agent = rig.agent(name, PROVEWIRE_WORKERS="external")
    path = rig.folder / f"{name}.proof"
    path.write_bytes(proof)
    argv = [str(ROOT / "tests" / "e2e" / "liar.py"), str(agent.folder / "workers" / "host"), str(path)]
    Process(rig, f"{name}'s worker", argv, rig.folder / f"{name}-worker.log", {})
    return agent.join(hub)


def proof_of_another_witness(folder: Path) -> bytes:
    """A valid proof for the same circuit, of other public inputs."""
    proof = folder / "other-proof.json"
    subprocess.run(
        [
            *(sys.executable, "-m", "cli.main", "prove", "--zkey", str(CIRCUITS / "merkle8.zkey")),
            *("--wtns", str(CIRCUITS / "merkle8_other.wtns"), "--proof", str(proof)),
            *("--public", str(folder / "other-public.json")),
        ],
        cwd=ROOT,
        check=True,
        timeout=120,
    )
    return proof.read_bytes()


def first_given_to(hub: Hub, name: str) -> dict[str, Any]:
    """The end of a job whose first attempt went to the named node: jobs are submitted until one does."""
    node = hub.nodes()[name]["id"]
    for _ in range(20):
        ended = hub.wait_job(hub.submit())
        if ended["attempts"][0]["node"] == node:
            return ended
    raise AssertionError(f"no job was ever given to {name} first")


@pytest.mark.parametrize("kind", ["a valid proof of other public inputs", "garbage"])
def test_a_lying_node_is_refused_and_another_gets_the_job(rig: Rig, kind: str) -> None:
    hub = rig.hub()
    proof = proof_of_another_witness(rig.folder) if kind.startswith("a valid") else b'{"pi_a": ["\xff", 7'
    liar(rig, hub, proof)
    rig.agent("honest").join(hub)
    hub.register()
    ended = first_given_to(hub, "liar")
    assert ended["state"] == "done", ended
    nodes = hub.nodes()
    first = ended["attempts"][0]
    assert first["node"] == nodes["liar"]["id"]
    assert first["outcome"] == "refused"
    assert first["detail"]
    assert ended["attempts"][-1]["node"] == nodes["honest"]["id"]
    assert nodes["liar"]["state"] == "online"  # its words are refused, the node stays visible
    assert hub.call("GET", f"jobs/{ended['id']}/proof") != proof


def test_a_witness_that_does_not_satisfy_the_circuit_never_becomes_a_proof(rig: Rig) -> None:
    hub = rig.hub()
    rig.agent().join(hub)
    hub.register()
    data = bytearray((CIRCUITS / "merkle8.wtns").read_bytes())
    data[-32] ^= 1  # the last wire is an internal one
    ended = hub.wait_job(hub.submit(wtns=bytes(data)))
    assert ended["state"] == "failed"
    assert ended["error"]["code"] == 4
    assert ended["error"]["detail"]
    assert len(ended["attempts"]) == 3
    assert hub.request("GET", f"/api/v1/jobs/{ended['id']}/proof", headers=hub.admin).status == 409


def knocking(hub: Hub) -> connect:
    """A bare WebSocket to the hub."""
    url = f"ws://127.0.0.1:{hub.port}/agent"
    return connect(url, subprotocols=[Subprotocol(PROTOCOL)], compression=None, close_timeout=2)


async def code_at_the_end(socket: ClientConnection) -> int | None:
    """Read on until the hub closes; its close code."""
    while True:
        try:
            await socket.recv()
        except ConnectionClosed:
            return socket.close_code


async def as_stranger(hub: Hub, frame: bytes) -> int | None:
    """Send a frame after the challenge; the close code."""
    async with asyncio.timeout(60), knocking(hub) as socket:
        await socket.recv()
        await socket.send(frame)
        return await code_at_the_end(socket)


def test_strangers_close_only_their_own_sockets(rig: Rig) -> None:
    hub = rig.hub()
    rig.agent().join(hub)
    session = hub.nodes()["node-a"]["session"]
    for frame, reason in (
        (b"\xc1garbage", Reason.MALFORMED_FRAME),
        (b"", Reason.MALFORMED_FRAME),
        (b"\x81\xa1t\xa2st", Reason.MALFORMED_FRAME),
        (b"\x00" * (FRAME_BYTES_UNAUTHENTICATED_MAX + 1), Reason.FRAME_TOO_LARGE),
    ):
        code = asyncio.run(as_stranger(hub, frame))
        # aiohttp itself ends a socket with 1009 when a frame exceeds what it may read at all.
        expected = {reason.close_code, 1009} if reason is Reason.FRAME_TOO_LARGE else {reason.close_code}
        assert code in expected, (frame[:16], code)
        node = hub.nodes()["node-a"]
        assert (node["session"], node["state"]) == (session, "online"), frame[:16]


def test_an_agent_refuses_a_hub_with_another_key(rig: Rig) -> None:
    hub = rig.hub()
    agent = rig.agent().join(hub)
    hub.stop()
    impostor = rig.hub("impostor", port=hub.port)

    def refused() -> bool:
        status = agent.status()
        reason = (status or {"hub": {}})["hub"].get("last_reason") or {}
        return reason.get("code") == Reason.WRONG_HUB_KEY

    until(refused, "the agent to refuse the impostor")
    assert impostor.nodes() == {}


async def as_agent(hub: Hub, folder: Path, *frames: bytes) -> int | None:
    """Log in with an enrolled agent's own key, send these frames, and return the close code."""
    key, enrolled = load_key(folder), load_enrolled(folder)
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
    session = AgentSession(
        agent_id=enrolled.agent_id,
        agent_key=key.public,
        hub_fingerprint=enrolled.hub_fingerprint,
        sign=key.sign,
        verify=verify,
        hello=hello,
        generation_seen=0,
        now=time.monotonic(),
    )
    async with asyncio.timeout(60), knocking(hub) as socket:
        while session.welcome is None:
            session.receive(await socket.recv(decode=False), time.monotonic())
            for frame in session.frames_to_send():
                await socket.send(frame)
        for frame in frames:
            await socket.send(frame)
        return await code_at_the_end(socket)


def status(number: int) -> bytes:
    return encode(Status(status_seq=number, full=True, time_ms=1, monotonic_ns=1, status=NodeStatus(draining=False)))


def event(seq: int) -> bytes:
    body = NodeEvent(kind="rogue", detail="x")
    return encode(Events(EPOCH, Stream.EVENTS, [Event(seq=seq, time_ms=1, monotonic_ns=1, body=body)]))


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        pytest.param([b"\xc1" * 100], Reason.MALFORMED_FRAME, id="garbage"),
        pytest.param([b"\x00" * (FRAME_BYTES_MAX + 1)], Reason.FRAME_TOO_LARGE, id="oversized"),
        pytest.param([status(1), status(1)], Reason.REPLAYED, id="a replayed status"),
        pytest.param([event(1), event(1)], Reason.REPLAYED, id="a replayed event"),
        pytest.param([event(2)], Reason.OUT_OF_ORDER, id="an event out of order"),
    ],
)
def test_hostile_frames_of_an_agent_close_only_its_own_socket(rig: Rig, frames: list[bytes], reason: Reason) -> None:
    hub = rig.hub()
    rig.agent("honest").join(hub)
    rogue = rig.agent("rogue").join(hub)
    rogue.kill()
    before = hub.nodes()["honest"]
    code = asyncio.run(as_agent(hub, rogue.folder, *frames))
    assert code in ({reason.close_code, 1009} if reason is Reason.FRAME_TOO_LARGE else {reason.close_code})
    nodes = hub.nodes()
    assert (nodes["honest"]["session"], nodes["honest"]["state"]) == (before["session"], "online")
    # The reason stays on the node, by its number.
    until(lambda: hub.nodes()["rogue"]["last_reason"]["code"] == reason, "the reason to be noted")
