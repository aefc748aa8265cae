"""What tests of the agent share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.outbox_bounds import Bounds
from agent.outbox_file import OutboxFile
from tests.agent.samples import EPOCHS
from tests.agent.virtual_time import VirtualClock

OUTBOX_BYTES_MAX = 1024 * 1024


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., OutboxFile]]:
    """Opens the outbox in the test's folder; each opening closes the one before, as a restart does."""
    opened: list[OutboxFile] = []

    def open_one(epoch: str = EPOCHS[0], bytes_max: int = OUTBOX_BYTES_MAX) -> OutboxFile:
        close()
        opened.append(OutboxFile(tmp_path / "outbox.sqlite", epoch, Bounds(bytes_max=bytes_max), VirtualClock()))
        return opened[-1]

    def close() -> None:
        while opened:
            opened.pop().close()

    yield open_one
    close()
