"""Multi-exponentiations against a naive sum.

Points are multiples of the generator with known small logarithms (by py_ecc), so that the naive sum is one sum of
numbers and one multiplication by py_ecc.
"""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from kernels.curves import BN254
from prover.backends.base import Launch, Scope, Traits
from prover.backends.host import HostBackend
from prover.msm import GroupName, Points, multi_exponentiate, point_bytes, sum_bytes
from prover.multiples import multiply
from prover.plan import SLOT_BYTES, flat, plan_msm
from prover.scan import exclusive_scan
from tests.kernels.multiples import affine_multiples, times_generator
from tests.kernels.operands import OPERANDS, edges, g1_bytes, g2_bytes, plain

R = BN254.r
BITS = R.bit_length()
TABLE = 400


def points_bytes(group: GroupName, logarithms: Sequence[int]) -> bytes:
    """The points of some logarithms, which may be negative; 0 is infinity."""
    table = affine_multiples(group, TABLE)
    if group == "g1":
        return g1_bytes([_signed(table[abs(i)], i) for i in logarithms])
    return g2_bytes([_signed(table[abs(i)], i) for i in logarithms])


def _signed(point: Any, sign: int) -> Any:
    if point is None or sign >= 0:
        return point
    x, y = point
    return x, tuple(-part % BN254.q for part in y) if isinstance(y, tuple) else -y % BN254.q


def expected(group: GroupName, logarithms: Sequence[int], scalars: Sequence[int]) -> bytes:
    total = sum(i * scalar for i, scalar in zip(logarithms, scalars, strict=True)) % R
    point = times_generator(group, total)
    return g1_bytes([point]) if group == "g1" else g2_bytes([point])


def computed(
    host: HostBackend,
    group: GroupName,
    logarithms: Sequence[int],
    scalars: Sequence[int],
    *,
    window_bits: int | None = None,
    chunk: int | None = None,
    traits: Traits | None = None,
    scalar_of_point: Sequence[int] | None = None,
    multiples: int = 1,
) -> bytes:
    shape = {"window_bits": window_bits, "chunk": chunk}
    plan = plan_msm(len(logarithms), BITS, traits or host.traits(), **shape, multiples=multiples)
    with Scope(host) as scope:
        points = scope.uploaded(points_bytes(group, logarithms))
        if multiples > 1:
            table = scope.allocate(points.nbytes * multiples)
            multiply(host, BN254, group, plan, points.address, table.address, 1 << 13)
            points = table
        numbers = scope.uploaded(plain(scalars))
        out = scope.allocate(point_bytes(BN254, group))
        indices = 0
        if scalar_of_point is not None:
            indices = scope.uploaded(struct.pack(f"<{len(scalar_of_point)}I", *scalar_of_point)).address
        multi_exponentiate(
            host,
            BN254,
            plan,
            scalars=numbers.address,
            scalar_of_point=indices,
            targets=[Points(group, points.address, out.address)],
        )
        return host.download(out, 0, out.nbytes)


def random_case(seed: object, count: int) -> tuple[list[int], list[int]]:
    """Points with infinity, duplicates and opposites among them, and scalars with edges among them."""
    random = Random(f"msm {seed}")
    special = edges(R)
    logarithms = [random.randint(-TABLE + 1, TABLE - 1) if random.random() < 0.9 else 0 for _ in range(count)]
    scalars = [random.choice(special) if random.random() < 0.3 else random.randrange(R) for _ in range(count)]
    return logarithms, scalars


@pytest.mark.parametrize("group", ["g1", "g2"])
def test_ten_thousand_points(host: HostBackend, group: GroupName) -> None:
    logarithms, scalars = random_case(group, OPERANDS)
    assert computed(host, group, logarithms, scalars) == expected(group, logarithms, scalars)


def test_every_small_number_of_points(host: HostBackend) -> None:
    wrong = []
    for count in [*range(132), 255, 256, 257, 300]:
        logarithms, scalars = random_case(count, count)
        if computed(host, "g1", logarithms, scalars) != expected("g1", logarithms, scalars):
            wrong.append(count)
    assert wrong == []


def test_every_small_number_of_points_of_the_second_group(host: HostBackend) -> None:
    wrong = []
    for count in [*range(34), 63, 64, 65, 237]:
        logarithms, scalars = random_case(count, count)
        if computed(host, "g2", logarithms, scalars) != expected("g2", logarithms, scalars):
            wrong.append(count)
    assert wrong == []


DISTRIBUTIONS: dict[str, Callable[[Random, int], int]] = {
    "all equal": lambda _random, _i: 0x1234_5678_9ABC_DEF0 << 180,
    "all r - 1": lambda _random, _i: R - 1,
    "all zero": lambda _random, _i: 0,
    "all one": lambda _random, _i: 1,
    "zeros and ones": lambda random, _i: random.randrange(2),
    "small and minus small": lambda random, _i: random.randint(-9, 9) % R,
    "around half": lambda random, _i: ((R - 1) // 2 + random.randint(-3, 3)) % R,
    "powers of two": lambda _random, i: (1 << i % 254) % R,
    "one bucket": lambda _random, i: 1 << 13 * (i % 19),
    "all ones in binary": lambda _random, i: (1 << (i % 253 + 1)) - 1,
    "uniform": lambda random, _i: random.randrange(R),
}
POINTS: dict[str, Callable[[Random, int], int]] = {
    "any": lambda random, _i: random.randint(-TABLE + 1, TABLE - 1),
    "all the same": lambda _random, _i: 7,
    "a point and its opposite": lambda _random, i: 5 if i % 2 else -5,
    "all infinity": lambda _random, _i: 0,
    "mostly infinity": lambda random, i: 0 if i % 50 else random.randint(1, TABLE - 1),
}


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("scalars", DISTRIBUTIONS)
def test_distributions(host: HostBackend, points: str, scalars: str) -> None:
    random = Random(f"{points} {scalars}")
    count = 1100
    logarithms = [POINTS[points](random, i) for i in range(count)]
    numbers = [DISTRIBUTIONS[scalars](random, i) for i in range(count)]
    assert computed(host, "g1", logarithms, numbers) == expected("g1", logarithms, numbers)
    few = slice(150)
    assert computed(host, "g2", logarithms[few], numbers[few]) == expected("g2", logarithms[few], numbers[few])


@pytest.mark.parametrize("window_bits", range(1, 17))
def test_every_window(host: HostBackend, window_bits: int) -> None:
    logarithms, scalars = random_case(window_bits, 60)
    found = computed(host, "g1", logarithms, scalars, window_bits=window_bits)
    assert found == expected("g1", logarithms, scalars)


@pytest.mark.parametrize("chunk", [1, 2, 7, 64, 99, 100, 1000])
@pytest.mark.parametrize("group", ["g1", "g2"])
def test_chunks(host: HostBackend, group: GroupName, chunk: int) -> None:
    logarithms, scalars = random_case(chunk, 100)
    found = computed(host, group, logarithms, scalars, chunk=chunk, window_bits=5)
    assert found == expected(group, logarithms, scalars)


@pytest.mark.parametrize(("window_bits", "multiples"), [(3, 2), (7, 37), (8, 5), (13, 20), (16, 16), (12, 4)])
@pytest.mark.parametrize("chunk", [None, 23])
def test_multiples_of_points_give_the_same_sum(
    host: HostBackend, window_bits: int, multiples: int, chunk: int | None
) -> None:
    """By tables, some of whose points are infinity, made in several launches; windows share buckets by them."""
    for group in ("g1", "g2"):
        logarithms, scalars = random_case((window_bits, group), 40)
        shape: dict[str, Any] = {"window_bits": window_bits, "chunk": chunk, "multiples": multiples}
        assert computed(host, group, logarithms, scalars, **shape) == expected(group, logarithms, scalars)
        equal = [DISTRIBUTIONS["all equal"](Random(1), i) for i in range(40)]
        assert computed(host, group, logarithms, equal, **shape) == expected(group, logarithms, equal)


@pytest.mark.parametrize(("threads", "per_thread"), [(1, 25), (3, 9), (32, 1)])
@pytest.mark.parametrize("group", ["g1", "g2"])
def test_points_share_an_inversion(host: HostBackend, group: GroupName, threads: int, per_thread: int) -> None:
    """Infinity among them, which has no inverse; no doubling at all gives the points themselves."""
    logarithms, _ = random_case(("doublings", group), 25)
    assert 0 in logarithms
    size = point_bytes(BN254, group)
    with Scope(host) as scope:
        points = scope.uploaded(points_bytes(group, logarithms))
        sums, out = scope.allocate(2 * points.nbytes), scope.allocate(points.nbytes)
        for doublings in (0, 1, 5):
            arguments = [points.address, 25, doublings, per_thread, sums.address, out.address]
            host.launch(f"bn254_{group}_doublings", Launch(1, threads=threads), arguments)
            found = host.download(out, 0, out.nbytes)
            wanted = [expected(group, [i], [1 << doublings]) for i in logarithms]
            assert [found[at : at + size] for at in range(0, len(found), size)] == wanted


@pytest.mark.parametrize("count", [1, 16, 17, 4096, 5000])
@pytest.mark.parametrize("slots", [1, 2, 64, 1024])
def test_a_block_counts_digits_in_its_table_or_one_by_one(host: HostBackend, slots: int, count: int) -> None:
    """Nothing is lost and nothing counted twice, however few slots there are and however common a digit is."""
    random = Random(f"{slots} {count}")
    window_buckets, groups = 1 << 11, 2
    digits = [
        random.choice([0, 1, 1 | 1 << 31, 1, 5, 5 + slots % window_buckets, random.randrange(1, window_buckets + 1)])
        for _ in range(groups * count)
    ]
    with Scope(host) as scope:
        words = scope.uploaded(struct.pack(f"<{len(digits)}I", *digits))
        ends = scope.allocate(4 * (groups * window_buckets + 1))
        entries = scope.allocate(4 * len(digits))
        shape = Launch(-(-count // 64), groups, 8, slots * SLOT_BYTES)
        arguments = [words.address, count, window_buckets, ends.address, 8, slots]
        host.launch("bucket_count", shape, arguments)
        counts = struct.unpack(f"<{groups * window_buckets}I", host.download(ends, 0, ends.nbytes - 4))
        exclusive_scan(host, host.traits(), ends.address, groups * window_buckets + 1)
        host.launch("bucket_scatter", shape, [*arguments, count, count, entries.address])
        found = struct.unpack(f"<{len(digits)}I", host.download(entries, 0, entries.nbytes))
    wanted: dict[int, list[int]] = {}
    for place, digit in enumerate(digits):
        if digit:
            bucket = place // count * window_buckets + (digit & ~(1 << 31)) - 1
            wanted.setdefault(bucket, []).append(place % count | digit & 1 << 31)
    assert {bucket: number for bucket, number in enumerate(counts) if number} == {
        bucket: len(listed) for bucket, listed in wanted.items()
    }
    begin = 0
    for bucket in sorted(wanted):
        end = begin + len(wanted[bucket])
        assert sorted(found[begin:end]) == sorted(wanted[bucket])
        begin = end


@pytest.mark.parametrize("parallel", [1, 3, 100, 10_000])
def test_runs_of_any_length(host: HostBackend, parallel: int) -> None:
    """Down to one entry for each thread, where every sum is a partial one."""
    traits = Traits(kind="cpu", parallel=parallel, shared_bytes_max=1 << 15, memory_bytes=1 << 30)
    for distribution in ("uniform", "all equal", "powers of two"):
        random = Random(parallel)
        numbers = [DISTRIBUTIONS[distribution](random, i) for i in range(200)]
        logarithms, _ = random_case(parallel, 200)
        found = computed(host, "g1", logarithms, numbers, traits=traits)
        assert found == expected("g1", logarithms, numbers)


@pytest.mark.parametrize("chunk", [None, 13])
def test_points_take_their_scalars_by_index(host: HostBackend, chunk: int | None) -> None:
    random = Random("indices")
    logarithms, _ = random_case("indices", 90)
    numbers = [random.randrange(R) for _ in range(40)]
    indices = [random.randrange(40) for _ in logarithms]
    found = computed(host, "g1", logarithms, numbers, chunk=chunk, scalar_of_point=indices)
    assert found == expected("g1", logarithms, [numbers[i] for i in indices])


def test_two_sets_share_a_sort(host: HostBackend) -> None:
    logarithms, scalars = random_case("two sets", 77)
    others = list(reversed(logarithms))
    plan = plan_msm(77, BITS, host.traits(), chunk=20)
    with Scope(host) as scope:
        numbers = scope.uploaded(plain(scalars))
        first, second = scope.uploaded(points_bytes("g1", logarithms)), scope.uploaded(points_bytes("g2", others))
        out1, out2 = scope.allocate(64), scope.allocate(128)
        steps: list[tuple[int, int]] = []
        multi_exponentiate(
            host,
            BN254,
            plan,
            scalars=numbers.address,
            scalar_of_point=0,
            targets=[Points("g1", first.address, out1.address), Points("g2", second.address, out2.address)],
            progress=lambda done, total: steps.append((done, total)),
        )
        assert host.download(out1, 0, 64) == expected("g1", logarithms, scalars)
        assert host.download(out2, 0, 128) == expected("g2", others, scalars)
    assert steps == [(i, 4) for i in range(5)]


@pytest.mark.parametrize("multiples", [1, 5])
@pytest.mark.parametrize("window_bits", [1, 2, 3, 7, 8, 13, 16, 20])
def test_digits_add_up_to_the_scalar(host: HostBackend, window_bits: int, multiples: int) -> None:
    random = Random(window_bits)
    scalars = edges(R) + [random.randrange(R) for _ in range(1000)]
    count, plan = len(scalars), plan_msm(1, BITS, host.traits(), window_bits=window_bits, multiples=multiples)
    with Scope(host) as scope:
        numbers, digits = scope.uploaded(plain(scalars)), scope.allocate(4 * plan.windows * count)
        shape = [count, window_bits, plan.groups, multiples, digits.address]
        host.launch("bn254_digits", flat(count), [numbers.address, 0, *shape])
        words = struct.unpack(f"<{plan.windows * count}I", host.download(digits, 0, digits.nbytes))
    for i, scalar in enumerate(scalars):
        total = 0
        for w in range(plan.windows):
            word = words[(w % plan.groups * multiples + w // plan.groups) * count + i]
            size = word & 0x7FFF_FFFF
            assert size <= 1 << (window_bits - 1)
            assert word != 0x8000_0000, "zero has no sign"
            total += (-size if word >> 31 else size) << window_bits * w
        assert total % R == scalar
        assert abs(total) <= (R - 1) // 2


def test_combination_of_a_few_points(host: HostBackend) -> None:
    for count in (1, 2, 3, 5, 8, 13):
        for threads in (1, 2, 5, 8):
            logarithms, scalars = random_case((count, threads), count)
            with Scope(host) as scope:
                points, numbers = scope.uploaded(points_bytes("g1", logarithms)), scope.uploaded(plain(scalars))
                out = scope.allocate(64)
                shape = Launch(1, threads=threads, shared_bytes=threads * sum_bytes(BN254, "g1"))
                arguments = [points.address, numbers.address, count, out.address]
                host.launch("bn254_g1_combination", shape, arguments)
                assert host.download(out, 0, out.nbytes) == expected("g1", logarithms, scalars)
