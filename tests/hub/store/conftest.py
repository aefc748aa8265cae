"""Every implementation of the store, each made anew for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hub.store.base import Store
from hub.store.sqlite import open_sqlite

IMPLEMENTATIONS = ("sqlite",)


@pytest.fixture(params=IMPLEMENTATIONS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    assert request.param == "sqlite"
    async with open_sqlite(tmp_path / "hub.sqlite") as opened:
        yield opened
