"""GPU machine code, counted: the instructions of a straight piece of code, and those of the way round a hot loop.

The disassembler is NVIDIA's own, from its PyPI package. Nothing is executed.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

_SECTION: Final = re.compile(r"^\.text\.(\w+):$")
_LABEL: Final = re.compile(r"^(\.L_x_\d+|\$\S+):$")
_INSTRUCTION: Final = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_TARGET: Final = re.compile(r"`\(([^)]+)\)")
_PREDICATE: Final = re.compile(r"^@(!?U?P\w+)\s+")
_CONDITION: Final = re.compile(r"^BRA\S*\s+!?U?P\d")
"""A branch may also name its condition among its operands."""
_SETTING: Final = ("MOV", "UMOV", "IMAD.MOV", "HFMA2", "LDC", "LDCU", "ULDC", "S2R", "S2UR", "NOP")
"""Moves between registers, and constants and addresses fetched: they depend on what stands around an operation."""
_WIDE: Final = ("IMAD.WIDE", "IMAD.HI")
"""Products whose high half is used: they take the multiplier two slots."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        operation: such as ``IMAD.WIDE.U32.X``.
        predicated: whether it may be skipped.
        target: the label it goes to.
    """

    operation: str
    predicated: bool
    target: str | None

    @property
    def is_wide(self) -> bool:
        """Whether it takes two issue slots."""
        return self.operation.startswith(_WIDE)

    def has(self, name: str) -> bool:
        """Whether it is this operation, whatever its modifiers."""
        return self.operation.partition(".")[0] == name


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions of a piece of code.

    Attributes:
        instructions: how many.
        wide: how many of them are wide products.
    """

    instructions: int
    wide: int

    @property
    def slots(self) -> int:
        """Issue slots, where a wide product takes two."""
        return self.instructions + self.wide

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.instructions + other.instructions, self.wide + other.wide)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.instructions - other.instructions, self.wide - other.wide)


NOTHING: Final = Cost(0, 0)


class Function:
    """The code of one entry, with the functions that it calls.

    Attributes:
        name: the entry's name.
        code: its instructions.
        labels: where each label stands.
    """

    def __init__(self, name: str, code: list[Instruction], labels: dict[str, int]) -> None:
        self.name = name
        self.code = code
        self.labels = labels

    @cached_property
    def straight(self) -> Cost:
        """The instructions that compute, to the first exit: without moves and the fetching of constants."""
        end = next(i for i, one in enumerate(self.code) if one.has("EXIT") and not one.predicated)
        return _sum([one for one in self.code[:end] if not one.operation.startswith(_SETTING)])

    def count(self, operation: str) -> int:
        """Return how many instructions are an operation, whatever its modifiers."""
        return sum(one.operation.startswith(operation) for one in self.code)

    def hot_loop(self, cold: re.Pattern[str]) -> Cost:
        """Return the way round the loop with the most wide products, by a way that calls nothing named ``cold``.

        Of several ways it is the one with the most wide products, and of those the shortest: what a thread does
        whose data is in general position.
        """
        ways = [self._way(start, back, cold) for start, back in self._loops()]
        return max((way for way in ways if way is not None), key=lambda way: (way.wide, -way.instructions))

    def _loops(self) -> Iterator[tuple[int, int]]:
        """Yield the first instruction of every loop and the one that goes back to it."""
        for i, one in enumerate(self.code):
            if one.has("BRA") and one.target is not None and self.labels[one.target] <= i:
                yield self.labels[one.target], i

    def _way(self, start: int, back: int, cold: re.Pattern[str]) -> Cost | None:
        """Return the best way from ``start`` to ``back``, which only goes forward; None where there is none."""
        best: dict[int, Cost] = {start: NOTHING}
        for i in range(start, back + 1):
            sofar = best.get(i)
            if sofar is None:
                continue
            cost = self._cost(i, cold)
            if cost is None:
                continue
            here = sofar + cost
            if i == back:
                return here
            for following in self._after(i):
                if i < following <= back:
                    best[following] = _better(best.get(following), here)
        return None

    def _cost(self, i: int, cold: re.Pattern[str]) -> Cost | None:
        """Return what an instruction costs, with the function that it calls; None for a cold one.

        For some cards the assembler calls pieces that have no name, where a bucket ends: their insides do not count.
        """
        one = self.code[i]
        if not one.has("CALL"):
            return _sum([one])
        if one.target is None or cold.search(one.target):
            return None
        if not one.target.startswith("$"):
            return _sum([one])
        begin = self.labels[one.target]
        end = next(j for j in range(begin, len(self.code)) if self.code[j].has("RET") and not self.code[j].predicated)
        return _sum([one, *self.code[begin : end + 1]])

    def _after(self, i: int) -> list[int]:
        """Return what may follow an instruction."""
        one = self.code[i]
        if one.has("EXIT") or one.has("RET"):
            return [i + 1] if one.predicated else []
        if one.has("BRA") and one.target is not None:
            return [self.labels[one.target], *([i + 1] if one.predicated else [])]
        return [i + 1]


def _sum(code: list[Instruction]) -> Cost:
    return Cost(len(code), sum(one.is_wide for one in code))


def _better(one: Cost | None, other: Cost) -> Cost:
    """Return the cost with more wide products, or with fewer instructions."""
    if one is None or (other.wide, -other.instructions) > (one.wide, -one.instructions):
        return other
    return one


def find_disassembler() -> str:
    """Return the path of nvdisasm: in the packages beside the interpreter, or on the PATH.

    Raises:
        FileNotFoundError: there is none.
    """
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}:
        for found in sorted(Path(folder).glob("nvidia/*/bin/nvdisasm")):
            if os.access(found, os.X_OK):
                return str(found)
    found_on_path = shutil.which("nvdisasm")
    if found_on_path is None:
        raise FileNotFoundError("there is no nvdisasm: pip install nvidia-cuda-nvdisasm (it is in the group dev)")
    return found_on_path


def disassemble(cubin: Path) -> dict[str, Function]:
    """Return the functions of an object by name.

    Raises:
        FileNotFoundError: there is no disassembler.
        RuntimeError: it cannot read the object.
    """
    done = subprocess.run(  # noqa: S603 - NVIDIA's own program
        [find_disassembler(), "-c", str(cubin)], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode != 0:
        raise RuntimeError(f"nvdisasm cannot read {cubin}: {done.stderr.strip()}")
    return parse(done.stdout)


def parse(text: str) -> dict[str, Function]:
    """Return the functions of a disassembler's text by name."""
    found: dict[str, Function] = {}
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if section := _SECTION.match(line):
            code, labels = [], {}
            found[section[1]] = Function(section[1], code, labels)
        elif label := _LABEL.match(line):
            labels[label[1]] = len(code)
        elif instruction := _INSTRUCTION.match(line):
            words = instruction[1]
            predicate = _PREDICATE.match(words)
            target = _TARGET.search(words)
            bare = words[predicate.end() :] if predicate else words
            conditional = predicate is not None or _CONDITION.match(bare) is not None
            code.append(Instruction(bare.split()[0], conditional, target[1] if target else None))
    return found
