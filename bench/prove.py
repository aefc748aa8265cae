"""How long a proof takes here, beside snarkjs on the same files in the same run: ``make bench``.

Prints a line for each measurement and one JSON line last. Whole commands are compared with whole commands, since that
is what a user waits for; the warm figure (key loaded, process running) is what a worker needs for each further job.
Rounds alternate between the two, so that a busy moment of the machine falls on both.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from prover.backends import open_backend
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove

ROOT = Path(__file__).parents[1]
SNARKJS = ROOT / "node_modules" / "snarkjs" / "build" / "cli.cjs"
CIRCUITS = ROOT / "prover" / "circuits"


def timed(argv: list[str]) -> tuple[float, float]:
    """(wall, CPU) seconds of one command, which must succeed."""
    before = os.times()
    began_s = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)  # noqa: S603 - our own and the peer's program
    wall_s = time.perf_counter() - began_s
    after = os.times()
    return wall_s, (after.children_user - before.children_user) + (after.children_system - before.children_system)


def warm_s(zkey: Path, wtns: Path, rounds: int) -> tuple[list[float], dict[str, float]]:
    """Seconds of each proof in one process with the key loaded; and the phases of the last one, in ms."""
    walls: list[float] = []
    with open_backend("host") as backend, ZKey.open(zkey) as key, Witness.open(wtns) as witness:
        for _ in range(rounds + 1):
            began_s = time.perf_counter()
            result = prove(key, witness, backend)
            walls.append(time.perf_counter() - began_s)
    return walls[1:], result.timings_ms


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkey", type=Path, default=CIRCUITS / "merkle8.zkey")
    parser.add_argument("--wtns", type=Path, default=CIRCUITS / "merkle8.wtns")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    walls, phases_ms = warm_s(args.zkey, args.wtns, args.rounds)
    print(f"warm, in process   median {statistics.median(walls):.3f} s of {len(walls)}; phases in ms:")
    for name, milliseconds in phases_ms.items():
        print(f"  {name:<16} {milliseconds:9.1f}")
    with tempfile.TemporaryDirectory() as folder:
        files = [str(args.zkey), str(args.wtns), f"{folder}/proof.json", f"{folder}/public.json"]
        names = ("--zkey", "--wtns", "--proof", "--public")
        ours = [
            sys.executable,
            "-m",
            "cli.main",
            "prove",
            *(w for pair in zip(names, files, strict=True) for w in pair),
        ]
        peer = ["node", str(SNARKJS), "groth16", "prove", *files]
        have_peer = shutil.which("node") is not None and SNARKJS.exists()
        rounds = [(timed(ours), timed(peer) if have_peer else None) for _ in range(args.rounds)]
    ours_s = statistics.median(one[0][0] for one in rounds)
    print(f"whole command      median {ours_s:.3f} s of {len(rounds)}")
    figures: dict[str, object] = {
        "bench": "prove",
        "zkey_bytes": args.zkey.stat().st_size,
        "warm_s": round(statistics.median(walls), 4),
        "command_s": round(ours_s, 4),
        "phases_ms": {name: round(value, 1) for name, value in phases_ms.items()},
    }
    if have_peer:
        ratios = [one[1][0] / one[0][0] for one in rounds if one[1] is not None]
        peer_s = statistics.median(one[1][0] for one in rounds if one[1] is not None)
        print(
            f"snarkjs, the same  median {peer_s:.3f} s; snarkjs / ours, paired: median {statistics.median(ratios):.2f}"
        )
        figures |= {"snarkjs_s": round(peer_s, 4), "snarkjs_over_ours": round(statistics.median(ratios), 3)}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
