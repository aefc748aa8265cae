"""``provewire gpu-setup``: PyCUDA and a compiler on a node with a driver; or kernels for other nodes, without one."""

import argparse
import sys
from pathlib import Path

HELP = "make this node's cards usable: build PyCUDA, find a compiler; or prebuild kernels for other nodes"

LOGS = False
"""As for ``prove``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--python", default=sys.executable, metavar="P", help="install into this interpreter (default: ours)"
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="take packages from here instead of the network")
    parser.add_argument("--again", action="store_true", help="build PyCUDA anew although it works")
    parser.add_argument(
        "--kernels",
        type=Path,
        metavar="DIR",
        help="instead: compile all kernels into this folder, for PROVEWIRE_KERNELS on other nodes; needs no card",
    )
    parser.add_argument(
        "--arch",
        default="80,89,90,100,120",
        metavar="N,N",
        help="for --kernels: architectures (default 80,89,90,100,120)",
    )


def run(args: argparse.Namespace) -> int:
    """Do it, and say each step."""
    if args.kernels is not None:
        return _prebuild(args.kernels, args.arch)
    from prover.backends.gpu_setup import Wanted, set_up  # noqa: PLC0415 - see cli.main

    set_up(Wanted(python=args.python, wheels=args.wheels, again=args.again), lambda step: print(step, flush=True))
    return 0


def _prebuild(folder: Path, text: str) -> int:
    """Compile for architectures by the newest compiler that knows all of them."""
    from cli.errors import UsageError  # noqa: PLC0415 - see cli.main
    from kernels.entries import ENTRY_FILES, LAW_FILES  # noqa: PLC0415
    from prover.backends.compilers import Target, find_compilers  # noqa: PLC0415
    from prover.backends.cubins import prebuild  # noqa: PLC0415
    from prover.errors import DeviceError  # noqa: PLC0415

    try:
        wanted = [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--arch {text!r}: numbers such as 90, separated by commas, are accepted") from None
    able = [compiler for compiler in find_compilers() if set(wanted) <= set(compiler.architectures)]
    if not able:
        raise DeviceError(f"no CUDA compiler of this machine knows sm_{', sm_'.join(map(str, wanted))} all together")
    newest = max(able, key=lambda compiler: compiler.version)
    prebuild(folder, ENTRY_FILES + LAW_FILES, [Target(newest, "cubin", number) for number in wanted])
    print(f"{folder}: kernels for sm_{', sm_'.join(map(str, wanted))}; set PROVEWIRE_KERNELS to that folder")
    return 0
