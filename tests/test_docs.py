"""What the documents say is so: links lead somewhere, targets and commands exist, every setting is listed."""

import asyncio
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

from cli import recover
from cli.main import COMMANDS
from hub.config import SETTINGS, Config
from hub.liveness import NodeState
from hub.ssh.cause import REMEDIES, Cause
from hub.store.sqlite import open_sqlite
from wire.limits import LOST_AFTER_S, STALE_AFTER_S
from wire.reasons import Reason
from wire.status import WorkerState

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
SSH = (ROOT / "docs" / "ssh.md").read_text()
WITH_ACTIONS = {"ssh-key", "ssh-target", "tokens", "users"}
"""Their options are those of their actions."""
KEY_ACTIONS = ("show", "doctor", "install", "rotate")
VARIABLE = re.compile(r"PROVEWIRE_[A-Z0-9_]+[A-Z0-9]")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_readme_starts_with_what_it_is_a_picture_and_two_commands() -> None:
    assert README.index("# Provewire") < README.index("![") < README.index("make demo") < README.index("make test")
    assert README.index("make test") < 2000


def test_every_make_target_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for document in DOCUMENTS:
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", document.read_text(), re.MULTILINE):
            assert f"\n{target}:" in makefile, f"{document.name} names make {target}"


@pytest.mark.parametrize("text", [README, OPERATIONS, SSH], ids=["README", "operations", "ssh"])
def test_every_command_and_option_that_is_named_exists(text: str) -> None:
    used = re.findall(r"(?<!-g )provewire ([a-z]+(?:-[a-z]+)*)((?: [^`\n#]*)?)", text)
    assert used
    for command, rest in used:
        assert command in COMMANDS, f"it names provewire {command}"
        options = re.findall(r"--[a-z-]+", rest)
        if command == "supervise" or not options:
            continue
        action = rest.split()[:1] if command in WITH_ACTIONS else []
        argv = [sys.executable, "-m", "cli.main", command, *action, "--help"]
        help_ = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT).stdout
        for option in options:
            assert option in help_, f"it uses provewire {command} {' '.join(action)} {option}"


def test_every_cause_says_what_to_do() -> None:
    table = "\n".join(f"| `{cause.value}` | {REMEDIES[cause]} |" for cause in Cause if cause is not Cause.OK)
    assert table in SSH, f"docs/ssh.md should hold this table:\n{table}"


def test_every_action_of_a_recovery_and_of_the_keys_is_explained() -> None:
    for text in (
        *(f"recover NODE {action}" for action in recover.ACTIONS),
        *(f"ssh-key {name}" for name in KEY_ACTIONS),
    ):
        assert f"provewire {text}" in SSH, text


def test_every_setting_of_the_hub_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    table = "\n".join(hub_row(setting.name, setting.help) for setting in SETTINGS)
    assert table in text, f"docs/settings.md should hold this table:\n{table}"


def hub_row(name: str, meaning: str) -> str:
    """One line of the table of the hub's settings."""
    config = Config(data_dir=Path("~/.local/share/provewire/hub"))
    value = f"{config.listen_host}:{config.listen_port}" if name == "listen" else getattr(config, name)
    shown = (
        ""
        if value in (None, "")
        else f"`{int(value) if isinstance(value, bool | float) and value == int(value) else value}`"
    )
    return f"| `PROVEWIRE_{name.upper()}` | {shown} | {meaning} |"


def test_every_variable_of_the_agent_and_the_command_is_documented_and_no_other() -> None:
    read = {
        variable
        for source in (ROOT / "agent" / "config.py", *(ROOT / "cli").glob("*.py"), *(ROOT / "prover").rglob("*.py"))
        for variable in VARIABLE.findall(source.read_text())
    }
    hub = {f"PROVEWIRE_{setting.name.upper()}" for setting in SETTINGS}
    documented = set(VARIABLE.findall((ROOT / "docs" / "settings.md").read_text()))
    assert read - documented == set()
    assert documented - hub - read == set()


# --- operations -----------------------------------------------------------------------------------------------------


def first_cells(heading: str) -> list[list[str]]:
    """The cells, but the last, of each row of the table below a heading of docs/operations.md."""
    section = OPERATIONS.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip(" `") for cell in row.strip("|").split("|")[:-1]] for row in rows]


@pytest.mark.parametrize(
    ("heading", "states"), [("A node's state", NodeState), ("A worker's state", WorkerState)], ids=["node", "worker"]
)
def test_every_state_says_what_to_do(heading: str, states: type[Enum]) -> None:
    assert {cells[0] for cells in first_cells(heading)} == {state.value for state in states}


def test_every_reason_says_what_to_do() -> None:
    assert first_cells("Why a session ended") == [[str(reason.value), reason.name] for reason in Reason]


def test_the_times_are_the_true_ones() -> None:
    assert f"silent for {STALE_AFTER_S:g} s" in OPERATIONS
    assert f"nothing heard for {LOST_AFTER_S:g} s" in OPERATIONS


def test_every_unit_and_file_that_is_named_exists() -> None:
    units = "".join(path.read_text() for path in (ROOT / "systemd").iterdir())
    for unit in re.findall(r"provewire-[a-z]+@?", OPERATIONS):
        assert (ROOT / "systemd" / f"{unit}.service").exists(), unit
    for file in re.findall(r"(?<![/.])systemd/([a-z.]+[a-z])", OPERATIONS):
        assert (ROOT / "systemd" / file).exists(), file
    for path in re.findall(r"/(?:var|etc)/[a-z]+/provewire/[a-z.]+[a-z]", OPERATIONS):
        assert path in units or path.startswith("/var/lib/provewire/hub"), path


async def test_the_commands_of_a_backup_do_what_they_promise(tmp_path: Path) -> None:
    backup, forward = re.findall(r'bin/python -c "([^"]+)"', OPERATIONS)
    store, copy = tmp_path / "hub.sqlite", tmp_path / "copy.sqlite"
    async with open_sqlite(store) as running:
        before = await running.begin_generation(1)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", backup, str(store), str(copy)], check=True)
        await running.begin_generation(2)
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", forward, str(copy)], check=True)
    async with open_sqlite(copy) as restored:
        hub = await restored.begin_generation(3)
    assert (hub.id, hub.generation) == (before.id, before.generation + 1001)
