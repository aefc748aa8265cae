"""Planning: which launches a computation takes, and how much memory. Pure: sizes and a device's traits in, numbers out.

The constants are counts and starting points, not measurements: where a number was tuned, the device and the date
stand beside it.
"""

from dataclasses import dataclass
from typing import Final

from prover.backends.base import Launch, Traits
from prover.native_plan import COUNTER_BYTES as COUNTER_BYTES  # noqa: PLC0414 - offered here too
from prover.native_plan import ELEMENT_BYTES as ELEMENT_BYTES  # noqa: PLC0414 - same
from prover.native_plan import ceil_div as ceil_div  # noqa: PLC0414 - same

THREADS: Final = 256
"""Threads of a block wherever nothing asks for another number."""
COUNTERS_MAX: Final = (1 << 31) - 1
"""Counts and indices of sorted entries are 31 bits wide."""

TILE_LOG_MAX: Final = 10
"""2^10 elements of 32 bytes are 32 KiB: shared memory that every device has."""
ROWS_LOG_MAX: Final = 8
"""Levels of one pass where a transform takes several, so that a tile has four neighbouring columns at least."""
BLOCKS_OF_JOINED: Final = 4
"""Blocks of a joined pass for each multiprocessor, at least: fewer would leave some without work."""

WINDOW_BITS_MAX: Final = 20
ADD_AFFINE_PRODUCTS: Final = 10
"""Field products of adding an affine point to a sum."""
ADD_PRODUCTS: Final = 14
"""Field products of adding two sums."""
TWICE_PRODUCTS: Final = 9
"""Field products of doubling a sum."""
ALONE_PRODUCTS: Final = 1 << 13
"""Products that a card finishes while one of its threads finishes one: what runs on one thread alone takes so long.
Derived from the instructions of a product, not measured."""
GPU_RUN_MIN: Final = 16
GPU_RUN_MAX: Final = 64
"""Sorted entries that a thread adds up: the more, the fewer partial sums are left, which cost half as much again; the
fewer, the sooner it is done, where there are not enough for all threads of a card."""
GPU_RUNS_OF_SM: Final = 384
"""Threads of a multiprocessor that add points: what their registers leave room for, twelve warps."""
SORT_SLOTS: Final = 1 << 10
"""Digits that a block of the sort counts by itself: 8 KiB of shared memory, so that eight blocks find room."""
SLOT_BYTES: Final = 2 * COUNTER_BYTES
GPU_FIX_UP_RUN: Final = 4
"""A block goes on with what it left, so that short runs take no more launches; and fewest sums wait for each other."""
CPU_RUNS_PER_THREAD: Final = 8
"""Enough shares that a CPU thread which was held up does not hold up the others."""
SCRATCH_SHARE: Final = 4
"""The sort of one multi-exponentiation may take this part of the memory that is left: a quarter."""


def flat(count: int, per_thread: int = 1) -> Launch:
    """Return the launch in which each thread takes ``per_thread`` of ``count`` items, one block at least."""
    return Launch(blocks_x=max(1, ceil_div(count, THREADS * per_thread)), threads=THREADS)


@dataclass(frozen=True, slots=True)
class ScanLevel:
    """One level of prefix sums.

    Attributes:
        count: counters of the level.
        tile: counters that one block scans.
        per_thread: counters that one thread scans.
        launch: of ``scan_tiles``.
    """

    count: int
    tile: int
    per_thread: int
    launch: Launch

    @property
    def tiles(self) -> int:
        """Blocks, and counters of the next level."""
        return self.launch.blocks_x


def plan_scan(count: int, traits: Traits, *, per_thread: int | None = None) -> list[ScanLevel]:
    """Return the levels of an exclusive scan of ``count`` counters, the last one a single tile.

    Args:
        count: at least 1.
        traits: the device.
        per_thread: counters of one thread, at least 2, to force tiny tiles.

    Raises:
        ValueError: with such tiles no level would be shorter than the one before.
    """
    if per_thread is not None and per_thread < 2:  # noqa: PLR2004 - two make one
        raise ValueError(f"a thread scans 2 counters at least, not {per_thread}")
    threads = 1 if traits.kind == "cpu" else THREADS
    share = per_thread or (1 << 14 if traits.kind == "cpu" else 8)
    levels = []
    while True:
        tiles = ceil_div(count, threads * share)
        launch = Launch(blocks_x=tiles, threads=threads, shared_bytes=2 * threads * COUNTER_BYTES)
        levels.append(ScanLevel(count, threads * share, share, launch))
        if tiles == 1:
            return levels
        count = tiles


@dataclass(frozen=True, slots=True)
class NttPass:
    """One pass of a transform: the levels over index bits ``low`` to ``low + log_rows - 1``.

    Attributes:
        low: the lowest of its bits.
        log_rows: how many bits.
        log_columns: logarithm of the neighbouring columns in a block's tile.
        launch: one block for each tile, one row of blocks for each vector.
    """

    low: int
    log_rows: int
    log_columns: int
    launch: Launch


def plan_ntt(log_n: int, batch: int, traits: Traits, *, tile_log: int | None = None) -> list[NttPass]:
    """Return the passes of an inverse transform in their order; a forward one takes them from the last to the first.

    Args:
        log_n: logarithm of the number of elements, at least 1.
        batch: vectors transformed together.
        traits: the device.
        tile_log: logarithm of the elements of a tile, to force tiny tiles.
    """
    tile_max = tile_log or min(TILE_LOG_MAX, (traits.shared_bytes_max // ELEMENT_BYTES).bit_length() - 1)
    if log_n <= tile_max:
        rows = [log_n]
    else:
        rows_max = max(1, min(ROWS_LOG_MAX, tile_max - 2))
        passes = ceil_div(log_n, rows_max)
        rows = [log_n // passes + (1 if i < log_n % passes else 0) for i in range(passes)]
    planned = []
    low = log_n
    for log_rows in rows:
        low -= log_rows
        log_columns = min(low, tile_max - log_rows)
        tile = 1 << (log_rows + log_columns)
        launch = Launch(
            blocks_x=(1 << log_n) // tile,
            blocks_y=batch,
            threads=1 if traits.kind == "cpu" else max(1, min(THREADS, tile // 2)),
            shared_bytes=tile * ELEMENT_BYTES,
        )
        planned.append(NttPass(low, log_rows, log_columns, launch))
    return planned


def plan_rows(rows: int, traits: Traits) -> tuple[Launch, int]:
    """Return the launch of the rows' sums, a row of both matrices for each thread, and the logarithm of its chunks.

    A chunk is of products that a block computes together, and then adds up by row.
    """
    log_chunk = min(TILE_LOG_MAX, (traits.shared_bytes_max // ELEMENT_BYTES).bit_length() - 1)
    blocks = flat(rows).blocks_x
    return Launch(blocks_x=blocks, threads=THREADS, shared_bytes=ELEMENT_BYTES << log_chunk), log_chunk


def joins_quotient(last: NttPass, traits: Traits) -> bool:
    """Whether a forward transform's last pass computes the quotient too.

    That saves the quotient's own way through memory, but each block takes all three vectors: a third of the blocks.
    """
    return last.launch.blocks_x >= BLOCKS_OF_JOINED * traits.parallel


@dataclass(frozen=True, slots=True)
class MsmPlan:
    """How a multi-exponentiation is done.

    Attributes:
        count: points.
        window_bits: width c of a digit's window.
        windows: digits of a scalar; the highest may be zero, so that all groups have equally many.
        chunk: points that are sorted together.
        traits: the device.
        multiples: of each point there are so many, computed ahead: windows that take different ones share buckets.
    """

    count: int
    window_bits: int
    windows: int
    chunk: int
    traits: Traits
    multiples: int = 1

    @property
    def groups(self) -> int:
        """Groups of windows, each with buckets of its own."""
        return self.windows // self.multiples

    @property
    def doublings(self) -> int:
        """How often a point is doubled from one multiple to the next."""
        return self.window_bits * self.groups

    @property
    def window_buckets(self) -> int:
        """Buckets of one window."""
        return 1 << (self.window_bits - 1)

    @property
    def buckets(self) -> int:
        """Buckets of all groups."""
        return self.groups * self.window_buckets

    def chunks(self) -> list[tuple[int, int]]:
        """Return the first point and the number of points of every chunk."""
        return [(first, min(self.chunk, self.count - first)) for first in range(0, self.count, self.chunk)]

    def sort_launch(self, count: int) -> tuple[Launch, int, int]:
        """Return the launch of the sort's two passes over ``count`` points, the digits of a thread, a block's slots.

        On a CPU one block takes a group, so that no two threads share a counter and entries keep their order.
        """
        digits = count * self.multiples
        slots = min(SORT_SLOTS, 1 << (self.traits.shared_bytes_max // SLOT_BYTES).bit_length() - 1)
        if self.traits.kind == "cpu":
            return Launch(1, self.groups, 1, slots * SLOT_BYTES), digits, slots
        per_thread = 16
        blocks = ceil_div(digits, THREADS * per_thread)
        return Launch(blocks, self.groups, THREADS, slots * SLOT_BYTES), per_thread, slots

    def runs(self, entries: int) -> list[tuple[Launch, int]]:
        """Return the launches that sum ``entries`` sorted entries by bucket, and how many a thread takes in each.

        The first one is of the entries, and leaves two partial sums for each of its threads; each of the others is of
        the partial sums that the one before left, two for each of its blocks; the last is a single block.
        """
        if entries == 0:
            return []
        cpu = self.traits.kind == "cpu"
        if cpu:
            run = ceil_div(entries, self.traits.parallel * CPU_RUNS_PER_THREAD)
        else:
            fair = ceil_div(entries, self.traits.parallel * GPU_RUNS_OF_SM)
            run = max(GPU_RUN_MIN, min(GPU_RUN_MAX, fair))
        block = 1 if cpu else THREADS // 2
        threads = ceil_div(entries, run)
        launches = [(Launch(ceil_div(threads, block), threads=block), run)]
        items = 2 * threads
        while threads > 1:
            run = items if cpu else GPU_FIX_UP_RUN
            takers = min(block, ceil_div(items, run))
            launch = Launch(ceil_div(items, takers * run), threads=takers)
            launches.append((launch, run))
            if launch.blocks_x == 1:
                break
            items = 2 * launch.blocks_x
        return launches

    def partial_places(self) -> int:
        """Return the places of the list of partial sums, enough for every chunk, whatever its number of entries."""
        entries = min(self.chunk, self.count) * self.windows
        if self.traits.kind == "cpu":
            # The share of a thread is rounded up, so that fewer entries can take more threads.
            return 2 * min(entries, self.traits.parallel * CPU_RUNS_PER_THREAD)
        few = min(ceil_div(entries, GPU_RUN_MIN), self.traits.parallel * GPU_RUNS_OF_SM)
        return 2 * max(few, ceil_div(entries, GPU_RUN_MAX))

    def reduce_launch(self, sum_bytes: int) -> Launch:
        """Return the launch of the buckets' reduction, for sums of ``sum_bytes`` bytes."""
        if self.traits.kind == "cpu":
            return Launch(1, self.groups, 1, sum_bytes)
        fitting = max(1, self.traits.shared_bytes_max // sum_bytes)
        threads = min(64, 1 << (fitting.bit_length() - 1), self.window_buckets)
        # Few groups need many slices, or most of the card has nothing to do.
        slices_max = max(16, ceil_div(4 * self.traits.parallel, self.groups))
        slices = max(1, min(slices_max, self.window_buckets // (threads * 8)))
        return Launch(slices, self.groups, threads, threads * sum_bytes)

    def join_launch(self, slices: int) -> Launch:
        """Return the launch that joins ``slices`` sums of each group to one point."""
        if self.traits.kind == "cpu":
            return Launch(1, threads=1)
        return Launch(1, threads=max(1, min(THREADS // 2, self.groups * (slices // 2))))


def choose_window(count: int, scalar_bits: int, multiples_max: int = 1) -> tuple[int, int]:
    """Return the window width and the multiples with the least work for ``count`` points with full-width scalars.

    Args:
        count: points.
        scalar_bits: bits of the scalar field's modulus.
        multiples_max: the most multiples that there may be of a point.
    """

    def products(choice: tuple[int, int]) -> int:
        window_bits, multiples = choice
        windows = ceil_div(scalar_bits, window_bits)
        groups = ceil_div(windows, multiples)
        adding = windows * count * ADD_AFFINE_PRODUCTS
        reducing = groups * (1 << (window_bits - 1)) * 2 * ADD_PRODUCTS
        # From one window to the next lower one, all by one thread; without multiples that is the same for every width.
        joining = (groups - 1) * window_bits * TWICE_PRODUCTS * ALONE_PRODUCTS if multiples_max > 1 else 0
        return adding + reducing + joining

    choices = [
        (window_bits, multiples)
        for window_bits in range(2, WINDOW_BITS_MAX + 1)
        for multiples in range(1, min(multiples_max, ceil_div(scalar_bits, window_bits)) + 1)
    ]
    return min(choices, key=products)


def plan_msm(
    count: int,
    scalar_bits: int,
    traits: Traits,
    *,
    window_bits: int | None = None,
    chunk: int | None = None,
    multiples: int = 1,
) -> MsmPlan:
    """Return how to do a multi-exponentiation.

    Args:
        count: points, below 2^31.
        scalar_bits: bits of the scalar field's modulus.
        traits: the device.
        window_bits: 1 to 20, to force a window.
        chunk: to force how many points are sorted together.
        multiples: how many there are of each point; `choose_window` says which go with which window.

    Raises:
        ValueError: there are more points than an index can name.
    """
    if count * multiples > COUNTERS_MAX:
        raise ValueError(f"{count * multiples} points are more than the {COUNTERS_MAX} that an entry can name")
    chosen = window_bits or choose_window(count, scalar_bits)[0]
    if not 1 <= chosen <= WINDOW_BITS_MAX:
        raise ValueError(f"a window has 1 to {WINDOW_BITS_MAX} bits, not {chosen}")
    windows = ceil_div(ceil_div(scalar_bits, chosen), multiples) * multiples
    entry_bytes = 2 * windows * COUNTER_BYTES
    affordable = traits.memory_bytes // SCRATCH_SHARE // entry_bytes
    chunk_max = max(1, min(COUNTERS_MAX // windows, affordable))
    return MsmPlan(count, chosen, windows, min(chunk or chunk_max, chunk_max), traits, multiples)
