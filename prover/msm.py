"""Multi-exponentiation over a backend: digits, sort by bucket, sums of the buckets, one point.

Point sets whose points take the same scalars share the digits and the sort.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kernels.curves import Curve
from prover.backends.base import Backend, Buffer, Launch, Scope
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
        address: of the affine points.
        out: address that takes the result, an affine point.
    """

    group: GroupName
    address: int
    out: int


@dataclass(frozen=True, slots=True)
class _Target:
    """One point set with the memory of its sums."""

    points: Points
    buckets: Buffer
    sums: Sequence[Buffer]
    sum_buckets: Sequence[Buffer]


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
        made = [_target(scope, curve, plan, points) for points in targets]
        for number, (first, count) in enumerate(chunks):
            backend.launch(
                f"{curve.ident}_digits",
                flat(count),
                [
                    scalars if scalar_of_point else scalars + first * curve.n8r,
                    scalar_of_point + first * COUNTER_BYTES if scalar_of_point else 0,
                    count,
                    plan.window_bits,
                    plan.windows,
                    digits.address,
                ],
            )
            n_entries = _sort(backend, plan, count, digits, entries, ends)
            for target in made:
                _accumulate(backend, curve, plan, target, first, n_entries, entries, ends)
            progress(number + 1, len(chunks))
        for target in made:
            _reduce(backend, scope, curve, plan, target)


def _target(scope: Scope, curve: Curve, plan: MsmPlan, points: Points) -> _Target:
    """Allocate the sums of a point set; buckets begin at infinity, which is zero."""
    size = sum_bytes(curve, points.group)
    buckets = scope.allocate(plan.buckets * size, secret=True)
    lists = [
        (scope.allocate(places * size, secret=True), scope.allocate(places * COUNTER_BYTES, secret=True))
        for places in plan.partial_places()
    ]
    return _Target(points, buckets, [sums for sums, _ in lists], [numbers for _, numbers in lists])


def _sort(backend: Backend, plan: MsmPlan, count: int, digits: Buffer, entries: Buffer, ends: Buffer) -> int:
    """Sort the digits by bucket; return the number of entries, and leave in ``ends`` where each bucket ends."""
    launch, per_thread = plan.sort_launch(count)
    backend.zero(ends)
    arguments = [digits.address, count, plan.window_buckets, ends.address, per_thread]
    backend.launch("bucket_count", launch, arguments)
    exclusive_scan(backend, plan.traits, ends.address, plan.buckets + 1)
    (n_entries,) = _U32.unpack(backend.download(ends, plan.buckets * COUNTER_BYTES, COUNTER_BYTES))
    backend.launch("bucket_scatter", launch, [*arguments, entries.address])
    return int(n_entries)


def _accumulate(
    backend: Backend,
    curve: Curve,
    plan: MsmPlan,
    target: _Target,
    first: int,
    n_entries: int,
    entries: Buffer,
    ends: Buffer,
) -> None:
    """Add the sorted entries' points to their buckets."""
    prefix = f"{curve.ident}_{target.points.group}"
    items = n_entries
    for level, (launch, run) in enumerate(plan.runs(n_entries)):
        alone = items <= run
        to, read = level % 2, 1 - level % 2
        out = [0, 0] if alone else [target.sums[to].address, target.sum_buckets[to].address]
        if level == 0:
            points = target.points.address + first * point_bytes(curve, target.points.group)
            source = [points, entries.address, items, ends.address, plan.buckets, run]
            backend.launch(f"{prefix}_accumulate", launch, [*source, target.buckets.address, *out])
        else:
            source = [target.sums[read].address, target.sum_buckets[read].address, items, run]
            backend.launch(f"{prefix}_fix_up", launch, [*source, target.buckets.address, *out])
        items = 2 * -(-items // run)


def _reduce(backend: Backend, scope: Scope, curve: Curve, plan: MsmPlan, target: _Target) -> None:
    """Bring the buckets to one point."""
    group = target.points.group
    size = sum_bytes(curve, group)
    launch = plan.reduce_launch(size)
    slices = scope.allocate(launch.blocks_x * plan.windows * size, secret=True)
    backend.launch(
        f"{curve.ident}_{group}_reduce_buckets",
        launch,
        [target.buckets.address, plan.window_buckets, slices.address],
    )
    backend.launch(
        f"{curve.ident}_{group}_join_windows",
        Launch(1, threads=1),
        [slices.address, launch.blocks_x, plan.windows, plan.window_bits, target.points.out],
    )
