"""Bugs that other provers were reported for, each as a test of what ours does: the row of proving facts in its name."""

import json
import os
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.curves import BLS12_381, BN254, Curve
from prover.backends.host import HostBackend
from prover.check import check_witness
from prover.errors import MalformedFile, Mismatch, ProofRejected
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import proof_to_json, vkey_from_zkey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.setup import setup_unsafe
from prover.verify import verify
from tests.prover.r1cs_writer import chain, r1cs_file, wtns_file
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, mixed_witness, setup, wtns

ROOT = Path(__file__).parents[2]
THREADS = 8
GROWTH_BYTES_MAX = 48 << 20


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, host: HostBackend) -> Iterator[list[tuple[ZKey, Witness]]]:
    """Three keys with a witness each, of both curves."""
    opened = []
    for number, (curve, log2, bits) in enumerate(((BN254, 6, False), (BLS12_381, 5, False), (BN254, 8, True))):
        folder = tmp_path_factory.mktemp(f"key{number}")
        circuit, values = chain(log2, curve, bits=bits)
        (folder / "c.r1cs").write_bytes(r1cs_file(circuit, curve))
        (folder / "w.wtns").write_bytes(wtns_file(values, curve))
        with R1cs.open(folder / "c.r1cs") as r1cs:
            setup_unsafe(r1cs, folder / "k.zkey", host)
        opened.append((ZKey.open(folder / "k.zkey"), Witness.open(folder / "w.wtns")))
    yield opened
    for key, witness in opened:
        key.close()
        witness.close()


def prove_from_threads(keys: list[tuple[ZKey, Witness]], proofs: int) -> int:
    """How many of so many proofs, made by threads at once over all keys, verify."""
    verified: list[bool] = []

    def work(first: int) -> None:
        with HostBackend(threads=1) as backend:
            for number in range(first, proofs, THREADS):
                key, witness = keys[number % len(keys)]
                result = prove(key, witness, backend)
                verified.append(verify(vkey_from_zkey(key), result.public, result.proof))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(verified)


def test_row_15_concurrent_proofs_of_several_keys_all_verify(keys: list[tuple[ZKey, Witness]]) -> None:
    assert prove_from_threads(keys, 48) == 48


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_rows_2_11_16_a_thousand_proofs_verify_and_memory_stays_flat(keys: list[tuple[ZKey, Witness]]) -> None:
    prove_from_threads(keys, 100)
    before = psutil.Process().memory_info().rss
    assert prove_from_threads(keys, 1000) == 1000
    assert psutil.Process().memory_info().rss - before < GROWTH_BYTES_MAX


def test_rows_17_18_json_is_exact_and_names_the_curve(keys: list[tuple[ZKey, Witness]], host: HostBackend) -> None:
    for key, witness in keys:
        text = proof_to_json(prove(key, witness, host).proof)
        assert "\0" not in text
        assert json.loads(text)["curve"] == key.curve.name


def test_row_19_no_public_signals_and_a_domain_of_two(tmp_path: Path, host: HostBackend) -> None:
    (tmp_path / "k.zkey").write_bytes(setup(MULTIPLY).file())
    (tmp_path / "w.wtns").write_bytes(wtns(MULTIPLY_WITNESS).file())
    with ZKey.open(tmp_path / "k.zkey") as key, Witness.open(tmp_path / "w.wtns") as witness:
        assert prove(key, witness, host).public == []


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda curve: curve.ident)
def test_rows_21_22_30_sections_above_four_gib_in_any_order(tmp_path: Path, host: HostBackend, curve: Curve) -> None:
    """A hole of 5 GiB stands before what is needed; section 10 is missing; nothing of that size is read."""
    hole = 5 << 30
    sections = setup(MIXED, curve=curve)
    order = list(reversed(range(1, 10)))
    with (tmp_path / "k.zkey").open("wb") as file:
        file.write(struct.pack("<4sII", b"zkey", 1, len(order) + 1))
        file.write(struct.pack("<IQ", 77, hole))
        file.seek(hole, os.SEEK_CUR)
        for ident in order:
            payload = sections.payloads[ident]
            file.write(struct.pack("<IQ", ident, len(payload)) + payload)
    (tmp_path / "w.wtns").write_bytes(wtns(mixed_witness(curve=curve), curve.r).file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ZKey.open(tmp_path / "k.zkey") as key, Witness.open(tmp_path / "w.wtns") as witness:
        prove(key, witness, host)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 1 << 20, "in KiB"


def test_row_26_a_bad_witness_is_told_from_a_bad_key(tmp_path: Path, host: HostBackend) -> None:
    values = mixed_witness()
    (tmp_path / "c.r1cs").write_bytes(r1cs_file(MIXED, BN254))
    (tmp_path / "good.wtns").write_bytes(wtns(values).file())
    values[5] += 1
    (tmp_path / "bad.wtns").write_bytes(wtns(values).file())
    damaged = setup(MIXED)
    octets = bytearray(damaged.payloads[9])
    octets[:64] = damaged.payloads[9][64:128]  # another point: on the curve, and wrong
    damaged.payloads[9] = bytes(octets)
    (tmp_path / "damaged.zkey").write_bytes(damaged.file())
    with R1cs.open(tmp_path / "c.r1cs") as r1cs:
        with Witness.open(tmp_path / "bad.wtns") as bad, pytest.raises(ProofRejected, match="constraint 0 of 3"):
            check_witness(r1cs, bad)
        with Witness.open(tmp_path / "good.wtns") as good, ZKey.open(tmp_path / "damaged.zkey") as key:
            check_witness(r1cs, good)
            with pytest.raises(ProofRejected, match="the pairing equation does not hold"):
                prove(key, good, host)


def test_rows_24_35_a_command_ends_and_leaves_nothing_behind(tmp_path: Path, keys: list[tuple[ZKey, Witness]]) -> None:
    """The key is not writable, the working folder is empty before, and holds the two outputs after."""
    key, witness = keys[0]
    here = tmp_path / "here"
    here.mkdir()
    files = ["--zkey", key.path, "--wtns", witness.path, "--proof", "p.json", "--public", "s.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "cli.main", "prove", *files], cwd=here, env=environment, check=True, timeout=120
    )
    assert sorted(path.name for path in here.iterdir()) == ["p.json", "s.json"]


R1CS = r1cs_file(MIXED, BN254)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_mutated_constraints_are_refused_or_still_constraints(
    tmp_path_factory: pytest.TempPathFactory, host: HostBackend, data: st.DataObject
) -> None:
    octets = bytearray(R1CS)
    match data.draw(st.sampled_from(["flip", "truncate", "huge"])):
        case "flip":
            octets[data.draw(st.integers(0, len(octets) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        case "truncate":
            del octets[data.draw(st.integers(0, len(octets) - 1)) :]
        case _:
            at = data.draw(st.integers(0, len(octets) - 4))
            octets[at : at + 4] = b"\xff\xff\xff\xff"
    folder = tmp_path_factory.mktemp("mutated")
    (folder / "c.r1cs").write_bytes(octets)
    try:
        with R1cs.open(folder / "c.r1cs") as r1cs:
            if r1cs.n_wires < 1 << 16:
                setup_unsafe(r1cs, folder / "k.zkey", host)
    except (MalformedFile, Mismatch) as error:
        sentence = str(error)
    else:
        return
    assert "c.r1cs" in sentence
