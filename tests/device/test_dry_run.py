"""The script for a lent card: all of it runs without one, in small; a stage that fails or takes too long is said."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from kernels.curves import BN254
from tests.device import run as script
from tests.device.stages import SMALL, Bench, Figures, speed, stages


def test_every_stage_but_the_second_curves_in_small(tmp_path: Path) -> None:
    """The second curve's kernels take long to build for the host: `test_the_whole_dry_run` has them."""
    told: list[dict[str, Any]] = []
    bench = script.simulated(SMALL)
    once = [stage for stage in stages(SMALL) if stage[0] in {"same_bytes", "soak", "sanitized"}]
    assert script.run(bench, [*once, ("speed", speed((BN254,), 5), 1)], told.append)
    assert [found["stage"] for found in told] == ["same_bytes", "soak", "sanitized", "speed"]
    assert told[0]["found"] == {"proofs": 4}
    measured = told[-1]["found"]
    assert set(measured) == {"sum bn128", "sum with multiples bn128", "transforms bn128", "dense", "bits"}
    assert measured["dense"]["ms"] > 0
    assert measured["dense"]["without_multiples_ms"] > 0
    assert measured["sum with multiples bn128"]["multiples"] > 1
    assert set(measured["dense"]["phases_ms"]) > {"rows", "transforms", "msm_h"}
    assert tmp_path.exists()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_whole_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "device.jsonl"
    monkeypatch.setattr("sys.argv", ["run", "--dry-run", "--out", str(out)])
    assert script.main() == 0
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert [found["stage"] for found in told] == [name for name, _, _ in stages(SMALL)]
    assert not [found for found in told if "failed" in found or "found" not in found]


def test_what_fails_and_what_would_take_too_long_is_said() -> None:
    now = [0.0]
    told: list[dict[str, Any]] = []

    def broken(_bench: Bench) -> Figures:
        now[0] += 90
        raise ValueError("a card on fire")

    def fine(_bench: Bench) -> Figures:
        now[0] += 1
        return {"answer": 42}

    listed = [("first", broken, 10.0), ("long", fine, 60.0), ("last", fine, 5.0)]
    bench = cast(Bench, None)
    assert not script.run(bench, listed, told.append, budget_s=100, clock=lambda: now[0])
    assert told[0]["failed"] == "a card on fire"
    assert told[1] == {"stage": "long", "skipped": "it may take 60 s and 10 s are left"}
    assert told[2] == {"stage": "last", "found": {"answer": 42}, "took_s": 1.0}
