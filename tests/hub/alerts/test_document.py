"""docs/alerts.md says of every rule and number what is so."""

from pathlib import Path

from hub.alerts.engine import FLAP_QUIET_S, FLAP_WINDOW_S, FLAPS, GROUP_S, GROUP_WAIT_S
from hub.alerts.facts import Rule
from hub.alerts.notices import RETRIES_S, SINGLY_MAX
from hub.alerts.rules import RULES
from hub.alerts.sending import DEADLINE_S

TEXT = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text()


def rule_row(rule: Rule) -> str:
    """One line of the table of rules."""
    declared = RULES[rule]
    limits = declared.limits
    levels = ["", ""] if limits.bad is None or limits.clear is None else [f"{limits.bad:g}", f"{limits.clear:g}"]
    times = [f"{limits.hold_s:g}", f"{limits.resolve_s:g}"]
    return (
        f"| {' | '.join([f'`{rule.value}`', limits.severity.value, *levels, declared.unit, *times, declared.about])} |"
    )


def test_every_rule_stands_there_as_it_is() -> None:
    table = "\n".join(map(rule_row, Rule))
    assert table in TEXT, f"docs/alerts.md should hold this table:\n{table}"


def test_the_numbers_are_the_true_ones() -> None:
    assert (FLAPS, FLAP_WINDOW_S, FLAP_QUIET_S, GROUP_S, GROUP_WAIT_S) == (5, 7200, 1800, 60, 20)
    assert "Five times bad within two hours" in TEXT
    assert "good for half an hour" in TEXT
    assert "A notice waits 20 s" in TEXT
    assert RETRIES_S == (30, 120, 600, 1800, 7200)
    assert "after 30 s, 2 min, 10 min, 30 min and\n2 h" in TEXT
    assert (SINGLY_MAX, DEADLINE_S) == (3, 30)
