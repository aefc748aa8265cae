"""docs/log-events.md tells every event of every log, as the source has it, and no other."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "log-events.md"
SECTIONS = {"Every process": ("cli",), "Hub": ("hub",), "Agent": ("agent",), "Worker": ("prover",)}
MANY = 10
"""Events that a side has at least, so that the reading itself is seen to work."""
WRITERS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = {"log", "_log", "logger"}
UNDECLARED = {"exc_info"}
"""Becomes the traceback."""
Events = dict[str, tuple[set[str], set[str]]]
"""Levels and fields by event."""


def written(packages: tuple[str, ...]) -> Events:
    """What the source of some packages logs."""
    found: Events = defaultdict(lambda: (set(), set()))
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if _writes(node):
                    event, level, fields = _read(node, path)
                    found[event][0].add(level)
                    found[event][1].update(fields)
    return dict(found)


def _writes(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS):
        return False
    logger = node.func.value
    name = logger.id if isinstance(logger, ast.Name) else logger.attr if isinstance(logger, ast.Attribute) else ""
    return name in LOGGERS


def _read(node: ast.AST, path: Path) -> tuple[str, str, set[str]]:
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Attribute)
    where = f"{path.relative_to(ROOT)}:{node.lineno}"
    event = node.args[0] if node.args else None
    assert isinstance(event, ast.Constant), f"{where}: an event is a plain string, so that it can be looked up"
    assert isinstance(event.value, str), where
    fields = {keyword.arg for keyword in node.keywords}
    assert None not in fields, f"{where}: fields are named one by one, so that they can be looked up"
    level = "error" if node.func.attr == "exception" else node.func.attr
    return event.value, level, {field for field in fields if field and field not in UNDECLARED}


def told(section: str) -> dict[str, list[str]]:
    """The cells of each row of a section's table, by event."""
    body = DOCUMENT.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in body.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {row[0].strip(" `"): row for row in cells}


def row(event: str, levels: set[str], fields: set[str]) -> list[str]:
    """The first three cells of an event."""
    return [f"`{event}`", ", ".join(sorted(levels)), ", ".join(f"`{field}`" for field in sorted(fields))]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_event_is_told_as_the_source_has_it(section: str) -> None:
    events = written(SECTIONS[section])
    assert len(events) > (0 if section == "Every process" else MANY)
    rows = told(section)
    for event, (levels, fields) in events.items():
        assert event in rows, f"docs/log-events.md, {section}: {' | '.join(row(event, levels, fields))} is not told"
        assert [cell.strip() for cell in rows[event][:3]] == row(event, levels, fields)
    assert rows.keys() == events.keys(), "no event that the source does not have"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_event_says_what_it_means_and_what_to_do(section: str) -> None:
    for event, cells in told(section).items():
        assert len(cells) == 5, event
        assert all(cells[3:]), event


def test_nothing_else_logs() -> None:
    assert written(("kernels", "wire")) == {}


def test_a_field_that_everything_may_carry_is_explained() -> None:
    text = DOCUMENT.read_text()
    for field in ("request", "session", "job", "attempt", "agent", "node"):
        assert f"`{field}`:" in text, field
