"""Keys of our own setup: what the definition says, every shape, both curves; snarkjs accepts their proofs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.curves import BLS12_381, BN254, CURVES, Curve
from prover.backends.host import HostBackend
from prover.check import check_points, check_witness
from prover.errors import MalformedFile, Mismatch, ProofRejected
from prover.formats.r1cs import R1cs, check_belongs
from prover.formats.snarkjson import proof_to_json, public_to_json, vkey_from_zkey, vkey_to_json
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import Blinding, prove
from prover.setup import ToxicWaste, setup_unsafe
from tests.kernels.operands import GPU
from tests.oracle.steps import SNARKJS, accepted
from tests.prover.r1cs_writer import chain, r1cs_file, r1cs_of, wtns_file
from tests.prover.shapes import shapes
from tests.prover.toy import MIXED, MULTIPLY, Circuit, Secrets, mixed_witness, setup

TOY = Secrets(gamma=0x77)
WASTE = ToxicWaste(tau=TOY.tau, alpha=TOY.alpha, beta=TOY.beta, gamma=TOY.gamma, delta=TOY.delta)
FIXED = Blinding(r=123456789 << 200, s=(1 << 251) + 89)


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


def write(folder: Path, circuit: Circuit, values: list[int], curve: Curve) -> None:
    (folder / "c.r1cs").write_bytes(r1cs_file(circuit, curve))
    (folder / "w.wtns").write_bytes(wtns_file(values, curve))


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
@pytest.mark.parametrize("name", ["repeated wires", "no public signals, two rows", "all public", "no B"])
def test_a_key_is_what_the_definition_says(tmp_path: Path, host: HostBackend, curve: Curve, name: str) -> None:
    circuit, values = shapes(curve)[name]
    write(tmp_path, circuit, values, curve)
    with R1cs.open(tmp_path / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, tmp_path / "k.zkey", host, waste=WASTE)
    plain = Circuit(circuit.n_vars, circuit.n_public, circuit.constraints)
    (tmp_path / "expected.zkey").write_bytes(setup(plain, TOY, curve).file())
    with ZKey.open(tmp_path / "k.zkey") as found, ZKey.open(tmp_path / "expected.zkey") as expected:
        assert found.is_unsafe
        assert not expected.is_unsafe
        for field in ("alpha1", "beta1", "beta2", "gamma2", "delta1", "delta2"):
            assert getattr(found, field) == getattr(expected, field)
        for field in ("ic", "points_a", "points_b1", "points_b2", "points_c", "points_h"):
            assert bytes(getattr(found, field)) == bytes(getattr(expected, field)), field
        check_points(found)


def test_proofs_of_every_shape_are_accepted_by_snarkjs(tmp_path: Path, host: HostBackend) -> None:
    if not SNARKJS.exists() or shutil.which("node") is None:
        pytest.skip("snarkjs is missing: npm ci")
    folders = []
    for curve in CURVES:
        for number, (circuit, values) in enumerate(shapes(curve).values()):
            folder = tmp_path / f"{curve.ident}-{number}"
            folder.mkdir()
            folders.append(folder)
            write(folder, circuit, values, curve)
            with R1cs.open(folder / "c.r1cs") as r1cs:
                setup_unsafe(r1cs, folder / "k.zkey", host)
            with ZKey.open(folder / "k.zkey") as key, Witness.open(folder / "w.wtns") as witness:
                result = prove(key, witness, host)
                (folder / "vkey.json").write_text(vkey_to_json(vkey_from_zkey(key)))
            (folder / "proof.json").write_text(proof_to_json(result.proof))
            (folder / "public.json").write_text(public_to_json(result.public))
    assert all(accepted(folders))


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_cpus_prove_what_a_devices_kernels_prove(tmp_path: Path, host: HostBackend, curve: Curve) -> None:
    """Byte for byte with fixed blinding: other algorithms, other limbs, other products."""
    with HostBackend(planned_as=GPU) as device:
        for name in ("dense", "bits", "repeated wires", "all public"):
            circuit, values = shapes(curve)[name]
            folder = tmp_path / name
            folder.mkdir()
            write(folder, circuit, values, curve)
            with R1cs.open(folder / "c.r1cs") as r1cs:
                setup_unsafe(r1cs, folder / "k.zkey", host)
            with ZKey.open(folder / "k.zkey") as key, Witness.open(folder / "w.wtns") as witness:
                found = [prove(key, witness, backend, blinding=FIXED).proof for backend in (host, device)]
            assert found[0] == found[1], name


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_the_violated_constraint_is_named(tmp_path: Path, curve: Curve) -> None:
    circuit, values = chain(5, curve, bits=False)
    write(tmp_path, circuit, values, curve)
    with R1cs.open(tmp_path / "c.r1cs") as r1cs, Witness.open(tmp_path / "w.wtns") as witness:
        check_witness(r1cs, witness)
    values[-3] = (values[-3] + 1) % curve.r
    write(tmp_path, circuit, values, curve)
    first = min(
        i
        for i, (a, b, c) in enumerate(circuit.constraints)
        if not Circuit(circuit.n_vars, 1, [(a, b, c)]).holds(values, curve.r)
    )
    with (
        R1cs.open(tmp_path / "c.r1cs") as r1cs,
        Witness.open(tmp_path / "w.wtns") as witness,
        pytest.raises(ProofRejected, match=rf"constraint {first} of 30, counted from 0, is violated") as caught,
    ):
        check_witness(r1cs, witness)
    assert caught.value.exit_code == 4


TERM = (1).to_bytes(4, "little") + (5).to_bytes(32, "little")
EMPTY = bytes(4)
DAMAGED = {
    "cut off in a term": b"\1\0\0\0" + TERM[:-1],
    "more terms than bytes": b"\xff\xff\xff\xff" + TERM + EMPTY + EMPTY,
    "a wire that is not there": b"\1\0\0\0" + b"\2\0\0\0" + TERM[4:] + EMPTY + EMPTY,
    "a value that is not reduced": b"\1\0\0\0" + TERM[:4] + BN254.r.to_bytes(32, "little") + EMPTY + EMPTY,
    "bytes left over": b"\1\0\0\0" + TERM + EMPTY + EMPTY + EMPTY,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_malformed_constraints_are_refused(tmp_path: Path, host: HostBackend, damage: str) -> None:
    (tmp_path / "c.r1cs").write_bytes(r1cs_of(BN254, 2, 1, 1, DAMAGED[damage]))
    (tmp_path / "w.wtns").write_bytes(wtns_file([1, 0], BN254))
    with R1cs.open(tmp_path / "c.r1cs") as r1cs, Witness.open(tmp_path / "w.wtns") as witness:
        with pytest.raises(MalformedFile, match=r"section 2 \(constraints\)"):
            setup_unsafe(r1cs, tmp_path / "k.zkey", host)
        with pytest.raises(MalformedFile, match=r"section 2 \(constraints\)"):
            check_witness(r1cs, witness)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.r1cs", "w.wtns"], "nothing half made is left"


def test_a_circuit_of_another_witness_or_key(tmp_path: Path, host: HostBackend) -> None:
    write(tmp_path, MIXED, mixed_witness(), BN254)
    with R1cs.open(tmp_path / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, tmp_path / "k.zkey", host)
    others = {
        "prime": (r1cs_file(MIXED, BLS12_381), None),
        "number of wires": (r1cs_file(MULTIPLY, BN254), None),
        "public signals": (r1cs_file(Circuit(MIXED.n_vars, 1, MIXED.constraints), BN254), None),
    }
    with ZKey.open(tmp_path / "k.zkey") as zkey, Witness.open(tmp_path / "w.wtns") as witness:
        for message, (octets, _) in others.items():
            (tmp_path / "other.r1cs").unlink(missing_ok=True)
            (tmp_path / "other.r1cs").write_bytes(octets)
            with R1cs.open(tmp_path / "other.r1cs") as other, pytest.raises(Mismatch, match=message):
                check_belongs(other, witness=witness, zkey=zkey)


@pytest.mark.parametrize("section", [5, 6, 7, 8, 9])
def test_a_point_off_its_curve_is_named(tmp_path: Path, section: int) -> None:
    sections = setup(MIXED)
    size = 128 if section == 7 else 64
    octets = bytearray(sections.payloads[section])
    wrong = next(i for i in reversed(range(len(octets) // size)) if any(octets[i * size : (i + 1) * size]))
    octets[wrong * size] ^= 1
    sections.payloads[section] = bytes(octets)
    (tmp_path / "k.zkey").write_bytes(sections.file())
    with (
        ZKey.open(tmp_path / "k.zkey") as zkey,
        pytest.raises(MalformedFile, match=rf"section {section} \(\w+ points\): point {wrong} does not lie"),
    ):
        check_points(zkey)
