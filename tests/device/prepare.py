"""What is carried to a lent machine with a card, Python 3.12 and no network: packages, kernels. 64 MiB at most.

``python -m tests.device.prepare`` fills ``build/device``: a wheel of PyCUDA for Python 3.12, built here with header
packages and a library to link to that only has the driver's names, with the packages that it needs; and every kernel
for sm_90. Needs gcc, nvcc and an interpreter of Python 3.12, named by --python.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from kernels import ROOT
from kernels.entries import ENTRY_FILES, LAW_FILES
from prover.backends.cache import compile_checked
from prover.backends.compilers import Target, find_compilers
from prover.backends.cubins import command_of, prebuild
from prover.backends.gpu_setup import headers_of

CARRIED: Final = Path("build/device")
CARRIED_BYTES_MAX: Final = 64 << 20
ARCHITECTURE: Final = 90
CUDA: Final = (13, 0)
PYCUDA: Final = "pycuda==2026.1"
WITH_IT: Final = ("pytools", "platformdirs", "mako", "markupsafe", "siphash24", "typing_extensions")
"""What PyCUDA and the prover import; numpy is there."""
DRIVER_SOURCE: Final = Path(__file__).parents[1] / "prover" / "cuda" / "libcuda.c"
STEP_S: Final = 1800


def prepare(folder: Path, python: str) -> None:
    """Fill the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "wheels").mkdir(parents=True)
    compilers = [compiler for compiler in find_compilers() if compiler.version[0] == CUDA[0]]
    if not compilers:
        sys.exit("prepare: there is no compiler of CUDA 13 on this machine")
    target = Target(compilers[0], "cubin", ARCHITECTURE)
    prebuild(folder / "kernels", ENTRY_FILES + LAW_FILES, [target])
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        compile_checked(command_of(target).line(ROOT.parent / "bench" / "rate.cu", scratch / "rate"), scratch, STEP_S)
        shutil.copyfile(scratch / "rate", folder / "kernels" / "rate.cubin")
        _wheels(folder / "wheels", scratch, python)
    carried = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if carried > CARRIED_BYTES_MAX:
        sys.exit(f"prepare: {carried} bytes are too much to carry; {CARRIED_BYTES_MAX} are allowed")
    print(json.dumps({"folder": str(folder), "bytes": carried}))  # noqa: T201 - the answer


def _wheels(folder: Path, scratch: Path, python: str) -> None:
    """Build PyCUDA for an interpreter, and take along what it needs."""
    headers = scratch / "headers"
    _pip(python, "install", "--no-deps", "--target", str(headers), *headers_of(CUDA))
    (scratch / "lib").mkdir()
    link = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(DRIVER_SOURCE), "-ldl"]
    subprocess.run([*link, "-o", str(scratch / "lib" / "libcuda.so")], check=True, timeout=STEP_S)
    root = next(iter(headers.glob("nvidia/*/include/cuda.h"))).parents[1]
    (scratch / ".aksetup-defaults.py").write_text(
        f"CUDA_ROOT = {str(root)!r}\nCUDA_INC_DIR = [{str(root / 'include')!r}]\n"
        f"CUDADRV_LIB_DIR = [{str(scratch / 'lib')!r}]\nCUDA_ENABLE_CURAND = False\n",
        encoding="utf-8",
    )
    _pip(python, "wheel", "--no-deps", "--no-binary", "pycuda", "-w", str(folder), PYCUDA, HOME=str(scratch))
    _pip(python, "download", "--only-binary", ":all:", "--no-deps", "-d", str(folder), *WITH_IT)


def _pip(python: str, *arguments: str, **variables: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True, timeout=STEP_S, env={**os.environ, **variables})


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=CARRIED)
    parser.add_argument("--python", default="python3.12", help="an interpreter of Python 3.12")
    args = parser.parse_args()
    prepare(args.out, args.python)


if __name__ == "__main__":
    main()
