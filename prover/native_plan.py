"""Planning of proofs by CPUs' own functions: windows, memory, and how long each phase takes beside the others. Pure.

Apart from ``prover.plan``, which plans launches of kernels: a proof on a CPU loads no more than it uses.
"""

from collections.abc import Sequence
from typing import Final

ELEMENT_BYTES: Final = 32
"""Bytes of a scalar field element: of every supported curve."""
COUNTER_BYTES: Final = 4
PAIR_PRODUCTS: Final = 6.5
"""Field products of adding two affine points among many, their share of an inversion included."""
NATIVE_BUCKET_PRODUCTS: Final = 15
"""Field products of a bucket's part in a window's sum on a CPU."""
NATIVE_WINDOW_BITS_MIN: Final = 5
NATIVE_WINDOW_BITS_MAX: Final = 16
NATIVE_WINDOWS_TYPICAL: Final = 20
NATIVE_SORT_BYTES: Final = 17
"""Of a scalar while its digits are sorted: its index, six digits and a sign."""
NATIVE_FIXED_BYTES: Final = 1 << 24
"""Tiles of the threads and the like."""
VERIFY_POINTS: Final = 2500
"""Points of a G1 multi-exponentiation that take as long as the verification in Python (2 vCPUs, 2026-11-30)."""


def ceil_div(number: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-number // divisor)


def choose_native_window(lengths: Sequence[int], scalar_bits: int) -> int:
    """Return the window width with the fewest field products on a CPU.

    Args:
        lengths: how many folded scalars have each number of bits.
        scalar_bits: bits of the scalar field's modulus.
    """
    # longer[b]: scalars of more than b bits.
    longer = [0] * (len(lengths) + 1)
    for bits in reversed(range(len(lengths))):
        longer[bits] = longer[bits + 1] + lengths[bits]

    def products(window_bits: int) -> float:
        total = 0.0
        for low in range(0, scalar_bits, window_bits):
            entries = longer[min(low + 1, len(lengths))]
            if entries:
                total += entries * PAIR_PRODUCTS + (1 << (window_bits - 1)) * NATIVE_BUCKET_PRODUCTS
        return total

    return min(range(NATIVE_WINDOW_BITS_MIN, NATIVE_WINDOW_BITS_MAX + 1), key=products)


def native_windows(lengths: Sequence[int], window_bits: int) -> tuple[int, int]:
    """Return how many digits a long scalar has on a CPU, and how many scalars are long: have a window's bits or more.

    Args:
        lengths: how many folded scalars have each number of bits.
        window_bits: width of a window.
    """
    longs = sum(lengths[window_bits:])
    longest = max((bits for bits, count in enumerate(lengths) if count), default=0)
    # The highest digit has room for a carry.
    return (ceil_div(longest + 1, window_bits) if longs else 1), longs


def native_bytes(*, n_vars: int, log2_domain: int, scalar_bits: int) -> int:
    """Return the most memory that one proof takes on a CPU beside the mapped files.

    The sums over the witness are done before there is a quotient; the one over the quotient, whose other vectors are
    gone by then, is the largest of the parts.
    """
    domain = 1 << log2_domain
    windows = ceil_div(scalar_bits, NATIVE_WINDOW_BITS_MIN)
    transforms = (3 * domain + 3 * domain // 2) * ELEMENT_BYTES
    digits = NATIVE_SORT_BYTES + min(windows, NATIVE_WINDOWS_TYPICAL) * COUNTER_BYTES
    return max(transforms, n_vars * digits, domain * (ELEMENT_BYTES + digits)) + NATIVE_FIXED_BYTES


def phase_weights(*, n_vars: int, n_public: int, domain_size: int) -> dict[str, int]:
    """Return how long each phase of a proof takes beside the others: for a progress bar, no more.

    One unit is one point of a multi-exponentiation in G1; the shares were read off proofs on 2 vCPUs (2026-11-30).
    """
    return {
        "key": n_vars // 16 + 1,
        "rows": n_vars // 32 + 1,
        "transforms": domain_size // 8 + 1,
        "msm_a": n_vars + 1,
        "msm_b": 3 * n_vars + 1,
        "msm_c": max(0, n_vars - n_public - 1) + 1,
        "msm_h": domain_size + 1,
        "assemble": 1,
        "verify": VERIFY_POINTS,
    }
