"""How long a proof takes here, beside other provers on the same files in the same run: ``make bench``.

Whole commands are compared with whole commands, cold, in alternation, so that a busy moment of the machine falls on
all. The peers: snarkjs from npm, and rapidsnark where RAPIDSNARK names a binary of it (BN254 only). Where that is not
set the report says that it was not measured. Ratios are ours over the peer's, of the best round of each; CPU time is
user and system time of the whole command. Prints a line for each measurement and one JSON line last; exits 1 when a
required ratio is missed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.circuits import write_circuit
from bench.picture import write_picture
from kernels.curves import CURVES, Curve
from prover.backends.host import build_for

ROOT = Path(__file__).parents[1]
SNARKJS = ROOT / "node_modules" / "snarkjs" / "build" / "cli.cjs"

RAPIDSNARK_MOST = {"dense": 1.0, "bits": 0.6}
"""Required: CPU seconds and wall time, ours over rapidsnark's, 2^14 to 2^20."""
SNARKJS_TIMES = {("dense", 18): 5.0, ("bits", 16): 8.0}
"""Required: how many times as long as ours snarkjs takes, by kind and logarithm of the domain, both curves."""
CASES = (("bits", 14), ("dense", 14), ("bits", 16), ("dense", 16), ("dense", 18), ("bits", 20), ("dense", 20))
SNARKJS_LOG2_MAX = 18
"""Above this snarkjs takes minutes."""


@dataclass(frozen=True)
class Took:
    """One run of a command."""

    wall_s: float
    cpu_s: float


def timed(argv: list[str]) -> Took:
    """Run one command, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, began_s = os.times(), time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)  # noqa: S603 - ours and peers'
    wall_s, after = time.perf_counter() - began_s, os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return Took(wall_s, cpu_s)


def commands(
    folder: Path, zkey: Path, wtns: Path, curve: Curve, log2: int, rapidsnark: str | None
) -> dict[str, list[str]]:
    """The provers to compare, by name."""
    files = [str(zkey), str(wtns), str(folder / "proof.json"), str(folder / "public.json")]
    flags = ("--zkey", "--wtns", "--proof", "--public")
    ours = [sys.executable, "-m", "cli.main", "prove"]
    for flag, file in zip(flags, files, strict=True):
        ours += [flag, file]
    found = {"ours": ours}
    if shutil.which("node") is not None and SNARKJS.exists() and log2 <= SNARKJS_LOG2_MAX:
        found["snarkjs"] = ["node", str(SNARKJS), "groth16", "prove", *files]
    if rapidsnark and curve.ident == "bn254":
        found["rapidsnark"] = [rapidsnark, *files]
    return found


def measure(curve: Curve, kind: str, log2: int, rounds: int, rapidsnark: str | None) -> dict[str, object]:
    """Measure one circuit; the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zkey, wtns = write_circuit(folder, curve, log2, bits=kind == "bits")
        provers = commands(folder, zkey, wtns, curve, log2, rapidsnark)
        runs: dict[str, list[Took]] = {prover: [] for prover in provers}
        for number in range(rounds):
            for prover, argv in provers.items():
                if prover != "snarkjs" or number == 0:
                    runs[prover].append(timed(argv))
        key_bytes = zkey.stat().st_size
    figures: dict[str, object] = {"curve": curve.name, "kind": kind, "log2_domain": log2, "zkey_bytes": key_bytes}
    for prover, took in runs.items():
        wall_s, cpu_s = min(run.wall_s for run in took), min(run.cpu_s for run in took)
        figures |= {f"{prover}_wall_s": round(wall_s, 3), f"{prover}_cpu_s": round(cpu_s, 3)}
        print(f"{curve.name:<9} {kind:<5} 2^{log2:<3} {prover:<11} {wall_s:8.3f} s {cpu_s:8.3f} CPU s", flush=True)
    return figures


def missed(figures: dict[str, object]) -> list[str]:
    """What one measurement misses of what is required."""
    found = []
    kind, log2 = str(figures["kind"]), int(str(figures["log2_domain"]))
    place = f"{figures['curve']} {kind} 2^{log2}"
    for what in ("cpu_s", "wall_s"):
        if f"rapidsnark_{what}" in figures:
            ratio = float(str(figures[f"ours_{what}"])) / float(str(figures[f"rapidsnark_{what}"]))
            figures[f"over_rapidsnark_{what}"] = round(ratio, 3)
            if ratio > RAPIDSNARK_MOST[kind]:
                found.append(f"{place}: {what} is {ratio:.2f} of rapidsnark's, required {RAPIDSNARK_MOST[kind]}")
    if "snarkjs_wall_s" in figures:
        times = float(str(figures["snarkjs_wall_s"])) / float(str(figures["ours_wall_s"]))
        figures["snarkjs_over_ours_wall"] = round(times, 2)
        required = SNARKJS_TIMES.get((kind, log2), 0.0)
        if times < required:
            found.append(f"{place}: snarkjs takes {times:.1f} times as long, required {required:g}")
    return found


def draw(path: Path, measured: list[dict[str, object]]) -> None:
    """Draw CPU time against size of every prover on every kind of circuit."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for figures in measured:
        for prover in ("ours", "rapidsnark", "snarkjs"):
            if f"{prover}_cpu_s" in figures:
                name = f"{prover}, {figures['curve']} {figures['kind']}"
                point = (int(str(figures["log2_domain"])), float(str(figures[f"{prover}_cpu_s"])))
                lines.setdefault(name, []).append(point)
    write_picture(path, "CPU seconds of the whole command, by rows of the domain", "s", lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log2-max", type=int, default=20, help="largest domain to measure")
    parser.add_argument("--picture", type=Path, metavar="F", help="draw CPU time against size there (SVG)")
    args = parser.parse_args()
    rapidsnark = os.environ.get("RAPIDSNARK")
    if not rapidsnark:
        print("RAPIDSNARK names no binary: rapidsnark was not measured")
    measured, problems = [], []
    for curve in CURVES:
        build_for(curve)
        for kind, log2 in CASES:
            if log2 > args.log2_max:
                continue
            figures = measure(curve, kind, log2, args.rounds, rapidsnark)
            problems += missed(figures)
            measured.append(figures)
    if args.picture:
        draw(args.picture, measured)
    for problem in problems:
        print(f"missed: {problem}")
    verdict = {"bench": "prove", "rapidsnark": bool(rapidsnark), "measured": measured, "missed": problems}
    print(json.dumps(verdict | {"load_before": os.getloadavg()[0]}))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
