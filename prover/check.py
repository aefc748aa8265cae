"""The whole check of a proving key or a witness, for whoever asks: slower than what opening a file checks."""

from prover.backends.build import build_sources
from prover.errors import MalformedFile, ProofRejected, printable
from prover.formats.container import section_field
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import vkey_from_zkey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.native import address_of, native, native_source
from prover.pairing import base_field_bytes

_MALFORMED = (1 << 64) - 1


def check_points(zkey: ZKey, threads: int = 1) -> None:
    """Check that every point of a key lies on its curve, and the fixed ones and IC in their groups.

    Args:
        zkey: the key.
        threads: CPU threads to use.

    Raises:
        MalformedFile: a point does not; the section and its number are named.
        DeviceError: the native functions cannot be built.
    """
    curve = zkey.curve
    build_sources((native_source(curve),))
    vkey_from_zkey(zkey)
    functions = native(curve)
    first, second = base_field_bytes(curve, curve.b1), base_field_bytes(curve, *curve.b2)
    for ident, name, points, group in (
        (5, "A points", zkey.points_a, "g1"),
        (6, "B1 points", zkey.points_b1, "g1"),
        (7, "B2 points", zkey.points_b2, "g2"),
        (8, "C points", zkey.points_c, "g1"),
        (9, "H points", zkey.points_h, "g1"),
    ):
        size, b = (curve.g1_bytes, first) if group == "g1" else (curve.g2_bytes, second)
        count = len(points) // size
        wrong = functions.call(f"{group}_first_off_curve", address_of(points), count, b, threads)
        if wrong < count:
            raise MalformedFile(zkey.path, section_field(ident, name), f"point {wrong} does not lie on the curve")


def check_witness(r1cs: R1cs, witness: Witness) -> None:
    """Check that a witness satisfies a circuit.

    Args:
        r1cs: the constraints, of as many wires as the witness has values.
        witness: the values.

    Raises:
        MalformedFile: a constraint is malformed.
        ProofRejected: a constraint is violated; its number is named.
        DeviceError: the native functions cannot be built.
    """
    violated = native(r1cs.curve).call(
        "first_violated",
        address_of(r1cs.constraints),
        len(r1cs.constraints),
        r1cs.n_constraints,
        r1cs.n_wires,
        address_of(witness.values),
    )
    if violated == _MALFORMED:
        raise r1cs.malformed_terms()
    if violated < r1cs.n_constraints:
        raise ProofRejected(
            f"{printable(witness.path)}: the witness does not satisfy the circuit {printable(r1cs.path)}: constraint "
            f"{violated} of {r1cs.n_constraints}, counted from 0, is violated; nothing was proved"
        )
