"""Signatures over the twisted Edwards curve of circomlib, in as much as a test needs them.

The curve is ``a x^2 + y^2 = 1 + d x^2 y^2`` over BN254's scalar field. The hash is the circuit's to compute: the signer
asks for it with a witness in which the check is switched off.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kernels.curves import BN254

R: Final = BN254.r
A, D = 168700, 168696
ORDER: Final = 2736030358979909402780800718157159386076813972158567259200215660948447373041
BASE: Final = (
    5299619240641551281634865583518297030282874472190772894086521144482721001553,
    16950150798460657717958625567821834550301663161624707787222815936182638968203,
)
"""The point of order ``ORDER`` that circomlib multiplies."""

Point = tuple[int, int]
Inputs = dict[str, object]


def add(first: Point, second: Point) -> Point:
    """Return the sum of two points."""
    (x1, y1), (x2, y2) = first, second
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + y1 * x2) * pow(1 + product, -1, R) % R
    y = (y1 * y2 - A * x1 * x2) * pow(1 - product, -1, R) % R
    return x, y


def multiply(point: Point, scalar: int) -> Point:
    """Return a multiple of a point."""
    total: Point = (0, 1)
    for bit in f"{scalar:b}":
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def signed(message: int, challenge: Callable[[Mapping[str, object]], int]) -> Inputs:
    """Return inputs of ``sources/eddsa.circom`` with a valid signature.

    Args:
        message: what is signed.
        challenge: what the circuit computes from inputs whose signature is not checked.
    """
    secret, nonce = 0x1234_5678_9ABC_DEF0_1111 % ORDER, 0x0FED_CBA9_8765_4321_2222 % ORDER
    r8, key = multiply(BASE, nonce), multiply(BASE, secret)
    inputs: Inputs = {"key": list(map(str, key)), "r8": list(map(str, r8)), "message": str(message)}
    hashed = challenge({**inputs, "enabled": 0, "s": 0})
    return {**inputs, "enabled": 1, "s": str((nonce + 8 * hashed * secret) % ORDER)}
