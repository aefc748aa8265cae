"""Everything that needs a card, in one run of at most 8 minutes; what each stage found is on the disk when it ends.

``python -m tests.device.run`` on the machine with the card, in the project's folder, with what ``tests.device.prepare``
made in ``build/device``: it installs the packages into a folder of their own, takes the compiled kernels, and writes a
JSON line for each stage to --out. ``--dry-run`` does all of it in small on a simulated card, whose kernels the host
runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.device.stages import Bench, Scale, Stage

CARRIED = Path("build/device")
BUDGET_S = 480.0
INSTALL_S = 120


def install(wheels: Path) -> str:
    """Install the packages that were carried into a folder of their own, and import from it; return the folder."""
    folder = tempfile.mkdtemp(prefix="provewire-site-")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", folder]
    subprocess.run([*command, *map(str, sorted(wheels.glob("*.whl")))], check=True, timeout=INSTALL_S)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = folder  # for the processes that we start
    return folder


def on_card(carried: Path, scale: "Scale") -> "Bench":
    """Return the card with what was carried."""
    from prover.backends.cubins import CompiledKernels  # noqa: PLC0415 - imports of carried packages come first
    from prover.backends.cuda import PyCudaDriver  # noqa: PLC0415 - same
    from prover.backends.device import DeviceBackend  # noqa: PLC0415 - same
    from tests.device.stages import Bench  # noqa: PLC0415 - same

    def make(files: tuple[str, ...]) -> DeviceBackend:
        return DeviceBackend(0, PyCudaDriver(), CompiledKernels(carried / "kernels"), files=files)

    return Bench(make, (carried / "kernels" / "rate.cubin").read_bytes(), scale)


def simulated(scale: "Scale") -> "Bench":
    """Return a card whose kernels the host runs."""
    from kernels.entries import ENTRY_FILES, LAW_FILES  # noqa: PLC0415 - as above
    from prover.backends.device import DeviceBackend  # noqa: PLC0415 - same
    from prover.backends.host import HostBackend  # noqa: PLC0415 - same
    from tests.device.stages import Bench  # noqa: PLC0415 - same
    from tests.prover.cuda.simulated import NamedImages, SimulatedDriver  # noqa: PLC0415 - same

    host = HostBackend(files=ENTRY_FILES + LAW_FILES)

    def make(files: tuple[str, ...]) -> DeviceBackend:
        return DeviceBackend(0, SimulatedDriver(host=host, order="late"), NamedImages(), files=files)

    return Bench(make, b"", scale)


def run(
    bench: "Bench",
    listed: "Sequence[tuple[str, Stage, float]]",
    say: Callable[[dict[str, Any]], None],
    *,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Run the stages in order; one that fails does not keep the others from running. Return whether all went well.

    Args:
        bench: where.
        listed: the stages, with what each may take.
        say: told what each found.
        budget_s: a stage that would not end within it is passed over.
        clock: seconds.
    """
    began_s = clock()
    went_well = True
    for name, stage, may_take_s in listed:
        left_s = budget_s - (clock() - began_s)
        if may_take_s > left_s:
            say({"stage": name, "skipped": f"it may take {may_take_s:g} s and {left_s:.0f} s are left"})
            continue
        stage_s = clock()
        try:
            found: dict[str, Any] = {"stage": name, "found": stage(bench)}
        except Exception as error:  # noqa: BLE001 - the outermost line of a stage: the next one may still tell something
            went_well = False
            found = {"stage": name, "failed": str(error), "trace": traceback.format_exc(limit=4)}
        say({**found, "took_s": round(clock() - stage_s, 3)})
    return went_well


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carried", type=Path, default=CARRIED)
    parser.add_argument("--out", type=Path, default=Path("device.jsonl"))
    parser.add_argument("--budget-s", type=float, default=BUDGET_S)
    parser.add_argument("--only", metavar="STAGE", help="one stage, and nothing installed")
    parser.add_argument("--dry-run", action="store_true", help="in small, on a simulated card")
    args = parser.parse_args()
    if not args.dry_run and args.only is None:
        install(args.carried / "wheels")
    from tests.device.stages import SMALL, Scale, stages  # noqa: PLC0415 - imports of carried packages come first

    scale = SMALL if args.dry_run else Scale()
    bench = simulated(scale) if args.dry_run else on_card(args.carried, scale)
    listed = [stage for stage in stages(scale) if args.only in {None, stage[0]}]
    with args.out.open("a", encoding="utf-8") as file:

        def say(found: dict[str, Any]) -> None:
            line = json.dumps(found)
            print(line, flush=True)  # noqa: T201 - what the caller waits for
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

        return 0 if run(bench, listed, say, budget_s=args.budget_s) else 1


if __name__ == "__main__":
    raise SystemExit(main())
