"""Ways in by SSH over real HTTP: what operators set, try and import, who may, and that all of it is kept."""

import base64
import json
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub import ports
from hub.access.roles import Role
from hub.ssh.reach import Suggestion
from hub.ssh.side import IDENTITY_FILE
from hub.ssh.targets import Target
from tests.hub.api.conftest import Start, Web
from tests.hub.api.test_openapi import fits
from tests.hub.rig import Peer
from tests.hub.ssh.fleet import host_key_of
from tests.hub.ssh.sshd import Sshd, make_key, needs_sshd, running

RECORDER = """#!{python}
import json, sys
with open({log!r}, "a", encoding="utf-8", errors="surrogateescape") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
sys.stderr.write("OpenSSH_9.9p9\\n" if "-V" in sys.argv else "recorded\\n")
sys.exit(0 if "-V" in sys.argv else 255)
"""
VALUED = frozenset({"-F", "-o", "-p", "-l", "-O"})
FLAGS = frozenset({"-T", "-v", "-V", "-G"})


@pytest.fixture
def key(tmp_path: Path) -> str:
    return " ".join(make_key(tmp_path / "some_host").with_suffix(".pub").read_text("ascii").split()[:2])


@pytest.fixture
async def sshd(web: Web, tmp_path: Path) -> AsyncIterator[Sshd]:
    """An sshd that lets the hub in."""
    async with running(tmp_path / "sshd") as server:
        server.authorize(web.app[ports.SSH].way.known_hosts.parent / IDENTITY_FILE)
        yield server


async def the_way(web: Web, peer: Peer, server: Sshd) -> None:
    """Set and pinned."""
    body = {"target": f"ssh -p {server.port} {server.target.user}@127.0.0.1", "host_keys": [host_key_of(server)]}
    assert (await web.ask("PUT", f"/api/v1/nodes/{peer.id}/ssh", json=body)).status == 200


async def kinds(web: Web, peer: Peer) -> list[tuple[str, str]]:
    """What the hub saw at a node, newest first: kind and detail."""
    events = (await web.ask("GET", f"/api/v1/nodes/{peer.id}/events?stream=hub")).json["events"]
    return [(event["kind"], event["detail"]) for event in events]


@needs_sshd
async def test_a_target_is_set_pinned_shown_and_forgotten_and_all_of_it_is_kept(web: Web, key: str) -> None:
    peer = await web.hub.enroll("node-a")
    path = f"/api/v1/nodes/{peer.id[:13]}/ssh"
    nothing = (await web.ask("GET", path)).json
    assert (nothing["target"], nothing["fallback"]["sentence"]) == (None, "no way in")
    body = {"target": "ssh -p 2222 -J gate@g.example.org:99 u@203.0.113.5", "host_keys": [key], "asked_by": "alice"}
    set_ = (await web.ask("PUT", path, json=body)).json
    assert set_["target"] == "u@203.0.113.5:2222 via gate@g.example.org:99"
    assert set_["host_keys"][0]["key"] == key
    assert set_["host_keys"][0]["fingerprint"].startswith("SHA256:")
    jump = await web.ask("PUT", f"{path}/host-keys", json={"host_keys": [key], "jump": "gate@g.example.org:99"})
    assert list(jump.json["jump_keys"]) == ["[g.example.org]:99"]
    assert f"[g.example.org]:99 {key}\n" in web.app[ports.SSH].way.known_hosts.read_text()
    (listed,) = (await web.ask("GET", "/api/v1/ssh/targets")).json["targets"]
    assert listed == jump.json
    node = (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).json
    assert (node["fallback"]["state"], node["fallback"]["sentence"]) == ("unproved", "fallback unproved")
    assert (await web.ask("DELETE", path)).status == 204
    assert (await web.ask("GET", path)).json["target"] is None
    assert web.app[ports.SSH].way.known_hosts.read_text() == ""
    told = await kinds(web, peer)
    assert [kind for kind, _ in told] == ["ssh.removed", "ssh.jump_keys", "ssh.host_keys", "ssh.target"]
    assert (
        told[-1][1]
        == "alice (admin token) from 127.0.0.1: none before, u@203.0.113.5:2222 via gate@g.example.org:99 now"
    )


@pytest.mark.parametrize(
    "body",
    [
        {"target": "-oProxyCommand=x"},
        {"target": "root@-oProxyCommand=x"},
        {"target": "ssh -o ProxyCommand=x root@h"},
        {"target": "h;id"},
        {"target": "h$(id)"},
        {"target": "h\nProxyCommand x"},
        {"target": ""},
        {"target": "h", "host_keys": ["ssh-ed25519 AAAA"]},
        {"target": "h", "host_keys": ["* ssh-ed25519 x"]},
        {"target": "h", "unknown": 1},
    ],
)
async def test_what_is_no_target_or_no_key_is_refused_and_changes_nothing(web: Web, body: dict[str, Any]) -> None:
    peer = await web.hub.enroll("node-a")
    refused = await web.ask("PUT", f"/api/v1/nodes/{peer.id}/ssh", json=body)
    assert (refused.status, refused.code) == (422, "invalid")
    assert (await web.ask("GET", f"/api/v1/nodes/{peer.id}/ssh")).json["target"] is None
    assert await kinds(web, peer) == []


@needs_sshd
async def test_a_suggestion_is_shown_and_accepted_with_its_host_keys_only_when_told(web: Web, tmp_path: Path) -> None:
    one, two = (" ".join(make_key(tmp_path / n).with_suffix(".pub").read_text("ascii").split()[:2]) for n in "ab")
    peer = await web.hub.enroll("node-a")
    path, desk = f"/api/v1/nodes/{peer.id}/ssh", web.app[ports.SSH]
    assert (await web.ask("POST", f"{path}/accept", json={})).code == "nothing_suggested"
    await desk.suggested(peer.id, Suggestion(target=Target("203.0.113.5", 22), host_keys=(one,)))
    assert (await web.ask("GET", path)).json["suggested"]["target"] == "root@203.0.113.5:22"
    accepted = (await web.ask("POST", f"{path}/accept", json={})).json
    assert (accepted["target"], accepted["source"], accepted["pinned_by"]) == ("root@203.0.113.5:22", "node", "node")
    await desk.suggested(peer.id, Suggestion(target=Target("203.0.113.5", 22), host_keys=(two,)))
    differs = (await web.ask("POST", f"{path}/accept", json={})).json
    assert (differs["host_keys_differ"], differs["host_keys"][0]["key"]) == (True, one)
    taken = (await web.ask("POST", f"{path}/accept", json={"host_keys": True})).json
    assert (taken["host_keys_differ"], taken["host_keys"][0]["key"]) == (False, two)


@needs_sshd
async def test_a_login_is_tried_now_and_its_record_told_listed_and_raw(web: Web, sshd: Sshd) -> None:
    peer, other = await web.hub.enroll("node-a"), await web.hub.enroll("node-b")
    path = f"/api/v1/nodes/{peer.id}/ssh"
    assert (await web.ask("POST", f"{path}/attempts", json={})).code == "no_way_in"
    await the_way(web, peer, sshd)
    tried = await web.ask("POST", f"{path}/attempts", json={"probe": "login", "asked_by": "alice"})
    assert tried.status == 201
    record = tried.json
    assert (record["ok"], record["cause"], record["fresh"]) == (True, "ok", True)
    assert (record["origin"]["asked_by"], record["origin"]["asked_from"]) == ("alice (admin token)", "127.0.0.1")
    words = shlex.split(record["command"])
    assert (words[0], words[-2], shlex.split(record["login"])) == ("ssh", "127.0.0.1", words[:-1])
    assert (await web.ask("GET", path)).json["fallback"]["sentence"].startswith("fallback proved ")
    evil = r"printf '\033]0;owned\007\377\n' >&2; printf '<script>'; exit 4"
    told = (await web.ask("POST", f"{path}/attempts", json={"command": evil})).json
    assert (told["cause"], told["remote_exit_code"], told["stdout"]) == ("remote_failed", 4, "<script>")
    assert told["stderr"] == "\\x1b]0;owned\\x07\\xff\n"
    assert base64.b64decode(told["stderr_base64"]) == b"\x1b]0;owned\x07\xff\n"
    page = (await web.ask("GET", f"{path}/attempts?limit=1")).json
    assert [item["id"] for item in page["attempts"]] == [told["id"]]
    older = (await web.ask("GET", f"{path}/attempts?after={page['next']}")).json
    assert record["id"] in [item["id"] for item in older["attempts"]]
    assert (await web.ask("GET", f"{path}/attempts/{told['id']}")).json == told
    assert (await web.ask("GET", f"/api/v1/nodes/{other.id}/ssh/attempts/{told['id']}")).status == 404
    commands = [detail for kind, detail in await kinds(web, peer) if kind == "ssh.command"]
    assert commands == [f"admin token from 127.0.0.1: {evil}"]
    assert (await web.ask("POST", f"{path}/attempts", json={"probe": "rm"})).status == 422
    assert (await web.ask("POST", f"{path}/attempts", json={"command": "a\0b"})).status == 422


@needs_sshd
async def test_a_browser_may_probe_but_not_command(web: Web, sshd: Sshd) -> None:
    peer = await web.hub.enroll("node-a")
    await the_way(web, peer, sshd)
    path = f"/api/v1/nodes/{peer.id}/ssh/attempts"
    assert (await web.ask("POST", path, stranger=True, json={})).status == 401
    olga = await web.person(Role.OPERATOR, "olga")
    told = await web.ask("POST", path, stranger=True, headers=olga, json={"probe": "login"})
    assert (told.status, told.json["origin"]["asked_by"]) == (201, "olga (browser session)")
    refused = await web.ask("POST", path, stranger=True, headers=olga, json={"command": "id"})
    assert (refused.status, refused.code) == (403, "admin_only")
    elsewhere = {**olga, "Origin": "http://evil.example"}
    assert (await web.ask("POST", path, stranger=True, headers=elsewhere, json={})).code == "origin_refused"


async def test_an_import_tells_first_and_changes_when_told(web: Web) -> None:
    one, two = await web.hub.enroll("C.1001"), await web.hub.enroll("C.1002")
    text = "C.1001 ssh -p 22022 root@203.0.113.5\nssh -p 9 root@h C.1002\nC.9 ssh root@h\n"
    dry = (await web.ask("POST", "/api/v1/ssh/import", json={"text": text})).json
    assert (dry["dry_run"], dry["counts"]) == (True, {"new": 2, "changed": 0, "same": 0, "refused": 1})
    assert (await web.ask("GET", f"/api/v1/nodes/{one.id}/ssh")).json["target"] is None
    done = (await web.ask("POST", "/api/v1/ssh/import", json={"text": text, "dry_run": False})).json
    assert done["steps"] == dry["steps"]
    shown = (await web.ask("GET", f"/api/v1/nodes/{one.id}/ssh")).json
    assert (shown["target"], shown["source"]) == ("root@203.0.113.5:22022", "import")
    assert shown["fallback"]["sentence"] == "fallback unproved"
    assert (await web.ask("GET", f"/api/v1/nodes/{two.id}/ssh")).json["target"] == "root@h:9"
    again = (await web.ask("POST", "/api/v1/ssh/import", json={"text": text, "dry_run": False})).json
    assert again["counts"]["same"] == 2
    assert (await web.ask("POST", "/api/v1/ssh/import", json={"text": ""})).status == 422
    large = "\n".join(f"C.{n} root@h{n}" for n in range(6000))
    assert (await web.ask("POST", "/api/v1/ssh/import", json={"text": large})).status == 200


async def test_a_beginning_that_several_nodes_have_lists_them(web: Web) -> None:
    peers = [await web.hub.enroll(f"n{number}") for number in range(2)]
    refused = await web.ask("GET", f"/api/v1/nodes/{peers[0].id[:4]}/ssh")
    assert (refused.status, refused.code) == (409, "ambiguous")
    assert all(peer.id in refused.json["detail"] and f"n{n}" in refused.json["detail"] for n, peer in enumerate(peers))


@needs_sshd
async def test_answers_are_of_their_schemas(web: Web, sshd: Sshd, key: str) -> None:
    document = (await web.ask("GET", "/api/v1/openapi.json")).json
    peer = await web.hub.enroll("node-a")
    await the_way(web, peer, sshd)
    await web.app[ports.SSH].suggested(peer.id, Suggestion(target=Target("h"), host_keys=(key,)))
    template = "/api/v1/nodes/{id}/ssh"
    made = await web.ask("POST", f"/api/v1/nodes/{peer.id}/ssh/attempts", json={})
    told = [("post", f"{template}/attempts", made)]
    for path in ("/api/v1/ssh/targets", template, f"{template}/attempts", f"{template}/attempts/{{attempt}}"):
        real = path.replace("{id}", peer.id).replace("{attempt}", made.json["id"])
        told.append(("get", path, await web.ask("GET", real)))
    told.append(("post", "/api/v1/ssh/import", await web.ask("POST", "/api/v1/ssh/import", json={"text": "n h"})))
    for method, path, reply in told:
        schema = document["paths"][path][method]["responses"][str(reply.status)]["content"]["application/json"][
            "schema"
        ]
        assert fits(document, schema, reply.json), path


async def test_metrics_count_ways_in_and_attempts(web: Web) -> None:
    peers = [await web.hub.enroll(f"n{number}") for number in range(3)]
    await web.ask("PUT", f"/api/v1/nodes/{peers[0].id}/ssh", json={"target": "h"})
    text = (await web.ask("GET", "/metrics")).body.decode()
    assert text.count('provewire_fallback_nodes{state="none"} 2.0') == 1
    assert text.count('provewire_fallback_nodes{state="unproved"} 1.0') == 1
    assert text.count('provewire_ssh_attempts_total{cause="ok"} 0.0') == 1
    assert text.count(f'provewire_node_fallback_proved{{node="{peers[0].id}"}} 0.0') == 1
    assert text.count("provewire_node_fallback_proved{") == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                ["-oProxyCommand=id", "root@-Fx", "h -oA=b", "ssh -p 1 -oX=y a@b", "a@b\\ -v", "$(id)@h", "h:22 id"]
            ),
            st.from_regex(r"[a-z-]{1,8}@[a-z.-]{1,12}(:[0-9]{1,5})?", fullmatch=True),
        ),
        min_size=1,
        max_size=5,
    )
)
async def test_whatever_is_given_as_a_target_reaches_ssh_as_host_port_and_user_only(
    recorded: "Recorded", texts: list[str]
) -> None:
    for text in texts:
        reply = await recorded.web.ask("PUT", f"/api/v1/nodes/{recorded.peer.id}/ssh", json={"target": text})
        assert reply.status in {200, 400, 422}
        if reply.status != 200:
            continue
        tried = await recorded.web.ask("POST", f"/api/v1/nodes/{recorded.peer.id}/ssh/attempts", json={})
        assert tried.status == 201
        for argv in recorded.calls():
            check(argv)


class Recorded:
    """A hub whose ``ssh`` only writes down what it is given."""

    def __init__(self, web: Web, peer: Peer, log: Path) -> None:
        self.web = web
        self.peer = peer
        self._log = log

    def calls(self) -> list[list[str]]:
        """Since the last time."""
        lines = self._log.read_text("utf-8").splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]


@pytest.fixture
async def recorded(start: Start, tmp_path: Path) -> Recorded:
    program, log = tmp_path / "recorder", tmp_path / "calls"
    program.write_text(RECORDER.format(python=sys.executable, log=str(log)))
    program.chmod(0o755)
    web = await start(ssh_program=str(program))
    return Recorded(web, await web.hub.enroll("node-a"), log)


def check(argv: list[str]) -> None:
    """Every option is one of the hub's own, and only one word stands for a host."""
    if argv == ["-V"]:
        return
    options, rest = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    waiting = iter(options)
    for word in waiting:
        if word in VALUED:
            value = next(waiting)
            if word == "-o":
                assert value.split("=")[0] not in {"LocalCommand", "Include", "Match", "SendEnv", "SetEnv"}, value
                assert not value.startswith("ProxyCommand")
        else:
            assert word in FLAGS, argv
    assert 1 <= len(rest) <= 2
    assert not rest[0].startswith("-")
    assert not set(rest[0]) & set(" \t\n;|&$`'\"<>(){}\\*?")
