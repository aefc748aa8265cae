"""Incidents, ladders and probes over REST, on the live stream and in a real browser."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hub import ports
from hub.bus import IncidentsChanged
from hub.ssh.book import Asked
from hub.ssh.targets import Target
from tests.hub.api.conftest import Web
from tests.hub.rig import Peer
from tests.hub.ssh.sshd import free_port, make_key

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is missing: apt-get install openssh-client")
OPERATOR = Asked("the test")
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
RUNGS = [
    "name", "tcp", "banner", "login", "shell", "provers", "agent", "status", "gpus", "disk", "memory", "clock",
]  # fmt: skip


async def node(web: Web, folder: Path, name: str) -> Peer:
    """A node at whose port nobody listens."""
    peer = await web.hub.enroll(name)
    desk = web.app[ports.SSH]
    await desk.set_target(peer.id, Target("127.0.0.1", free_port(), "prover"), OPERATOR)
    key = make_key(folder / peer.id).with_suffix(".pub").read_text("ascii").split()
    await desk.book.pin(peer.id, [" ".join(key[:2])], OPERATOR)
    return peer


async def probed(web: Web, peer: Peer) -> Any:
    reply = await web.ask("POST", f"/api/v1/nodes/{peer.id}/probe", json={"asked_by": "alice"})
    assert reply.status == 200, reply.body
    return reply.json


async def test_a_probe_goes_rung_by_rung_and_is_kept_with_who_asked(web: Web, tmp_path: Path) -> None:
    peer = await node(web, tmp_path, "node-a")
    assert (await web.ask("GET", f"/api/v1/nodes/{peer.id}/ladder")).code == "never_looked"
    ladder = await probed(web, peer)
    assert [step["rung"] for step in ladder["steps"]] == RUNGS
    assert [step["state"] for step in ladder["steps"]] == ["ok", "failed", *["unknown"] * 10]
    assert "Connection refused" in ladder["steps"][1]["detail"]
    assert ladder["summary"].startswith("tcp: refused: Nothing listens on that port")
    assert (ladder["node_name"], ladder["provers"], ladder["next_look_s"]) == ("node-a", "", None)
    again = (await web.ask("GET", "/api/v1/nodes/node-a/ladder")).json
    assert again == ladder
    attempt = (await web.ask("GET", f"/api/v1/nodes/{peer.id}/ssh/attempts/{ladder['attempt']}")).json
    assert (attempt["purpose"], "alice" in attempt["origin"]["asked_by"]) == ("look", True)
    fallback = (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).json["fallback"]
    assert (fallback["state"], fallback["found"]) == ("broken", ladder["summary"])
    assert fallback["via_ssh_at_ms"] is None


async def test_what_cannot_be_probed_is_refused_by_name(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    assert (await web.ask("POST", f"/api/v1/nodes/{peer.id}/probe")).code == "no_way_in"
    assert (await web.ask("POST", "/api/v1/nodes/nobody/probe")).status == 404
    assert (await web.ask("GET", "/api/v1/nodes/nobody/ladder")).status == 404
    refused = await web.ask("POST", f"/api/v1/nodes/{peer.id}/probe", json={"force": True})
    assert refused.status == 422
    assert (await web.ask("POST", f"/api/v1/nodes/{peer.id}/probe", stranger=True)).status == 401
    assert (await web.ask("GET", "/api/v1/incidents", stranger=True)).status == 401


async def test_many_nodes_with_one_cause_are_one_incident_with_this_side_beside_it(web: Web, tmp_path: Path) -> None:
    nothing = (await web.ask("GET", "/api/v1/incidents")).json
    assert (nothing["incidents"], nothing["lost"]) == ([], 0)
    peers = [await node(web, tmp_path, f"node-{number}") for number in range(3)]
    for peer in peers:
        await probed(web, peer)
    web.app[ports.SSH_WATCH].tick()
    identity = web.app[ports.SSH].way.identities[0]
    identity.unlink()
    with web.app[ports.BUS].subscribe(kinds=(IncidentsChanged,)) as told:
        await web.app[ports.SSH_WATCH].examine()
        await told.take()
    said = (await web.ask("GET", "/api/v1/incidents")).json
    (incident,) = said["incidents"]
    assert (incident["cause"], incident["count"], incident["fleet"]) == ("refused", 3, 3)
    assert incident["headline"] == "3 of 3 nodes, one cause: refused"
    assert sorted(one["name"] for one in incident["nodes"]) == ["node-0", "node-1", "node-2"]
    assert not incident["ours"]
    assert said["notes"][0].startswith("This hub runs on ")
    assert "canary" in said["notes"][1]
    (problem,) = [one for one in said["problems"] if one["cause"] == "key_missing"]
    assert str(identity) in problem["sentence"]
    assert "ssh-key rotate" in problem["remedy"]
    assert said["examined_at_ms"] is not None
    metrics = (await web.ask("GET", "/metrics")).body.decode()
    for line in (
        "provewire_incidents 1.0",
        'provewire_incident_nodes{cause="refused"} 3.0',
        'provewire_ssh_problems{cause="key_missing"} 1.0',
        'provewire_fallback_nodes{state="broken"} 3.0',
        'provewire_ssh_attempts_total{cause="refused"} 3.0',
    ):
        assert line in metrics, line


async def test_the_live_stream_begins_with_the_incidents_there_are(web: Web, tmp_path: Path) -> None:
    peers = [await node(web, tmp_path, f"node-{number}") for number in range(3)]
    for peer in peers:
        await probed(web, peer)
    web.app[ports.SSH_WATCH].tick()
    await web.app[ports.SSH_WATCH].examine()
    async with web.client.get("/api/v1/live", headers=web.admin) as stream:
        line = b""
        while not line.startswith(b"data: "):
            line = await stream.content.readline()
        snapshot = json.loads(line.removeprefix(b"data: "))
    (incident,) = snapshot["incidents"]["incidents"]
    assert incident["count"] == 3
