"""Wheels of this tree, of whatever version: what an upgrade installs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.e2e.rig import ROOT

PACKAGES = ("agent", "cli", "hub", "kernels", "prover", "wire")
LIBRARIES = str(Path(msgspec.__file__).parents[1])
BUILD_S = 120


def environment(wheel: Path, folder: Path, python: str = sys.executable, libraries: str = LIBRARIES) -> str:
    """Commands that make a virtual environment with this wheel in it; everything else comes from ``libraries``."""
    packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    steps = (
        f"{python} -m venv --without-pip {folder}",
        f"echo {libraries} > {folder}/{packages}/libraries.pth",
        f"{folder}/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-index {wheel}",
    )
    return " && ".join(steps)


class Wheels:
    """Built from a copy of this tree that says another version. Without the page: nodes have no use for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Path] = {}

    def __call__(self, version: str) -> Path:
        if version not in self._made:
            self._made[version] = self._build(version)
        return self._made[version]

    def _build(self, version: str) -> Path:
        source = self._folder / f"source-{version}"
        leave = shutil.ignore_patterns("__pycache__", "page")
        for name in PACKAGES:
            shutil.copytree(ROOT / name, source / name, ignore=leave)
        shutil.copyfile(ROOT / "README.md", source / "README.md")
        project = (ROOT / "pyproject.toml").read_text()
        project = re.sub(r"(?ms)^\[tool\.hatch\.build\.(?:targets\.wheel\.)?hooks\..*?(?=^\[|\Z)", "", project)
        project, count = re.subn(r'(?m)^version = ".*"$', f'version = "{version}"', project)
        assert count == 1
        (source / "pyproject.toml").write_text(project)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*pip, "--no-build-isolation", "--wheel-dir", str(self._folder), str(source)],
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = self._folder.glob(f"provewire-{version}-*.whl")
        return wheel
