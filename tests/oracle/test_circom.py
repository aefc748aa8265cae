"""Circuits of circom's library over both curves, and sizes that snarkjs has no keys for: it accepts our proofs."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from kernels.curves import BLS12_381, BN254, CURVES, Curve
from prover.backends.host import HostBackend
from prover.check import check_points, check_witness
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import proof_to_json, public_to_json, vkey_from_zkey, vkey_to_json
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.setup import setup_unsafe
from tests.oracle import circuits
from tests.oracle.circom import INPUTS, ceremony_key, compiled
from tests.oracle.steps import accepted
from tests.prover.r1cs_writer import chain, r1cs_file, wtns_file

pytestmark = pytest.mark.skipif(
    not circuits.available(), reason="circom2 and snarkjs are missing: apt-get install nodejs npm"
)
every_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


def prove_into(
    folder: Path, r1cs: Path, key: Path, witness: Path, host: HostBackend, log2_domain: int
) -> list[tuple[Path, bool]]:
    """Check the witness and prove; return what snarkjs shall accept and, for other signals, refuse."""
    with ZKey.open(key) as zkey, Witness.open(witness) as opened, R1cs.open(r1cs) as constraints:
        assert zkey.log2_domain == log2_domain
        check_witness(constraints, opened)
        check_points(zkey, 2)
        result = prove(zkey, opened, host)
        vkey = vkey_to_json(vkey_from_zkey(zkey))
    folders = [folder / "as proved", folder / "another statement"]
    other = [*result.public]
    other[0] = (other[0] + 1) % 1000
    for own, public in zip(folders, (result.public, other), strict=True):
        own.mkdir()
        (own / "vkey.json").write_text(vkey)
        (own / "public.json").write_text(public_to_json(public))
        (own / "proof.json").write_text(proof_to_json(result.proof))
    return list(zip(folders, (True, False), strict=True))


def judge(pairs: list[tuple[Path, bool]]) -> None:
    assert accepted([folder for folder, _ in pairs]) == [expected for _, expected in pairs]


def from_source(
    folder: Path, name: str, curve: Curve, host: HostBackend, log2_domain: int, setup: Literal["ours", "ceremony"]
) -> None:
    circuit = compiled(name, curve)
    witness = circuit.witness(INPUTS[name](circuit, folder), folder / "w.wtns")
    key = folder / "k.zkey"
    if setup == "ceremony":
        ceremony_key(circuit, key)
    else:
        with R1cs.open(circuit.r1cs) as r1cs:
            setup_unsafe(r1cs, key, host)
    judge(prove_into(folder, circuit.r1cs, key, witness, host, log2_domain))


def test_row_25_poseidon_over_bls12_381(tmp_path: Path, host: HostBackend) -> None:
    """Provers that took another root of unity for this curve gave proofs that nobody accepted."""
    from_source(tmp_path, "hash", BLS12_381, host, 8, "ours")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "curve", "log2_domain"), [("mimc4", BN254, 11), ("mimc2", BLS12_381, 10)], ids=["bn254", "bls12381"]
)
def test_keys_of_the_largest_ceremonies(
    tmp_path: Path, host: HostBackend, name: str, curve: Curve, log2_domain: int
) -> None:
    from_source(tmp_path, name, curve, host, log2_domain, "ceremony")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "log2_domain"), [("hash", 8), ("mimc4", 11), ("eddsa", 13), ("sha256", 16)])
@every_curve
def test_circomlib(tmp_path: Path, host: HostBackend, name: str, curve: Curve, log2_domain: int) -> None:
    from_source(tmp_path, name, curve, host, log2_domain, "ours")


def of_size(folder: Path, curve: Curve, log2_domain: int, host: HostBackend, *, bits: bool) -> list[tuple[Path, bool]]:
    circuit, values = chain(log2_domain, curve, bits=bits)
    (folder / "c.r1cs").write_bytes(r1cs_file(circuit, curve))
    (folder / "w.wtns").write_bytes(wtns_file(values, curve))
    began_s = time.monotonic()
    with R1cs.open(folder / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, folder / "k.zkey", host)
    print(json.dumps({"curve": curve.ident, "log2": log2_domain, "setup_s": round(time.monotonic() - began_s, 2)}))  # noqa: T201 - told by a failure, and by -s
    return prove_into(folder, folder / "c.r1cs", folder / "k.zkey", folder / "w.wtns", host, log2_domain)


def test_two_to_the_14_rows(tmp_path: Path, host: HostBackend) -> None:
    pairs = []
    for curve, bits in ((BN254, False), (BLS12_381, True)):
        own = tmp_path / curve.ident
        own.mkdir()
        pairs += of_size(own, curve, 14, host, bits=bits)
    judge(pairs)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("log2_domain", [16, 17, 18])
@pytest.mark.parametrize("bits", [False, True], ids=["dense", "bits"])
@every_curve
def test_sizes_to_two_to_the_18_rows(
    tmp_path: Path, host: HostBackend, curve: Curve, log2_domain: int, *, bits: bool
) -> None:
    judge(of_size(tmp_path, curve, log2_domain, host, bits=bits))
