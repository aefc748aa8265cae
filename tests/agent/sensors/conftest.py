from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.sensors.fake_nvml.library import FakeNvml
from tests.agent.sensors.gpu_rig import Rig


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    """Eight healthy cards, until a test says otherwise."""
    return FakeNvml(tmp_path / "scenario")


@pytest.fixture
async def rig(tmp_path: Path, nvml: FakeNvml) -> AsyncIterator[Rig]:
    """A sensor, its child and its folder."""
    rig = Rig(tmp_path, nvml)
    yield rig
    await rig.sensor.close()
