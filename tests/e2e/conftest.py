"""The rig, and other people's verifier."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.rig import ROOT, Rig
from tests.e2e.systemd_world import why_not
from tests.e2e.wheels import Wheels

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
def no_systemd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Why no systemd can be booted here; empty where one can."""
    return why_not(tmp_path_factory.mktemp("systemd"))


@pytest.fixture(scope="session")
def wheel_of(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Builds a wheel of the version asked for, each once."""
    return Wheels(tmp_path_factory.mktemp("wheels"))


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
