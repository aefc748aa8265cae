"""One of the drills over a fleet of one, so that every run of the tests has some; the others are long."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills import network
from tests.drills.fleet import Fleet
from tests.drills.test_drills import an_agent_is_dead
from tests.e2e.node_world import needs_node_world
from tests.e2e.rig import Rig

pytestmark = [needs_node_world, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def small() -> Iterator[Fleet]:
    with network.entered(), tempfile.TemporaryDirectory(prefix="pw-") as folder:
        rig = Rig(Path(folder))
        try:
            yield Fleet(rig, only={"prover"}).begin()
        finally:
            rig.stop()


def test_an_agent_that_is_dead(small: Fleet) -> None:
    an_agent_is_dead(small)
