"""``python -m tests.chaos``: the long version; then one table.

Episodes of faults for PROVEWIRE_CHAOS_MINUTES (30), and every crash point of hub and agent PROVEWIRE_CHAOS_ROUNDS times
(2: once before the effect, once after it), all from PROVEWIRE_CHAOS_SEED. Two lanes run side by side, each part a
process of its own: the hub's crash points followed by the agent's, and the episodes. The table and what a part left are
in build/chaos. Exit code 1: a promise was broken.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.descriptors import take_descriptors
from tests.chaos import lossy_disk, tools
from tests.chaos.client import Client
from tests.chaos.crash_points import ATTEMPTS_MAX, Sweep, rounds
from tests.chaos.episodes import Episodes
from tests.chaos.fleet import Fleet
from tests.chaos.keep import keep_what_is_left
from tests.chaos.players import CROWD, SLOW
from tests.chaos.report import FOLDER, SEED, Report
from tests.e2e.rig import ROOT, Rig

MINUTES = float(os.environ.get("PROVEWIRE_CHAOS_MINUTES") or 30)
ROUNDS = int(os.environ.get("PROVEWIRE_CHAOS_ROUNDS") or 2)
PLAYERS = 100
"""Behind each of the two ways; all nodes together fit into one page of the hub's list."""
EPISODE_S = 75.0
MEAN_GAP_S = 1.0
LONGEST_S = 13.0
LOST_AFTER_S = 45.0
"""The default: behind a hub that was stopped an agent may wait 20 s, dial for 10 s, and be told to come later."""
HEARTBEAT_S = 3.0
"""An agent leaves a hub that is silent for three of them; this one shares its processors with all the rest."""
FREEZE_S = 90.0
LANES = (("hub", "node-a"), ("episodes",))
EXIT_OK, EXIT_BROKEN, EXIT_TOOLS = 0, 1, 64

Part = Callable[[Rig, Path, Report], None]


def episodes(rig: Rig, library: Path, report: Report) -> None:
    """Faults by chance, episode after episode, on one fleet that is never made anew."""
    end_s = time.monotonic() + MINUTES * 60
    with (
        Fleet(
            rig,
            library,
            seed=SEED,
            players=PLAYERS,
            rates=CROWD,
            lost_after_s=LOST_AFTER_S,
            heartbeat_s=HEARTBEAT_S,
        ) as fleet,
        Client(fleet.hub, SEED) as client,
    ):
        runs = Episodes(fleet, rig, client, report, random.Random(SEED), LONGEST_S)
        for target in ("hub", "node-a"):
            runs.freeze(target, FREEZE_S)
        while time.monotonic() < end_s:
            runs.run(EPISODE_S, MEAN_GAP_S)
            report.write("episodes")


def crash_points(name: str, rig: Rig, library: Path, report: Report) -> None:
    """Every crash point of one daemon."""
    rng = random.Random(f"{SEED}/{name}")
    with (
        Fleet(
            rig, library, seed=SEED, players=2, agents="a", rates=SLOW, told_s=1.0, attempts_max=ATTEMPTS_MAX
        ) as fleet,
        Client(fleet.hub, SEED, open_jobs=1) as client,
    ):
        runs = Episodes(fleet, rig, client, report, rng, LONGEST_S)
        machine = fleet.hub_machine if name == "hub" else fleet.agents[0]
        sweep = Sweep(fleet, machine, client=client, episodes=runs, report=report, rng=rng)
        points = sweep.points()
        report.notes["crash points"] = points
        for at in range(ROUNDS):
            rounds(sweep, points, at, rng)
            report.notes["rounds of them"] = at + 1
            report.write(name)
        sweep.settle()


def play(name: str) -> int:
    """One part, in this process."""
    report = Report(name, SEED)
    take_descriptors()
    with tempfile.TemporaryDirectory(prefix="pw-") as folder:
        rig = Rig(Path(folder))
        try:
            library = lossy_disk.build(Path(folder))
            if name == "episodes":
                episodes(rig, library, report)
            else:
                crash_points(name, rig, library, report)
        except Exception:  # noqa: BLE001 - the outermost line: whatever stopped the part is a broken promise
            report.failed(f"{name} did not come to its end: {traceback.format_exc()}")
        finally:
            rig.stop()
            if report.broken:
                keep_what_is_left(rig, f"{SEED}-{name}")
    report.write(name)
    return EXIT_BROKEN if report.broken else EXIT_OK


def together() -> Report:
    """The parts' reports as one."""
    whole = Report("Chaos, long", SEED)
    for name in (part for lane in LANES for part in lane):
        with suppress(FileNotFoundError):
            part = json.loads((FOLDER / f"{name}.json").read_text())
            whole.done.update(Counter(part["done"]))
            for promise, (times, seen) in part["checks"].items():
                before = whole.checks.setdefault(promise, [0, 0])
                before[0] += times
                before[1] += seen
            whole.broken += part["broken"]
            whole.notes.update({f"{note} ({name})": value for note, value in part["notes"].items()})
    return whole


def main() -> int:
    """Run the lanes side by side; the exit code."""
    if reason := tools.missing():
        print(reason)  # noqa: T201 - a program's own words
        return EXIT_TOOLS
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in (part for lane in LANES for part in lane):
        (FOLDER / f"{name}.json").unlink(missing_ok=True)
    settings = f"PROVEWIRE_CHAOS_SEED={SEED} PROVEWIRE_CHAOS_MINUTES={MINUTES:g} PROVEWIRE_CHAOS_ROUNDS={ROUNDS}"
    print(settings, flush=True)  # noqa: T201
    began_s = time.monotonic()
    environment = {**os.environ, "PROVEWIRE_CHAOS_SEED": str(SEED)}
    running: list[subprocess.Popen[bytes]] = []
    for lane in LANES:
        parts = "".join(f"{sys.executable} -m tests.chaos {part} || broken=1; " for part in lane) + "exit ${broken:-0}"
        running.append(subprocess.Popen(["/bin/sh", "-c", parts], cwd=ROOT, env=environment))
    codes = [child.wait() for child in running]
    report = together()
    report.notes["minutes"] = f"{(time.monotonic() - began_s) / 60:.1f}"
    if any(codes) and not report.broken:
        report.failed(f"a part ended with {codes}")
    print(report.write())  # noqa: T201
    return EXIT_BROKEN if report.broken else EXIT_OK


if __name__ == "__main__":
    sys.exit(play(sys.argv[1]) if len(sys.argv) > 1 else main())
