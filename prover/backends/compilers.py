"""CUDA compilers of this machine, and which of them suits a card and its driver.

A machine may have a toolkit, an ``nvcc`` on its path, and compilers that came as packages: ``nvidia-cuda-nvcc``, and
the run-time compiler ``nvidia-cuda-nvrtc``. A compiled kernel runs under drivers of the same major CUDA version or a
later one; PTX, which the driver compiles, only under drivers as new as the compiler.
"""

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from prover.backends.cache import run
from prover.errors import DeviceError

Form = Literal["cubin", "ptx"]

ARCHITECTURES: Final = (80, 86, 89, 90, 100, 120)
"""Those that prebuilt kernels are made for."""
OLDEST: Final = 70
"""Cards before it lack what the kernels use."""
TOOLKITS: Final = ("/usr/local/cuda", "/opt/cuda")
QUERY_DEADLINE_S: Final = 60
DRIVER_OF_CUDA: Final = {11: "450", 12: "525", 13: "580"}
"""The first driver that runs kernels of each major version."""

_RELEASE: Final = re.compile(r"release (\d+)\.(\d+)")
_ARCHITECTURE: Final = re.compile(r"^compute_(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that answered.

    Attributes:
        kind: a program or a library.
        path: where it is.
        version: major and minor version of CUDA.
        architectures: those it knows, such as 90.
    """

    kind: Literal["nvcc", "nvrtc"]
    path: str
    version: tuple[int, int]
    architectures: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What to compile, and with what."""

    compiler: Compiler
    form: Form
    architecture: int


def choose(compilers: Iterable[Compiler], capability: tuple[int, int], driver_cuda: tuple[int, int]) -> Target:
    """Return the newest compiler that suits: kernels for the very card first, then PTX for its driver.

    Args:
        compilers: what there is.
        capability: of the card.
        driver_cuda: the newest CUDA version that the driver knows.

    Raises:
        DeviceError: there is none that suits; the sentence names the versions.
    """
    listed = sorted(compilers, key=lambda compiler: compiler.version, reverse=True)
    card = 10 * capability[0] + capability[1]
    if card < OLDEST:
        raise DeviceError(
            f"the card's compute capability is {capability[0]}.{capability[1]}; the kernels need 7.0: use --device host"
        )
    if not listed:
        raise DeviceError(
            "there is no CUDA compiler on this machine: no nvcc in a toolkit or on the path, and no compiler package; "
            f"install one: {sys.executable} -m pip install {package_for(driver_cuda)}"
        )
    for compiler in listed:
        if compiler.version[0] <= driver_cuda[0] and card in compiler.architectures:
            return Target(compiler, "cubin", card)
    for compiler in listed:
        older = [known for known in compiler.architectures if known <= card]
        if older and compiler.version <= driver_cuda:
            return Target(compiler, "ptx", max(older))
    major, minor = listed[-1].version
    wanted = DRIVER_OF_CUDA.get(major, "a newer one")
    raise DeviceError(
        f"the driver knows CUDA {driver_cuda[0]}.{driver_cuda[1]} and the compiler is of CUDA {major}.{minor}: update "
        f"the driver to {wanted} or newer, or install a compiler as old as the driver: {sys.executable} -m pip install "
        f"{package_for(driver_cuda)}"
    )


def package_for(driver_cuda: tuple[int, int]) -> str:
    """Return the package with a compiler that suits a driver."""
    major, minor = driver_cuda
    return f"nvidia-cuda-nvrtc=={major}.{minor}.*" if major >= 13 else f"nvidia-cuda-nvrtc-cu{major}"  # noqa: PLR2004


@cache
def find_compilers() -> tuple[Compiler, ...]:
    """Return the compilers of this machine; each once."""
    found: dict[str, Compiler] = {}
    for path in _programs():
        real = str(path.resolve())
        if real not in found and (compiler := ask_nvcc(path)) is not None:
            found[real] = compiler
    for path in _libraries():
        if (compiler := ask_nvrtc(path)) is not None:
            found[str(path)] = compiler
    return tuple(found.values())


def ask_nvcc(path: Path) -> Compiler | None:
    """Return what an nvcc says of itself; None where it does not answer as one."""
    try:
        said = run([str(path), "--version"], QUERY_DEADLINE_S).stdout
        known = run([str(path), "--list-gpu-arch"], QUERY_DEADLINE_S).stdout
    except DeviceError:
        return None
    release = _RELEASE.search(said)
    architectures = tuple(int(number) for number in _ARCHITECTURE.findall(known))
    if release is None or not architectures:
        return None
    return Compiler("nvcc", str(path), (int(release[1]), int(release[2])), architectures)


def ask_nvrtc(path: Path) -> Compiler | None:
    """Return what an NVRTC says of itself; None where it does not answer as one."""
    try:
        done = run([sys.executable, "-m", "prover.backends.nvrtc", str(path), "version"], QUERY_DEADLINE_S)
        version, *architectures = done.stdout.split()
        major, minor = version.split(".")
        return Compiler("nvrtc", str(path), (int(major), int(minor)), tuple(map(int, architectures)))
    except (DeviceError, ValueError):
        return None


def _programs() -> list[Path]:
    """Return where an nvcc is: the toolkit that the environment names, toolkits, the path, packages."""
    places = [Path(os.environ[name]) / "bin" / "nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places += [Path(root) / "bin" / "nvcc" for root in TOOLKITS]
    if (on_path := shutil.which("nvcc")) is not None:
        places.append(Path(on_path))
    for folder in _package_folders():
        places += sorted(folder.glob("*/bin/nvcc"), reverse=True)
    return [place for place in places if os.access(place, os.X_OK)]


def _libraries() -> list[Path]:
    """Return where an NVRTC is: packages of each major version."""
    return [path for folder in _package_folders() for path in sorted(folder.glob("*/lib/libnvrtc.so.*[0-9]"))]


def _package_folders() -> list[Path]:
    """Return where NVIDIA's packages lie in this environment."""
    return [folder for name in ("purelib", "platlib") if (folder := Path(sysconfig.get_path(name)) / "nvidia").is_dir()]
