"""The rig of the chaos tests, and the tools of the system that they need."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import lossy_disk


@pytest.fixture(scope="session")
def lossy_library() -> Iterator[Path]:
    """The compiled interposer."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing: apt-get install gcc")
    with tempfile.TemporaryDirectory(prefix="pw-lossy-") as folder:
        yield lossy_disk.build(Path(folder))
