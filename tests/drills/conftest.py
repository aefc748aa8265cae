"""One fleet for all drills: starting six nodes takes longer than most of them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills import network
from tests.drills.fleet import Fleet
from tests.drills.page import opened
from tests.e2e.rig import Rig


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    # A short path: unix sockets live below it.
    with network.entered(), tempfile.TemporaryDirectory(prefix="pw-") as folder:
        rig = Rig(Path(folder))
        try:
            made = Fleet(rig).begin()
            with opened(rig, made.hub) as made.page:
                yield made
        finally:
            rig.stop()
