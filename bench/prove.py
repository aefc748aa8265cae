"""How long a proof takes here, beside other provers on the same files in the same run: ``make bench``.

Whole commands are compared with whole commands, cold, in alternation, so that a busy moment of the machine falls on
all. The peers: snarkjs from npm, and rapidsnark where RAPIDSNARK names a binary of it (BN254 only). Where that is not
set the report says that it was not measured. Ratios are ours over the peer's, of the best round of each; CPU time is
user and system time of the whole command. A row's memory is the command's peak beyond that of the bundled circuit's
proof and the key's file, which is mapped and shared. Prints a line for each measurement and one JSON line last; exits 1
when what is required is missed.
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
from random import Random

from bench.circuits import write_circuit
from bench.picture import write_picture
from kernels.curves import CURVES, Curve
from prover.backends.base import Scope
from prover.backends.host import HostBackend, build_for
from prover.circuits import WITNESS, ZKEY
from prover.digits import SortedDigits
from prover.formats.zkey import ZKey
from prover.native import address_of

ROOT = Path(__file__).parents[1]
SNARKJS = ROOT / "node_modules" / "snarkjs" / "build" / "cli.cjs"

RAPIDSNARK_MOST = {"dense": 1.0, "bits": 0.6}
"""Required: CPU seconds and wall time, ours over rapidsnark's, 2^14 to 2^20."""
SNARKJS_TIMES = {("dense", 18): 5.0, ("bits", 16): 8.0}
"""Required: how many times as long as ours snarkjs takes, by kind and logarithm of the domain, both curves."""
CASES = tuple((kind, log2) for log2 in (14, 16, 18, 20) for kind in ("bits", "dense"))
LOG2_MAX = {"bn254": 20, "bls12381": 18}
SNARKJS_LOG2_MAX = 18
"""Above this snarkjs takes minutes."""
ROUNDS_BELOW_LOG2 = 20
"""From here on one round has to do."""
ROW_BYTES_MOST = 150
"""Required of our memory beside the key, from 2^18 on: below that the threads' tiles and buckets, 6 MiB, are more."""
ROW_BYTES_FROM_LOG2 = 18
GROWTH_MOST = 1.2
"""Required: CPU time of a row at 2^20 over that at 2^18."""
COLD_START_MOST_S = 1.0
"""Required: the bundled circuit's proof, from the shell and back."""
EQUAL_MOST = 2.0
"""Required: a sum with equal scalars, over one with uniform ones."""


@dataclass(frozen=True)
class Took:
    """One run of a command."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


RUNNER = """
import json, os, sys, time
began_s = time.perf_counter()
silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
_, status, usage = os.wait4(process, 0)
wall_s = time.perf_counter() - began_s
print(json.dumps([os.waitstatus_to_exitcode(status), wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""
"""Runs one command and tells what it took. A process of its own, since the kernel counts the memory of whoever starts a
program as that program's, and ours is large."""


def timed(argv: list[str]) -> Took:
    """Run one command, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runner = [sys.executable, "-I", "-S", "-c", RUNNER, *argv]
    done = subprocess.run(runner, check=True, stdout=subprocess.PIPE, cwd=ROOT, env=environment)  # noqa: S603 - ours and peers'
    code, wall_s, cpu_s, peak_kib = json.loads(done.stdout)
    if code != 0:
        raise subprocess.CalledProcessError(code, argv)
    return Took(wall_s, cpu_s, peak_kib * 1024)


def ours(zkey: Path, wtns: Path, folder: Path) -> list[str]:
    """The command as a user gives it."""
    argv = [str(Path(sys.executable).with_name("provewire")), "prove", "--device", "host"]
    files = {"--zkey": zkey, "--wtns": wtns, "--proof": folder / "proof.json", "--public": folder / "public.json"}
    return argv + [word for flag, file in files.items() for word in (flag, str(file))]


def commands(
    folder: Path, zkey: Path, wtns: Path, curve: Curve, log2: int, rapidsnark: str | None
) -> dict[str, list[str]]:
    """The provers to compare, by name."""
    files = [str(zkey), str(wtns), str(folder / "proof.json"), str(folder / "public.json")]
    found = {"ours": ours(zkey, wtns, folder)}
    if shutil.which("node") is not None and SNARKJS.exists() and log2 <= SNARKJS_LOG2_MAX:
        found["snarkjs"] = ["node", str(SNARKJS), "groth16", "prove", *files]
    if rapidsnark and curve.ident == "bn254":
        found["rapidsnark"] = [rapidsnark, *files]
    return found


def measure(curve: Curve, kind: str, log2: int, rounds: int, rapidsnark: str | None, least: Took) -> dict[str, object]:
    """Measure one circuit; the figures. ``least`` is what the bundled circuit's proof takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zkey, wtns = write_circuit(folder, curve, log2, bits=kind == "bits")
        provers = commands(folder, zkey, wtns, curve, log2, rapidsnark)
        runs: dict[str, list[Took]] = {prover: [] for prover in provers}
        for number in range(rounds if log2 < ROUNDS_BELOW_LOG2 else 1):
            for prover, argv in provers.items():
                if prover != "snarkjs" or number == 0:
                    runs[prover].append(timed(argv))
        key_bytes = zkey.stat().st_size
    figures: dict[str, object] = {"curve": curve.name, "kind": kind, "log2_domain": log2, "zkey_bytes": key_bytes}
    for prover, took in runs.items():
        wall_s, cpu_s = min(run.wall_s for run in took), min(run.cpu_s for run in took)
        peak_bytes = max(run.peak_bytes for run in took)
        figures |= {f"{prover}_wall_s": round(wall_s, 3), f"{prover}_cpu_s": round(cpu_s, 3)}
        figures[f"{prover}_peak_bytes"] = peak_bytes
        place = f"{curve.name:<9} {kind:<5} 2^{log2:<3} {prover:<11}"
        print(f"{place} {wall_s:8.3f} s {cpu_s:8.3f} CPU s {peak_bytes >> 20:6} MiB", flush=True)
    own = max(run.peak_bytes for run in runs["ours"])
    figures["row_bytes"] = round((own - least.peak_bytes - key_bytes) / (1 << log2), 1)
    return figures


def sums_of_points(curve: Curve) -> dict[str, float]:
    """CPU milliseconds and additions of a sum of 2^14 points, with uniform and with equal scalars."""
    log2, random = 14, Random(1)
    with tempfile.TemporaryDirectory() as name:
        zkey_path, _ = write_circuit(Path(name), curve, log2, bits=False)
        found: dict[str, float] = {}
        with ZKey.open(zkey_path) as zkey, HostBackend() as backend:
            points = address_of(zkey.points_h)
            for kind in ("uniform", "equal"):
                scalars = [random.randrange(curve.r) for _ in range(1 << log2)]
                octets = b"".join((scalars[0] if kind == "equal" else k).to_bytes(32, "little") for k in scalars)
                took_ms = []
                for _ in range(5):
                    with Scope(backend) as scope:
                        given, out = scope.uploaded(octets), scope.allocate(curve.g1_bytes)
                        began_s = time.process_time()
                        digits = SortedDigits(backend, scope, curve, given.address, 1 << log2, threads=2)
                        additions = digits.sum("g1", points, 0, 1 << log2, out.address)
                        took_ms.append((time.process_time() - began_s) * 1000)
                found |= {f"{kind}_ms": round(min(took_ms), 2), f"{kind}_additions": additions}
    found["equal_over_uniform"] = round(found["equal_ms"] / found["uniform_ms"], 3)
    return found


def cold_start(rounds: int) -> Took:
    """The bundled circuit's proof; the best of some rounds."""
    with tempfile.TemporaryDirectory() as name:
        return min((timed(ours(ZKEY, WITNESS, Path(name))) for _ in range(rounds)), key=lambda run: run.wall_s)


def growth(measured: list[dict[str, object]]) -> dict[str, float]:
    """CPU time of a row at 2^20 over that at 2^18, by curve and kind."""
    rows = {
        (figures["curve"], figures["kind"], figures["log2_domain"]): float(str(figures["ours_cpu_s"]))
        for figures in measured
    }
    return {
        f"{curve} {kind}": round(rows[curve, kind, 20] / rows[curve, kind, 18] / 4, 3)
        for curve, kind, log2 in rows
        if log2 == 20 and (curve, kind, 18) in rows  # noqa: PLR2004 - the two sizes compared
    }


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
    row_bytes = float(str(figures["row_bytes"]))
    if log2 >= ROW_BYTES_FROM_LOG2 and row_bytes > ROW_BYTES_MOST:
        found.append(f"{place}: {row_bytes:g} bytes a row beside the key, required {ROW_BYTES_MOST}")
    return found


def draw(path: Path, measured: list[dict[str, object]]) -> None:
    """Draw CPU time against size of every prover on every kind of circuit."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for figures in measured:
        for prover in ("ours", "rapidsnark", "snarkjs"):
            if f"{prover}_cpu_s" in figures:
                title = next(curve.title for curve in CURVES if curve.name == figures["curve"])
                name = f"{prover}, {title} {figures['kind']}"
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
    measured: list[dict[str, object]] = []
    problems: list[str] = []
    sums: dict[str, dict[str, float]] = {}
    for curve in CURVES:
        build_for(curve)
    least = cold_start(args.rounds)
    print(
        f"bundled circuit      ours       {least.wall_s:8.3f} s {least.cpu_s:8.3f} CPU s {least.peak_bytes >> 20:6} MiB"
    )
    if least.wall_s > COLD_START_MOST_S:
        problems.append(f"bundled circuit: {least.wall_s:.2f} s, required {COLD_START_MOST_S:g}")
    for curve in CURVES:
        sums[curve.name] = sums_of_points(curve)
        print(f"{curve.name:<9} sums of 2^14 points: {sums[curve.name]}")
        if sums[curve.name]["equal_over_uniform"] > EQUAL_MOST:
            problems.append(
                f"{curve.name}: equal scalars take {sums[curve.name]['equal_over_uniform']} of uniform ones"
            )
        for kind, log2 in CASES:
            if log2 > min(args.log2_max, LOG2_MAX[curve.ident]):
                continue
            figures = measure(curve, kind, log2, args.rounds, rapidsnark, least)
            problems += missed(figures)
            measured.append(figures)
    grown = growth(measured)
    problems += [
        f"{name}: a row takes {ratio} of 2^18's at 2^20" for name, ratio in grown.items() if ratio > GROWTH_MOST
    ]
    if args.picture:
        draw(args.picture, measured)
    for problem in problems:
        print(f"missed: {problem}")
    verdict = {"bench": "prove", "rapidsnark": bool(rapidsnark), "measured": measured, "missed": problems}
    verdict |= {"cold_start_s": round(least.wall_s, 3), "growth": grown, "sums": sums}
    print(json.dumps(verdict | {"load_before": os.getloadavg()[0]}))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
