"""Number-theoretic transforms over a backend, and the tables of powers they need."""

from dataclasses import dataclass

from kernels.curves import Curve
from prover.backends.base import Backend, Buffer, Scope
from prover.native import montgomery_bytes
from prover.plan import ELEMENT_BYTES, ceil_div, flat, joins_quotient, plan_ntt

_POWERS_PER_THREAD = 32
_VECTORS = 3
"""a, b and c."""


@dataclass(frozen=True, slots=True)
class PowerTable:
    """The powers of an element in two tables: power i is ``low[i mod 2^window] * high[i div 2^window]``.

    Attributes:
        low: address of 2^window powers.
        high: address of the powers in steps of 2^window, or 0 where ``low`` has all that are asked for.
        window: see above.
    """

    low: int
    high: int
    window: int


NO_TABLE = PowerTable(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Domain:
    """What the transforms of one size need.

    Attributes:
        log_n: logarithm of the size.
        roots: powers of the primitive root of that order, below half the size.
        coset: powers of the coset's generator, divided by the size and scaled.
    """

    log_n: int
    roots: PowerTable
    coset: PowerTable

    @property
    def size(self) -> int:
        """Elements of a vector."""
        return 1 << self.log_n


def make_domain(
    backend: Backend, scope: Scope, curve: Curve, log_n: int, *, root: int, coset: int, scale: int = 1
) -> Domain:
    """Compute the tables of one size.

    Args:
        backend: the device.
        scope: takes the tables.
        curve: the curve.
        log_n: logarithm of the size, 1 to the field's two-adicity.
        root: primitive root of unity of order ``2^log_n``.
        coset: generator of the coset.
        scale: a factor of all that the inverse transform leaves.

    Raises:
        DeviceError: the device failed, or has not enough memory.
    """
    half = 1 << (log_n - 1)
    roots = _powers(backend, scope, curve, root, 1, half)
    # Two tables of about the square root: the coset's powers are needed once for each element, not at each level.
    window = ceil_div(log_n, 2)
    low = _powers(backend, scope, curve, coset, 1, 1 << window)
    first = pow(1 << log_n, -1, curve.r) * scale % curve.r
    high = _powers(backend, scope, curve, pow(coset, 1 << window, curve.r), first, 1 << (log_n - window))
    return Domain(
        log_n=log_n,
        roots=PowerTable(roots.address, 0, log_n - 1),
        coset=PowerTable(low.address, high.address, window),
    )


def inverse_to_coset(
    backend: Backend, curve: Curve, domain: Domain, data: Buffer, batch: int, *, tile_log: int | None = None
) -> None:
    """Replace values over the domain by coefficients times the coset generator's powers, in bit-reversed order.

    Args:
        backend: the device.
        curve: the curve.
        domain: the size and its tables.
        data: ``batch`` vectors one after the other, in Montgomery form.
        batch: number of vectors.
        tile_log: to force the size of a tile, as in ``plan_ntt``.

    Raises:
        DeviceError: the device failed.
    """
    _transform(backend, curve, domain, data, batch, inverse=True, tile_log=tile_log)


def forward(
    backend: Backend, curve: Curve, domain: Domain, data: Buffer, batch: int, *, tile_log: int | None = None
) -> None:
    """Replace coefficients in bit-reversed order by values over the domain, in natural order.

    Args:
        backend: the device.
        curve: the curve.
        domain: the size and its tables.
        data: ``batch`` vectors one after the other, in Montgomery form.
        batch: number of vectors.
        tile_log: to force the size of a tile, as in ``plan_ntt``.

    Raises:
        DeviceError: the device failed.
    """
    _transform(backend, curve, domain, data, batch, inverse=False, tile_log=tile_log)


def forward_to_quotient(
    backend: Backend,
    curve: Curve,
    domain: Domain,
    data: Buffer,
    *,
    tile_log: int | None = None,
    joined: bool | None = None,
) -> None:
    """Do `forward` for a, b and c, and leave the values of a b - c in a's place, as plain integers.

    Args:
        backend: the device.
        curve: the curve.
        domain: the size and its tables.
        data: the three vectors one after the other, in Montgomery form; b and c are used up.
        tile_log: to force the size of a tile, as in ``plan_ntt``.
        joined: to force whether the last pass does it, rather than a launch of its own.

    Raises:
        DeviceError: the device failed.
    """
    traits = backend.traits()
    last = plan_ntt(domain.log_n, _VECTORS, traits, tile_log=tile_log)[0]
    if not (joins_quotient(last, traits) if joined is None else joined):
        forward(backend, curve, domain, data, _VECTORS, tile_log=tile_log)
        vectors = [data.address + number * domain.size * ELEMENT_BYTES for number in range(_VECTORS)]
        backend.launch(f"{curve.ident}_quotient", flat(domain.size), [*vectors, domain.size])
        return
    _transform(backend, curve, domain, data, _VECTORS, inverse=False, tile_log=tile_log, without_last=True)
    shape = [data.address, domain.size, domain.log_n, last.low, last.log_rows, last.log_columns]
    roots = domain.roots
    backend.launch(
        f"{curve.ident}_ntt_quotient_pass",
        last.launch._replace(blocks_y=1),
        [*shape, roots.low, roots.high, roots.window],
    )


def _transform(
    backend: Backend,
    curve: Curve,
    domain: Domain,
    data: Buffer,
    batch: int,
    *,
    inverse: bool,
    tile_log: int | None,
    without_last: bool = False,
) -> None:
    """Launch the passes; the inverse transform's last one scales."""
    passes = plan_ntt(domain.log_n, batch, backend.traits(), tile_log=tile_log)
    if not inverse:
        passes.reverse()
    for number, step in enumerate(passes[: len(passes) - without_last]):
        scale = domain.coset if inverse and number == len(passes) - 1 else NO_TABLE
        backend.launch(
            f"{curve.ident}_ntt_pass",
            step.launch,
            [
                data.address,
                domain.size,
                domain.log_n,
                step.low,
                step.log_rows,
                step.log_columns,
                int(inverse),
                domain.roots.low,
                domain.roots.high,
                domain.roots.window,
                scale.low,
                scale.high,
                scale.window,
            ],
        )


def _powers(backend: Backend, scope: Scope, curve: Curve, base: int, first: int, count: int) -> Buffer:
    """Return ``first * base^i`` for i below ``count``."""
    table = scope.allocate(count * ELEMENT_BYTES)
    with Scope(backend) as own:
        parameters = own.uploaded(montgomery_bytes(curve, base) + montgomery_bytes(curve, first))
        backend.launch(
            f"{curve.ident}_powers",
            flat(count, _POWERS_PER_THREAD),
            [table.address, count, parameters.address, _POWERS_PER_THREAD],
        )
    return table
