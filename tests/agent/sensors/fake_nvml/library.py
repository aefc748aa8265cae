"""The fake NVML library, compiled once and kept by the digest of its sources; and the scenarios it plays."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
ROOT = SOURCES.parents[3]
LIBRARY = "libnvidia-ml.so.1"


def compiled() -> Path:
    """The folder that holds the library, for LD_LIBRARY_PATH."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = ROOT / "build" / "fake_nvml" / digest
    if not (folder / LIBRARY).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / LIBRARY
            argv = [_compiler(), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
            subprocess.run([*argv, "-o", made, *(path for path in sources if path.suffix == ".c")], check=True)
            made.replace(folder / LIBRARY)
    return folder


def _compiler() -> str:
    found = (shutil.which(name) for name in (os.environ.get("CC", ""), "cc", "gcc", "clang") if name)
    return next(path for path in found if path is not None)


class FakeNvml:
    """One scenario, changed while the library is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        self._write()

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs to load it."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LD_LIBRARY_PATH": str(compiled()),
            "FAKE_NVML_SCENARIO": str(self._path),
        }

    @property
    def hanging(self) -> bool:
        """Whether a call has hung since the scenario began."""
        return self._path.with_name(f"{self._path.name}.hanging").exists()

    def set(self, *lines: str) -> None:
        """Add lines "CARD KEY VALUE"; later ones win."""
        self._lines += lines
        self._write()

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in self._lines), encoding="ascii")
        fresh.replace(self._path)


def uuid_of(number: int) -> str:
    """The UUID of a card, by its number (not its index)."""
    return f"GPU-{number:08d}-0000-0000-0000-000000000000"
