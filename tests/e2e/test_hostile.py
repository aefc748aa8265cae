"""Rented hosts lie and strangers knock: what they send touches nothing but themselves."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import connect

from tests.e2e.rig import CIRCUITS, ROOT, Agent, Hub, Process, Rig, until
from wire.limits import FRAME_BYTES_UNAUTHENTICATED_MAX, PROTOCOL
from wire.reasons import Reason


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


def closes_with(hub: Hub, *frames: bytes) -> tuple[int | None, str]:
    """What a stranger who sends these frames after the challenge is told at the end."""

    async def knock() -> tuple[int | None, str]:
        url = f"ws://127.0.0.1:{hub.port}/agent"
        async with connect(url, subprotocols=[websockets.Subprotocol(PROTOCOL)], compression=None) as socket:
            await socket.recv()  # the challenge
            for frame in frames:
                await socket.send(frame)
            async with asyncio.timeout(30):
                while True:
                    try:
                        await socket.recv()
                    except websockets.ConnectionClosed:
                        return socket.close_code, socket.close_reason or ""

    return asyncio.run(knock())


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\xc1garbage", Reason.MALFORMED_FRAME),
        (b"", Reason.MALFORMED_FRAME),
        (b"\x81\xa1t\xa2st", Reason.MALFORMED_FRAME),
        (b"\x00" * (FRAME_BYTES_UNAUTHENTICATED_MAX + 1), Reason.FRAME_TOO_LARGE),
    ],
)
def test_a_stranger_closes_only_its_own_socket(rig: Rig, frame: bytes, reason: Reason) -> None:
    hub = rig.hub()
    rig.agent().join(hub)
    session = hub.nodes()["node-a"]["session"]
    code, _ = closes_with(hub, frame)
    # aiohttp itself ends a socket with 1009 when a frame exceeds what it may read at all.
    assert code in ({reason.close_code, 1009} if reason is Reason.FRAME_TOO_LARGE else {reason.close_code})
    node = hub.nodes()["node-a"]
    assert (node["session"], node["state"]) == (session, "online")


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
