from pathlib import Path

import pytest

from tests.agent.sensors.fake_nvml.library import FakeNvml


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    """Eight healthy cards, until a test says otherwise."""
    return FakeNvml(tmp_path / "scenario")
