"""The matrices' rows: from any list of coefficients to the rows' sums."""

import struct
from random import Random

import pytest

from kernels.curves import BN254
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.plan import flat, plan_rows
from prover.scan import exclusive_scan
from tests.kernels.operands import from_montgomery, plain

R2 = (1 << 512) % BN254.r
Term = tuple[int, int, int, int]


def row_sums(
    host: HostBackend, terms: list[Term], domain: int, witness: list[int], *, chunk: int | None = None
) -> list[int]:
    """Return the rows of both matrices times the witness, and their products, computed by the kernels.

    Args:
        host: runs the kernels.
        terms: the matrices.
        domain: rows of each.
        witness: the scalars.
        chunk: logarithm of a chunk, to force tiny blocks and chunks.
    """
    records = b"".join(
        struct.pack("<III", matrix, row, signal) + (value * R2 % BN254.r).to_bytes(32, "little")
        for matrix, row, signal, value in terms
    )
    count, rows = len(terms), 2 * domain
    launch, log_chunk = plan_rows(domain, host.traits())
    if chunk is not None:
        launch, log_chunk = launch._replace(threads=3, blocks_x=-(-domain // 3)), chunk
    with Scope(host) as scope:
        listed, ends = scope.uploaded(records), scope.allocate(4 * rows)
        signals, values = scope.allocate(4 * count), scope.allocate(32 * count)
        wires, sums = scope.uploaded(plain(witness)), scope.allocate(32 * 3 * domain)
        where = [listed.address, count, domain, len(witness), ends.address]
        host.launch("bn254_row_count", flat(count), where)
        exclusive_scan(host, host.traits(), ends.address, rows)
        host.launch("bn254_row_scatter", flat(count), [*where, signals.address, values.address])
        host.launch(
            "bn254_row_sums",
            launch,
            [ends.address, signals.address, values.address, wires.address, domain, log_chunk, sums.address],
        )
        return from_montgomery(host.download(sums, 0, 32 * 3 * domain), BN254.r)


def expected_sums(terms: list[Term], domain: int, witness: list[int]) -> list[int]:
    sums = [0] * (2 * domain)
    for matrix, row, signal, value in terms:
        sums[matrix * domain + row] += value * witness[signal]
    products = [a * b for a, b in zip(sums[:domain], sums[domain:], strict=True)]
    return [value % BN254.r for value in sums + products]


def test_random_terms_in_any_order(host: HostBackend) -> None:
    random = Random("rows")
    domain, wires = 512, 300
    witness = [1, *(random.choice([0, 1, BN254.r - 1, random.randrange(BN254.r)]) for _ in range(wires - 1))]
    values = [0, 1, BN254.r - 1, 2, 1 << 200]
    terms = [
        (random.randrange(2), random.randrange(domain), random.randrange(wires), random.choice(values))
        for _ in range(5000)
    ] + [
        # a long row
        (0, 17, random.randrange(wires), random.randrange(BN254.r))
        for _ in range(6000)
    ]
    random.shuffle(terms)
    expected = expected_sums(terms, domain, witness)
    assert row_sums(host, terms, domain, witness) == expected
    for chunk in (0, 1, 6):
        assert row_sums(host, terms, domain, witness, chunk=chunk) == expected


@pytest.mark.parametrize(
    "terms",
    [
        [],
        [(0, 0, 0, 0)],
        [(0, 1, 1, 5), (0, 1, 1, 5), (0, 1, 1, BN254.r - 10)],
        [(1, 1, 1, 3), (0, 0, 0, 2), (1, 0, 1, 1)],
    ],
    ids=["none", "zero", "one place thrice, adding up to nothing", "unsorted"],
)
def test_small_lists(host: HostBackend, terms: list[Term]) -> None:
    witness = [1, BN254.r - 1]
    assert row_sums(host, terms, 2, witness) == expected_sums(terms, 2, witness)


def test_terms_outside_are_dropped_not_followed(host: HostBackend) -> None:
    """The reader refuses such a file; one that changes under the mapping must still not reach other memory."""
    inside: list[Term] = [(0, 1, 1, 7), (1, 0, 0, 9)]
    outside: list[Term] = [(2, 0, 0, 1), (0, 2, 0, 1), (0, 0, 2, 1), (2**32 - 1, 2**32 - 1, 2**32 - 1, 1)]
    assert row_sums(host, [*outside, *inside], 2, [1, 3]) == expected_sums(inside, 2, [1, 3])
