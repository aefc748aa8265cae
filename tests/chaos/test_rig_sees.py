"""The rig finds what is broken: with a disk that lies about fsync, a power cut loses what was acknowledged."""

import random
from pathlib import Path

import pytest

from tests.chaos import promises
from tests.chaos.fleet import Fleet
from tests.chaos.lossy_disk import Cut
from tests.chaos.tools import skip_if_missing
from tests.e2e.rig import Rig, until


def test_an_acknowledged_event_that_the_hub_lost_is_found(rig: Rig, lossy_library: Path) -> None:
    skip_if_missing()
    with Fleet(rig, lossy_library, seed=1, players=2, agents="") as fleet:
        players = fleet.players[0]
        until(lambda: players.acknowledged() > 10, "events to be acknowledged")
        promises.everyone_back(fleet)
        assert promises.streams_whole(fleet) > 10
        fleet.hub_machine.disk.control.lies = 1
        before = players.acknowledged()
        players.call(lambda: players.swarm.hush(quiet=False))
        until(lambda: players.acknowledged() > before + 10, "more events to be acknowledged")
        fleet.cut_power(fleet.hub_machine, Cut.LEAST, random.Random(1))
        fleet.hub.start()
        with pytest.raises(promises.Broken, match="heads differ"):
            promises.streams_whole(fleet)
