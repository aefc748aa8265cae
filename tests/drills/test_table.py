"""docs/drills.md tells of every drill there is, and of none that is not."""

import re

from tests.e2e.rig import ROOT


def test_every_drill_has_its_row() -> None:
    played = re.findall(r'fleet\.drill\("([^"]+)"', (ROOT / "tests" / "drills" / "test_drills.py").read_text())
    told = (ROOT / "docs" / "drills.md").read_text()
    assert len(played) == len(set(played)) == 12
    rows = [line.split("|")[1].strip() for line in told.splitlines() if line.startswith("| ")]
    assert set(played) <= set(rows)
    table = rows[rows.index("broken") + 1 :]
    assert set(table) == set(played)
