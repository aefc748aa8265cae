"""``provewire ssh-key`` and ``recover`` at a real hub with real sshds: what an operator reads, and the exit codes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.errors import EXIT_INTERNAL, EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from cli.main import main
from hub.ssh.reach import State
from tests.cli.test_enroll import announce
from tests.hub.rig import Peer
from tests.hub.ssh.fleet import Fleet, fleet
from tests.hub.ssh.sshd import make_key, needs_sshd
from tests.hub.ssh.test_authorized import ED, OTHER
from tests.hub.ssh.test_keys import public_of

pytestmark = needs_sshd


@dataclass
class Operator:
    """Somebody at the hub's terminal, with a key that gets in at the node."""

    fleet: Fleet
    node: Peer
    file: Path
    key: Path
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

    def write(self, text: str) -> None:
        self.file.write_text(f"{public_of(self.key)}\n{text}", "ascii")


@pytest.fixture
async def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Operator]:
    async with fleet(tmp_path, ssh_rehearse_s=1e9) as all_:
        announce(tmp_path / "hub", f"http://127.0.0.1:{all_.hub.port}")
        node = await all_.node("node-a", authorized=False)
        key = make_key(tmp_path / "operators_key")
        made = Operator(all_, node, all_.sshds[node.id].authorized_keys, key, tmp_path / "hub", capsys)
        made.write("")
        capsys.readouterr()
        yield made


async def test_the_key_is_shown_with_the_line_for_the_console_and_never_its_private_half(operator: Operator) -> None:
    code, out, _ = await operator.run("ssh-key", "show")
    assert code == EXIT_OK
    assert public_of(operator.fleet.identity) in out
    assert "authorized_keys" in out
    assert "PRIVATE" not in out
    code, out, _ = await operator.run("ssh-key", "show", "--json")
    assert json.loads(out)["rotation"] is None
    operator.fleet.identity.unlink()
    code, out, _ = await operator.run("ssh-key", "show")
    assert (code, "no key that can be used" in out) == (EXIT_INTERNAL, True)


async def test_the_doctor_names_line_and_repair_and_the_installer_mends_it(operator: Operator) -> None:
    public = public_of(operator.fleet.identity)
    operator.write(f"{ED} \x1b[2Jroot@vm{public}\n")
    via = ("--via-key", str(operator.key))
    code, out, err = await operator.run("ssh-key", "doctor", "node-a")
    assert (code, "Permission denied (publickey)" in err) == (EXIT_USAGE, True)
    code, out, _ = await operator.run("ssh-key", "doctor", "node-a", *via)
    assert code == EXIT_INTERNAL
    assert "KEEPS THE HUB OUT: two keys stand on this line" in out
    assert f"{operator.file} line 2" in out
    assert "(the installer does it)" in out
    assert "\x1b" not in out
    before = operator.file.read_text("ascii")
    code, out, _ = await operator.run("ssh-key", "install", operator.node.id[:18], *via)
    assert code == EXIT_OK
    assert "nothing was changed" in out
    assert f"+{public}" in out
    assert "exactly this is run:" in out
    assert operator.file.read_text("ascii") == before
    code, out, _ = await operator.run("ssh-key", "install", "node-a", *via, "--yes")
    assert code == EXIT_OK, out
    assert "done: a fresh login with the hub's key worked" in out
    assert "as it was: " in out
    assert operator.file.read_text("ascii").splitlines()[-1] == public
    assert operator.fleet.desk.readiness(operator.node.id).state is State.PROVED
    code, out, _ = await operator.run("ssh-key", "install", "node-a", "--yes")
    assert (code, "gets in already" in out) == (EXIT_OK, True)
    code, out, _ = await operator.run("ssh-key", "doctor", "node-a")
    assert code == EXIT_OK


async def test_without_a_way_in_the_line_is_printed_and_it_is_no_success(operator: Operator) -> None:
    code, out, _ = await operator.run("ssh-key", "install", "node-a", "--yes")
    assert code == EXIT_INTERNAL
    assert "not by the live session: the node is not connected" in out
    assert "grep -qxF" in out
    assert "NOT DONE: run the line at the provider's console" in out


async def test_all_nodes_get_it_one_canary_first(operator: Operator) -> None:
    other = await operator.fleet.node("node-b", authorized=False)
    operator.fleet.sshds[other.id].authorize(operator.key)
    via = ("--via-key", str(operator.key))
    code, out, _ = await operator.run("ssh-key", "install", "--all", *via, "--json")
    assert code == EXIT_OK
    assert {plan["way"] for plan in json.loads(out)["plans"]} == {"via_key"}
    code, out, _ = await operator.run("ssh-key", "install", "--all", *via, "--yes", "--json")
    assert code == EXIT_OK
    assert [one["ok"] for one in json.loads(out)["installed"]] == [True, True]


async def test_a_rotation_is_shown_and_then_done(operator: Operator) -> None:
    operator.write(f"{public_of(operator.fleet.identity)}\n")
    old = public_of(operator.fleet.identity)
    code, out, _ = await operator.run("ssh-key", "rotate")
    assert (code, "nothing was changed" in out) == (EXIT_OK, True)
    assert "offers both" in out
    code, out, _ = await operator.run("ssh-key", "rotate", "--yes")
    assert code == EXIT_OK, out
    assert "done" in out
    assert public_of(operator.fleet.identity) != old
    assert old not in operator.file.read_text("ascii")
    code, out, _ = await operator.run("ssh-key", "show")
    assert "the old key, SHA256:" in out


async def test_a_rotation_that_nodes_hold_up_is_no_success_and_says_where(operator: Operator) -> None:
    code, out, _ = await operator.run("ssh-key", "rotate", "--yes")
    assert code == EXIT_INTERNAL
    assert "goes on with it" in out
    assert "node-a: new key not proved" in out


async def test_a_recovery_is_shown_whole_and_then_done(operator: Operator) -> None:
    operator.write(f"{public_of(operator.fleet.identity)}\n")
    code, out, _ = await operator.run("recover", "node-a", "restart-agent")
    assert code == EXIT_OK
    assert "systemctl restart provewire-agent" in out
    assert "nothing was done" in out
    code, out, _ = await operator.run("recover", "node-a", "fetch-logs", "--yes")
    assert code == EXIT_OK
    assert "done: the logs were read" in out
    code, out, _ = await operator.run("recover", "node-a", "install-key", "--yes", "--json")
    assert (code, json.loads(out)["ok"]) == (EXIT_OK, True)
    code, _, err = await operator.run("recover", "node-a", "upgrade")
    assert (code, "--wheel FILE" in err) == (EXIT_USAGE, True)
    operator.file.write_text(f"{OTHER}\n", "ascii")
    operator.fleet.sshds[operator.node.id].stop()
    code, out, _ = await operator.run("recover", "node-a", "fetch-logs", "--yes")
    assert (code, "NOT DONE" in out) == (EXIT_INTERNAL, True)


async def test_what_is_asked_wrongly_and_a_hub_that_is_away(operator: Operator, tmp_path: Path) -> None:
    for argv in (
        ("ssh-key", "install"),
        ("ssh-key", "install", "node-a", "--all"),
        ("recover", "node-a", "reboot"),
        ("ssh-key", "doctor", "nobody"),
        ("ssh-key", "doctor", "node-a", "--via-key", str(tmp_path / "absent")),
    ):
        code, _, err = await operator.run(*argv)
        assert (code, bool(err)) == (EXIT_USAGE, True), argv
    (operator.data_dir / "hub.json").unlink()
    code, _, _ = await operator.run("ssh-key", "show")
    assert code == EXIT_UNREACHABLE
