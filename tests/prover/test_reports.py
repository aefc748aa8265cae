"""What other provers were reported for, each as a test of what ours does: rows of the table in docs/prover.md."""

import json
import os
import resource
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

import psutil
import pytest

from hub.config import Config, ConfigError
from kernels.curves import BLS12_381, BN254, Curve
from kernels.reference.group import group1
from prover import setup as setting_up
from prover.backends.base import Buffer, Scope
from prover.backends.host import HostBackend
from prover.check import check_witness
from prover.errors import ProofRejected
from prover.formats.points import g1_to_bytes
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import proof_to_json, vkey_from_zkey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.native import address_of, native
from prover.setup import setup_unsafe
from prover.verify import verify
from tests.prover.r1cs_writer import chain, r1cs_file, wtns_file
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, Circuit, mixed_witness, setup, wtns

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


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda curve: curve.ident)
def test_row_7_indices_near_two_to_the_31(tmp_path: Path, host: HostBackend, curve: Curve) -> None:
    """Three points in a file of 128 GiB, the rest of it a hole: products of an index have 64 bits."""
    size, factors = curve.g1_bytes, {5: 7, (1 << 27) + 3: 11, (1 << 31) - 2: 13}
    with (tmp_path / "points").open("wb") as made:
        made.truncate(size << 31)
        for index, factor in factors.items():
            os.pwrite(made.fileno(), g1_to_bytes(curve, group1(curve).multiply(curve.g1, factor)), index * size)
    window_bits, negative = 5, 1 << 31
    entries = array("I", [index | (negative if factor == 11 else 0) for index, factor in factors.items()])
    ends = array("I", [len(entries)] * (1 << (window_bits - 1)))  # all of them in the first bucket
    with (
        (tmp_path / "points").open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as mapped,
        Scope(host) as own,
    ):
        out = own.allocate(size)
        native(curve).call(
            "g1_sum",
            *(address_of(memoryview(mapped)), 0, 1 << 31, len(entries), 0, window_bits, 1),
            *(own.uploaded(entries.tobytes()).address, own.uploaded(ends.tobytes()).address, out.address, 2),
        )
        found = host.download(out, 0, size)
    assert found == g1_to_bytes(curve, group1(curve).multiply(curve.g1, 7 - 11 + 13))


class PeakHost(HostBackend):
    """The host, with the most memory that was taken at once."""

    def __init__(self) -> None:
        super().__init__(files=("counters",))
        self.live_bytes = self.peak_bytes = 0

    def allocate(self, nbytes: int) -> Buffer:
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return super().allocate(nbytes)

    def release(self, buffer: Buffer) -> None:
        self.live_bytes -= buffer.nbytes if buffer.address else 0
        super().release(buffer)


def test_row_23_setup_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is that of the wires' sums, a third of the key, whatever else the key holds."""
    monkeypatch.setattr(setting_up, "CHUNK_POINTS", 256)
    monkeypatch.setattr(setting_up, "CHUNK_RECORDS", 256)
    circuit, _ = chain(11, BN254, bits=False)
    (tmp_path / "c.r1cs").write_bytes(r1cs_file(circuit, BN254))
    with R1cs.open(tmp_path / "c.r1cs") as r1cs, PeakHost() as backend:
        setup_unsafe(r1cs, tmp_path / "k.zkey", backend)
    assert backend.live_bytes == 0
    assert backend.peak_bytes < 150 * 2**11 < (tmp_path / "k.zkey").stat().st_size / 3


def test_row_23_a_constraint_may_have_more_terms_than_a_chunk(
    tmp_path: Path, host: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sums over a whole circuit do once its linear constraints have been folded into each other."""
    monkeypatch.setattr(setting_up, "CHUNK_RECORDS", 8)
    r, wires = BN254.r, 50
    everything = {wire: wire for wire in range(1, wires)}
    values = [1, *range(2, wires + 1), 0]
    total = sum(wire * values[wire] for wire in range(1, wires))
    values[wires] = total * total % r
    circuit = Circuit(wires + 1, 1, [({1: 1}, {0: 1}, {1: 1}), (everything, everything, {wires: 1})])
    (tmp_path / "c.r1cs").write_bytes(r1cs_file(circuit, BN254))
    (tmp_path / "w.wtns").write_bytes(wtns_file(values, BN254))
    with R1cs.open(tmp_path / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, tmp_path / "k.zkey", host)
    with ZKey.open(tmp_path / "k.zkey") as key, Witness.open(tmp_path / "w.wtns") as witness:
        assert key.n_coefficients == 2 + 2 * (wires - 1) + 2
        prove(key, witness, host)


def test_row_34_a_proof_on_the_cpu_imports_nothing_of_a_card(tmp_path: Path, keys: list[tuple[ZKey, Witness]]) -> None:
    key, witness = keys[0]
    files = ["--zkey", key.path, "--wtns", witness.path, "--proof", "p.json", "--public", "s.json"]
    program = (
        "import sys; from cli.main import main; code = main(sys.argv[1:]); "
        "sys.exit(code or bool([name for name in sys.modules if 'cuda' in name.lower() and 'prover' not in name]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", program, "prove", "--device", "host", *files]
    subprocess.run(argv, cwd=tmp_path, env=environment, check=True, timeout=120)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", False), ("false", False), ("off", False), ("1", True), ("yes", True), ("maybe", None)]
)
def test_row_13_switches_in_the_environment_are_read_by_value(text: str, expected: bool | None) -> None:  # noqa: FBT001
    """What is set to 0 is off; a word that is neither is an error, not a yes."""
    environment = {"PROVEWIRE_LISTEN": "127.0.0.1:1", "PROVEWIRE_ALLOW_UNSAFE": text}
    if expected is None:
        with pytest.raises(ConfigError, match="ALLOW_UNSAFE"):
            Config.load({}, environment)
    else:
        assert Config.load({}, environment).allow_unsafe is expected
