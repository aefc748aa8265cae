"""The rig, and other people's verifier."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.rig import ROOT, Rig

SNARKJS = ROOT / "node_modules" / "snarkjs" / "build" / "cli.cjs"


@pytest.fixture
def rig() -> Iterator[Rig]:
    # A short path: unix sockets live below it, and their paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pw-") as folder:
        made = Rig(Path(folder))
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(scope="session")
def snarkjs_accepts() -> Callable[[Path], bool]:
    """Whether snarkjs accepts the proof.json, public.json and verification_key.json of a folder."""
    if shutil.which("node") is None or not SNARKJS.exists():
        pytest.skip("snarkjs is missing: apt-get install nodejs npm")

    def accepts(folder: Path) -> bool:
        names = ("verification_key.json", "public.json", "proof.json")
        done = subprocess.run(
            ["node", str(SNARKJS), "groth16", "verify", *(str(folder / name) for name in names)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode == 0 and "OK!" in done.stdout

    return accepts
