"""What docs/cuzk.md says is so."""

import re
from pathlib import Path

from agent import metrics
from agent.agent import CUZK_EVERY_S
from agent.sensors.cuzk import fates, http_status, mend, mend_grpc, sensor
from wire.engines import EngineState

TEXT = " ".join((Path(__file__).parents[4] / "docs" / "cuzk.md").read_text().split())
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (Path(__file__).parents[4] / "docs" / "cuzk.md").read_text().splitlines()
    if line.startswith("| ")
]


def test_every_state_says_what_to_do() -> None:
    states = [row[0].strip("`") for row in ROWS if row[0].startswith("`") and len(row) == 3]
    assert states == [state.value for state in EngineState]


def test_the_numbers_are_the_true_ones() -> None:
    assert CUZK_EVERY_S == 1.0
    assert f"read every second; an answer has {sensor.DEADLINE_S:g} s and at most" in TEXT
    assert f"at most {http_status.ANSWER_BYTES_MAX >> 20} MiB" in TEXT
    assert f"only every {sensor.GRPC_EVERY_S:g} s" in TEXT
    assert f"no worker has had it for {fates.ORPHAN_S:g} s" in TEXT
    assert f"done and {fates.WHOLE_S:g} s later" in TEXT
    assert f"for {fates.OVERTAKEN_S:g} s ({fates.OVERTAKEN_SYNTHESIS_S:g} s while" in TEXT
    assert f"nothing moves for {fates.STALLED_S:g} s |" in TEXT
    assert f"shown for {mend.FAILED_SHOWN_S / 60:g} minutes" in TEXT
    assert sensor.TROUBLE_READS == 2
    assert "two reads in a row" in TEXT


def test_events_and_limits_are_named_as_they_are() -> None:
    kinds = {"engine.state", *sensor.KINDS.values()}
    assert set(re.findall(r"`(engine\.[a-z_]+)`", TEXT)) == kinds
    for limit in (mend.UNLISTED_JOBS, mend.SYNTHESIS_CAP, mend.SRS_UNREADABLE, *mend_grpc.UNTOLD):
        assert f"`{limit}`" in TEXT


def test_metrics_are_named_as_they_are() -> None:
    known = {"engine_state", *(f"engine_{name}" for name in metrics.ENGINE_GAUGES)}
    named = set(re.findall(rf"`{metrics.PREFIX}([a-z_]+)`", TEXT))
    assert named
    assert named <= known
