"""``provewire worker``: the process that owns one device. Started by the agent, or by its own systemd unit."""

import argparse
import re

DAEMON = True
"""Its log never holds it up."""
HELP = "prove on one device for the agent of this node (started by the agent, or by its own unit)"
DEVICE = re.compile(r"auto|host|cuda:[0-9]{1,3}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--dir", required=True, metavar="DIR", help="the worker's own folder, on a short path")
    parser.add_argument("--max-vram", metavar="N", help="the most memory of a card to use, such as 20G")
    parser.add_argument("--device", default="auto", metavar="DEV", help="auto, host or cuda:N (also written cuda-N)")


def run(args: argparse.Namespace) -> int:
    """Run until told to stop."""
    import os  # noqa: PLC0415 - each side is imported in its own subcommand only
    from pathlib import Path  # noqa: PLC0415 - same

    from cli.errors import UsageError  # noqa: PLC0415 - same
    from prover.backends import parse_bytes  # noqa: PLC0415 - same
    from prover.worker.engines import engines  # noqa: PLC0415 - same
    from prover.worker.process import WorkerConfig  # noqa: PLC0415 - same
    from prover.worker.process import run as run_worker  # noqa: PLC0415 - same

    device = args.device.replace("-", ":", 1)
    if not DEVICE.fullmatch(device):
        raise UsageError(f"--device {args.device!r} must be auto, host or cuda:N")
    directory = Path(args.dir).expanduser().absolute()
    supervised = "NOTIFY_SOCKET" in os.environ
    known = engines(parse_bytes(args.max_vram) if args.max_vram else None)
    return run_worker(WorkerConfig(dir=directory, device=device, engines=known, supervised=supervised))
