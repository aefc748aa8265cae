"""The group kernels against py_ecc, for points in general position and for every exceptional pair."""

from random import Random
from typing import Any

import pytest

from kernels.curves import CURVES, Curve
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.plan import flat
from tests.kernels.multiples import ORACLES, affine_multiples, multiples, times_generator, to_affine
from tests.kernels.operands import OPERANDS, g1_bytes, g2_bytes, montgomery, numbers

OPERATIONS = ("add_affine", "add", "twice", "twice_affine", "times", "negate")
TABLE = 700
PACK: dict[str, Any] = {"g1": g1_bytes, "g2": g2_bytes}
COORDINATE_FIELDS = {"g1": 1, "g2": 2}


@pytest.fixture(params=CURVES, ids=lambda curve: curve.ident)
def curve(request: pytest.FixtureRequest) -> Curve:
    """Each curve."""
    found: Curve = request.param
    return found


def negative(group: str, point: Any, curve: Curve) -> Any:
    """The opposite point, affine."""
    if point is None:
        return None
    x, y = point
    return (x, -y % curve.q) if group == "g1" else (x, tuple(-part % curve.q for part in y))


def index_pairs(count: int) -> list[tuple[int, int]]:
    """Pairs of logarithms: with infinity on either side, equal, opposite (negative numbers), and random ones."""
    random = Random("index pairs")
    special = [(0, 0), (0, 1), (1, 0), (1, 1), (1, -1), (-1, 1), (2, 2), (0, -5), (7, 0)]
    special += [(i, i) for i in range(1, 60)] + [(i, -i) for i in range(1, 60)]
    special += [(i, 0) for i in range(1, 30)] + [(0, i) for i in range(1, 30)] + [(2 * i, -i) for i in range(1, 30)]
    rest = count - len(special)
    limit = TABLE // 2 - 1
    return special + [(random.randint(-limit, limit), random.randint(-limit, limit)) for _ in range(rest)]


def point_of(group: str, logarithm: int, curve: Curve) -> Any:
    point = affine_multiples(group, TABLE, curve)[abs(logarithm)]
    return point if logarithm >= 0 else negative(group, point, curve)


def run(
    backend: HostBackend,
    curve: Curve,
    group: str,
    operation: str,
    p: list[Any],
    q: list[Any],
    scalars: list[int] | None = None,
) -> bytes:
    """Apply an operation to arrays of affine points; what the kernel multiplies coordinates with is random."""
    random = Random("spread")
    count = len(p)
    spread = [random.randrange(1, curve.q) for _ in range(count * COORDINATE_FIELDS[group])]
    words = b"".join(value.to_bytes(8, "little") for value in scalars or [0])
    with Scope(backend) as scope:
        points, others = scope.uploaded(PACK[group](p, curve)), scope.uploaded(PACK[group](q, curve))
        z = scope.uploaded(montgomery(spread, curve.q))
        multipliers = scope.uploaded(words)
        out = scope.allocate(points.nbytes)
        backend.launch(
            f"{curve.ident}_law_{group}",
            flat(count),
            [
                OPERATIONS.index(operation),
                points.address,
                others.address,
                z.address,
                multipliers.address,
                out.address,
                count,
            ],
        )
        return backend.download(out, 0, out.nbytes)


@pytest.mark.parametrize("group", ["g1", "g2"])
@pytest.mark.parametrize("operation", ["add_affine", "add"])
def test_addition(laws: HostBackend, curve: Curve, group: str, operation: str) -> None:
    logarithms = index_pairs(OPERANDS)
    p = [point_of(group, i, curve) for i, _ in logarithms]
    q = [point_of(group, j, curve) for _, j in logarithms]
    expected = PACK[group]([point_of(group, i + j, curve) for i, j in logarithms], curve)
    assert run(laws, curve, group, operation, p, q) == expected


@pytest.mark.parametrize("group", ["g1", "g2"])
@pytest.mark.parametrize("operation", ["twice", "twice_affine"])
def test_doubling(laws: HostBackend, curve: Curve, group: str, operation: str) -> None:
    random = Random("doubling")
    logarithms = [0, 1, -1] + [random.randint(-TABLE // 2 + 1, TABLE // 2 - 1) for _ in range(OPERANDS)]
    p = [point_of(group, i, curve) for i in logarithms]
    expected = PACK[group]([point_of(group, 2 * i, curve) for i in logarithms], curve)
    assert run(laws, curve, group, operation, p, p) == expected


@pytest.mark.parametrize("group", ["g1", "g2"])
def test_opposite(laws: HostBackend, curve: Curve, group: str) -> None:
    random = Random("opposite")
    logarithms = [0, 1, -1] + [random.randint(-TABLE + 1, TABLE - 1) for _ in range(OPERANDS)]
    p = [point_of(group, i, curve) for i in logarithms]
    assert run(laws, curve, group, "negate", p, p) == PACK[group](
        [point_of(group, -i, curve) for i in logarithms], curve
    )


@pytest.mark.parametrize("group", ["g1", "g2"])
def test_small_multiples(laws: HostBackend, curve: Curve, group: str) -> None:
    random = Random("multiples")
    operands = [(0, 0), (0, 1), (1, 0), (1, 1), (5, 0), (0, 2**64 - 1)]
    while len(operands) < OPERANDS:
        scalar = random.randrange(TABLE)
        limit = (TABLE - 1) // max(scalar, 1)
        operands.append((random.randint(-limit, limit), scalar))
    p = [point_of(group, i, curve) for i, _ in operands]
    expected = PACK[group]([point_of(group, i * scalar, curve) for i, scalar in operands], curve)
    assert run(laws, curve, group, "times", p, p, [scalar for _, scalar in operands]) == expected


@pytest.mark.parametrize("group", ["g1", "g2"])
def test_large_multiples(laws: HostBackend, curve: Curve, group: str) -> None:
    random = Random("large multiples")
    scalars = [2**64 - 1, 2**63, 2**32, *(random.randrange(2**64) for _ in range(17))]
    bases = [random.randrange(1, TABLE) for _ in scalars]
    p = [point_of(group, i, curve) for i in bases]
    expected = PACK[group](
        [times_generator(group, i * scalar, curve) for i, scalar in zip(bases, scalars, strict=True)], curve
    )
    assert run(laws, curve, group, "times", p, p, scalars) == expected


@pytest.mark.parametrize("group", ["g1", "g2"])
def test_points_of_general_position(laws: HostBackend, curve: Curve, group: str) -> None:
    """The table above holds small multiples only; these are far from the generator."""
    random, oracle = Random("general"), ORACLES[curve.ident]
    start = oracle.multiply(multiples(group, TABLE, curve)[1], random.randrange(curve.r))
    step = oracle.multiply(multiples(group, TABLE, curve)[1], random.randrange(curve.r))
    p, q, expected = [], [], []
    for i in range(100):
        other = multiples(group, TABLE, curve)[i]
        p.append(to_affine(start, curve))
        q.append(to_affine(other, curve))
        expected.append(to_affine(oracle.add(start, other), curve))
        start = oracle.add(start, step)
    for operation in ("add_affine", "add"):
        assert run(laws, curve, group, operation, p, q) == PACK[group](expected, curve)


def test_results_are_canonical(laws: HostBackend, curve: Curve) -> None:
    size = curve.n8q
    p = [point_of("g1", i, curve) for i in range(1, TABLE)]
    assert max(numbers(run(laws, curve, "g1", "add_affine", p, p), size)) < curve.q
    opposite = g1_bytes([point_of("g1", -i, curve) for i in range(1, TABLE)], curve)
    assert run(laws, curve, "g1", "negate", p, p) == opposite
