"""The kernels compiled for GPUs, side by side, kept by content; and what the assembler says of each.

An object is made again when anything that it could include, the compiler or the flags are others.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from kernels import ROOT as KERNELS
from kernels.entries import ENTRY_FILES, LAW_FILES

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "cuda"
PROBES: Final = Path(__file__).with_name("products.cu")
SOURCES: Final = (PROBES, *(KERNELS / "entry" / f"{name}.cu" for name in ENTRY_FILES))
LAWS: Final = tuple(KERNELS / "entry" / f"{name}.cu" for name in LAW_FILES)
"""What only tests run."""
FLAGS: Final = ("-std=c++17", "--expt-relaxed-constexpr", "-Werror=all-warnings", "-Xptxas=-v", "-cubin")
HOST_ONLY: Final = ("host", "native")
"""Folders of ``kernels`` that no GPU's object is made of."""
DEADLINE_S: Final = 900

_INCLUDE: Final = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_ENTRY: Final = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """What the assembler says of one entry.

    Attributes:
        registers: of a thread.
        spill_bytes: stored and loaded because registers did not do, in the entry or in a function it calls.
        frame_bytes: of the entry's own stack frame.
        shared_bytes: shared memory whose size is known to it; what a launch adds is not in it.
    """

    registers: int
    spill_bytes: int
    frame_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """One source compiled for one architecture.

    Attributes:
        source: the source.
        architecture: such as ``sm_90``.
        path: the object.
        resources: by entry.
    """

    source: Path
    architecture: str
    path: Path
    resources: dict[str, Resources]


def find_compiler() -> str:
    """Return the path of nvcc.

    Raises:
        FileNotFoundError: there is none.
    """
    found = shutil.which("nvcc")
    if found is None:
        raise FileNotFoundError("nvcc is not on the PATH: install a CUDA toolkit, or the packages of the extra gpu")
    return found


def compiler_version() -> str:
    """Return what the compiler says of its version.

    Raises:
        FileNotFoundError: there is no compiler.
    """
    asked = [find_compiler(), "--version"]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603 - the toolkit's


def sources_digest() -> str:
    """Return the digest of everything that a GPU's objects are made of."""
    digest = sha256()
    paths = [PROBES, *(path for path in KERNELS.rglob("*") if path.suffix in {".cu", ".cuh"})]
    for path in sorted(path for path in paths if path.parent.name not in HOST_ONLY):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def closure(source: Path) -> set[Path]:
    """Return a source with everything of ours that it includes, at whatever depth."""
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [KERNELS / name for name in _INCLUDE.findall(path.read_text(encoding="ascii"))]
    return found


def compile_all(architectures: Sequence[str], sources: Sequence[Path] = SOURCES) -> list[Cubin]:
    """Compile sources for architectures, as many at once as there are cores.

    Raises:
        FileNotFoundError: there is no compiler.
        RuntimeError: it failed; the message has what it said.
    """
    compiler = find_compiler()
    version = compiler_version()
    tasks = [(source, _digest(version, source), architecture) for architecture in architectures for source in sources]
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda task: _compiled(compiler, *task), tasks))


def _digest(version: str, source: Path) -> str:
    """Return the digest of what an object is made of."""
    digest = sha256(f"{version}\0{FLAGS}\0".encode())
    for path in sorted(closure(source)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _compiled(compiler: str, source: Path, made_of: str, architecture: str) -> Cubin:
    """Return an object, compiled where it is not kept."""
    folder = FOLDER / architecture
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{source.stem}-{made_of}.cubin"
    report = path.with_suffix(".txt")
    if not (path.exists() and report.exists()):
        for old in folder.glob(f"{source.stem}-*"):
            old.unlink(missing_ok=True)
        scratch = path.with_suffix(".part")
        command = [compiler, f"-arch={architecture}", *FLAGS, "-I", str(KERNELS), "-o", str(scratch), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)  # noqa: S603 - the toolkit's
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile for {architecture}:\n{done.stderr.strip()}")
        report.write_text(done.stderr, encoding="utf-8")
        scratch.replace(path)
    return Cubin(source, architecture, path, read_report(report.read_text(encoding="utf-8")))


def read_report(text: str) -> dict[str, Resources]:
    """Return what the assembler's report says of each entry."""
    found = {}
    parts = _ENTRY.split(text)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        frames = [tuple(map(int, numbers)) for numbers in _SPILLS.findall(part)]
        used, shared = _USED.search(part), _SHARED.search(part)
        if used is None or not frames:
            raise ValueError(f"the assembler's report says nothing of the registers of {name}")
        found[name] = Resources(
            registers=int(used[1]),
            spill_bytes=sum(stores + loads for _, stores, loads in frames),
            frame_bytes=frames[0][0],
            shared_bytes=int(shared[1]) if shared else 0,
        )
    return found
