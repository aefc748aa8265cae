"""``provewire verify``: whether a proof shows what its public signals say, under a verification key."""

import argparse
import json
import time
from pathlib import Path

HELP = "verify one proof"

LOGS = False
"""Short and offline: errors are sentences, and logging takes longer to load than a small proof takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--vkey", required=True, type=Path, metavar="F", help="verification key (JSON)")
    parser.add_argument("--proof", required=True, type=Path, metavar="F", help="proof (JSON)")
    parser.add_argument("--public", required=True, type=Path, metavar="F", help="public signals (JSON)")
    parser.add_argument("--json", action="store_true", help="print the verdict as one JSON line")


def run(args: argparse.Namespace) -> int:
    """Verify; a proof that does not hold is an error of exit code 4."""
    from prover.errors import Mismatch, ProofRejected, printable  # noqa: PLC0415 - see cli.main
    from prover.formats.snarkjson import (  # noqa: PLC0415
        JSON_BYTES_MAX,
        PROOF_BYTES_MAX,
        proof_from_json,
        public_from_json,
        read_bounded,
        vkey_from_json,
    )
    from prover.verify import why_rejected  # noqa: PLC0415

    begin = time.monotonic()
    vkey = vkey_from_json(read_bounded(args.vkey, JSON_BYTES_MAX), args.vkey)
    proof = proof_from_json(read_bounded(args.proof, PROOF_BYTES_MAX), args.proof)
    public = public_from_json(read_bounded(args.public, JSON_BYTES_MAX), args.public)
    if len(public) != vkey.n_public:
        raise Mismatch(
            f"{printable(args.public)} and {printable(args.vkey)}: number of public signals: there are {len(public)}, "
            f"and the verification key is for {vkey.n_public}; they belong to different circuits"
        )
    problem = why_rejected(vkey, public, proof)
    elapsed_ms = round((time.monotonic() - begin) * 1000, 3)
    if args.json:
        print(json.dumps({"ok": problem is None, "detail": problem, "elapsed_ms": elapsed_ms}))
    if problem is not None:
        raise ProofRejected(
            f"{printable(args.proof)}: the proof does not verify under {printable(args.vkey)} for "
            f"{printable(args.public)}: {problem}"
        )
    if not args.json:
        print(f"the proof verifies ({elapsed_ms:.0f} ms)")
    return 0
