"""Two of the drills over a fleet of two, so that every run of the tests has some."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills import network
from tests.drills.fleet import Fleet
from tests.drills.test_drills import a_card_is_lost, an_agent_is_dead
from tests.e2e.node_world import needs_node_world
from tests.e2e.rig import Rig

pytestmark = [needs_node_world, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def small() -> Iterator[Fleet]:
    with network.entered(), tempfile.TemporaryDirectory(prefix="pw-") as folder:
        rig = Rig(Path(folder))
        try:
            yield Fleet(rig, only={"prover", "cards"}).begin()
        finally:
            rig.stop()


def test_an_agent_that_is_dead_and_a_card_that_is_lost(small: Fleet) -> None:
    an_agent_is_dead(small)
    a_card_is_lost(small)
