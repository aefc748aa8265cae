"""Whether the machine code of the kernels keeps its budget: registers, spills, occupancy, instructions of a product.

Run: ``python -m bench.sass``. Compiles every kernel for every architecture that is planned for, writes what it found
into docs/performance.md, and exits 1 where something required is missed. With ``--check`` it writes nothing, and
compiles for sm_90 alone as long as the kernels are those of the report.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bench.cubins import LAWS, PROBES, ROOT, Cubin, Resources, compile_all, compiler_version, sources_digest
from bench.disassembly import Cost, Function, disassemble
from prover.backends.base import Traits
from prover.plan import THREADS, plan_ntt

ARCHITECTURES: Final = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
ALWAYS: Final = "sm_90"
REPORT: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- begin: make sass -->"
END: Final = "<!-- end: make sass -->"

REGISTERS_OF_SM: Final = 65536
WARP: Final = 32
WARPS_OF_SM: Final = {"sm_80": 64, "sm_89": 48, "sm_90": 64, "sm_100": 64, "sm_120": 48}
REGISTER_UNIT: Final = 8
"""Registers of a thread are given in steps of so many."""

FIELDS: Final = {"bn254_Fq": 254, "bn254_Fr": 254, "bls12381_Fq": 381, "bls12381_Fr": 255}
BOUND: Final = {254: 136, 255: 136, 381: 300}
"""Multiplications of 32-bit words in a product of so many bits: n^2 for the product, n (n + 1) for the reduction."""
PRODUCT_MAX: Final = {254: 165, 381: 345}
"""Instructions of a product, required."""
SQUARE_SHARE_MAX: Final = 0.95
"""Instructions of a square over those of a product, required where squares have a method of their own."""
ADDITION_PRODUCTS: Final = 9.3
"""What a mixed addition should cost at most, in products."""

HALVES_SHARE_MAX: Final = 0.25
"""High halves of products computed alone, over the products computed whole: a product needs one for each limb, or an
eighth; more of them tell that the assembler did not join the halves."""

CURVES: Final = ("bn254_", "bls12381_")
HOT: Final = ("g1_accumulate", "g2_accumulate", "ntt_pass", "digits")
"""Kernels that must not spill."""
WARPS_MIN: Final = {"g1_accumulate": 8, "g2_accumulate": 8, "ntt_pass": 16, "digits": 32}
"""Warps of a multiprocessor that the planned blocks of the hot kernels must find room for."""
ACCUMULATE_THREADS: Final = THREADS // 2
"""As plans have it."""
COLD: Final = re.compile(r"Xyzz|power|__internal")
"""Functions that an addition calls for points in special position only."""


Operations = dict[tuple[str, str], Cost]
"""By operation and field."""


def operations(functions: dict[str, Function]) -> Operations:
    """Return what the operations of the probes cost: a chain of two less a chain of one."""
    found = {}
    for name, function in functions.items():
        operation, _, field = name.partition("_")
        field, _, length = field.rpartition("_")
        if length == "1":
            longer = functions[f"{operation}_{field}_2"]
            found[operation, field] = longer.straight - function.straight
    return found


def family(entry: str) -> str:
    """Return an entry's name without its curve."""
    return re.sub(r"^(bn254|bls12381)_", "", entry)


def warps(entry: str, resources: Resources, architecture: str) -> int:
    """Return how many warps of a kernel's planned blocks a multiprocessor holds at once, by registers."""
    accumulates = family(entry).endswith(("accumulate", "fix_up"))
    threads = ACCUMULATE_THREADS if accumulates else THREADS
    registers = -(-resources.registers // REGISTER_UNIT) * REGISTER_UNIT
    blocks = REGISTERS_OF_SM // (registers * threads)
    return min(WARPS_OF_SM[architecture], blocks * threads // WARP)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found for one architecture.

    Attributes:
        architecture: such as ``sm_90``.
        operations: costs of the field's operations.
        resources: of every entry.
        additions: issue slots of one mixed addition with its loads, by curve and group.
        halves: high halves of products over whole products, of every entry over a curve.
    """

    architecture: str
    operations: Operations
    resources: dict[str, Resources]
    additions: dict[str, int]
    halves: dict[str, float]

    def in_products(self, entry: str) -> float:
        """Return an addition in products of its curve's coordinates."""
        return self.additions[entry] / self.operations["products", entry.partition("_")[0] + "_Fq"].slots


def find(architecture: str, cubins: Sequence[Cubin]) -> Findings:
    """Return what the objects of an architecture say."""
    resources: dict[str, Resources] = {}
    additions = {}
    halves = {}
    costs: Operations = {}
    for cubin in cubins:
        if cubin.source == PROBES:
            costs = operations(disassemble(cubin.path))
            continue
        resources.update(cubin.resources)
        for entry, function in disassemble(cubin.path).items():
            if entry.endswith("_accumulate"):
                additions[entry] = function.hot_loop(COLD).slots
            whole = function.count("IMAD.WIDE")
            if whole and entry.startswith(CURVES):  # the counters' kernels divide, which takes halves
                halves[entry] = function.count("IMAD.HI") / whole
    return Findings(architecture, costs, resources, additions, halves)


def missed(found: Findings) -> Iterator[str]:
    """Yield every requirement that is missed, as a sentence."""
    where = f" ({found.architecture})"
    for field, bits in FIELDS.items():
        product = found.operations["products", field].instructions
        if bits in PRODUCT_MAX and product > PRODUCT_MAX[bits]:
            yield f"a product of {field} takes {product} instructions, and {PRODUCT_MAX[bits]} are allowed{where}"
        square = found.operations["squares", field].instructions
        if bits in PRODUCT_MAX and square > SQUARE_SHARE_MAX * product:
            yield f"a square of {field} takes {square} instructions, a product {product}{where}"
    for entry, share in found.halves.items():
        if share > HALVES_SHARE_MAX:
            yield f"{entry} computes halves of products one by one, {share:.2f} for each whole one{where}"
    for entry, resources in found.resources.items():
        hot = family(entry)
        if hot in HOT and resources.spill_bytes:
            yield f"{entry} spills {resources.spill_bytes} bytes{where}"
        if hot in HOT and warps(entry, resources, found.architecture) < WARPS_MIN[hot]:
            yield f"{entry} takes {resources.registers} registers: fewer than {WARPS_MIN[hot]} warps find room{where}"


def text_of(all_found: Sequence[Findings]) -> str:
    """Return the report for people."""
    names = [found.architecture for found in all_found]
    lines = [f"| | {' | '.join(names)} | required | bound |", "|---" * (len(names) + 3) + "|"]
    for field, bits in FIELDS.items():
        limit = PRODUCT_MAX.get(bits, "")
        for operation, title, needed, bound in (
            ("products", "product", limit, BOUND[bits]),
            ("squares", "square", f"{SQUARE_SHARE_MAX} of a product" if limit else "", ""),
            ("pairs", "two products, one reduction", "", ""),
            ("sums", "sum", "", ""),
        ):
            cells = [found.operations[operation, field] for found in all_found]
            shown = " | ".join(f"{cell.instructions} ({cell.slots})" for cell in cells)
            lines.append(f"| {field.replace('_', ' ')} {title} | {shown} | {needed} | {bound} |")
    lines += ["", "One mixed addition with its loads, in issue slots, and in products of the same field:", ""]
    lines += [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    lines += [
        f"| {entry} | "
        + " | ".join(f"{found.additions[entry]} ({found.in_products(entry):.1f})" for found in all_found)
        + " |"
        for entry in sorted(all_found[0].additions)
    ]
    lines += ["", "Registers of a thread, and in brackets the warps that a multiprocessor holds:", ""]
    lines += [f"| | {' | '.join(names)} | spilled bytes |", "|---" * (len(names) + 2) + "|"]
    for entry in sorted(all_found[0].resources):
        if "_law_" in entry:
            continue
        cells_of = [(found.resources[entry], found.architecture) for found in all_found]
        shown = " | ".join(f"{one.registers} ({warps(entry, one, where)})" for one, where in cells_of)
        spilled = max(one.spill_bytes for one, _ in cells_of)
        lines.append(f"| {entry}{' **hot**' if family(entry) in HOT else ''} | {shown} | {spilled or ''} |")
    return "\n".join(lines)


def shared_of_a_transform() -> int:
    """Return the shared memory that plans give a block of a transform."""
    card = Traits(kind="gpu", parallel=132, shared_bytes_max=48 * 1024, memory_bytes=1 << 34)
    return max(step.launch.shared_bytes for step in plan_ntt(22, 3, card))


def report(all_found: Sequence[Findings], problems: Sequence[str]) -> str:
    """Return the whole section between the marks."""
    version = "CUDA " + compiler_version().split("release ")[1].split(",")[0]
    today = datetime.now(UTC).date().isoformat()
    verdict = "Everything that is required is met." if not problems else "Missed: " + "; ".join(problems) + "."
    return f"""{BEGIN}
{today}, {version}, kernels {sources_digest()}. {verdict}

Instructions of one operation in a chain of them, and in brackets issue slots, where a wide product takes two. Moves
between registers are not in these, since they depend on what stands around; they are in the additions further down.

{text_of(all_found)}

A block of a transform has {shared_of_a_transform()} bytes of shared memory beside that.
{END}"""


def is_reported() -> bool:
    """Whether the kernels are those of the report."""
    return f"kernels {sources_digest()}." in REPORT.read_text(encoding="utf-8")


def write(section: str) -> None:
    """Put the section into the report's place."""
    text = REPORT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    REPORT.write_text(before + section + after, encoding="utf-8")


def main() -> int:
    """Compile, count, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.sass", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; sm_90 alone where the report is up to date"
    )
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, help="these alone, and write nothing")
    asked = parser.parse_args()
    chosen = asked.architectures or ((ALWAYS,) if asked.check and is_reported() else ARCHITECTURES)
    try:
        cubins = compile_all(chosen)
        if ALWAYS in chosen:
            compile_all([ALWAYS], LAWS)
        found = [find(name, [cubin for cubin in cubins if cubin.architecture == name]) for name in chosen]
    except (FileNotFoundError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    problems = [problem for one in found for problem in missed(one)]
    print(text_of(found))
    if not (asked.check or asked.architectures):
        write(report(found, problems))
    elif not is_reported():
        print("docs/performance.md is of other kernels: make sass brings it up to date")
    for problem in problems:
        sys.stderr.write(f"missed: {problem}\n")
    products = {
        name: {field: one.operations["products", field].instructions for field in FIELDS}
        for name, one in zip(chosen, found, strict=True)
    }
    print(json.dumps({"bench": "sass", "met": not problems, "products": products}))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
