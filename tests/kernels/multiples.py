"""Points with known logarithms, made by py_ecc one addition at a time."""

from functools import cache
from typing import Any

from py_ecc import optimized_bls12_381, optimized_bn128

from kernels.curves import BN254, Curve

ORACLES: dict[str, Any] = {"bn254": optimized_bn128, "bls12381": optimized_bls12_381}
"""The curves by py_ecc."""


def generator(group: str, curve: Curve = BN254) -> Any:
    """The generator as py_ecc keeps it."""
    oracle = ORACLES[curve.ident]
    return oracle.G1 if group == "g1" else oracle.G2


def to_affine(point: Any, curve: Curve = BN254) -> Any:
    """A point of py_ecc as coordinates, None for infinity."""
    oracle = ORACLES[curve.ident]
    if oracle.is_inf(point):
        return None
    return tuple(_value(coordinate) for coordinate in oracle.normalize(point))


def _value(element: Any) -> Any:
    coefficients = getattr(element, "coeffs", None)
    return int(element) if coefficients is None else tuple(int(value) for value in coefficients)


@cache
def multiples(group: str, count: int, curve: Curve = BN254) -> tuple[Any, ...]:
    """0 G, 1 G, ... as py_ecc keeps them."""
    oracle = ORACLES[curve.ident]
    step = generator(group, curve)
    points = [oracle.Z1 if group == "g1" else oracle.Z2]
    for _ in range(count - 1):
        points.append(oracle.add(points[-1], step))
    return tuple(points)


@cache
def affine_multiples(group: str, count: int, curve: Curve = BN254) -> tuple[Any, ...]:
    """The same, affine; 0 G is None."""
    return tuple(to_affine(point, curve) for point in multiples(group, count, curve))


@cache
def times_generator(group: str, scalar: int, curve: Curve = BN254) -> Any:
    """A multiple of the generator by py_ecc, affine."""
    return to_affine(ORACLES[curve.ident].multiply(generator(group, curve), scalar % curve.r), curve)
