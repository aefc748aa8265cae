"""The number-theoretic transform over a curve's scalar field: the definition, and a fast form of it."""

from collections.abc import Sequence

from kernels.curves import Curve


def transform_naive(values: Sequence[int], root: int, modulus: int) -> list[int]:
    """Return ``sum over i of values[i] * root^(i k)`` for every k: the definition.

    Args:
        values: canonical elements, one for each power of the root.
        root: an element whose order is the number of values.
        modulus: the field's prime.
    """
    return [
        sum(value * pow(root, i * k, modulus) for i, value in enumerate(values)) % modulus for k in range(len(values))
    ]


def transform(values: Sequence[int], root: int, modulus: int) -> list[int]:
    """Return the same by halving: even and odd positions separately, then one butterfly each.

    Args:
        values: canonical elements; their number is a power of two.
        root: an element whose order is the number of values.
        modulus: the field's prime.
    """
    if len(values) == 1:
        return list(values)
    square = root * root % modulus
    even, odd = transform(values[0::2], square, modulus), transform(values[1::2], square, modulus)
    half = len(even)
    result = [0] * len(values)
    power = 1
    for k in range(half):
        twisted = power * odd[k] % modulus
        result[k] = (even[k] + twisted) % modulus
        result[k + half] = (even[k] - twisted) % modulus
        power = power * root % modulus
    return result


def inverse_transform(values: Sequence[int], root: int, modulus: int) -> list[int]:
    """Return the coefficients whose transform is ``values``."""
    scale = pow(len(values), -1, modulus)
    return [value * scale % modulus for value in transform(values, pow(root, -1, modulus), modulus)]


def shift_to_odd_points(curve: Curve, values: Sequence[int]) -> list[int]:
    """Return the values of a polynomial at the odd points of the doubled domain, from those at the domain.

    With N values at the powers of a root w of order N, the result is at ``g w^i`` where g is the root of order
    2N, or the square of the field's smallest non-residue where no such root exists.

    Args:
        curve: whose scalar field is meant.
        values: N canonical elements, N a power of two up to 2^fr_two_adicity.
    """
    log2_size = len(values).bit_length() - 1
    root = curve.fr_root_of_order(log2_size)
    shift = (
        curve.fr_root_of_order(log2_size + 1)
        if log2_size < curve.fr_two_adicity
        else pow(curve.fr_non_residue, 2, curve.r)
    )
    coefficients = inverse_transform(values, root, curve.r)
    power = 1
    for index, coefficient in enumerate(coefficients):
        coefficients[index] = coefficient * power % curve.r
        power = power * shift % curve.r
    return transform(coefficients, root, curve.r)
