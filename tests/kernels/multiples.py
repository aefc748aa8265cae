"""Points with known logarithms, made by py_ecc one addition at a time."""

from functools import cache
from typing import Any

from py_ecc import optimized_bn128 as py_ecc

GENERATORS: dict[str, Any] = {"g1": py_ecc.G1, "g2": py_ecc.G2}
INFINITY: dict[str, Any] = {"g1": py_ecc.Z1, "g2": py_ecc.Z2}


def to_affine(point: Any) -> Any:
    """A point of py_ecc as coordinates, None for infinity."""
    if py_ecc.is_inf(point):
        return None
    return tuple(_value(coordinate) for coordinate in py_ecc.normalize(point))


def _value(element: Any) -> Any:
    coefficients = getattr(element, "coeffs", None)
    return int(element) if coefficients is None else tuple(int(value) for value in coefficients)


@cache
def multiples(group: str, count: int) -> tuple[Any, ...]:
    """0 G, 1 G, ... as py_ecc keeps them."""
    generator = GENERATORS[group]
    points = [INFINITY[group]]
    for _ in range(count - 1):
        points.append(py_ecc.add(points[-1], generator))
    return tuple(points)


@cache
def affine_multiples(group: str, count: int) -> tuple[Any, ...]:
    """The same, affine; 0 G is None."""
    return tuple(to_affine(point) for point in multiples(group, count))


@cache
def times_generator(group: str, scalar: int) -> Any:
    """A multiple of the generator by py_ecc, affine."""
    return to_affine(py_ecc.multiply(GENERATORS[group], scalar % py_ecc.curve_order))
