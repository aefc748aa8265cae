"""The kernels' entries, read from their text: what exists, and which arguments each takes.

An entry is a `__global__` function of ``kernels/entry/*.cu``. Every argument takes 8 bytes: a pointer or a ``u64``.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from kernels import ROOT
from kernels.curves import CURVES

CURVE_FILES: Final[dict[str, tuple[str, ...]]] = {
    curve.ident: tuple(f"{curve.ident}_{family}" for family in ("scalar", "g1", "g2")) for curve in CURVES
}
"""The entry files that a prover of each curve needs, without ``.cu``."""
ENTRY_FILES: Final[tuple[str, ...]] = ("counters", *(file for files in CURVE_FILES.values() for file in files))
"""The entry files of all provers."""
LAW_FILES: Final[tuple[str, ...]] = tuple(f"{curve.ident}_laws" for curve in CURVES)
"""Entry files that only tests need."""

_ENTRY: Final = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(\w+)\s*\(([^)]*)\)')
_ANY_GLOBAL: Final = re.compile(r"__global__\s+[^;{]*\)\s*\{")
_COMMENT: Final = re.compile(r"//[^\n]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One `__global__` function.

    Attributes:
        name: its name, not mangled.
        file: the entry file it stands in, without ``.cu``.
        parameters: its parameters as they are declared.
    """

    name: str
    file: str
    parameters: tuple[str, ...]


def file_groups(files: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return entry files in groups that are built and loaded together: each curve's, and before them all others."""
    curves = {curve.ident for curve in CURVES}
    groups: dict[str, list[str]] = {"": []}
    for file in files:
        ident = file.partition("_")[0]
        groups.setdefault(ident if ident in curves else "", []).append(file)
    return [tuple(group) for group in groups.values()]


@cache
def entries(files: tuple[str, ...]) -> dict[str, Entry]:
    """Return the entries of some entry files by name.

    Args:
        files: names as in ``ENTRY_FILES``.

    Raises:
        ValueError: a file defines a `__global__` function in another form, or one name twice.
    """
    found: dict[str, Entry] = {}
    for file in files:
        text = _COMMENT.sub("", (ROOT / "entry" / f"{file}.cu").read_text(encoding="ascii"))
        matches = list(_ENTRY.finditer(text))
        if len(matches) != len(_ANY_GLOBAL.findall(text)):
            raise ValueError(f'{file}.cu: every entry must be written extern "C" __global__ void name(...)')
        for match in matches:
            name, parameters = match.groups()
            if name in found:
                raise ValueError(f"{file}.cu: a second entry is called {name}")
            found[name] = Entry(name, file, tuple(" ".join(part.split()) for part in parameters.split(",")))
    return found
