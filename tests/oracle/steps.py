"""Calls of snarkjs's library, many in one process: starting node and its curves takes longer than most calls."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SNARKJS: Final = ROOT / "node_modules" / "snarkjs" / "build" / "main.cjs"
SCRIPT: Final = Path(__file__).with_name("steps.mjs")


@dataclass
class Steps:
    """What is to be called, in order.

    Attributes:
        deadline_s: for all of it.
    """

    deadline_s: float = 170
    _calls: list[dict[str, object]] = field(default_factory=list)

    def add(self, call: str, *arguments: object, out: Path | None = None) -> None:
        """Append a call; its result goes to ``out`` as JSON, or is returned by ``run``.

        Args:
            call: such as ``groth16.verify``.
            arguments: JSON, paths, what ``content`` returns.
            out: where the result goes.
        """
        step: dict[str, object] = {"call": call, "args": [str(a) if isinstance(a, Path) else a for a in arguments]}
        self._calls.append(step if out is None else {**step, "out": str(out)})

    def run(self) -> list[object]:
        """Call all, and return the results that have no file to go to."""
        done = subprocess.run(
            ["node", str(SCRIPT), str(SNARKJS)],
            input=json.dumps(self._calls),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=self.deadline_s,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"snarkjs: {done.stdout[-1000:]}{done.stderr[-3000:]}")
        self._calls.clear()
        return [json.loads(line) for line in done.stdout.splitlines()]


def content(path: Path) -> dict[str, str]:
    """Return an argument that stands for what a JSON file holds."""
    return {"file": str(path)}


def powers_of_tau(steps: Steps, curve: str, power: int, folder: Path, *, tau_one: bool = False) -> Path:
    """Append a ceremony; a fresh one's secret is 1, so that keys made from it are full of infinity."""
    first, second, last = (folder / f"{name}.ptau" for name in ("new", "contributed", "final"))
    steps.add("powersOfTau.newAccumulator", {"curve": curve}, power, first, out=folder / "new.json")
    if not tau_one:
        steps.add("powersOfTau.contribute", first, second, "x", "test only", out=folder / "contributed.json")
    steps.add("powersOfTau.preparePhase2", first if tau_one else second, last, out=folder / "final.json")
    return last


def accepted(folders: Sequence[Path], deadline_s: float = 170) -> list[bool]:
    """Whether snarkjs accepts the proof in each folder: ``vkey.json``, ``public.json`` and ``proof.json``."""
    steps = Steps(deadline_s)
    for folder in folders:
        steps.add("groth16.verify", *(content(folder / f"{name}.json") for name in ("vkey", "public", "proof")))
    return [result is True for result in steps.run()]
