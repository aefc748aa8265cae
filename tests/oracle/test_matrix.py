"""The matrix of shapes, keys and curves before snarkjs's eyes: its keys and ours, its proofs and ours."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.curves import CURVES, Curve
from prover.backends.host import HostBackend
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import (
    proof_from_json,
    proof_to_json,
    public_from_json,
    public_to_json,
    vkey_from_json,
    vkey_from_zkey,
    vkey_to_json,
)
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.setup import setup_unsafe
from prover.verify import verify
from tests.oracle import circuits, matrix
from tests.oracle.matrix import KEYS, Entry
from tests.oracle.steps import Steps, accepted
from tests.prover.r1cs_writer import wtns_file

pytestmark = [
    pytest.mark.skipif(not circuits.available(), reason="snarkjs is missing: apt-get install nodejs npm"),
    pytest.mark.timeout(600),  # the first time, snarkjs makes what is kept afterwards
]

MATRIX = list(matrix.entries())


@pytest.fixture(scope="module")
def made() -> Path:
    return matrix.make(MATRIX)


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


def prove_into(folder: Path, key: Path, witness: Path, vkey: Path, host: HostBackend) -> None:
    """Leave our proof, our public signals and snarkjs's verification key, in which we see the same as in the key."""
    with ZKey.open(key) as zkey, Witness.open(witness) as opened:
        result = prove(zkey, opened, host)
        assert vkey_from_json(vkey.read_bytes()) == vkey_from_zkey(zkey)
    (folder / "vkey.json").write_bytes(vkey.read_bytes())
    (folder / "proof.json").write_text(proof_to_json(result.proof))
    (folder / "public.json").write_text(public_to_json(result.public))


def test_the_matrix_covers_what_it_promises() -> None:
    counts = Counter((entry.curve.ident, entry.key) for entry in MATRIX)
    assert all(counts[curve.ident, key] >= 3 for curve in CURVES for key in KEYS)
    assert len({entry.shape for entry in MATRIX}) == 13
    for curve in CURVES:
        assert {entry.shape for entry in MATRIX if entry.curve == curve} == {entry.shape for entry in MATRIX}


def test_snarkjs_accepts_our_proofs_of_every_shape_with_every_kind_of_key(
    made: Path, host: HostBackend, tmp_path: Path
) -> None:
    folders, forged = [], []
    for entry in MATRIX:
        own = tmp_path / entry.name
        own.mkdir()
        there = made / entry.name
        prove_into(own, there / "k.zkey", there / "w.wtns", there / "vkey.json", host)
        theirs = json.loads((made / entry.name / "theirs.json").read_text())
        assert json.loads((own / "public.json").read_text()) == theirs["publicSignals"]
        folders.append(own)
        # That the judge can refuse: a proof of the same key with A and C exchanged.
        wrong = tmp_path / f"forged {entry.name}"
        wrong.mkdir()
        document = json.loads((own / "proof.json").read_text())
        document["pi_a"], document["pi_c"] = document["pi_c"], document["pi_a"]
        (wrong / "proof.json").write_text(json.dumps(document))
        for name in ("vkey.json", "public.json"):
            (wrong / name).write_bytes((own / name).read_bytes())
        forged.append(wrong)
    verdicts = accepted([*folders, *forged[::6]])
    names = [entry.name for entry in MATRIX]
    assert [name for name, verdict in zip(names, verdicts, strict=False) if not verdict] == []
    assert not any(verdicts[len(MATRIX) :])


def test_we_accept_snarkjs_proofs(made: Path) -> None:
    refused = []
    for entry in MATRIX:
        theirs = json.loads((made / entry.name / "theirs.json").read_text())
        proof = proof_from_json(json.dumps(theirs["proof"]))
        public = public_from_json(json.dumps(theirs["publicSignals"]))
        key = vkey_from_json((made / entry.name / "vkey.json").read_bytes())
        if key.curve != entry.curve or not verify(key, public, proof):
            refused.append(entry.name)
    assert refused == []


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_we_export_the_verification_key_that_snarkjs_exports(made: Path, curve: Curve) -> None:
    """With the pairing of alpha and beta, which is slow to compute and which nobody reads."""
    name = next(entry.name for entry in MATRIX if entry.curve == curve and entry.key == "contributed")
    with ZKey.open(made / name / "k.zkey") as key:
        ours = json.loads(vkey_to_json(vkey_from_zkey(key)))
    assert ours == json.loads((made / name / "vkey.json").read_text())


def contributed(folder: Path, entry: Entry, host: HostBackend, steps: Steps) -> None:
    """Set a circuit up and ask snarkjs to contribute to our key."""
    (folder / "c.r1cs").write_bytes(entry.r1cs)
    (folder / "w.wtns").write_bytes(wtns_file(entry.values, entry.curve))
    with R1cs.open(folder / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, folder / "ours.zkey", host)
    steps.add("zKey.contribute", folder / "ours.zkey", folder / "k.zkey", "x", "test only", out=folder / "said.json")
    steps.add("zKey.exportVerificationKey", folder / "k.zkey", out=folder / "theirs.json")


def test_snarkjs_contributes_to_keys_of_our_setup(host: HostBackend, tmp_path: Path) -> None:
    """It reads them whole, and what it makes of them proves; the key still says what it began as."""
    chosen = [entry for entry in MATRIX if entry.shape in {"dense", "all public"} and entry.key == "fresh"]
    chosen += [entry for entry in MATRIX if entry.shape == "no public signals, two rows"][:1]
    steps, folders = Steps(), []
    for entry in chosen:
        folders.append(tmp_path / entry.name)
        folders[-1].mkdir()
        contributed(folders[-1], entry, host, steps)
    steps.run()
    for folder in folders:
        prove_into(folder, folder / "k.zkey", folder / "w.wtns", folder / "theirs.json", host)
        with ZKey.open(folder / "k.zkey") as key:
            assert key.is_unsafe
            assert key.contributors()[1:] == ["x"]
    assert all(accepted(folders))
