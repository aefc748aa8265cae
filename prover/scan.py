"""Prefix sums of counters over a backend."""

from prover.backends.base import Backend, Scope, Traits
from prover.plan import COUNTER_BYTES, flat, plan_scan

_ADD_PER_THREAD = 16


def exclusive_scan(
    backend: Backend, traits: Traits, counters: int, count: int, *, per_thread: int | None = None
) -> None:
    """Replace 32-bit counters by the sums of those before each.

    Args:
        backend: the device.
        traits: its traits.
        counters: address of ``count`` counters, whose sum fits 32 bits.
        count: at least 1.
        per_thread: counters of one thread, at least 2, to force tiny tiles.

    Raises:
        DeviceError: the device failed, or has not enough memory.
    """
    levels = plan_scan(count, traits, per_thread=per_thread)
    with Scope(backend) as scope:
        totals = [scope.allocate(level.tiles * COUNTER_BYTES, secret=True).address for level in levels]
        places = [counters, *totals]
        for level, values, out in zip(levels, places, totals, strict=False):
            backend.launch("scan_tiles", level.launch, [values, level.count, out, level.per_thread])
        # The last level is one tile and whole; each level above it still lacks what lies before its tiles.
        for number in reversed(range(len(levels) - 1)):
            level = levels[number]
            backend.launch(
                "scan_add",
                flat(level.count, _ADD_PER_THREAD),
                [places[number], level.count, totals[number], level.tile, _ADD_PER_THREAD],
            )
