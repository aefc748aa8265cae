"""``provewire probe`` and ``provewire incidents`` at a real hub: what an operator reads, and the exit codes."""

import json
from pathlib import Path

import pytest

from cli.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from cli.incidents import lines as incident_lines
from hub import ports
from tests.cli.test_enroll import announce
from tests.cli.test_ssh import EVIL, Operator
from tests.hub.ssh.fleet import OPERATOR, fleet
from tests.hub.ssh.sshd import needs_sshd

pytestmark = needs_sshd

OBEYED = {"\x1b", "\x9b", "\u202e"}
"""Of a hostile name: what a terminal would obey."""
T_MS = 1_764_000_000_000
PROBLEM = {"cause": "key_missing", "sentence": "the hub's key: k: gone", "remedy": "Restore it.", "since_ms": T_MS}
NOTHING = {
    "incidents": [],
    "problems": [],
    "notes": [],
    "lost": 0,
    "under_way": 0,
    "paused": "",
    "examined_at_ms": T_MS,
}
INCIDENT = {
    "cause": "identity_refused",
    "headline": "58 of 60 nodes, one cause: identity refused",
    "count": 58,
    "fleet": 60,
    "since_ms": T_MS,
    "ours": False,
    "remedy": "Look at the keys.",
    "nodes": [{"id": str(number), "name": f"gpu-{number:02}{EVIL}"} for number in range(58)],
}


async def test_a_probe_is_printed_rung_by_rung(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with fleet(tmp_path) as all_:
        announce(tmp_path / "hub", f"http://127.0.0.1:{all_.hub.port}")
        node = await all_.node(f"node-a{EVIL}")
        operator = Operator(all_, node, tmp_path / "hub", capsys)
        capsys.readouterr()
        code, _, err = await operator.run("probe", node.id, "--last")
        assert (code, "nobody has looked after this node" in err) == (EXIT_USAGE, True)
        code, out, _ = await operator.run("probe", node.id[:18])
        assert code == EXIT_OK
        assert "  ok       login    the hub's key is taken\n" in out
        assert "\n  FAILED   status   " in out, "no agent of this node runs here, whoever else's may"
        assert not OBEYED & set(out)
        code, last, _ = await operator.run("probe", node.id, "--last", "--details")
        assert code == EXIT_OK
        assert "           | Filesystem" in last
        all_.sshds[node.id].stop()
        code, out, _ = await operator.run("probe", node.id, "--json")
        assert code == EXIT_UNREACHABLE
        assert {step["rung"]: step["state"] for step in json.loads(out)["steps"]}["tcp"] == "failed"
        await all_.desk.set_target(node.id, None, OPERATOR)
        code, _, err = await operator.run("probe", node.id)
        assert (code, "ssh-target set" in err) == (EXIT_USAGE, True)


async def test_incidents_of_a_hub_that_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with fleet(tmp_path) as all_:
        announce(tmp_path / "hub", f"http://127.0.0.1:{all_.hub.port}")
        operator = Operator(all_, await all_.node(), tmp_path / "hub", capsys)
        all_.identity.unlink()
        await all_.hub.app[ports.SSH_WATCH].examine()
        capsys.readouterr()
        code, out, _ = await operator.run("incidents")
        assert code == EXIT_OK
        assert f"this side: the hub's key: {all_.identity}: No such file or directory, since " in out
        code, out, _ = await operator.run("incidents", "--json")
        assert [one["cause"] for one in json.loads(out)["problems"]].count("key_missing") == 1


def test_an_incident_is_told_with_this_side_beside_it_and_only_some_names() -> None:
    told = {**NOTHING, "incidents": [INCIDENT], "problems": [PROBLEM], "notes": ["This hub runs."]}
    first, *rest = incident_lines(told)
    assert first.startswith("58 of 60 nodes, one cause: identity refused since 20")
    assert rest[0].startswith("  this side: the hub's key: k: gone, since 20")
    assert [line.strip() for line in rest[1:4]] == ["Restore it.", "Look at the keys.", "This hub runs."]
    assert rest[4].endswith(" and 38 more")
    assert not OBEYED & set("".join(rest))


def test_nothing_wrong_is_said_too_and_why_nothing_is_tried() -> None:
    assert incident_lines(NOTHING) == ["no incident; the hub found nothing wrong with its own side"]
    assert (
        incident_lines({**NOTHING, "incidents": [INCIDENT]})[1].strip()
        == "the hub found nothing wrong with its own side"
    )
    paused = incident_lines({**NOTHING, "lost": 3, "paused": "it was late itself"})
    assert paused[-1] == "3 lost nodes are looked after by ssh; nothing is tried now: it was late itself"
