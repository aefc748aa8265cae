"""What is looked at on a card, the most valuable first. Each stage returns its figures, or raises what is wrong."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from bench import gpu
from kernels.curves import BN254, CURVES, Curve
from kernels.entries import ENTRY_FILES, LAW_FILES, entries
from prover import circuits
from prover.backends.base import Scope
from prover.backends.device import DeviceBackend
from prover.backends.host import HostBackend
from prover.errors import InternalError
from prover.formats.snarkjson import proof_to_json
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import Blinding, Tuning, prove
from prover.plan import flat
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, mixed_witness, setup, wtns

Figures = dict[str, Any]
Open = Callable[[tuple[str, ...]], DeviceBackend]
LAWS: Final = ("add", "subtract", "multiply", "negate", "square", "twice", "inverse")
"""Operations of `FieldLaw`, by their numbers."""
FIXED: Final = Blinding(r=BN254.r - 1234567, s=(1 << 251) + 89)
SANITIZER_S: Final = 100


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    operands: int = 4000
    proofs: int = 1000
    logs: tuple[int, ...] = (16, 20, 22, 24)
    rounds: int = 10


SMALL: Final = Scale(operands=40, proofs=3, logs=(5,), rounds=1)
"""For a run that only says whether all of it works."""


@dataclass(frozen=True)
class Bench:
    """Where the stages run.

    Attributes:
        open: makes a device of some entry files, not yet entered.
        rate: the compiled kernel that only multiplies; empty where it cannot run.
        scale: how much.
    """

    open: Open
    rate: bytes
    scale: Scale


Stage = Callable[[Bench], Figures]


def card(bench: Bench) -> Figures:
    """Open the card and load every kernel."""
    with bench.open(ENTRY_FILES + LAW_FILES) as device:
        facts = device.card
        for name in entries(ENTRY_FILES + LAW_FILES):
            device.prepare(name)
        return {"card": device.description, "driver_cuda": facts.driver_cuda, "uuid": facts.uuid}


def same_bytes(bench: Bench) -> Figures:
    """Prove the bundled circuit on card and host with the same factors; the second time with multiples of points."""
    with (
        ZKey.open(circuits.ZKEY) as zkey,
        Witness.open(circuits.WITNESS) as witness,
        bench.open(ENTRY_FILES) as device,
        HostBackend() as host,
    ):
        expected = proof_to_json(prove(zkey, witness, host, blinding=FIXED).proof)
        found = [
            proof_to_json(prove(zkey, witness, device, blinding=FIXED, tuning=tuning).proof) == expected
            for tuning in (Tuning(), Tuning(), Tuning(window_bits=7, chunk=900), Tuning(overlap=False))
        ]
    _require(all(found), f"the card's proofs are not the host's: {found}")
    return {"proofs": len(found)}


def rates(bench: Bench) -> Figures:
    """Products in a second: whether a wide multiply-add takes two slots."""
    found = {}
    with bench.open(ENTRY_FILES) as device:
        for curve in CURVES:
            if bench.rate:
                found[curve.name] = gpu.product_rate(device, curve, bench.rate, bench.scale.rounds)
    return found


def laws(bench: Bench) -> Figures:
    """The field's operations against Python's integers, on edge values and random ones."""
    checked = 0
    with bench.open(LAW_FILES) as device:
        for curve in CURVES:
            for field, modulus, size in (("fr", curve.r, curve.n8r), ("fq", curve.q, curve.n8q)):
                checked += _field_laws(device, f"{curve.ident}_law_{field}", modulus, size, bench.scale.operands)
    return {"operations": checked}


def _field_laws(device: DeviceBackend, entry: str, modulus: int, size: int, count: int) -> int:
    random = Random(entry)
    edges = [0, 1, 2, modulus - 1, modulus - 2, (modulus - 1) // 2, *((1 << bit) - 1 for bit in range(31, 250, 32))]
    x = [value % modulus for value in edges] + [random.randrange(modulus) for _ in range(count)]
    y = x[::-1]
    radix = 1 << 8 * size

    def packed(values: list[int]) -> bytes:
        return b"".join((value * radix % modulus).to_bytes(size, "little") for value in values)

    expected: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "negate": lambda a, _b: -a,
        "square": lambda a, _b: a * a,
        "twice": lambda a, _b: 2 * a,
        "inverse": lambda a, _b: pow(a, -1, modulus) if a else 0,
    }
    for number, law in enumerate(LAWS):
        with Scope(device) as scope:
            first, second, out = scope.uploaded(packed(x)), scope.uploaded(packed(y)), scope.allocate(len(x) * size)
            device.launch(entry, flat(len(x)), [number, first.address, second.address, out.address, len(x)])
            got = device.download(out, 0, len(x) * size)
        wanted = packed([expected[law](a, b) % modulus for a, b in zip(x, y, strict=True)])
        _require(got == wanted, f"{entry}: {law} is wrong on the card")
    return len(x) * len(LAWS)


def rows(bench: Bench) -> Figures:
    """Reports about other provers: tiny domains, nothing public, equal points, hardly a point, all in one bucket."""
    found = 0
    with tempfile.TemporaryDirectory() as name, bench.open(ENTRY_FILES) as device, HostBackend() as host:
        folder = Path(name)
        for curve in CURVES:
            for circuit, values in (
                (MULTIPLY, list(MULTIPLY_WITNESS)),
                (MULTIPLY, [1, 0, 0, 0]),
                (MULTIPLY, [1, curve.r - 1, curve.r - 1, 1]),
                (MIXED, mixed_witness(curve=curve)),
            ):
                (folder / "k.zkey").write_bytes(setup(circuit, curve=curve).file())
                (folder / "w.wtns").write_bytes(wtns(values, curve.r).file())
                with ZKey.open(folder / "k.zkey") as zkey, Witness.open(folder / "w.wtns") as witness:
                    # The key stays: the second proof and the third are with multiples of its points.
                    for fixed in (Blinding(0, 0), Blinding(5, curve.r - 7), Blinding(curve.r - 1, 1)):
                        expected = prove(zkey, witness, host, blinding=fixed).proof
                        _require(
                            prove(zkey, witness, device, blinding=fixed).proof == expected, f"{curve.name}: {values}"
                        )
                        found += 1
    return {"proofs": found}


def soak(bench: Bench) -> Figures:
    """Many proofs, each verified before it is handed out; the memory stays flat."""
    with (
        ZKey.open(circuits.ZKEY) as zkey,
        Witness.open(circuits.WITNESS) as witness,
        bench.open(ENTRY_FILES) as device,
    ):
        for _ in range(2):
            prove(zkey, witness, device)
        before, _ = device.asking.driver.memory()
        for _ in range(bench.scale.proofs):
            prove(zkey, witness, device)
        after, _ = device.asking.driver.memory()
    _require(after == before, f"{before - after} bytes of the card's memory were lost")
    return {"proofs": bench.scale.proofs}


def sanitized(bench: Bench) -> Figures:
    """The small proofs under compute-sanitizer, where there is one and it takes the card."""
    tool = shutil.which("compute-sanitizer")
    if tool is None or not bench.rate:
        return {"skipped": "there is no compute-sanitizer, or no card"}
    command = [tool, "--tool", "memcheck", sys.executable, "-m", "tests.device.run", "--only", "rows"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SANITIZER_S, check=False, env={**os.environ})
    said = re.findall(r"ERROR SUMMARY: .*|Device not supported.*", done.stdout + done.stderr)
    _require("ERROR SUMMARY: 0 errors" in said or any("not supported" in line for line in said), "; ".join(said[-3:]))
    return {"said": said[-1]}


def speed(curves: tuple[Curve, ...], log2: int) -> Stage:
    """Return the stage that measures one size."""

    def measure(bench: Bench) -> Figures:
        found: Figures = {}
        rounds = bench.scale.rounds
        with bench.open(ENTRY_FILES) as device:
            for curve in curves:
                for name, most in (("sum", 1), ("sum with multiples", gpu.MULTIPLES_MAX)):
                    found[f"{name} {curve.name}"] = gpu.multi_exponentiation(
                        device, curve, log2, rounds=rounds, multiples_max=most
                    )
                found[f"transforms {curve.name}"] = gpu.transforms(device, curve, log2, rounds)
            if log2 <= gpu.SETUP_LOG2_MAX:
                found["dense"] = gpu.proofs(device, BN254, log2, rounds=rounds)
                found["bits"] = gpu.proofs(device, BN254, log2, bits=True, rounds=rounds)
            else:
                found["synthetic"] = gpu.synthetic_proofs(device, BN254, log2, min(rounds, 3))
        return found

    return measure


def stages(scale: Scale) -> list[tuple[str, Stage, float]]:
    """Return each stage with its name and the seconds that it may take, as far as one can say before."""
    first: list[tuple[str, Stage, float]] = [
        ("card", card, 20),
        ("same_bytes", same_bytes, 30),
        ("rates", rates, 5),
        ("laws", laws, 20),
        ("rows", rows, 30),
    ]
    middle = [
        (f"speed_{log2}", speed(CURVES, log2), 15.0 if log2 <= gpu.SETUP_LOG2_MAX else 60.0) for log2 in scale.logs
    ]
    return [*first, *middle[:2], ("soak", soak, 30), *middle[2:], ("sanitized", sanitized, SANITIZER_S)]


def _require(holds: bool, sentence: str) -> None:  # noqa: FBT001 - a condition
    if not holds:
        raise InternalError(sentence)
