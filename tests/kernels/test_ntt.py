"""Transforms against their definition, there and back, in every shape that a plan may give them."""

from random import Random

import pytest

from kernels.curves import BN254
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.ntt import Domain, forward, forward_to_quotient, inverse_to_coset, make_domain
from prover.plan import flat
from tests.kernels.operands import from_montgomery, montgomery

R = BN254.r


def naive(values: list[int], root: int) -> list[int]:
    """The values, taken as coefficients, at the powers of a root."""
    size = len(values)
    powers = [1]
    for _ in range(size - 1):
        powers.append(powers[-1] * root % R)
    return [sum(value * powers[i * j % size] for j, value in enumerate(values)) % R for i in range(size)]


def evaluate(values: list[int], point: int) -> int:
    result = 0
    for value in reversed(values):
        result = (result * point + value) % R
    return result


def domain_of(host: HostBackend, scope: Scope, log_n: int, coset: int) -> Domain:
    return make_domain(host, scope, BN254, log_n, root=BN254.fr_root_of_order(log_n), coset=coset)


def on_coset(host: HostBackend, log_n: int, vectors: list[list[int]], coset: int, tile_log: int | None) -> list[int]:
    """There and back on the device: what the vectors' polynomials are on the coset."""
    with Scope(host) as scope:
        domain = domain_of(host, scope, log_n, coset)
        data = scope.uploaded(montgomery([value for vector in vectors for value in vector], R))
        inverse_to_coset(host, BN254, domain, data, len(vectors), tile_log=tile_log)
        forward(host, BN254, domain, data, len(vectors), tile_log=tile_log)
        return from_montgomery(host.download(data, 0, data.nbytes), R)


def random_vector(log_n: int) -> list[int]:
    """Random values with every edge among them where there is room."""
    random = Random(log_n)
    edges = [0, 1, R - 1, R // 2, (1 << 253) % R]
    values = [random.choice([random.choice(edges), *[random.randrange(R)] * 4]) for _ in range(1 << log_n)]
    values[: min(5, 1 << log_n)] = edges[: min(5, 1 << log_n)]
    return values


@pytest.mark.parametrize("log_n", range(1, 9))
@pytest.mark.parametrize("tile_log", [None, 1, 2, 3, 5])
def test_against_the_definition(host: HostBackend, log_n: int, tile_log: int | None) -> None:
    vector = random_vector(log_n)
    root, coset = BN254.fr_root_of_order(log_n), BN254.fr_root_of_order(log_n + 1)
    inverse_size = pow(1 << log_n, -1, R)
    coefficients = [value * inverse_size % R for value in naive(vector, pow(root, -1, R))]
    shifted = [value * pow(coset, i, R) % R for i, value in enumerate(coefficients)]
    assert on_coset(host, log_n, [vector], coset, tile_log) == naive(shifted, root)


@pytest.mark.parametrize("log_n", [1, 2, 9, 10, 11, 12, 14])
@pytest.mark.parametrize("tile_log", [None, 4, 7])
def test_there_and_back(host: HostBackend, log_n: int, tile_log: int | None) -> None:
    vectors = [random_vector(log_n), [0] * (1 << log_n), [1] + [0] * ((1 << log_n) - 1)]
    flattened = [value for vector in vectors for value in vector]
    assert on_coset(host, log_n, vectors, 1, tile_log) == flattened
    # To a coset and from it by the opposite coset: what a transform loses nowhere shows up.
    generator = BN254.fr_non_residue
    moved = on_coset(host, log_n, vectors, generator, tile_log)
    size = 1 << log_n
    again = [moved[i : i + size] for i in range(0, len(moved), size)]
    assert on_coset(host, log_n, again, pow(generator, -1, R), tile_log) == flattened


def test_a_large_domain_at_single_points(host: HostBackend) -> None:
    log_n = 15
    random = Random("large")
    coefficients = [random.randrange(R) for _ in range(40)]
    root, coset = BN254.fr_root_of_order(log_n), BN254.fr_root_of_order(log_n + 1)
    point, values = 1, []
    for _ in range(1 << log_n):
        values.append(evaluate(coefficients[:6], point))
        point = point * root % R
    found = on_coset(host, log_n, [values], coset, None)
    for i in (0, 1, 2, 1023, 1024, 16383, 16384, 32766, 32767):
        assert found[i] == evaluate(coefficients[:6], coset * pow(root, i, R) % R)


@pytest.mark.parametrize("window", [0, 1, 3, 6])
def test_roots_in_two_tables(host: HostBackend, window: int) -> None:
    """As a planner may keep them where a whole table is too large."""
    log_n = 7
    vector = random_vector(log_n)
    root = BN254.fr_root_of_order(log_n)
    with Scope(host) as scope:
        domain = domain_of(host, scope, log_n, 1)
        low = montgomery([pow(root, i, R) for i in range(1 << window)], R)
        high = montgomery([pow(root, i << window, R) for i in range(1 << (log_n - 1 - window))], R)
        split = Domain(
            log_n,
            roots=type(domain.roots)(scope.uploaded(low).address, scope.uploaded(high).address, window),
            coset=domain.coset,
        )
        data = scope.uploaded(montgomery(vector, R))
        inverse_to_coset(host, BN254, split, data, 1)
        inverse = from_montgomery(host.download(data, 0, data.nbytes), R)
        forward(host, BN254, split, data, 1)
        assert from_montgomery(host.download(data, 0, data.nbytes), R) == vector
    # Between the two the order is bit-reversed.
    expected = naive(vector, pow(root, -1, R))
    assert [value * (1 << log_n) % R for value in inverse] == [
        expected[int(f"{i:0{log_n}b}"[::-1], 2)] for i in range(1 << log_n)
    ]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(("log_n", "tile_log"), [(1, None), (5, 2), (9, 4), (12, None)])
def test_the_quotient_behind_the_forward_transform(
    host: HostBackend, log_n: int, tile_log: int | None, *, joined: bool
) -> None:
    vectors = [random_vector(log_n)[shift:] + random_vector(log_n)[:shift] for shift in (0, 1, 3)]
    flattened = [value for vector in vectors for value in vector]
    with Scope(host) as scope:
        domain = domain_of(host, scope, log_n, 1)
        data, again = (scope.uploaded(montgomery(flattened, R)) for _ in range(2))
        forward(host, BN254, domain, data, 3, tile_log=tile_log)
        values = from_montgomery(host.download(data, 0, data.nbytes), R)
        forward_to_quotient(host, BN254, domain, again, tile_log=tile_log, joined=joined)
        quotient = host.download(again, 0, 32 << log_n)
    size = 1 << log_n
    a, b, c = (values[first : first + size] for first in (0, size, 2 * size))
    expected = [(p * q - r) % R for p, q, r in zip(a, b, c, strict=True)]
    assert quotient == b"".join(value.to_bytes(32, "little") for value in expected)


def test_the_quotient_of_some(host: HostBackend) -> None:
    a, b, c = (random_vector(13)[shift:] + random_vector(13)[:shift] for shift in (0, 1, 3))
    count = len(a) - 1
    with Scope(host) as scope:
        x, y, z = (scope.uploaded(montgomery(vector, R)) for vector in (a, b, c))
        host.launch("bn254_quotient", flat(count), [x.address, y.address, z.address, count])
        quotient = host.download(x, 0, x.nbytes)
    expected = [(p * q - r) % R for p, q, r in zip(a, b, c, strict=True)][:count]
    assert quotient[: 32 * count] == b"".join(value.to_bytes(32, "little") for value in expected)
    assert from_montgomery(quotient[32 * count :], R) == a[count:], "nothing behind the last element is touched"
