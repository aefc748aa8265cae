"""The rig of the chaos tests, and the tools of the system that they need."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import lossy_disk
from tests.e2e.rig import Rig


@pytest.fixture(scope="session")
def lossy_library() -> Iterator[Path]:
    """The compiled interposer."""
    if shutil.which("gcc") is None:
        pytest.skip("a tool is missing: apt-get install gcc")
    with tempfile.TemporaryDirectory(prefix="pw-lossy-") as folder:
        yield lossy_disk.build(Path(folder))


@pytest.fixture
def rig() -> Iterator[Rig]:
    # A short path: unix sockets live below it, and their paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pw-") as folder:
        made = Rig(Path(folder))
        try:
            yield made
        finally:
            made.stop()
