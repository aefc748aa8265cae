"""Compiled kernels for a card: prebuilt ones where somebody put them, else by a compiler of this machine, and kept.

Nothing here needs the driver, so that kernels can be made on a machine without a card.
"""

import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernels import ROOT
from prover.backends.cache import cache_folder, compile_checked, digest_of, identity, obtain, sources_digest
from prover.backends.compilers import Target, choose, find_compilers
from prover.backends.driver import CardFacts
from prover.errors import DeviceError

log = logging.getLogger(__name__)

FLAGS: Final = ("-O3", "-std=c++17", "-lineinfo")
BUILD_DEADLINE_S: Final = 1200
MANIFEST: Final = "manifest.json"
IMAGE_BYTES_MAX: Final = 64 << 20


class CompiledKernels:
    """Images for any card of this machine."""

    def __init__(self, prebuilt: Path | None = None) -> None:
        """Take prebuilt kernels from a folder that `prebuild` filled; by default the one of PROVEWIRE_KERNELS."""
        named = os.environ.get("PROVEWIRE_KERNELS")
        self._prebuilt = prebuilt or (Path(named) if named else None)

    def check(self, card: CardFacts) -> None:
        """Look whether there can be kernels for a card.

        Raises:
            DeviceError: there is no compiler for that card, nor fitting prebuilt kernels.
        """
        if self._prebuilt is not None:
            prebuilt_image(self._prebuilt, "counters", card)
        else:
            choose(find_compilers(), card.capability, card.driver_cuda)

    def image(self, file: str, card: CardFacts) -> bytes:
        """Return the compiled kernels of an entry file.

        Raises:
            DeviceError: there is no compiler for that card, or it failed.
        """
        if self._prebuilt is not None:
            return prebuilt_image(self._prebuilt, file, card)
        return compiled(file, choose(find_compilers(), card.capability, card.driver_cuda)).read_bytes()


@dataclass(frozen=True, slots=True)
class _Command:
    """A compiler's command line but for its input and output."""

    words: tuple[str, ...]

    def line(self, source: Path, output: Path) -> list[str]:
        """Return the whole."""
        return [str(source if word == "SOURCE" else output if word == "OUTPUT" else word) for word in self.words]


def command_of(target: Target) -> _Command:
    """Return how to compile for a target."""
    compiler, architecture = target.compiler, target.architecture
    if compiler.kind == "nvcc":
        code = f"sm_{architecture}" if target.form == "cubin" else f"compute_{architecture}"
        words = (compiler.path, f"-{target.form}", f"-arch={code}", *FLAGS, "-I", str(ROOT), "SOURCE", "-o", "OUTPUT")
        return _Command(words)
    module = (sys.executable, "-m", "prover.backends.nvrtc", compiler.path, "compile")
    return _Command((*module, target.form, str(architecture), "OUTPUT", "SOURCE", "-I", str(ROOT)))


def compiled(file: str, target: Target) -> Path:
    """Return the file with an entry file's kernels, compiled where it is not in the cache.

    Raises:
        DeviceError: the compiler failed, or the cache folder cannot be used.
    """
    command = command_of(target)
    version = ".".join(map(str, target.compiler.version))
    parts = (*command.words, file, version, *identity(target.compiler.path))
    place = cache_folder("cuda") / f"{file}-sm_{target.architecture}-{digest_of(parts)}.{target.form}"

    def make(folder: Path) -> Path:
        log.info("compiling %s for sm_%d with CUDA %s", file, target.architecture, version)
        output = folder / f"{file}.{target.form}"
        compile_checked(command.line(ROOT / "entry" / f"{file}.cu", output), folder, BUILD_DEADLINE_S)
        return output

    return obtain(place, make)


def prebuild(folder: Path, files: tuple[str, ...], targets: list[Target]) -> None:
    """Fill a folder with kernels for other machines, and say in it what they were made of.

    Args:
        folder: made where it is not there.
        files: entry files.
        targets: one for each architecture.

    Raises:
        DeviceError: a compiler failed, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target in targets:
            for file in files:
                name = f"{file}-sm_{target.architecture}.{target.form}"
                (folder / name).write_bytes(compiled(file, target).read_bytes())
        said = {
            "sources": sources_digest().hex(),
            "cuda": [max(target.compiler.version for target in targets)],
            "architectures": {str(target.architecture): target.form for target in targets},
        }
        (folder / MANIFEST).write_text(json.dumps(said), encoding="ascii")
    except OSError as error:
        raise DeviceError(f"{folder}: kernels cannot be put there: {error.strerror or error}") from error


def prebuilt_image(folder: Path, file: str, card: CardFacts) -> bytes:
    """Return a prebuilt image for a card: its own cubin, a fatbin of all, or the newest PTX below it.

    Raises:
        DeviceError: there is none, or they are of other sources or too new for the driver.
    """
    try:
        said = json.loads((folder / MANIFEST).read_text(encoding="ascii"))
        sources, (major, minor) = said["sources"], said["cuda"][0]
        listed = {int(number): form for number, form in said["architectures"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeviceError(f"{folder / MANIFEST}: is no manifest of prebuilt kernels: {error}") from error
    if sources != sources_digest().hex():
        raise DeviceError(
            f"{folder}: these prebuilt kernels are of other sources than this version's; make them anew with "
            "provewire gpu-setup --kernels, or unset PROVEWIRE_KERNELS"
        )
    if major > card.driver_cuda[0]:
        raise DeviceError(
            f"{folder}: these prebuilt kernels are of CUDA {major}.{minor} and the driver knows CUDA "
            f"{card.driver_cuda[0]}.{card.driver_cuda[1]}: update the driver, or unset PROVEWIRE_KERNELS"
        )
    number = 10 * card.capability[0] + card.capability[1]
    below = [known for known, form in listed.items() if form == "ptx" and known <= number]
    names = [f"{file}-sm_{number}.cubin", f"{file}.fatbin", *(f"{file}-sm_{max(below)}.ptx" for _ in below[:1])]
    for path in (folder / name for name in names):
        if path.is_file() and path.stat().st_size <= IMAGE_BYTES_MAX:
            return path.read_bytes()
    others = ", ".join(f"sm_{known}" for known in sorted(listed))
    raise DeviceError(
        f"{folder}: has no kernels {file} for sm_{number}, only for {others}; make more, or unset PROVEWIRE_KERNELS"
    )
