"""``provewire bench``: how long a proof takes on this machine, phase by phase."""

import argparse
import json
import statistics
import time
from pathlib import Path

HELP = "measure proofs of one witness on this machine"

LOGS = False
"""As for ``prove``."""
ROUNDS_MAX = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--zkey", required=True, type=Path, metavar="F", help="proving key, as snarkjs writes it")
    parser.add_argument("--wtns", required=True, type=Path, metavar="F", help="witness, as circom's programs write it")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, host or cuda:N (default auto)")
    parser.add_argument("--max-vram", metavar="N", help="the most memory of a card to use, such as 20G")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="proofs after a first one (default 5)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON line")


def run(args: argparse.Namespace) -> int:
    """Prove again and again with the key open; print medians."""
    from cli.errors import UsageError  # noqa: PLC0415 - see cli.main
    from prover.backends import open_backend, parse_bytes  # noqa: PLC0415
    from prover.formats.wtns import Witness  # noqa: PLC0415
    from prover.formats.zkey import ZKey  # noqa: PLC0415
    from prover.groth16 import prove  # noqa: PLC0415

    if not 1 <= args.rounds <= ROUNDS_MAX:
        raise UsageError(f"--rounds {args.rounds}: 1 to {ROUNDS_MAX} are accepted")
    walls: list[float] = []
    cpus: list[float] = []
    phases: dict[str, list[float]] = {}
    room = parse_bytes(args.max_vram) if args.max_vram else None
    with (
        ZKey.open(args.zkey) as zkey,
        Witness.open(args.wtns) as witness,
        open_backend(args.device, max_vram_bytes=room) as backend,
    ):
        for number in range(args.rounds + 1):
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            result = prove(zkey, witness, backend)
            if number == 0:
                continue
            walls.append(time.perf_counter() - began_s)
            cpus.append(time.process_time() - began_cpu_s)
            for name, value in result.timings_ms.items():
                phases.setdefault(name, []).append(value)
        facts = {"curve": zkey.curve.name, "domain": zkey.domain_size, "wires": zkey.n_vars}
        device = backend.description
    figures = {
        **facts,
        "device": device,
        "rounds": args.rounds,
        "wall_s": round(statistics.median(walls), 4),
        "cpu_s": round(statistics.median(cpus), 4),
        "phases_ms": {name: round(statistics.median(values), 2) for name, values in phases.items()},
    }
    if args.json:
        print(json.dumps(figures))
        return 0
    print(f"{device}; {facts['curve']}, domain {facts['domain']}, {facts['wires']} wires")
    print(f"median of {args.rounds}: {figures['wall_s']:.3f} s, {figures['cpu_s']:.3f} CPU seconds")
    for name, values in phases.items():
        print(f"  {name:<12} {statistics.median(values):10.2f} ms")
    return 0
