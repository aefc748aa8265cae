"""PyCUDA on a node with a driver: what ``pip install pycuda`` lacks on most machines, in the order it is needed.

PyCUDA comes as source. Its build wants CUDA's headers, which the driver does not bring, and a ``libcuda.so`` to link
to, which is called ``libcuda.so.1`` where it is; and it is told of both only by a file in the home directory. So the
headers come as packages into a scratch folder, which also is the home directory for as long as the build runs.
"""

import ctypes
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prover.backends.cache import run
from prover.backends.cards import LIBRARY
from prover.backends.compilers import choose, find_compilers, package_for
from prover.errors import DeviceError

PYCUDA: Final = "pycuda>=2025.1"
STEP_DEADLINE_S: Final = 1800
_NEWEST_WITH_SUFFIX: Final = 12
"""Up to this major version of CUDA, NVIDIA's packages carry it in their names."""
_PROBE: Final = "import importlib as i; d = i.import_module('pycuda.driver'); d.init(); print(d.Device(0).name())"
"""Run by the interpreter that is set up; this one imports PyCUDA in ``cuda.py`` only."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done.

    Attributes:
        python: the interpreter to install into.
        wheels: a folder to take packages from instead of the network.
        again: whether to build anew what is there.
    """

    python: str = sys.executable
    wheels: Path | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class FoundDriver:
    """The driver of this machine.

    Attributes:
        library: the file.
        cuda: the newest CUDA version it knows.
        capability: of the first card.
    """

    library: Path
    cuda: tuple[int, int]
    capability: tuple[int, int]


def set_up(wanted: Wanted, say: Say) -> None:
    """Make cards usable from an interpreter.

    Args:
        wanted: what is to be done.
        say: told of each step.

    Raises:
        DeviceError: no driver, no card, or a step failed; the sentence says which.
    """
    driver = find_driver()
    (major, minor), (first, second) = driver.cuda, driver.capability
    say(f"driver: CUDA {major}.{minor}, {driver.library}; card: sm_{first}{second}")
    if wanted.again or not _works(wanted.python):
        say("PyCUDA is built from source; this takes some minutes")
        _build(wanted, driver, say)
        if not _works(wanted.python):
            raise DeviceError(f"PyCUDA was built and does not work: {_why_not(wanted.python)}")
    say("PyCUDA works")
    try:
        target = choose(find_compilers(), driver.capability, driver.cuda)
    except DeviceError:
        say(f"a compiler is installed: {package_for(driver.cuda)}")
        _pip(wanted, ["install", package_for(driver.cuda)], {})
        return
    say(f"compiler: CUDA {target.compiler.version[0]}.{target.compiler.version[1]}, {target.compiler.path}")


def find_driver() -> FoundDriver:
    """Return this machine's driver.

    Raises:
        DeviceError: there is none, or it has no card.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise DeviceError(
            f"there is no NVIDIA driver on this machine ({LIBRARY} is missing): install the driver first, and then run "
            "this command again"
        ) from None
    version, count = ctypes.c_int(), ctypes.c_int()
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    if library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise DeviceError(
            "the NVIDIA driver finds no card: see what nvidia-smi says, and whether a container was given its cards"
        )
    library.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), 0)
    cuda = (version.value // 1000, version.value % 1000 // 10)
    return FoundDriver(_loaded_from(), cuda, (major.value, minor.value))


def headers_of(cuda: tuple[int, int]) -> list[str]:
    """Return the packages with the headers of a CUDA version."""
    major, minor = cuda
    suffix = f"-cu{major}" if major <= _NEWEST_WITH_SUFFIX else ""
    return [f"nvidia-cuda-runtime{suffix}=={major}.{minor}.*", f"nvidia-cuda-profiler-api{suffix}"]


def _build(wanted: Wanted, driver: FoundDriver, say: Say) -> None:
    """Build and install PyCUDA with headers from packages."""
    with tempfile.TemporaryDirectory(prefix="provewire-gpu-") as name:
        scratch = Path(name)
        # In one go: into a folder that is there already pip puts nothing more.
        packages = headers_of(driver.cuda)
        say(f"headers: {', '.join(packages)}")
        _pip(wanted, ["install", "--no-deps", "--target", str(scratch / "headers"), *packages], {})
        found = sorted((scratch / "headers").glob("nvidia/*/include/cuda.h"))
        if not found:
            raise DeviceError(f"the packages {' and '.join(packages)} have no cuda.h")
        folders = [str(path) for path in sorted((scratch / "headers").glob("nvidia/*/include"))]
        (scratch / "lib").mkdir()
        (scratch / "lib" / "libcuda.so").symlink_to(driver.library)
        (scratch / ".aksetup-defaults.py").write_text(
            f"CUDA_ROOT = {str(found[0].parent.parent)!r}\n"
            f"CUDA_INC_DIR = {folders!r}\n"
            f"CUDADRV_LIB_DIR = [{str(scratch / 'lib')!r}]\n"
            "CUDA_ENABLE_CURAND = False\n",
            encoding="utf-8",
        )
        # The home directory is another one during the build; what pip was told in the real one still holds.
        for kept in (".config", ".pip", ".cache", ".netrc"):
            if (Path.home() / kept).exists():
                (scratch / kept).symlink_to(Path.home() / kept)
        say("PyCUDA")
        force = ["--force-reinstall", "--no-deps"] if wanted.again else []
        _pip(wanted, ["install", *force, "--no-cache-dir", "--no-binary", "pycuda", PYCUDA, "numpy"], {"HOME": name})


def _pip(wanted: Wanted, arguments: list[str], variables: dict[str, str]) -> None:
    """Run pip.

    Raises:
        DeviceError: it failed; the sentence has its last line.
    """
    source = ["--no-index", "--find-links", str(wanted.wheels)] if wanted.wheels is not None else []
    command = [wanted.python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments, *source]
    done = run(command, STEP_DEADLINE_S, **variables)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        # What the compiler said tells more than that a subprocess of pip's ended.
        telling = [line for line in lines if "fatal error" in line or "Error: " in line or "cannot find -l" in line]
        errors = telling or [line for line in lines if "error" in line.lower()]
        line = next(iter(errors or lines[-1:]), "it said nothing")
        raise DeviceError(f"pip {' '.join(arguments)} failed: {line}")


def _works(python: str) -> bool:
    return run([python, "-c", _PROBE], STEP_DEADLINE_S).returncode == 0


def _why_not(python: str) -> str:
    lines = run([python, "-c", _PROBE], STEP_DEADLINE_S).stderr.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _loaded_from() -> Path:
    """Return the file that the driver's library was loaded from."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        _, _, path = line.partition("/")
        if "libcuda.so" in path:
            return Path(f"/{path}")
    return Path(LIBRARY)
