"""``provewire ssh`` and ``ssh-target`` at a real hub with a real sshd: what an operator reads, and the exit codes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from cli.main import main
from cli.ssh_record import rendered
from tests.cli.test_enroll import announce
from tests.hub.rig import Peer
from tests.hub.ssh.fleet import Fleet, fleet, host_key_of
from tests.hub.ssh.sshd import needs_sshd

pytestmark = needs_sshd

EVIL = "\x1b[2J\x9b31m\u202e"


@dataclass
class Operator:
    """Somebody at the hub's terminal."""

    fleet: Fleet
    node: Peer
    data_dir: Path
    capsys: pytest.CaptureFixture[str]

    async def run(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        os.environ["PROVEWIRE_DATA_DIR"] = str(self.data_dir)
        try:
            code = await asyncio.to_thread(main, list(argv))
        finally:
            del os.environ["PROVEWIRE_DATA_DIR"]
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.fixture
async def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Operator]:
    async with fleet(tmp_path, watching=False) as all_:
        announce(tmp_path / "hub", f"http://127.0.0.1:{all_.hub.port}")
        node = await all_.node(f"node-a{EVIL}")
        capsys.readouterr()
        yield Operator(all_, node, tmp_path / "hub", capsys)


async def test_a_login_that_works_is_told_and_is_exit_0(operator: Operator) -> None:
    code, out, _ = await operator.run("ssh", operator.node.id[:18])
    assert code == EXIT_OK
    assert "result   ok (the command ended with 0)" in out
    assert "ssh said: nothing" in out
    assert f"({operator.node.id})" in out
    assert EVIL[0] not in out
    assert "\u202e" not in out


async def test_a_refused_key_is_told_whole_with_the_command_to_do_it_again(operator: Operator) -> None:
    operator.fleet.sshds[operator.node.id].authorized_keys.write_text("", encoding="ascii")
    code, out, _ = await operator.run("ssh", operator.node.id, "--verbose")
    assert code == EXIT_UNREACHABLE
    for text in (
        "result   identity refused (ssh ended with 255)",
        "remedy   The server took none of the keys offered.",
        "Permission denied (publickey).",
        "debug1: Offering public key",
        "to do it again, on ",
        "-o BatchMode=yes",
        "(admin token) from 127.0.0.1",
    ):
        assert text in out, text
    code, last, _ = await operator.run("ssh", operator.node.id, "--last")
    assert code == EXIT_OK
    assert last.splitlines()[:5] == out.splitlines()[:5]
    assert "--verbose" in last


async def test_a_command_ends_with_its_own_exit_code_and_its_output_is_harmless(operator: Operator) -> None:
    code, out, _ = await operator.run("ssh", operator.node.id, "--", "printf", r"'\033[2Jx\n'; echo oops >&2; exit 7")
    assert code == 7
    assert "the command printed:\n\\x1b[2Jx" in out
    assert "ssh said (5 bytes):\noops" in out
    code, out, _ = await operator.run("ssh", operator.node.id, "--json", "--", "echo", "--", "a")
    assert (code, json.loads(out)["stdout"]) == (0, "-- a\n")
    code, out, _ = await operator.run("ssh", "--deadline", "2", operator.node.id, "--", "sleep", "60")
    assert code == EXIT_UNREACHABLE
    assert "ssh was ended at the deadline" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["ssh"], "NODE"),
        (["ssh", "nobody"], "there is no node 'nobody'"),
        (["ssh", "node", "--last", "--", "id"], "take no command"),
        (["ssh", "node", "--deadline", "0"], "--deadline must be"),
        (["ssh", "node", "--nonsense"], "--nonsense"),
        (["ssh-target"], "ACTION"),
        (["ssh-target", "set", "nobody", "root@h"], "there is no node"),
        (["ssh-target", "import", "/nonexistent"], "cannot be read"),
        (["ssh-target", "pin", "node"], "give host keys"),
    ],
)
async def test_a_wrong_command_is_exit_64_with_one_sentence(operator: Operator, argv: list[str], said: str) -> None:
    code, _, err = await operator.run(*argv)
    assert code == EXIT_USAGE
    assert said in err


async def test_no_hub_is_exit_69_and_no_way_in_is_exit_64(operator: Operator) -> None:
    assert (await operator.run("ssh-target", "remove", operator.node.id))[0] == EXIT_OK
    code, _, err = await operator.run("ssh", operator.node.id)
    assert (code, "ssh-target set" in err) == (EXIT_USAGE, True)
    assert (await operator.run("ssh", operator.node.id, "--last"))[0] == EXIT_USAGE
    (operator.data_dir / "hub.json").unlink()
    assert (await operator.run("ssh", operator.node.id))[0] == EXIT_UNREACHABLE


async def test_a_way_is_set_scanned_pinned_and_listed(operator: Operator) -> None:
    server, node = operator.fleet.sshds[operator.node.id], operator.node.id
    key = host_key_of(server)
    assert (await operator.run("ssh-target", "remove", node))[0] == EXIT_OK
    target = f"ssh -p {server.port} {server.target.user}@127.0.0.1"
    code, out, _ = await operator.run("ssh-target", "set", node, target)
    assert (code, "fallback unproved" in out, "host key   none" in out) == (EXIT_OK, True, True)
    code, out, _ = await operator.run("ssh-target", "pin", node, "--scan")
    assert (code, key in out, "nothing was pinned" in out) == (EXIT_OK, True, True)
    assert operator.fleet.desk.readiness(node).host_keys == ()
    assert (await operator.run("ssh-target", "pin", node, "--scan", "--yes"))[0] == EXIT_OK
    assert operator.fleet.desk.readiness(node).host_keys == (key,)
    assert (await operator.run("ssh", node))[0] == EXIT_OK
    code, out, _ = await operator.run("ssh-target", "list")
    assert code == EXIT_OK
    assert f"{server.target.user}@127.0.0.1:{server.port}" in out
    assert "fallback proved" in out
    assert EVIL[0] not in out
    code, out, _ = await operator.run("ssh-target", "show", node, "--json")
    assert json.loads(out)["fallback"]["state"] == "proved"


async def test_an_import_shows_first_and_takes_over_with_yes(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "targets"
    file.write_text(f"{operator.node.id[:18]} ssh -p 22022 root@203.0.113.5\nzzz ssh root@h\n", encoding="utf-8")
    before = operator.fleet.desk.target(operator.node.id)
    code, out, _ = await operator.run("ssh-target", "import", str(file))
    assert code == EXIT_OK
    assert f"changed  {operator.node.id[:18]}  {before} -> root@203.0.113.5:22022" in out
    assert "refused  zzz  there is no node 'zzz'" in out
    assert "nothing was changed yet" in out
    assert operator.fleet.desk.target(operator.node.id) == before
    code, out, _ = await operator.run("ssh-target", "import", str(file), "--yes")
    assert str(operator.fleet.desk.target(operator.node.id)) == "root@203.0.113.5:22022"
    assert "nothing was changed" not in out


def test_a_record_shows_nothing_a_terminal_obeys_and_names_every_way_of_ending() -> None:
    told = {
        "node_name": EVIL,
        "node": "n",
        "target": "root@h:22",
        "purpose": "login",
        "started_at_ms": 1_796_044_239_750,
        "duration_s": 0.5,
        "cause": "ssh_missing",
        "evidence": "ssh: No such file or directory",
        "remedy": "install it",
        "note": "",
        "retry_of": "first",
        "differs": ["ssh: a then, b now"],
        "id": "i",
        "exit_code": None,
        "signal": None,
        "remote_exit_code": None,
        "fresh": True,
        "way_works": False,
        "stderr": "",
        "stderr_bytes": 0,
        "stdout": "",
        "stdout_bytes": 0,
        "before": "greetings",
        "verbose": "",
        "command": "ssh h 'x'",
        "login": "ssh h",
        "origin": {
            "host": "hub",
            "user": "u",
            "pid": 1,
            "version": "0",
            "ssh_version": "",
            "fingerprints": [],
            "asked_by": "a",
            "asked_from": "",
        },
    }
    text = rendered(told)
    for part in (
        "ssh did not start",
        "retry of first",
        "differs  ssh: a then, b now",
        "greetings",
        "no ssh",
        "no usable key",
    ):
        assert part in text, part
    assert text.endswith("\nssh h")
    assert not set(text) & set(EVIL) - set("[2J31m")
    assert "ended by signal 9" in rendered({**told, "signal": 9})
    assert rendered(told, verbose=True).endswith("\nssh h 'x'")
