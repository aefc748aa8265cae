"""The short chaos: every kind of fault that fits into a minute, by seed, and every promise checked after it.

To see a failure again: PROVEWIRE_CHAOS_SEED. What a failed run left is kept in build/chaos/SEED. The long version is
``make chaos``.
"""

import random
from pathlib import Path

import pytest

from tests.chaos.client import Client
from tests.chaos.episodes import Episodes
from tests.chaos.fleet import Fleet
from tests.chaos.report import SEED, Report
from tests.e2e.rig import Rig

PLAYERS = 15
FAULTS_S = 20.0
MEAN_GAP_S = 0.6
LONGEST_S = 6.0
ATTEMPTS_MAX = 20
"""More than the faults of so short a time can cost one job, and no more: one that must fail uses them all."""


@pytest.mark.timeout(420)
@pytest.mark.usefixtures("kept")
def test_nothing_is_lost_or_doubled_whatever_happens(rig: Rig, lossy_library: Path) -> None:
    report = Report("Chaos, short", SEED)
    with (
        Fleet(rig, lossy_library, seed=SEED, players=PLAYERS, attempts_max=ATTEMPTS_MAX) as fleet,
        Client(fleet.hub, SEED) as client,
    ):
        episodes = Episodes(fleet, rig, client, report, random.Random(SEED), LONGEST_S)
        episodes.run(FAULTS_S, MEAN_GAP_S)
    print(report.write("short"))  # noqa: T201 - shown on failure
    assert not report.broken, "\n".join(report.broken)
