"""Keys on a device: what is left out, what stands for what, what a format decides."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.curves import BN254
from prover.backends.host import HostBackend
from prover.finite import finite_places, gathered
from prover.formats.strategy import SNARKJS
from prover.formats.zkey import ZKey
from prover.keys import LoadedKey, PointSet
from tests.prover.toy import MIXED, setup


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


def test_snarkjs_takes_the_root_of_twice_the_size_as_its_coset() -> None:
    for log2 in (1, 2, 11, 27):
        root, coset = SNARKJS.root(BN254, log2), SNARKJS.coset(BN254, log2)
        assert pow(root, 1 << (log2 - 1), BN254.r) == BN254.r - 1
        assert coset * coset % BN254.r == root


def test_snarkjs_takes_the_square_of_the_non_residue_where_there_is_no_such_root() -> None:
    assert SNARKJS.coset(BN254, 28) == 25
    assert pow(25, 1 << 28, BN254.r) != 1, "the coset must not meet the domain"


@given(st.lists(st.booleans(), max_size=70), st.data())
def test_points_that_are_not_infinity(finite: list[bool], data: st.DataObject) -> None:
    size = 64
    # A point whose first half is zero is not infinity, and sections lie at any address.
    octets = b"x" + b"".join(bytes(size - 1) + (b"\1" if here else b"\0") for here in finite)
    view = memoryview(octets)[1:]
    places = finite_places(view, size)
    assert [*places] == [i for i, here in enumerate(finite) if here]
    first = data.draw(st.integers(0, len(places)))
    count = data.draw(st.integers(0, len(places) - first))
    assert gathered(view, size, places, first, count) == (bytes(size - 1) + b"\1") * count


def scalars_of(host: HostBackend, points: PointSet) -> list[int]:
    return list(struct.unpack(f"<{points.count}I", host.download(points.scalar_of_point, 0, 4 * points.count)))


def test_infinity_is_left_out_and_blinding_points_are_added(tmp_path: Path, host: HostBackend) -> None:
    (tmp_path / "k.zkey").write_bytes(setup(MIXED).file())
    with ZKey.open(tmp_path / "k.zkey") as zkey, LoadedKey(zkey, host) as key:
        one, r, s = range(7, 10)
        # Wire 6 stands in no A; of B have terms the wires 0, 3 and 5.
        assert scalars_of(host, key.a) == [0, 1, 2, 3, 4, 5, one, r]
        assert scalars_of(host, key.b1) == scalars_of(host, key.b2) == [0, 3, 5, one, s]
        assert key.b1.indices == key.b2.indices != key.a.indices
        assert scalars_of(host, key.c_and_h) == [3, 4, 5, 6, *range(10, 18)]
        assert key.a.points is not None
        assert key.b1.points is not None
        assert key.b2.points is not None
        assert host.download(key.a.points, 6 * 64, 128) == zkey.alpha1 + zkey.delta1
        assert host.download(key.b2.points, 3 * 128, 256) == zkey.beta2 + zkey.delta2
        assert host.download(key.b1.points, 64, 64) == bytes(zkey.points_b1[3 * 64 : 4 * 64])
