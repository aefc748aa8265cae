"""Damaged files, all the way through the prover: how each is damaged, and how proving with it ends."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernels.curves import Curve
from prover.backends.base import Backend
from prover.check import check_witness
from prover.errors import MalformedFile, Mismatch, ProofRejected
from prover.formats.r1cs import R1cs, check_belongs
from prover.formats.snarkjson import Proof, VerifyingKey, vkey_from_zkey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.setup import setup_unsafe
from prover.verify import verify
from tests.prover.r1cs_writer import r1cs_file, wtns_file
from tests.prover.toy import MIXED, mixed_witness

Kind = Literal["zkey", "wtns", "r1cs"]
KINDS: tuple[Kind, ...] = ("zkey", "wtns", "r1cs")
ABSURD = (0, 1, 2, 1 << 16, 1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
"""What is written in place of every count."""


@dataclass(frozen=True)
class Bundle:
    """Good files of one circuit, and what they say."""

    folder: Path
    curve: Curve
    files: dict[Kind, bytes]
    vkey: VerifyingKey
    public: list[int]

    @classmethod
    def make(cls, folder: Path, curve: Curve, backend: Backend) -> "Bundle":
        """Write the files into a folder."""
        values = mixed_witness(curve=curve)
        files: dict[Kind, bytes] = {"r1cs": r1cs_file(MIXED, curve), "wtns": wtns_file(values, curve)}
        (folder / "good.r1cs").write_bytes(files["r1cs"])
        with R1cs.open(folder / "good.r1cs") as r1cs:
            setup_unsafe(r1cs, folder / "good.zkey", backend)
        files["zkey"] = (folder / "good.zkey").read_bytes()
        with ZKey.open(folder / "good.zkey") as zkey:
            vkey = vkey_from_zkey(zkey)
        return cls(folder, curve, files, vkey, values[1 : MIXED.n_public + 1])

    def outcome(self, kind: Kind, data: bytes, backend: Backend) -> str:
        """Prove with one file replaced; return how it ended, after checking that it may end so.

        A file with a byte changed that nothing depends on (a label, the point of a wire that is zero) yields a proof,
        and that proof must be one of the statement it was for.
        """
        for name in KINDS:
            path = self.folder / f"f.{name}"
            path.unlink(missing_ok=True)  # never shorten what is mapped
            path.write_bytes(data if name == kind else self.files[name])
        try:
            proof = self._use(kind, backend)
        except (MalformedFile, Mismatch, ProofRejected) as error:
            return self._checked(kind, error)
        if proof is not None:
            assert verify(self.vkey, self.public, proof), "a proof of another statement"
        return "proof"

    def _use(self, kind: Kind, backend: Backend) -> Proof | None:
        """Do with the files what they are for; a constraint system makes a key."""
        with (
            ZKey.open(self.folder / "f.zkey") as zkey,
            Witness.open(self.folder / "f.wtns") as witness,
            R1cs.open(self.folder / "f.r1cs") as r1cs,
        ):
            check_belongs(r1cs, witness=witness, zkey=zkey)
            check_witness(r1cs, witness)
            if kind != "r1cs":
                return prove(zkey, witness, backend).proof
            setup_unsafe(r1cs, self.folder / "made.zkey", backend)
            return None

    def _checked(self, kind: Kind, error: MalformedFile | Mismatch | ProofRejected) -> str:
        """Return an error's name; it names the damaged file, and where in it, in one sentence."""
        said = str(error)
        assert f"f.{kind}: " in said or f"f.{kind} " in said, said
        assert "\n" not in said
        if isinstance(error, MalformedFile):
            assert error.path == str(self.folder / f"f.{kind}")
            assert error.field or "header alone" in error.problem, said
        expected = {MalformedFile: 2, Mismatch: 3, ProofRejected: 4}
        assert error.exit_code == expected[type(error)]
        return type(error).__name__


def sections(data: bytes) -> list[tuple[int, int, int]]:
    """Return each section's id, the offset of its header, and its size."""
    (count,) = struct.unpack_from("<I", data, 8)
    found, position = [], 12
    for _ in range(count):
        ident, size = struct.unpack_from("<IQ", data, position)
        found.append((ident, position, size))
        position += 12 + size
    return found


def put(data: bytes, at: int, octets: bytes) -> bytes:
    """Return ``data`` with some bytes replaced."""
    return data[:at] + octets + data[at + len(octets) :]


def structural(kind: Kind, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield files damaged where their structure is: every header's every byte, every count, every border."""
    table = sections(data)
    for at in [*range(12), *(start + i for _, start, _ in table for i in range(12))]:
        for mask in (0x01, 0x80, 0xFF):
            yield f"byte {at} xor {mask:#x}", put(data, at, bytes((data[at] ^ mask,)))
    for ident, start, size in table:
        for at in {start, start + 1, start + 12, start + 12 + size // 2, start + 12 + size - 1}:
            yield f"cut at {at}", data[:at]
        yield (
            f"section {ident} missing",
            data[:8] + struct.pack("<I", len(table) - 1) + data[12:start] + (data[start + 12 + size :]),
        )
        yield (
            f"section {ident} twice",
            data[:8] + struct.pack("<I", len(table) + 1) + data[12:] + (data[start : start + 12 + size]),
        )
        yield f"section {ident} one byte longer", _resized(data, start, size, size + 1)
        if size:
            yield f"section {ident} one byte shorter", _resized(data, start, size, size - 1)
            yield f"section {ident} empty", _resized(data, start, size, 0)
    for place in counts(kind, data):
        for value in ABSURD:
            yield f"count at {place} is {value}", put(data, place, struct.pack("<I", value))


def _resized(data: bytes, start: int, old: int, new: int) -> bytes:
    payload = (data[start + 12 : start + 12 + old] + b"\0")[:new]
    return put(data, start + 4, struct.pack("<Q", new))[: start + 12] + payload + data[start + 12 + old :]


def counts(kind: Kind, data: bytes) -> list[int]:
    """Return where numbers that decide about sizes stand."""
    at = {ident: start + 12 for ident, start, _ in sections(data)}
    if kind == "wtns":
        return [at[1], at[1] + 36]
    if kind == "r1cs":
        header = at[1] + 36
        return [at[1], *(header + offset for offset in (0, 4, 8, 12, 16, 20, 24)), at[2]]
    (n8q,) = struct.unpack_from("<I", data, at[2])
    after = at[2] + 4 + n8q + 4 + 32
    return [
        at[1],
        at[2],
        at[2] + 4 + n8q,
        after,
        after + 4,
        after + 8,
        at[4],
        at[4] + 4,
        at[4] + 8,
        at[4] + 12,
        at[10] + 64,
    ]


def flips(data: bytes, step: int, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield files with one byte changed, every ``step``-th one."""
    for at in range(first, len(data), step):
        yield f"byte {at}", put(data, at, bytes((data[at] ^ 1 << (at * 5 % 8),)))
