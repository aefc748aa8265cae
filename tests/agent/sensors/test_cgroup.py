from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sensors.cgroup import Limits, limits, mounts, own_groups
from tests.agent.sensors.trees import (
    GIB,
    V1_CONTAINER,
    V1_HOST,
    V2_ANCESTORS,
    V2_CONTAINER,
    V2_HOST,
    planted,
)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (V2_HOST, Limits()),
        (V2_ANCESTORS, Limits(1.5, 8 * GIB, 4 * GIB)),
        (V2_CONTAINER, Limits(3.5, 32 * GIB, 4 * GIB)),
        (V1_CONTAINER, Limits(2.5, 12 * GIB, 5 * GIB)),
        (V1_HOST, Limits()),
        ({}, Limits()),
    ],
    ids=["v2 host", "v2 limits above", "v2 container", "v1 container", "v1 host", "nothing"],
)
def test_the_tightest_limit_of_the_own_group_and_those_above(
    tmp_path: Path, tree: dict[str, str], expected: Limits
) -> None:
    assert limits(planted(tmp_path, tree)) == expected


def test_the_own_limit_counts_when_it_is_the_tighter(tmp_path: Path) -> None:
    own = "sys/fs/cgroup/system.slice/provewire-agent.service"
    tree = V2_ANCESTORS | {
        f"{own}/memory.max": f"{GIB}\n",
        f"{own}/memory.current": "5000000\n",
        f"{own}/cpu.max": "50000\n",
    }
    assert limits(planted(tmp_path, tree)) == Limits(0.5, GIB, 4 * 1024 * 1024)


def test_of_equal_limits_the_group_with_more_in_use_counts(tmp_path: Path) -> None:
    own = "sys/fs/cgroup/system.slice/provewire-agent.service"
    tree = V2_ANCESTORS | {f"{own}/memory.max": f"{8 * GIB}\n"}
    assert limits(planted(tmp_path, tree)).memory_used_bytes == 4 * GIB


def test_a_group_outside_of_what_the_mount_shows_is_the_mount_itself(tmp_path: Path) -> None:
    tree = V2_CONTAINER | {"proc/self/cgroup": "0::/../../other\n"}
    assert limits(planted(tmp_path, tree)) == Limits(3.5, 32 * GIB, 4 * GIB)


@pytest.mark.parametrize("nonsense", ["", "max", "-5", "many 100000", "100000 0", "\udcff", "1e9", "9" * 30])
def test_nonsense_sets_no_limit(tmp_path: Path, nonsense: str) -> None:
    root = planted(tmp_path, V2_CONTAINER)
    for name in ("cpu.max", "memory.max"):
        (root / "sys/fs/cgroup" / name).write_bytes(nonsense.encode("utf-8", "surrogateescape"))
    assert limits(root) == Limits()


def test_a_limit_whose_use_cannot_be_read_is_still_a_limit(tmp_path: Path) -> None:
    root = planted(tmp_path, V2_CONTAINER)
    (root / "sys/fs/cgroup/memory.current").unlink()
    assert limits(root) == Limits(3.5, 32 * GIB, None)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_read_without_an_error(groups: str, mountinfo: str) -> None:
    own_groups(groups)
    list(mounts(mountinfo))
    list(mounts(f"35 25 0:29 {mountinfo} /sys rw - cgroup2 a b"))


def test_this_machines_own_groups_are_read() -> None:
    found = limits()
    assert found.cpu_cores is None or found.cpu_cores > 0
    assert found.memory_bytes is None or found.memory_bytes > 0
    assert (found.memory_used_bytes or 0) <= (found.memory_bytes or 2**63)
