"""Circuits of a size for benches: constraint system, witness and test key as files, dense or of bits as a hash's."""

import struct
from pathlib import Path
from random import Random

from kernels.curves import Curve
from prover.backends.host import HostBackend
from prover.formats.r1cs import R1cs
from prover.setup import setup_unsafe

INPUTS = 4


def container(magic: bytes, version: int, sections: list[tuple[int, bytes]]) -> bytes:
    """A sectioned file."""
    body = b"".join(struct.pack("<IQ", ident, len(payload)) + payload for ident, payload in sections)
    return struct.pack("<4sII", magic, version, len(sections)) + body


def write_circuit(folder: Path, curve: Curve, log2_domain: int, *, bits: bool) -> tuple[Path, Path]:
    """Write ``c.r1cs``, ``w.wtns`` and ``k.zkey`` of a circuit that fills a domain; return key and witness.

    Dense: random wires, two terms in A and B. Bits: wires of 0 and 1, a third of the rows an exclusive or, the others
    with the constant in B, which leaves most of B's points infinity: as circomlib's SHA-256 is.
    """
    random, r = Random(log2_domain), curve.r
    one, two, minus_one = (value.to_bytes(32, "little") for value in (1, 2, r - 1))
    values = [1, *(random.randrange(2 if bits else r) for _ in range(INPUTS))]
    factors = [random.randrange(r) for _ in range(8)]
    packed = [factor.to_bytes(32, "little") for factor in factors]
    pack = struct.pack
    rows = []
    count = (1 << log2_domain) - 2
    for number in range(count):
        i, j, k = (random.randrange(1, len(values)) for _ in range(3))
        out = pack("<II", 1, len(values)) + one
        if not bits:
            f = number % 8
            left = pack("<II", 2, i) + packed[f] + pack("<I", k) + one if i != k else pack("<II", 1, i) + packed[f]
            a = factors[f] * values[i] + (values[k] if i != k else 0)
            rows.append(left + pack("<II", 2, j) + one + pack("<I", 0) + one + out)
            values.append(a * (values[j] + 1) % r)
        elif number % 3 == 0:  # out = i xor j, as 2 i j = i + j - out
            both = pack("<II", 2, i) + one + pack("<I", j) + one if i != j else pack("<II", 1, i) + two
            minus_out = pack("<I", len(values)) + minus_one
            terms = pack("<I", 3 if i != j else 2) + both[4:] + minus_out
            rows.append(pack("<II", 1, i) + two + pack("<II", 1, j) + one + terms)
            values.append(values[i] ^ values[j])
        else:
            rows.append(pack("<II", 1, i) + one + pack("<II", 1, 0) + one + out)
            values.append(values[i])
    field = pack("<I", 32) + r.to_bytes(32, "little")
    header = field + pack("<IIIIQI", len(values), 0, 1, INPUTS - 1, len(values), count)
    witness = b"".join(value.to_bytes(32, "little") for value in values)
    (folder / "c.r1cs").write_bytes(container(b"r1cs", 1, [(1, header), (2, b"".join(rows))]))
    (folder / "w.wtns").write_bytes(container(b"wtns", 2, [(1, field + pack("<I", len(values))), (2, witness)]))
    with R1cs.open(folder / "c.r1cs") as r1cs, HostBackend() as backend:
        setup_unsafe(r1cs, folder / "k.zkey", backend)
    return folder / "k.zkey", folder / "w.wtns"
