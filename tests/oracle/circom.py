"""Circuits of circom's library over either curve, and their witnesses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernels.curves import BN254, Curve
from prover.formats.wtns import Witness
from tests.oracle import eddsa
from tests.oracle.circuits import CIRCOM, CIRCOMLIB, ROOT, SOURCES, cached, node
from tests.oracle.steps import Steps, powers_of_tau

CEREMONY_DEADLINE_S: Final = 1500
CEREMONY_POWERS: Final = {"bn254": 11, "bls12381": 10}
"""As large as snarkjs prepares in minutes; what is larger is set up by us."""
RECIPE: Final = b"1"

Inputs = Mapping[str, object]


@dataclass(frozen=True)
class Compiled:
    """A circuit over one curve."""

    name: str
    curve: Curve
    folder: Path

    @property
    def r1cs(self) -> Path:
        """Return the constraints' file."""
        return self.folder / f"{self.name}.r1cs"

    def witness(self, inputs: Mapping[str, object], path: Path) -> Path:
        """Compute a witness, which snarkjs checks against the constraints; return its place."""
        steps = Steps()
        program = self.folder / f"{self.name}_js" / f"{self.name}.wasm"
        steps.add("wtns.calculate", dict(inputs), program, path, out=path.with_suffix(".said"))
        steps.add("wtns.check", self.r1cs, path)
        if steps.run() != [True]:
            raise RuntimeError(f"{self.name}: snarkjs says that the witness does not satisfy the constraints")
        return path


def compiled(name: str, curve: Curve) -> Compiled:
    """Return a circuit of ``sources``, from the cache or compiled now."""
    origin = [(ROOT / "package-lock.json").read_bytes(), (SOURCES / f"{name}.circom").read_bytes(), RECIPE]

    def fill(folder: Path) -> None:
        source, output = (SOURCES / f"{name}.circom").relative_to(ROOT), folder.relative_to(ROOT)
        node(CIRCOM, source, "--r1cs", "--wasm", "--O2", "--prime", curve.name, "-l", CIRCOMLIB, "-o", output)

    return Compiled(name, curve, cached(f"{name}-{curve.ident}", origin, fill))


def ceremony(curve: Curve) -> Path:
    """Return powers of tau of ``CEREMONY_POWERS``, prepared, from the cache or made now."""
    power = CEREMONY_POWERS[curve.ident]

    def fill(folder: Path) -> None:
        steps = Steps(CEREMONY_DEADLINE_S)
        powers_of_tau(steps, curve.name, power, folder)
        steps.run()

    return cached(f"powers-{curve.ident}-{power}", [RECIPE], fill) / "final.ptau"


def ceremony_key(circuit: Compiled, key: Path) -> None:
    """Leave a key of the ceremony, with a contribution."""
    steps = Steps()
    fresh, said = key.with_suffix(".fresh"), key.with_suffix(".said")
    steps.add("zKey.newZKey", circuit.r1cs, ceremony(circuit.curve), fresh, out=said)
    steps.add("zKey.contribute", fresh, key, "x", "test only", out=said)
    steps.run()


def signature(circuit: Compiled, folder: Path) -> Inputs:
    """Return inputs of the signature's circuit.

    Over BLS12-381 the library's curve is no curve and nothing can be signed: there the check is switched off, and the
    circuit is as large and its witness as dense. The message is one whose hash has 254 bits, as the library asks.
    """

    def challenge(inputs: Mapping[str, object]) -> int:
        with Witness.open(circuit.witness(inputs, folder / "unsigned.wtns")) as witness:
            return witness.value(1)

    if circuit.curve == BN254:
        return eddsa.signed(42, challenge)
    key, r8 = eddsa.multiply(eddsa.BASE, 5), eddsa.multiply(eddsa.BASE, 7)
    return {"key": list(map(str, key)), "r8": list(map(str, r8)), "message": "1", "enabled": 0, "s": "123456789"}


INPUTS: Final[dict[str, Callable[[Compiled, Path], Inputs]]] = {
    "hash": lambda circuit, _: {"left": str(circuit.curve.r - 1), "right": "0"},
    "mimc2": lambda circuit, _: {"in": ["7", str(circuit.curve.r - 2)], "k": "5"},
    "mimc4": lambda circuit, _: {"in": ["7", "0", "1", str(circuit.curve.r - 2)], "k": "5"},
    "eddsa": signature,
    "sha256": lambda _circuit, _folder: {"in": [number * number % 3 % 2 for number in range(512)]},
}
"""Inputs of each circuit."""
