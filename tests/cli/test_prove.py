"""``provewire prove`` as a process: what it leaves, and what it says of files that are no good."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernels.curves import BLS12_381, BN254
from prover import circuits
from prover.backends import open_backend
from prover.formats.snarkjson import proof_from_json, public_from_json, public_to_json, vkey_from_json
from prover.formats.wtns import Witness
from prover.verify import verify
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, Sections, mixed_witness, setup, wtns

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60
ADDRESS_SPACE_KIB = 2 * 1024 * 1024
"""Room for the interpreter and its libraries; a count believed before it is checked would need far more."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Files:
    """Where one call reads and writes."""

    folder: Path

    @property
    def proof(self) -> Path:
        return self.folder / "proof.json"

    @property
    def public(self) -> Path:
        return self.folder / "public.json"

    def prove(self, zkey: Path | bytes, witness: Path | bytes, *options: str) -> Ended:
        """Run the command in a process of its own under a limit of memory and time."""
        if isinstance(zkey, bytes):
            (self.folder / "given.zkey").write_bytes(zkey)
            zkey = self.folder / "given.zkey"
        if isinstance(witness, bytes):
            (self.folder / "given.wtns").write_bytes(witness)
            witness = self.folder / "given.wtns"
        command = [sys.executable, "-m", "cli.main", "prove", "--device", "host"]
        command += ["--zkey", str(zkey), "--wtns", str(witness)]
        command += ["--proof", str(self.proof), "--public", str(self.public), *options]
        done = subprocess.run(
            ["/bin/sh", "-c", f'ulimit -v {ADDRESS_SPACE_KIB} && exec "$@"', "sh", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            # Each thread of the device's pool reserves a stack: not what is measured here.
            env={**os.environ, "OMP_NUM_THREADS": "2"},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def refuses(self, zkey: Path | bytes, witness: Path | bytes, code: int, *parts: str) -> None:
        """Check that a call ends with one sentence that holds all parts, and leaves nothing."""
        ended = self.prove(zkey, witness)
        assert ended.code == code, ended.err
        lines = ended.err.strip().splitlines()
        assert len(lines) == 1, ended.err
        assert lines[0].startswith("provewire: ")
        assert "Traceback" not in ended.err
        assert ended.out == ""
        for part in parts:
            assert part in lines[0]
        left = {path.name for path in self.folder.iterdir()}
        assert left <= {"given.zkey", "given.wtns"}


@pytest.fixture(scope="module")
def _built_device() -> None:
    """Build the host device before memory is limited: the compiler needs more than the prover."""
    with open_backend("host"):
        pass


@pytest.fixture
def files(tmp_path: Path, _built_device: None) -> Files:
    return Files(tmp_path)


ZKEY, WTNS = circuits.ZKEY, circuits.WITNESS


def test_a_proof_and_its_public_signals_are_left(files: Files) -> None:
    ended = files.prove(ZKEY, WTNS)
    assert (ended.code, ended.err) == (0, "")
    assert "proved and verified in" in ended.out
    with Witness.open(WTNS) as witness:
        public = witness.public(2)
    assert files.public.read_text() == public_to_json(public)
    vkey = vkey_from_json(circuits.VERIFICATION_KEY.read_bytes())
    assert verify(vkey, public_from_json(files.public.read_bytes()), proof_from_json(files.proof.read_bytes()))
    assert {path.name for path in files.folder.iterdir()} == {"proof.json", "public.json"}
    # As any output of a command: the umask decides who may read, not the mode of a temporary file.
    umask = os.umask(0)
    os.umask(umask)
    assert files.proof.stat().st_mode & 0o777 == 0o666 & ~umask


def test_times_are_told_as_json(files: Files) -> None:
    ended = files.prove(setup(MIXED).file(), wtns(mixed_witness()).file(), "--json")
    assert ended.code == 0
    told = json.loads(ended.out)
    assert told["proof"] == str(files.proof)
    assert told["device"] == "host"
    assert set(told["timings_ms"]) >= {"transforms", "verify"}
    assert sum(told["timings_ms"].values()) <= told["elapsed_ms"]


def test_two_proofs_of_one_statement_differ(files: Files) -> None:
    """Blinding is new each time: equal proofs would tell that the witness was the same."""
    key, witness = setup(MULTIPLY).file(), wtns(MULTIPLY_WITNESS).file()
    files.prove(key, witness)
    first = files.proof.read_bytes()
    files.prove(key, witness)
    assert files.proof.read_bytes() != first


# --- the files are no good -------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.00001, 0.0005, 0.01, 0.3, 0.9999])
def test_truncated_zkey(files: Files, share: float) -> None:
    data = ZKEY.read_bytes()
    files.refuses(data[: int(len(data) * share)], WTNS, 2, "given.zkey: ")


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.5, 0.9999])
def test_truncated_wtns(files: Files, share: float) -> None:
    data = WTNS.read_bytes()
    files.refuses(ZKEY, data[: int(len(data) * share)], 2, "given.wtns: ")


def test_random_zkey_and_wtns(files: Files) -> None:
    noise = random.Random(1).randbytes(100_000)
    files.refuses(noise, WTNS, 2, "given.zkey: magic: ")
    files.refuses(ZKEY, noise, 2, "given.wtns: magic: ")
    files.refuses(b"zkey\1\0\0\0\x0a\0\0\0" + noise, WTNS, 2, "given.zkey: section header 1 of 10: ")
    files.refuses(ZKEY, b"wtns\2\0\0\0\2\0\0\0" + noise, 2, "given.wtns: section header 1 of 2: ")


def test_wrong_curve_zkey_and_wtns(files: Files) -> None:
    files.refuses(setup(MULTIPLY, curve=BLS12_381).file(), WTNS, 3, "given.zkey: prime: ", "BLS12-381")
    files.refuses(ZKEY, wtns([1, 2], prime=BLS12_381.r).file(), 3, "given.wtns", "prime: ", "BLS12-381")


def test_wrong_circuit(files: Files) -> None:
    files.refuses(setup(MULTIPLY).file(), WTNS, 3, "given.zkey", "merkle8.wtns", "number of values", "1948", "4 wires")


def test_wrong_proof_system(files: Files) -> None:
    plonk = Sections({**setup(MULTIPLY).payloads, 1: struct.pack("<I", 2)}).file()
    files.refuses(plonk, WTNS, 3, "given.zkey: section 1 (protocol): ", "plonk")


def test_files_in_each_others_place(files: Files) -> None:
    files.refuses(WTNS, ZKEY, 2, "merkle8.wtns: magic: ")


def test_counts_beyond_all_memory(files: Files) -> None:
    """A header that claims 2^28 wires, or a table of 2^32 sections, costs nothing."""
    payload = bytearray(setup(MULTIPLY).payloads[2])
    payload[72:84] = struct.pack("<III", 1 << 28, 0, 1 << 28)
    huge = Sections({**setup(MULTIPLY).payloads, 2: bytes(payload)}).file()
    files.refuses(huge, WTNS, 2, "given.zkey: section 5 (A points): ", "268435456 points")
    files.refuses(ZKEY, wtns([1], count=1 << 28).file(), 2, "given.wtns: section 2 (values): ")
    files.refuses(b"zkey\1\0\0\0\xff\xff\xff\xff", WTNS, 2, "given.zkey: number of sections: ")


def test_what_is_no_file(files: Files) -> None:
    fifo = files.folder / "given.zkey"
    os.mkfifo(fifo)
    files.refuses(fifo, WTNS, 2, "given.zkey: is not a regular file")
    files.refuses(Path("/dev/zero"), WTNS, 2, "/dev/zero: is not a regular file")
    files.refuses(ROOT, WTNS, 2, "is not a regular file")
    files.refuses(ZKEY, files.folder / "absent.wtns", 2, "absent.wtns: cannot be opened: No such file or directory")


def test_an_index_out_of_range_reaches_no_kernel(files: Files) -> None:
    data = bytearray(setup(MULTIPLY).file())
    at = data.index(setup(MULTIPLY).payloads[4]) + 4 + 8
    data[at : at + 4] = b"\xff\xff\xff\x7f"
    files.refuses(bytes(data), wtns(MULTIPLY_WITNESS).file(), 2, "section 4 (coefficients), signal: of record 0")


# --- the witness is no good ------------------------------------------------------------------------------------


def test_witness_that_does_not_satisfy_the_circuit(files: Files) -> None:
    octets = bytearray(WTNS.read_bytes())
    octets[-32] ^= 1
    files.refuses(ZKEY, bytes(octets), 4, "given.wtns", "does not verify")


@pytest.mark.parametrize("wire", [1, 2, 3, 6])
def test_every_wire_counts(files: Files, wire: int) -> None:
    values = mixed_witness()
    values[wire] = (values[wire] + 1) % BN254.r
    files.refuses(setup(MIXED).file(), wtns(values).file(), 4, "given.wtns", "does not verify")


def test_a_damaged_point_of_the_key_yields_no_proof(files: Files) -> None:
    """Any coordinate below the modulus is taken: the proof's own check finds that the key is damaged."""
    data = bytearray(setup(MIXED).file())
    at = data.index(setup(MIXED).payloads[9])
    data[at] ^= 1
    files.refuses(bytes(data), wtns(mixed_witness()).file(), 4, "given.zkey", "does not verify")


def test_earlier_outputs_stay_when_a_proof_fails(files: Files) -> None:
    files.proof.write_text("earlier")
    ended = files.prove(ZKEY, wtns([1]).file())
    assert (ended.code, files.proof.read_text()) == (3, "earlier")


# --- the places to write are no good ---------------------------------------------------------------------------


def usage(files: Files, *options: str) -> str:
    """Return the sentence of a call that cannot be meant."""
    ended = files.prove(ZKEY, WTNS, *options)
    assert ended.code == 64
    assert not files.proof.exists()
    return ended.err


def test_outputs_that_would_fail_or_destroy_are_refused_before_the_work(files: Files) -> None:
    mine = files.folder / "mine.zkey"
    shutil.copyfile(ZKEY, mine)
    os.mkfifo(files.folder / "fifo")
    assert "does not exist" in usage(files, "--public", str(files.folder / "no" / "public.json"))
    assert "as well" in usage(files, "--public", str(files.proof))
    assert "as well" in usage(
        files, "--zkey", str(files.folder / "mine.zkey"), "--proof", str(files.folder / "mine.zkey")
    )
    assert "not a regular file" in usage(files, "--proof", str(files.folder))
    assert "not a regular file" in usage(files, "--proof", str(files.folder / "fifo"))
    assert mine.read_bytes() == ZKEY.read_bytes()


def test_a_link_is_followed_not_replaced(files: Files) -> None:
    (files.folder / "real").mkdir()
    files.proof.symlink_to(files.folder / "real" / "p.json")
    assert files.prove(setup(MULTIPLY).file(), wtns(MULTIPLY_WITNESS).file()).code == 0
    assert files.proof.is_symlink()
    proof_from_json((files.folder / "real" / "p.json").read_bytes())


def test_a_device_that_is_not_there_is_one_sentence(files: Files) -> None:
    ended = files.prove(ZKEY, WTNS, "--device", "quantum:7")
    assert ended.code in {5, 64}
    assert len(ended.err.strip().splitlines()) == 1
    assert not files.proof.exists()
