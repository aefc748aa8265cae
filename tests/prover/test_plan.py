"""Plans, without a device."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.backends.base import Traits
from prover.native_plan import native_bytes
from prover.plan import (
    COUNTERS_MAX,
    ELEMENT_BYTES,
    SLOT_BYTES,
    choose_window,
    flat,
    plan_msm,
    plan_ntt,
    plan_scan,
)

CPU = Traits(kind="cpu", parallel=2, shared_bytes_max=32 * 1024, memory_bytes=1 << 33)
GPU = Traits(kind="gpu", parallel=132, shared_bytes_max=48 * 1024, memory_bytes=1 << 37)
BITS = 254

traits = st.sampled_from([CPU, GPU])


@given(count=st.integers(0, 1 << 30), per_thread=st.integers(1, 100))
def test_flat_launches_cover_everything(count: int, per_thread: int) -> None:
    launch = flat(count, per_thread)
    assert launch.blocks_x >= 1
    assert launch.blocks_x * launch.threads * per_thread >= count
    assert (launch.blocks_x - 1) * launch.threads * per_thread < max(count, 1)


@given(count=st.integers(1, 1 << 32), device=traits, per_thread=st.sampled_from([None, 2, 5]))
def test_scans_end_in_one_tile(count: int, device: Traits, per_thread: int | None) -> None:
    levels = plan_scan(count, device, per_thread=per_thread)
    assert levels[0].count == count
    assert levels[-1].tiles == 1
    for level, following in pairwise(levels):
        assert level.tiles == following.count
    for level in levels:
        assert (level.tiles - 1) * level.tile < level.count <= level.tiles * level.tile
        assert level.tile == level.launch.threads * level.per_thread


def test_scans_of_single_counters_never_end() -> None:
    with pytest.raises(ValueError, match="2 counters at least, not 1"):
        plan_scan(5, CPU, per_thread=1)


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("tile_log", [None, 1, 2, 5, 10])
@pytest.mark.parametrize("log_n", range(1, 29))
def test_transforms_do_each_level_once(log_n: int, tile_log: int | None, device: Traits) -> None:
    passes = plan_ntt(log_n, 3, device, tile_log=tile_log)
    bits = [bit for step in passes for bit in range(step.low + step.log_rows - 1, step.low - 1, -1)]
    assert bits == list(range(log_n - 1, -1, -1)), "an inverse transform goes from the highest bit to the lowest"
    for step in passes:
        tile = 1 << (step.log_rows + step.log_columns)
        assert step.log_rows >= 1
        assert step.log_columns <= step.low
        assert step.launch.blocks_x * tile == 1 << log_n
        assert step.launch.blocks_y == 3
        assert step.launch.shared_bytes == tile * ELEMENT_BYTES <= device.shared_bytes_max
        assert 1 <= step.launch.threads <= 1024


def test_transforms_take_as_few_passes_as_shared_memory_allows() -> None:
    assert [len(plan_ntt(log_n, 1, GPU)) for log_n in (1, 10, 11, 16, 17, 24, 25, 27)] == [1, 1, 2, 2, 3, 3, 4, 4]


@given(
    count=st.integers(0, 1 << 27),
    device=traits,
    window_bits=st.none() | st.integers(1, 20),
    chunk=st.none() | st.integers(1, 1 << 27),
)
def test_multi_exponentiations(count: int, device: Traits, window_bits: int | None, chunk: int | None) -> None:
    plan = plan_msm(count, BITS, device, window_bits=window_bits, chunk=chunk)
    assert plan.windows * plan.window_bits >= BITS
    assert plan.chunk * plan.windows <= COUNTERS_MAX
    assert plan.window_buckets == 1 << (plan.window_bits - 1)
    # Without this many chunks to list.
    if count <= 1 << 12 or plan.chunk > 1 << 16:
        chunks = plan.chunks()
        assert sum(size for _, size in chunks) == count
        assert [first for first, _ in chunks] == [i * plan.chunk for i in range(len(chunks))]
    launch, per_thread, slots = plan.sort_launch(max(1, min(count, plan.chunk)))
    assert slots & (slots - 1) == 0 < slots
    assert launch.shared_bytes == slots * SLOT_BYTES <= device.shared_bytes_max
    assert launch.blocks_x * launch.threads * per_thread >= min(count, plan.chunk)
    assert launch.blocks_y == plan.windows <= 65_535
    for sum_bytes in (128, 256):
        reduction = plan.reduce_launch(sum_bytes)
        assert reduction.blocks_y == plan.windows
        assert reduction.shared_bytes == reduction.threads * sum_bytes <= device.shared_bytes_max


@given(
    entries=st.integers(0, 1 << 31),
    device=traits,
    parallel=st.integers(1, 300),
    window_bits=st.integers(1, 20),
)
def test_runs_share_entries_and_fit_the_lists(entries: int, device: Traits, parallel: int, window_bits: int) -> None:
    chosen = Traits(device.kind, parallel, device.shared_bytes_max, 1 << 50)
    windows = -(-BITS // window_bits)
    # Of a chunk that may have more entries than there are digits other than zero.
    plan = plan_msm(max(1, entries // windows), BITS, chosen, window_bits=window_bits)
    places = plan.partial_places()
    most = min(entries, min(plan.chunk, plan.count) * plan.windows)
    for n_entries in {most, most // 2, most // 3, min(most, 1), min(most, 17), min(most, 48)}:
        launches = plan.runs(n_entries)
        assert bool(launches) == bool(n_entries)
        items, left = n_entries, 1
        for level, (launch, run) in enumerate(launches):
            threads = -(-items // run)
            assert launch.blocks_x * launch.threads >= threads > (launch.blocks_x - 1) * launch.threads
            assert level == 0 or run % 2 == 0, "a run of partial sums begins with a pair"
            left = launch.blocks_x if level else threads
            items = 2 * left
            assert level or left == 1 or items <= places, "partial sums must fit their list"
        assert left == 1, "what the last launch leaves is one thread's"


def test_windows_grow_with_the_number_of_points() -> None:
    for most in (1, 4):
        chosen = [choose_window(1 << log, BITS, most)[0] for log in range(24)]
        assert chosen == sorted(chosen)
        assert 2 <= chosen[0] < chosen[-1] <= 20


@given(count=st.integers(1, 1 << 24), most=st.integers(1, 64))
def test_multiples_are_as_many_as_save_work(count: int, most: int) -> None:
    window_bits, multiples = choose_window(count, BITS, most)
    windows = -(-BITS // window_bits)
    assert 1 <= multiples <= min(most, windows)
    plan = plan_msm(count, BITS, GPU, window_bits=window_bits, multiples=multiples)
    assert plan.windows == plan.groups * multiples >= windows
    assert plan.groups == -(-windows // multiples)
    assert plan.doublings * multiples >= BITS
    # One multiple less would not do for so few groups.
    assert multiples == 1 or -(-windows // (multiples - 1)) > plan.groups


def test_limits_are_said() -> None:
    with pytest.raises(ValueError, match="2147483648 points are more than the 2147483647"):
        plan_msm(1 << 31, BITS, GPU)
    with pytest.raises(ValueError, match="a window has 1 to 20 bits, not 21"):
        plan_msm(10, BITS, GPU, window_bits=21)


def test_little_memory_makes_small_chunks() -> None:
    poor = Traits(kind="cpu", parallel=2, shared_bytes_max=32 * 1024, memory_bytes=1 << 20)
    plan = plan_msm(1 << 20, BITS, poor)
    assert len(plan.chunks()) > 100
    assert 8 * plan.chunk * plan.windows <= 1 << 18


@pytest.mark.parametrize("log2", [18, 20, 24])
def test_a_proof_on_a_cpu_takes_no_more_than_150_bytes_a_row(log2: int) -> None:
    """Beside the key: digits and quotient of the last sum, what is fixed apart. The witness is let go by then."""
    needed = native_bytes(n_vars=1 << log2, log2_domain=log2, scalar_bits=BITS)
    assert (needed - native_bytes(n_vars=1, log2_domain=1, scalar_bits=BITS)) / (1 << log2) <= 150 - 1
    # Whatever part is the largest: the transforms, or the sums over many more wires than rows.
    assert native_bytes(n_vars=1, log2_domain=log2, scalar_bits=BITS) >= 112 << log2
    assert native_bytes(n_vars=4 << log2, log2_domain=log2, scalar_bits=BITS) >= 4 * 76 << log2
