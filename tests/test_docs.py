"""What the documents say is so: links lead somewhere, targets and commands exist, every setting is listed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import COMMANDS
from hub.config import SETTINGS, Config

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()
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


def test_every_command_and_option_of_the_readme_exists() -> None:
    used = re.findall(r"provewire ([a-z]+)((?: [^`\n#]*)?)", README)
    assert used
    for command, rest in used:
        assert command in COMMANDS, f"the README names provewire {command}"
        if command == "supervise":
            continue
        text = subprocess.run(
            [sys.executable, "-m", "cli.main", command, "--help"], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in text, f"the README uses provewire {command} {option}"


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
