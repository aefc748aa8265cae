"""Each bench runs from end to end, in small, and says in its last line what was measured. How fast is not asserted."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.harness import until

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150.0
SMALL = {
    "ingest": ["--agents", "25", "--minutes", "1", "--rounds", "1", "--readings-s", "10"],
    "reconnect": ["--count", "5", "--down-s", "1"],
    "latency": ["--count", "5", "--seconds", "3", "--viewers", "1", "--changes-per-s", "10"],
    "idle": ["--count", "20", "--settle-s", "1"],
    "agent": ["--seconds", "3", "--warm-s", "1"],
    "soak": ["--minutes", "0.7", "--count", "5"],
    "page": ["--minutes", "1", "--count", "5"],
}
LONG = {"agent", "idle", "page", "soak"}


def ran(bench: str, *more: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, last line and all output of a small run."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{bench}", *SMALL[bench], *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.parametrize(
    "bench", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in SMALL]
)
def test_a_bench_measures_and_judges(bench: str) -> None:
    code, line, _ = ran(bench)
    assert line["bench"] == bench
    assert line["targets"]
    missed = [name for name, target in line["targets"].items() if target["met"] is False]
    assert code == bool(missed), line
    for name, target in line["targets"].items():
        assert math.isfinite(target["value"]), name
        if target["required"] is not None:
            under, over = target["value"] <= target["required"], target["value"] >= target["required"]
            assert target["met"] == (under if target["sense"] == "<=" else over), name


def test_the_return_of_a_fleet_loses_nothing() -> None:
    _, line, _ = ran("reconnect", "--kill")
    figures = {name: target["value"] for name, target in line["targets"].items()}
    assert figures["duplicate_nodes"] == figures["nodes_with_another_id"] == figures["events_unacknowledged"] == 0
    assert line["states_when_back"] == {"online": 5}


def test_a_profile_of_the_ingest_names_both_threads(tmp_path: Path) -> None:
    out = tmp_path / "profile"
    argv = [sys.executable, "-m", "bench.ingest", *SMALL["ingest"], "--profile", str(out)]
    subprocess.run(argv, cwd=ROOT, check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL)
    text = out.read_text()
    assert "--- event loop" in text
    assert "--- store-writer" in text
    assert "hub/store/writer.py" in text


@pytest.mark.parametrize("bench", [*SMALL, "swarm", "sink", "viewer", "crowd"])
def test_every_bench_explains_itself_also_when_run_as_a_file(bench: str) -> None:
    done = subprocess.run(
        [sys.executable, f"bench/{bench}.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "usage:" in done.stdout


def test_a_bench_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "bench.soak", "--minutes", "5", "--count", "2"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.DEVNULL) as bench:
        swarm_log = "pw-bench-*/swarm.log"

        def started() -> list[psutil.Process]:
            found = psutil.Process(bench.pid).children(recursive=True)
            return found if len(found) > 1 and list(tmp_path.glob(swarm_log)) else []

        children = until(started, "hub and swarm to run", deadline_s=DEADLINE_S)
        bench.terminate()
        assert bench.wait(timeout=DEADLINE_S) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive
    assert not list(tmp_path.iterdir())


def test_make_runs_every_bench() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for bench in ("prove", *SMALL):
        assert makefile.count(f'"{bench} ') + makefile.count(f" {bench} ") + makefile.count(f",{bench} ") >= 2, bench
