"""``provewire setup``: a proving key for tests, whose secrets one party has known."""

import argparse
import json
import time
from pathlib import Path

HELP = "make a test key of a circuit; not for real use: whoever runs it could forge proofs"

LOGS = False
"""As for ``prove``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("r1cs", type=Path, metavar="R1CS", help="the circuit's constraints, as circom writes them")
    parser.add_argument("-o", "--out", required=True, type=Path, metavar="ZKEY", help="where the proving key goes")
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="say that you know: the secrets exist on this machine while it runs, so the key proves nothing to others",
    )
    parser.add_argument("--json", action="store_true", help="print times and sizes as one JSON line")


def run(args: argparse.Namespace) -> int:
    """Make the key; it appears whole or not at all."""
    from cli.errors import UsageError  # noqa: PLC0415 - see cli.main
    from cli.progress import ProgressLine  # noqa: PLC0415
    from prover.backends import open_backend  # noqa: PLC0415
    from prover.formats.r1cs import R1cs  # noqa: PLC0415
    from prover.setup import log2_domain_of, setup_unsafe  # noqa: PLC0415

    if not args.unsafe:
        raise UsageError(
            "setup makes keys for tests only, whose maker could forge proofs; add --unsafe if that is what you want, "
            "and take a key of a ceremony for anything else"
        )
    if not args.out.parent.is_dir():
        raise UsageError(f"-o {args.out}: the folder {args.out.parent} does not exist")
    began_s = time.monotonic()
    with R1cs.open(args.r1cs) as r1cs, open_backend("host") as backend:
        try:
            with ProgressLine() as progress:
                setup_unsafe(r1cs, args.out, backend, progress=progress)
        except OSError as error:
            raise UsageError(f"{args.out}: cannot be written: {error.strerror or error}") from error
        figures = {
            "zkey": str(args.out),
            "curve": r1cs.curve.name,
            "constraints": r1cs.n_constraints,
            "wires": r1cs.n_wires,
            "public": r1cs.n_public,
            "domain": 1 << log2_domain_of(r1cs),
            "bytes": args.out.stat().st_size,
            "elapsed_ms": round((time.monotonic() - began_s) * 1000, 3),
        }
    if args.json:
        print(json.dumps(figures))
    else:
        print(
            f"{args.out}: {figures['constraints']} constraints, {figures['wires']} wires, {figures['bytes']} bytes in "
            f"{time.monotonic() - began_s:.1f} s; UNSAFE, for tests only"
        )
    return 0
