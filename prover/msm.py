"""Multi-exponentiation over a backend: digits, sort by bucket, sums of the buckets, one point.

Point sets whose points take the same scalars share the digits and the sort.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kernels.curves import Curve
from prover.backends.base import Backend, Buffer, Scope
from prover.bases import Bases, Resident, Streamed
from prover.plan import COUNTER_BYTES, MsmPlan, flat
from prover.scan import exclusive_scan

GroupName = Literal["g1", "g2"]
COORDINATES: Final = 4
"""Coordinates of a sum: X, Y, ZZ, ZZZ; a point has half as many."""

_U32: Final = struct.Struct("<I")


def point_bytes(curve: Curve, group: GroupName) -> int:
    """Return the bytes of an affine point."""
    return curve.g1_bytes if group == "g1" else curve.g2_bytes


def sum_bytes(curve: Curve, group: GroupName) -> int:
    """Return the bytes of a sum as kernels keep it."""
    return 2 * point_bytes(curve, group)


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one group on a device, and where their multi-exponentiation goes.

    Attributes:
        group: the group.
        address: of the affine points, where they are on the device; behind them all, in the same order, come their next
            multiples, where the plan takes more than one.
        host: else what `prover.bases.Streamed` takes them from.
        out: address that takes the result, an affine point.
    """

    group: GroupName
    address: int
    out: int
    host: memoryview | int | None = None


@dataclass(frozen=True, slots=True)
class _Target:
    """One point set with the memory of its sums."""

    points: Points
    bases: Bases
    buckets: Buffer
    partials: Buffer
    partial_buckets: Buffer


def multi_exponentiate(
    backend: Backend,
    curve: Curve,
    plan: MsmPlan,
    *,
    scalars: int,
    scalar_of_point: int,
    targets: Sequence[Points],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Write the sum of scalar times point of every target to its ``out``.

    Args:
        backend: the device.
        curve: the curve.
        plan: of ``plan.count`` points.
        scalars: address of the scalars, plain integers below r.
        scalar_of_point: address of the index of each point's scalar, or 0 where point i has scalar i.
        targets: sets of ``plan.count`` points each.
        progress: called with the chunks done and their number.

    Raises:
        DeviceError: the device failed, or has not enough memory.
    """
    chunks = plan.chunks()
    progress(0, len(chunks))
    if not chunks:
        return
    with Scope(backend) as scope:
        largest = chunks[0][1]
        digits = scope.allocate(largest * plan.windows * COUNTER_BYTES, secret=True)
        entries = scope.allocate(largest * plan.windows * COUNTER_BYTES, secret=True)
        # One counter more than buckets: the scan leaves the number of entries in it.
        ends = scope.allocate((plan.buckets + 1) * COUNTER_BYTES, secret=True)
        made = [_target(backend, scope, curve, plan, points) for points in targets]
        for number, (first, count) in enumerate(chunks):
            for target in made:
                target.bases.fetch(first, count)
            backend.launch(
                f"{curve.ident}_digits",
                flat(count),
                [
                    scalars if scalar_of_point else scalars + first * curve.n8r,
                    scalar_of_point + first * COUNTER_BYTES if scalar_of_point else 0,
                    count,
                    plan.window_bits,
                    plan.groups,
                    plan.multiples,
                    digits.address,
                ],
            )
            n_entries = _sort(backend, plan, count, digits, entries, ends)
            for target in made:
                _accumulate(backend, curve, plan, target, n_entries, entries, ends)
            progress(number + 1, len(chunks))
        for target in made:
            target.bases.finish()
            _reduce(backend, scope, curve, plan, target)


def _target(backend: Backend, scope: Scope, curve: Curve, plan: MsmPlan, points: Points) -> _Target:
    """Allocate the sums of a point set; buckets begin at infinity, which is zero."""
    size = sum_bytes(curve, points.group)
    buckets = scope.allocate(plan.buckets * size, secret=True)
    each, largest = size // 2, min(plan.chunk, plan.count)
    bases: Bases = Resident(points.address, each)
    if points.host is not None:
        bases = Streamed(backend, scope, points.host, largest, each)
    places = plan.partial_places()
    partials = scope.allocate(places * size, secret=True)
    return _Target(points, bases, buckets, partials, scope.allocate(places * COUNTER_BYTES, secret=True))


def _sort(backend: Backend, plan: MsmPlan, count: int, digits: Buffer, entries: Buffer, ends: Buffer) -> int:
    """Sort the digits by bucket; return the number of entries, and leave in ``ends`` where each bucket ends."""
    launch, per_thread, slots = plan.sort_launch(count)
    backend.zero(ends)
    arguments = [digits.address, count * plan.multiples, plan.window_buckets, ends.address, per_thread, slots]
    backend.launch("bucket_count", launch, arguments)
    exclusive_scan(backend, plan.traits, ends.address, plan.buckets + 1)
    (n_entries,) = _U32.unpack(backend.download(ends, plan.buckets * COUNTER_BYTES, COUNTER_BYTES))
    backend.launch("bucket_scatter", launch, [*arguments, count, plan.count, entries.address])
    return int(n_entries)


def _accumulate(
    backend: Backend,
    curve: Curve,
    plan: MsmPlan,
    target: _Target,
    n_entries: int,
    entries: Buffer,
    ends: Buffer,
) -> None:
    """Add the sorted entries' points to their buckets."""
    if n_entries == 0:
        return
    prefix = f"{curve.ident}_{target.points.group}"
    (launch, run), *fix_ups = plan.runs(n_entries)
    source = [target.bases.take(), entries.address, n_entries, ends.address, plan.buckets, run]
    partials = [target.partials.address, target.partial_buckets.address]
    backend.launch(
        f"{prefix}_accumulate", launch, [*source, target.buckets.address, *(partials if fix_ups else (0, 0))]
    )
    target.bases.used()
    # Of each launch a block leaves a pair of sums where its first two were.
    items, stride = 2 * -(-n_entries // run), 2
    for launch, run in fix_ups:
        backend.launch(f"{prefix}_fix_up", launch, [*partials, items, stride, run, target.buckets.address])
        items, stride = 2 * launch.blocks_x, stride * launch.threads * run // 2


def _reduce(backend: Backend, scope: Scope, curve: Curve, plan: MsmPlan, target: _Target) -> None:
    """Bring the buckets to one point."""
    group = target.points.group
    size = sum_bytes(curve, group)
    launch = plan.reduce_launch(size)
    slices = scope.allocate(launch.blocks_x * plan.groups * size, secret=True)
    backend.launch(
        f"{curve.ident}_{group}_reduce_buckets",
        launch,
        [target.buckets.address, plan.window_buckets, slices.address],
    )
    backend.launch(
        f"{curve.ident}_{group}_join_windows",
        plan.join_launch(launch.blocks_x),
        [slices.address, launch.blocks_x, plan.groups, plan.window_bits, target.points.out],
    )
