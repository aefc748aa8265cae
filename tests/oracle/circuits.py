"""Circuits of every shape that matters, made by circom and set up by snarkjs.

What circom and snarkjs made is kept in ``build/oracle`` under a digest of all that it was made from.
"""

import fcntl
import json
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from kernels.curves import BN254, Curve
from prover import circuits as bundled
from tests.oracle.steps import Steps, powers_of_tau
from tests.prover.r1cs_writer import r1cs_of_rows
from tests.prover.toy import container, wtns

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / "build" / "oracle"
SOURCES: Final = Path(__file__).resolve().parent / "sources"
SNARKJS: Final = ROOT / "node_modules" / "snarkjs" / "build" / "cli.cjs"
CIRCOM: Final = ROOT / "node_modules" / "circom2" / "cli.js"
CIRCOMLIB: Final = "node_modules/circomlib/circuits"

STEP_DEADLINE_S: Final = 120
RECIPE: Final = 1
"""Raised when the layout of the cache changes, so that nothing old is taken from it."""
CASE_RECIPE: Final = 2
"""Raised when the steps of a case change."""

R: Final = BN254.r


@dataclass(frozen=True)
class Case:
    """One circuit, one witness, one key.

    Attributes:
        name: also the name of the circom source, unless ``handmade``.
        log2_domain: what the key must say.
        n_public: what the key must say.
        inputs: circom's inputs.
        handmade: the bytes of an `.r1cs` file and the witness, instead of circom.
        key: ``fresh`` from the setup, ``contributed``, ``beacon``, or ``nine`` sections (fresh, the last one cut).
        tau_one: take the setup whose secret is 1, so that most points are at infinity.
    """

    name: str
    log2_domain: int
    n_public: int
    inputs: Mapping[str, object] = field(default_factory=dict)
    handmade: Callable[[], tuple[bytes, list[int]]] | None = None
    key: str = "fresh"
    tau_one: bool = False


@dataclass(frozen=True)
class Made:
    """The files of one case. ``theirs_*`` are snarkjs's own proof and public signals."""

    zkey: Path
    wtns: Path
    vkey: Path
    theirs_proof: Path
    theirs_public: Path


def repeated_terms(curve: Curve = BN254) -> tuple[bytes, list[int]]:
    """Return constraints in which wires stand several times in one sum, and coefficients of zero."""
    witness = [1, 21, 3, 4, (2 * 3 + 3 * 3 + 4) * (4 + 4 + 5 * 21)]
    rows = [
        ([(2, 2), (2, 3), (3, 1), (0, 0)], [(3, 1), (3, 1), (1, 5)], [(4, 1)]),
        ([(2, 1), (2, -1), (0, 1)], [(1, 1)], [(1, 2), (1, -1)]),
    ]
    return r1cs_of_rows(curve, 5, 1, rows), witness


def few_wires_many_rows() -> tuple[bytes, list[int]]:
    """Return nine constraints over three wires: the domain has nothing to do with the number of wires."""
    x = 1 << 250
    witness = [1, x * x % R, x]
    rows = [([(2, k)], [(2, 1)], [(1, k)]) for k in range(1, 10)]
    return r1cs_of_rows(BN254, 3, 1, rows), witness


CASES: Final = (
    Case("two_rows", 1, 0, {"a": "3", "b": "11"}),
    Case("only_public", 3, 3, {"a": str(R - 2), "b": str(R // 3)}, key="contributed"),
    Case("unused", 3, 2, {"x": str(R - 7), "ignored": 1, "ignored_public": 2, "more": [3, 4, 5]}, key="nine"),
    Case("repeated_terms", 2, 1, handmade=repeated_terms, key="contributed"),
    Case("few_wires_many_rows", 4, 1, handmade=few_wires_many_rows, key="nine"),
    Case("chain", 5, 3, {"start": str(1 << 253), "constants": [str(R // 7), str(R // 5)]}, key="beacon"),
    Case("bits", 6, 1, {"value": 0x2_5A5A_0F0F_FFFF}, key="contributed"),
    Case("bits", 6, 1, {"value": 0}, tau_one=True),
    Case("hash", 8, 1, {"left": str(R - 1), "right": "0"}, key="contributed"),
    Case("merkle8", 11, 2, key="contributed"),
)


def available() -> bool:
    """Whether node and the packages of ``package.json`` are there."""
    return shutil.which("node") is not None and SNARKJS.exists() and CIRCOM.exists()


def node(script: Path, *arguments: str | Path) -> str:
    """Run a program of node's in the folder that holds ``node_modules``: circom finds its library only from there."""
    done = subprocess.run(
        ["node", str(script), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=STEP_DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{script.name} {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout


def make(case: Case) -> Made:
    """Return a case's files, from the cache or made now."""
    return Made(*(cached(case.name, _origin(case), lambda folder: _make(case, folder)) / name for name in _FILES))


_FILES: Final = ("key.zkey", "witness.wtns", "vkey.json", "proof.json", "public.json")


def _origin(case: Case) -> list[bytes]:
    """Return everything that a case's files depend on."""
    parts = [(ROOT / "package-lock.json").read_bytes(), repr((CASE_RECIPE, case.key, case.tau_one)).encode()]
    parts.append(json.dumps(case.inputs, sort_keys=True).encode())
    if case.name == bundled.NAME:
        return [*parts, bundled.ZKEY.read_bytes(), bundled.WITNESS.read_bytes()]
    if case.handmade is not None:
        constraints, witness = case.handmade()
        return [*parts, constraints, repr(witness).encode()]
    return [*parts, (SOURCES / f"{case.name}.circom").read_bytes()]


def cached(name: str, origin: list[bytes], fill: Callable[[Path], None]) -> Path:
    """Return a folder that ``fill`` has filled, now or earlier; two processes do not fill it twice."""
    digest = sha256(b"".join(sha256(part).digest() for part in [str(RECIPE).encode(), *origin])).hexdigest()[:16]
    target = CACHE / f"{name}-{digest}"
    with _locked(CACHE / f".{target.name}.lock"):
        if not target.exists():
            working = Path(tempfile.mkdtemp(dir=CACHE, prefix=".making-"))
            try:
                fill(working)
                working.rename(target)
            finally:
                shutil.rmtree(working, ignore_errors=True)
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _powers_of_tau(*, tau_one: bool) -> Path:
    """Return a prepared setup for domains up to 2^8; without a contribution its secret is 1."""

    def fill(folder: Path) -> None:
        steps = Steps()
        powers_of_tau(steps, BN254.name, 8, folder, tau_one=tau_one)
        steps.run()

    return cached("powers-tau-one" if tau_one else "powers", [], fill) / "final.ptau"


def _make(case: Case, folder: Path) -> None:
    """Make a case's files in a folder."""
    key, witness, vkey, proof, public = (folder / name for name in _FILES)
    steps = Steps(STEP_DEADLINE_S)
    if case.name == bundled.NAME:
        shutil.copyfile(bundled.ZKEY, key)
        shutil.copyfile(bundled.WITNESS, witness)
    else:
        constraints = folder / f"{case.name}.r1cs"
        if case.handmade is None:
            _compile(case, folder)
            program = folder / f"{case.name}_js" / f"{case.name}.wasm"
            steps.add("wtns.calculate", dict(case.inputs), program, witness, out=folder / "said.json")
            steps.add("wtns.check", constraints, witness)
        else:
            # Not shown to `wtns check`, which keeps only the last of repeated terms; the setup adds them up.
            octets, values = case.handmade()
            constraints.write_bytes(octets)
            witness.write_bytes(wtns(values).file())
        _make_key(case, steps, folder, constraints, key)
    if not all(steps.run()):
        raise RuntimeError(f"{case.name}: snarkjs says that the witness does not satisfy the constraints")
    if case.key == "nine":
        key.write_bytes(without_section(key.read_bytes(), 10))
    # By the commands, which decide how these files look.
    node(SNARKJS, "zkey", "export", "verificationkey", key, vkey)
    node(SNARKJS, "groth16", "prove", key, witness, proof, public)


def _compile(case: Case, folder: Path) -> None:
    source, output = (SOURCES / f"{case.name}.circom").relative_to(ROOT), folder.relative_to(ROOT)
    node(CIRCOM, source, "--r1cs", "--wasm", "--O2", "--prime", BN254.name, "-l", CIRCOMLIB, "-o", output)


def _make_key(case: Case, steps: Steps, folder: Path, constraints: Path, key: Path) -> None:
    fresh, said = folder / "fresh.zkey", folder / "said.json"
    made = fresh if case.key in {"contributed", "beacon"} else key
    steps.add("zKey.newZKey", constraints, _powers_of_tau(tau_one=case.tau_one), made, out=said)
    if case.key == "contributed":
        steps.add("zKey.contribute", fresh, key, "x", "test only", out=said)
    elif case.key == "beacon":
        steps.add("zKey.beacon", fresh, key, "x", "01" * 32, 10, out=said)


def without_section(data: bytes, ident: int) -> bytes:
    """Return a sectioned file without one section, the order of the others kept."""
    magic, version, count = struct.unpack_from("<4sII", data, 0)
    entries, position = [], 12
    for _ in range(count):
        found, size = struct.unpack_from("<IQ", data, position)
        if found != ident:
            entries.append((found, data[position + 12 : position + 12 + size]))
        position += 12 + size
    return container(magic, version, entries)
