"""Every shape of circuit with every kind of key of a ceremony, on both curves: what snarkjs made of our constraints.

What snarkjs made is kept in ``build/oracle``; see ``tests.oracle.circuits``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernels.curves import CURVES, Curve
from tests.oracle.circuits import cached, repeated_terms, without_section
from tests.oracle.steps import ROOT, Steps, powers_of_tau
from tests.prover.r1cs_writer import r1cs_file, wtns_file
from tests.prover.shapes import shapes

POWER: Final = 5
"""Of the ceremonies: rows are fewer than 2^5."""
KEYS: Final = ("fresh", "contributed", "beacon", "nine sections", "tau one")
RECIPE: Final = b"1"
"""Raised when the steps below change, so that nothing old is taken from the cache."""


@dataclass(frozen=True)
class Entry:
    """One circuit, one witness, one kind of key.

    Attributes:
        curve: the curve.
        shape: what is special about the circuit.
        key: one of ``KEYS``.
        r1cs: the constraints' file.
        values: the witness.
    """

    curve: Curve
    shape: str
    key: str
    r1cs: bytes
    values: list[int]

    @property
    def name(self) -> str:
        """Return a name for a folder."""
        return f"{self.curve.ident} {self.shape} {self.key}".replace(" ", "-").replace(",", "")


def entries() -> Iterator[Entry]:
    """Yield the matrix: each shape with two kinds of key, and the dense one with all."""
    for curve in CURVES:
        found = shapes(curve, log2_chain=POWER)
        files = {name: (r1cs_file(circuit, curve), values) for name, (circuit, values) in found.items()}
        files["repeated terms in a sum"] = repeated_terms(curve)
        for number, (shape, (octets, values)) in enumerate(files.items()):
            kinds = KEYS if shape == "dense" else (KEYS[number % 4], *(KEYS[4:] if number % 2 else ()))
            for kind in kinds:
                yield Entry(curve, shape, kind, octets, values)


def make(matrix: list[Entry]) -> Path:
    """Return a folder with a folder for each entry, from the cache or made now.

    An entry's: ``k.zkey``, ``w.wtns``, snarkjs's ``vkey.json``, ``proof.json`` and ``public.json``.
    """
    origin = [(ROOT / "package-lock.json").read_bytes(), RECIPE]
    for entry in matrix:
        origin += [entry.name.encode(), entry.r1cs, repr(entry.values).encode()]
    return cached("matrix", origin, lambda folder: _fill(folder, matrix))


def _fill(folder: Path, matrix: list[Entry]) -> None:
    steps = Steps()
    ceremonies = {}
    for curve in CURVES:
        for is_one in (False, True):
            own = folder / f"powers-{curve.ident}{'-tau-one' if is_one else ''}"
            own.mkdir()
            ceremonies[curve, is_one] = powers_of_tau(steps, curve.name, POWER, own, tau_one=is_one)
    for entry in matrix:
        own = folder / entry.name
        own.mkdir()
        (own / "c.r1cs").write_bytes(entry.r1cs)
        (own / "w.wtns").write_bytes(wtns_file(entry.values, entry.curve))
        fresh, key, said = own / "fresh.zkey", own / "k.zkey", own / "said.json"
        steps.add("zKey.newZKey", own / "c.r1cs", ceremonies[entry.curve, entry.key == "tau one"], fresh, out=said)
        if entry.key == "contributed":
            steps.add("zKey.contribute", fresh, key, "x", "test only", out=said)
        elif entry.key == "beacon":
            steps.add("zKey.beacon", fresh, key, "x", "01" * 32, 10, out=said)
    steps.run()
    for entry in matrix:
        own = folder / entry.name
        if not (own / "k.zkey").exists():
            (own / "fresh.zkey").rename(own / "k.zkey")
        if entry.key == "nine sections":
            (own / "k.zkey").write_bytes(without_section((own / "k.zkey").read_bytes(), 10))
        steps.add("zKey.exportVerificationKey", own / "k.zkey", out=own / "vkey.json")
        steps.add("groth16.prove", own / "k.zkey", own / "w.wtns", out=own / "theirs.json")
    steps.run()
