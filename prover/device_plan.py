"""What a proof takes on a device that runs the kernels: every buffer of every stage, to the byte. Pure.

Memory comes in two pieces: the key's, which stays for the next proof, and the workspace of the proof in hand. Where
that does not fit, fewer and fewer points are sorted together; where the key does not, its points stay on the host and
come chunk by chunk. What fits in no way is refused, and what would do is named. A third piece, where there is room
enough, is for multiples of a key's points: `plan_multiples`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prover.backends.arena import rounded
from prover.backends.base import Traits
from prover.bases import BUFFERS
from prover.errors import DeviceError
from prover.plan import (
    COUNTER_BYTES,
    COUNTERS_MAX,
    ELEMENT_BYTES,
    MsmPlan,
    ceil_div,
    choose_window,
    plan_msm,
    plan_scan,
)

BLINDING_SCALARS: Final = 3
"""Scalars that follow the witness: the constant 1 and the two blinding factors r and s."""
COMBINED: Final = 4
"""Points that make up C: the sum over private wires and rows, A, B in the first group, delta."""
RECORD_BYTES: Final = 3 * COUNTER_BYTES + ELEMENT_BYTES
"""A coefficient as the file has it."""
CHUNK_MIN: Final = 1 << 12
"""Fewer points are not sorted together because memory is short."""
VECTORS: Final = 3
MULTIPLES_MAX: Final = (64, 32, 24, 16, 12, 8, 6, 4, 3, 2)
"""Bounds of the multiples that are tried, until they fit."""
MULTIPLES_SHARE: Final = 2
"""Multiples may take this part of the memory that key and proof leave: half, so that another key finds room."""

Layout = dict[str, tuple[int, int]]
"""Window width and multiples of each multi-exponentiation, by its name."""


@dataclass(frozen=True, slots=True)
class Sum:
    """One multi-exponentiation: a set of scalars, and the point sets that take them.

    Attributes:
        name: its stage.
        count: points of each set.
        point_bytes: of a point of each set.
    """

    name: str
    count: int
    point_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeyShape:
    """What a plan depends on of a key.

    Attributes:
        n_vars: wires.
        log2_domain: logarithm of the rows.
        n_coefficients: records of the matrices.
        scalar_bits: bits of the scalar field's modulus.
        g1_bytes: of a point of the first group.
        g2_bytes: of a point of the second group.
        domains: tables of powers: one, or two where H is in coefficients.
        sums: the multi-exponentiations in their order, infinity left out.
    """

    n_vars: int
    log2_domain: int
    n_coefficients: int
    scalar_bits: int
    g1_bytes: int
    g2_bytes: int
    domains: int
    sums: tuple[Sum, ...]

    @property
    def domain_size(self) -> int:
        """Rows."""
        return 1 << self.log2_domain


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """A plan that fits.

    Attributes:
        shape: of what.
        resident: whether the key's points are on the device; else they come from the host for every sum.
        key_bytes: memory of the key, with what loading it takes for a moment.
        proof_bytes: the part of the workspace that lives as long as the proof.
        scratch_bytes: of each multi-exponentiation, by its name.
        sums: how each is done, by its name.
        multiples_bytes: memory of the multiples of the key's points, the points themselves among them.
    """

    shape: KeyShape
    resident: bool
    key_bytes: int
    proof_bytes: int
    scratch_bytes: dict[str, int]
    sums: dict[str, MsmPlan]
    multiples_bytes: int = 0

    @property
    def layout(self) -> Layout:
        """What multiples depend on."""
        return {name: (msm.window_bits, msm.multiples) for name, msm in self.sums.items()}

    @property
    def workspace_bytes(self) -> int:
        """The most that the proof takes beside its key."""
        return self.proof_bytes + max(self.scratch_bytes.values(), default=0)

    def stage_bytes(self) -> dict[str, int]:
        """Return the workspace in use at most in each stage."""
        sums = {name: self.proof_bytes + scratch for name, scratch in self.scratch_bytes.items()}
        return {"rows": self.proof_bytes, "transforms": self.proof_bytes, **sums, "assemble": self.proof_bytes}


def plan_proof(
    shape: KeyShape,
    traits: Traits,
    *,
    key_is_there: bool = False,
    window_bits: int | None = None,
    chunk: int | None = None,
    resident: bool | None = None,
    name: str = "the device",
) -> ProofPlan:
    """Return how to prove on a device.

    Args:
        shape: of the key.
        traits: the device, with the memory that the key, if it is not there yet, and the workspace may take.
        key_is_there: whether the key has its memory already.
        window_bits: to force a window.
        chunk: to force how many points are sorted together at most.
        resident: to force where the key's points are.
        name: of the device, in the sentence.

    Raises:
        DeviceError: it does not fit in any way; the sentence says what would do.
    """
    room = traits.memory_bytes
    key = least = 0
    for plan in _plans(shape, traits, window_bits=window_bits, chunk=chunk, resident=resident):
        key = 0 if key_is_there else plan.key_bytes
        total = key + rounded(plan.workspace_bytes)
        if total <= room:
            return plan
        least = min(least or total, total)
    mebibytes = ceil_div(least, 1 << 20)
    way_out = f"a card with {mebibytes} MiB free would do, or --device host"
    if key > room:
        raise DeviceError(f"the proving key needs {key} bytes of memory on {name}, which has {room} left; {way_out}")
    raise DeviceError(
        f"the proof needs {least - key} bytes of memory on {name} beside its key, and {room - key} are left; {way_out}"
    )


def plan_multiples(shape: KeyShape, traits: Traits, layout: Layout | None = None) -> ProofPlan | None:
    """Return how to prove with multiples of the points of a key that is there; None where memory is short.

    Args:
        shape: of the key, whose points are on the device.
        traits: the device, with the memory that the workspace, and multiples that are not there yet, may take.
        layout: of the multiples, where they are there already.
    """
    if layout is not None:
        plan = _with_layout(shape, traits, layout)
        return plan if plan.workspace_bytes <= traits.memory_bytes else None
    for most in MULTIPLES_MAX:
        chosen = {
            each.name: choose_window(each.count, shape.scalar_bits, min(most, COUNTERS_MAX // max(1, each.count)))
            for each in shape.sums
        }
        plan = _with_layout(shape, traits, chosen)
        left = traits.memory_bytes - rounded(plan.workspace_bytes)
        if 0 < plan.multiples_bytes <= left // MULTIPLES_SHARE:
            return plan
    return None


def _with_layout(shape: KeyShape, traits: Traits, layout: Layout) -> ProofPlan:
    """Plan with multiples."""
    sums = {}
    total = 0
    for each in shape.sums:
        window_bits, multiples = layout[each.name]
        sums[each.name] = plan_msm(each.count, shape.scalar_bits, traits, window_bits=window_bits, multiples=multiples)
        if multiples > 1:
            total += sum(rounded(each.count * multiples * size) for size in each.point_bytes)
    scratch = {each.name: scratch_bytes(sums[each.name], each.point_bytes) for each in shape.sums}
    return ProofPlan(
        shape,
        resident=True,
        key_bytes=key_memory_bytes(shape, traits),
        proof_bytes=proof_memory_bytes(shape),
        scratch_bytes=scratch,
        sums=sums,
        multiples_bytes=total,
    )


def _plans(
    shape: KeyShape, traits: Traits, *, window_bits: int | None, chunk: int | None, resident: bool | None
) -> Iterator[ProofPlan]:
    """Plan in the order of preference: all points of a sum at once, smaller and smaller chunks, points on the host."""
    proof = proof_memory_bytes(shape)
    for there in (True, False) if resident is None else (resident,):
        key = key_memory_bytes(shape, traits, resident=there)
        for limit in _chunks(shape, chunk, resident=there):
            sums = {
                each.name: plan_msm(each.count, shape.scalar_bits, traits, window_bits=window_bits, chunk=limit)
                for each in shape.sums
            }
            scratch = {
                each.name: scratch_bytes(sums[each.name], each.point_bytes, resident=there) for each in shape.sums
            }
            yield ProofPlan(shape, there, key, proof, scratch, sums)


def _chunks(shape: KeyShape, chunk: int | None, *, resident: bool) -> Iterator[int]:
    """Yield how many points may be sorted together, from the most to the fewest."""
    largest = max((each.count for each in shape.sums), default=1)
    if chunk is not None:
        yield max(1, min(chunk, largest))
        return
    # Two chunks at least, or nothing is copied while something is computed.
    limit = largest if resident else max(CHUNK_MIN, ceil_div(largest, 4))
    while limit > CHUNK_MIN:
        yield limit
        limit //= 2
    yield min(CHUNK_MIN, largest)


def key_memory_bytes(shape: KeyShape, traits: Traits, *, resident: bool = True) -> int:
    """Return the memory of a loaded key, and of loading it: the most that is live at one time."""
    kept = most = 0
    for lasting, passing in _key_steps(shape, traits, resident=resident):
        kept += lasting
        most = max(most, kept + passing)
    return most


def _key_steps(shape: KeyShape, traits: Traits, *, resident: bool) -> Iterator[tuple[int, int]]:
    """Yield what each step of loading a key takes for good, and for a moment; in the order of ``prover.keys``."""
    half_window = ceil_div(shape.log2_domain, 2)
    for _ in range(shape.domains):
        for powers in (shape.domain_size // 2, 1 << half_window, 1 << (shape.log2_domain - half_window)):
            yield rounded(powers * ELEMENT_BYTES), rounded(2 * ELEMENT_BYTES)
    rows, count = 2 * shape.domain_size, shape.n_coefficients
    table = rounded(rows * COUNTER_BYTES) + rounded(count * COUNTER_BYTES) + rounded(count * ELEMENT_BYTES)
    yield table, rounded(count * RECORD_BYTES) + scan_bytes(rows, traits)
    for each in shape.sums:
        if resident:
            yield sum(rounded(each.count * size) for size in each.point_bytes), 0
        yield rounded(each.count * COUNTER_BYTES), 0


def scan_bytes(count: int, traits: Traits) -> int:
    """Return what the totals of a scan take."""
    return sum(rounded(level.tiles * COUNTER_BYTES) for level in plan_scan(count, traits))


def proof_memory_bytes(shape: KeyShape) -> int:
    """Return what lives as long as a proof: its scalars and vectors, its points, the factors of C."""
    scalars = (shape.n_vars + BLINDING_SCALARS + VECTORS * shape.domain_size) * ELEMENT_BYTES
    points = COMBINED * shape.g1_bytes + shape.g2_bytes + shape.g1_bytes
    return rounded(scalars) + rounded(points) + rounded(COMBINED * ELEMENT_BYTES)


def scratch_bytes(plan: MsmPlan, point_bytes: tuple[int, ...], *, resident: bool = True) -> int:
    """Return the most that a multi-exponentiation takes at one time.

    Args:
        plan: how it is done.
        point_bytes: of a point of each set that takes its scalars.
        resident: whether the points are on the device; else two chunks of them are.
    """
    if plan.count == 0:
        return 0
    entries = min(plan.chunk, plan.count) * plan.windows
    kept = 2 * rounded(entries * COUNTER_BYTES) + rounded((plan.buckets + 1) * COUNTER_BYTES)
    slices = 0
    for size in point_bytes:
        sum_bytes = 2 * size
        kept += rounded(plan.buckets * sum_bytes)
        kept += 0 if resident else BUFFERS * rounded(min(plan.chunk, plan.count) * size)
        places = plan.partial_places()
        kept += rounded(places * sum_bytes) + rounded(places * COUNTER_BYTES)
        slices += rounded(plan.reduce_launch(sum_bytes).blocks_x * plan.groups * sum_bytes)
    return kept + max(slices, scan_bytes(plan.buckets + 1, plan.traits))
