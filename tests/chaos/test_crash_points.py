"""A sample of the crash points of hub and agent; ``make chaos`` visits every one, many times."""

import random
from pathlib import Path

import pytest

from tests.chaos.client import Client
from tests.chaos.crash_points import ATTEMPTS_MAX, Sweep
from tests.chaos.episodes import Episodes
from tests.chaos.fleet import Fleet
from tests.chaos.lossy_disk import Side
from tests.chaos.players import SLOW
from tests.chaos.report import SEED, Report
from tests.e2e.rig import Rig

SAMPLES = 6


@pytest.mark.timeout(420)
@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", ["hub", "node-a"])
def test_killed_at_a_durable_effect_and_the_power_cut(rig: Rig, lossy_library: Path, name: str) -> None:
    report = Report(f"Crash points of {name}, sampled", SEED)
    rng = random.Random(f"{SEED}/{name}")
    with (
        Fleet(
            rig, lossy_library, seed=SEED, players=2, agents="a", rates=SLOW, told_s=1.0, attempts_max=ATTEMPTS_MAX
        ) as fleet,
        Client(fleet.hub, SEED, open_jobs=1) as client,
    ):
        episodes = Episodes(fleet, rig, client, report, rng, 1.0)
        machine = fleet.hub_machine if name == "hub" else fleet.agents[0]
        sweep = Sweep(fleet, machine, client=client, episodes=episodes, report=report, rng=rng)
        points = sweep.points()
        report.notes["durable effects of the scenario"] = points
        for number in sorted(rng.sample(range(1, points + 1), SAMPLES)):
            sweep.crash(number, rng.choice(list(Side)))
        sweep.settle()
    print(report.write(f"crash-points-{name}"))  # noqa: T201 - shown on failure
    assert not report.broken, "\n".join(report.broken)
