"""Keys of a second format: what a strategy decides is all that the prover needs to know of it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kernels.curves import BLS12_381, Curve
from prover.backends.host import HostBackend
from prover.errors import ProofRejected
from prover.formats.snarkjson import vkey_from_zkey
from prover.formats.strategy import SNARKJS, HBasis, ProvingKey, Section
from prover.formats.wtns import Witness
from prover.groth16 import prove
from prover.hostproof import reads_as_mapped
from prover.keys import LoadedKey
from prover.verify import verify
from tests.kernels.operands import GPU
from tests.prover.r1cs_writer import chain, wtns_file
from tests.prover.toy import MIXED, Circuit, Secrets, mixed_witness
from tests.prover.toy_params import ToyParams, ToyParamsFormat, toy_params

SECRETS = Secrets(gamma=0x77)
SPARSE = Circuit(
    n_vars=9,
    n_public=1,
    constraints=[({2: 1}, {2: 1}, {1: 1}), ({1: 3, 7: 0}, {5: 1}, {6: 1}), ({}, {}, {3: 1, 4: -1, 7: 1, 8: -1})],
)
"""Wires that stand in no A or no B, or with a coefficient of zero: no points of theirs are in the file."""


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


def witness_of(folder: Path, values: list[int]) -> Witness:
    (folder / "w.wtns").write_bytes(wtns_file(values, BLS12_381))
    return Witness.open(folder / "w.wtns")


CASES: dict[str, tuple[Circuit, list[int]]] = {
    "mixed": (MIXED, mixed_witness(curve=BLS12_381)),
    "sparse": (SPARSE, [1, 49, 7, 3, 4, 2, 294, 6, 5]),
    "dense": chain(4, BLS12_381, bits=False),
}


@cache
def params(name: str) -> bytes:
    return toy_params(CASES[name][0], SECRETS)


@pytest.mark.parametrize(
    ("name", "planned_as"),
    [("mixed", None), ("mixed", GPU), ("sparse", None), ("dense", None)],
    ids=["mixed", "mixed, launches of a GPU", "sparse", "dense"],
)
def test_a_key_of_another_format_proves(tmp_path: Path, name: str, planned_as: object) -> None:
    circuit, values = CASES[name]
    assert circuit.holds(values, BLS12_381.r)
    key = ToyParams(params(name), circuit)
    assert not reads_as_mapped(key)
    with witness_of(tmp_path, values) as witness, HostBackend(planned_as=planned_as) as backend:  # type: ignore[arg-type]
        result = prove(key, witness, backend)
    assert result.public == values[1 : circuit.n_public + 1]
    assert verify(vkey_from_zkey(key), result.public, result.proof)
    assert not verify(vkey_from_zkey(key), [*result.public[:-1], result.public[-1] + 1], result.proof)


class WrongRoots(ToyParamsFormat):
    def root(self, curve: Curve, log2_domain: int) -> int:
        return SNARKJS.root(curve, log2_domain)


class WrongBasis(ToyParamsFormat):
    def coset(self, curve: Curve, log2_domain: int) -> int:
        return SNARKJS.coset(curve, log2_domain)

    h_basis = HBasis.ODD_POINTS


class WrongPacking(ToyParamsFormat):
    def wires(self, key: ProvingKey, section: Section) -> list[int]:
        return list(range(len(super().wires(key, section))))


@pytest.mark.parametrize("strategy", [WrongRoots(), WrongBasis(), WrongPacking()], ids=lambda one: type(one).__name__)
def test_every_part_of_the_strategy_matters(tmp_path: Path, host: HostBackend, strategy: ToyParamsFormat) -> None:
    """With one part of snarkjs's strategy the proof is wrong, and is not handed out."""
    circuit, values = CASES["mixed"]
    key = ToyParams(params("mixed"), circuit, strategy=strategy)
    with witness_of(tmp_path, values) as witness, pytest.raises(ProofRejected):
        prove(key, witness, host)


def test_points_that_were_left_out_are_matched_by_the_constraints(host: HostBackend) -> None:
    key = ToyParams(params("sparse"), SPARSE)
    one, r, s = range(9, 12)
    with LoadedKey(key, host) as loaded:
        for points, wires in ((loaded.a, [0, 1, 2, one, r]), (loaded.b1, [2, 5, one, s]), (loaded.b2, [2, 5, one, s])):
            found = host.download(points.scalar_of_point, 0, 4 * points.count)
            assert list(memoryview(found).cast("I")) == wires
        joined = loaded.c_and_h
        of_rows = [scalar for scalar in host.download(joined.scalar_of_point, 0, 4 * joined.count)[::4] if scalar > s]
        assert len(of_rows) == key.domain_size - 1
