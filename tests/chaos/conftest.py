"""The rig of the chaos tests, and the tools of the system that they need."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import lossy_disk
from tests.chaos.keep import keep_what_is_left
from tests.chaos.report import SEED
from tests.chaos.tools import skip_if_missing
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


@pytest.fixture
def kept(rig: Rig, request: pytest.FixtureRequest) -> Iterator[None]:
    """What a failed run left is put where it can be looked at."""
    skip_if_missing()
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        keep_what_is_left(rig, f"{SEED}-{request.node.name}")
