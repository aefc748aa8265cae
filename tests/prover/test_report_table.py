"""The table of reports in docs/prover.md: every row has a test, and every test that it names is there."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TABLE = (TESTS.parent / "docs" / "prover.md").read_text(encoding="utf-8").partition("## What other provers were")[2]
ROWS = 35


def rows() -> dict[int, list[tuple[str, str]]]:
    """Return the tests of each row: file and name."""
    return {
        int(number): re.findall(r"`([\w/]+\.py)::(\w+)`", line)
        for line in TABLE.splitlines()
        for number in re.findall(r"^\| (\d+) \|", line)
    }


def test_every_row_has_a_test_that_exists() -> None:
    assert sorted(rows()) == list(range(1, ROWS + 1))
    assert [number for number, tests in rows().items() if not tests] == []
    missing = [
        f"{number}: {file}::{name}"
        for number, tests in rows().items()
        for file, name in tests
        if not re.search(rf"^(async )?def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_test_named_after_a_row_is_in_the_table() -> None:
    named = {
        (path.relative_to(TESTS).as_posix(), name)
        for folder in ("prover", "oracle", "kernels")
        for path in (TESTS / folder).rglob("test_*.py")
        for name in re.findall(r"^def (test_rows?_\d\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    told = {(number, test) for number, tests in rows().items() for test in tests}
    for file, name in named:
        numbers = re.match(r"test_rows?_((?:\d+_)+)", name)
        assert numbers is not None
        for number in numbers[1].strip("_").split("_"):
            assert (int(number), (file, name)) in told, f"row {number} does not name {name}"
