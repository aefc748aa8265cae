"""Cards are counted by their device files, as a CUDA program would see them."""

from pathlib import Path

import pytest

from agent.cards import count_cards
from agent.workers import auto_argv, own_argv


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for name in ("nvidia0", "nvidia1", "nvidia7", "nvidiactl", "nvidia-uvm", "nvidia-caps", "null"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, 3),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("1,0", 2),
        ("0,1,2,3,4", 3),
        ("0,nonsense,1", 1),
        ("GPU-8a1b,GPU-77", 2),
    ],
)
def test_cards_that_a_program_would_see(three: Path, visible: str | None, expected: int) -> None:
    assert count_cards({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, three) == expected


def test_no_device_files_are_no_cards(tmp_path: Path) -> None:
    assert count_cards({}, tmp_path) == 0
    assert count_cards({}, tmp_path / "absent") == 0


def test_only_the_first_cards_worker_may_fall_back_to_the_host(tmp_path: Path) -> None:
    assert auto_argv("cuda:0", tmp_path) == own_argv("auto", tmp_path)
    for device in ("cuda:1", "host"):
        assert auto_argv(device, tmp_path) == own_argv(device, tmp_path)
