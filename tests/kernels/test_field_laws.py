"""The field kernels against py_ecc, on every pair of edge values and as many random pairs."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from py_ecc.fields import optimized_bls12_381_FQ2, optimized_bn128_FQ2
from py_ecc.fields.optimized_field_elements import FQ

from kernels.curves import CURVES, Curve
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.plan import flat
from tests.kernels.operands import OPERANDS, edges, from_montgomery, montgomery, numbers, pairs, plain, size_of

OPERATIONS = (
    "add",
    "subtract",
    "multiply",
    "negate",
    "square",
    "twice",
    "inverse",
    "to_plain",
    "from_plain",
    "equal",
)
MODULI = {
    f"{curve.ident}_law_{field}": modulus for curve in CURVES for field, modulus in (("fq", curve.q), ("fr", curve.r))
}
"""Entry to modulus."""
EXTENSIONS: dict[str, Any] = {"bn254": optimized_bn128_FQ2, "bls12381": optimized_bls12_381_FQ2}

ORACLE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "negate": lambda x, _y: -x,
    "square": lambda x, _y: x * x,
    "twice": lambda x, _y: x + x,
}


def py_ecc_field(modulus_: int) -> type[FQ]:
    """The prime field of a modulus by py_ecc."""
    return type("Field", (FQ,), {"field_modulus": modulus_})


def run(backend: HostBackend, entry: str, operation: str, x: bytes, y: bytes, count: int) -> bytes:
    with Scope(backend) as scope:
        first, second, out = scope.uploaded(x), scope.uploaded(y), scope.allocate(len(x))
        arguments = [OPERATIONS.index(operation), first.address, second.address, out.address, count]
        backend.launch(entry, flat(count), arguments)
        return backend.download(out, 0, len(x))


@pytest.mark.parametrize("name", MODULI)
@pytest.mark.parametrize("operation", ORACLE)
def test_prime_field_operations(laws: HostBackend, name: str, operation: str) -> None:
    modulus = MODULI[name]
    operands = pairs(modulus)
    assert len(operands) >= OPERANDS
    x, y = zip(*operands, strict=True)
    octets = run(laws, name, operation, montgomery(x, modulus), montgomery(y, modulus), len(x))
    field = py_ecc_field(modulus)
    expected = [int(ORACLE[operation](field(a), field(b))) for a, b in operands]
    assert from_montgomery(octets, modulus) == expected
    assert max(numbers(octets, size_of(modulus))) < modulus, "every element is kept below the modulus"


@pytest.mark.parametrize("name", MODULI)
@pytest.mark.parametrize("operation", [*ORACLE, "equal", "to_plain"])
def test_either_representation_of_an_element(device_limbs: HostBackend, name: str, operation: str) -> None:
    """Between entries the device's limbs may keep x as x + p, where the modulus leaves room: results are the same."""
    modulus, size = MODULI[name], size_of(MODULI[name])
    if 5 * ((modulus >> 8 * size - 32) + 1) > 1 << 32:
        pytest.skip("this modulus leaves no room: its elements have one representation")
    raw = [(x << 8 * size) % modulus for x in edges(modulus)]
    several = Random(name).choices(raw, k=4000)
    x = [value + i % 2 * modulus for i, value in enumerate(several)]
    y = [value + i // 2 % 2 * modulus for i, value in enumerate(reversed(several))]
    y[:64] = [value % modulus + i % 2 * modulus for i, value in enumerate(x[:64])]  # equal, or equal but for p
    found = run(device_limbs, name, operation, plain(x, size), plain(y, size), len(x))
    x_reduced, y_reduced = (plain([value % modulus for value in values], size) for values in (x, y))
    assert found == run(device_limbs, name, operation, x_reduced, y_reduced, len(x))
    assert max(numbers(found, size)) < modulus


@pytest.mark.parametrize("name", MODULI)
def test_prime_field_inverse(laws: HostBackend, name: str) -> None:
    modulus = MODULI[name]
    values = [x for x, _ in pairs(modulus)]
    octets = run(laws, name, "inverse", montgomery(values, modulus), b"\0" * size_of(modulus), len(values))
    found = from_montgomery(octets, modulus)
    field = py_ecc_field(modulus)
    for value, inverse in zip(values, found, strict=True):
        assert int(field(value) * field(inverse)) == (1 if value else 0)
        assert value or not inverse, "zero's inverse is zero"


@pytest.mark.parametrize("name", MODULI)
def test_conversion_in_and_out_of_montgomery_form(laws: HostBackend, name: str) -> None:
    modulus = MODULI[name]
    values = [x for x, _ in pairs(modulus)]
    entry, count = name, len(values)
    assert run(
        laws, entry, "from_plain", plain(values, size_of(modulus)), b"\0" * size_of(modulus), count
    ) == montgomery(values, modulus)
    assert run(laws, entry, "to_plain", montgomery(values, modulus), b"\0" * size_of(modulus), count) == plain(
        values, size_of(modulus)
    )


@pytest.mark.parametrize("name", MODULI)
def test_equality(laws: HostBackend, name: str) -> None:
    modulus = MODULI[name]
    # Neighbours differ in one limb only.
    operands = [(x, x) for x, _ in pairs(modulus, OPERANDS // 2)] + [
        (x, (x + (1 << 32 * limb)) % modulus)
        for limb in range(size_of(modulus) // 4)
        for x, _ in pairs(modulus, OPERANDS // 16)
    ]
    x, y = zip(*operands, strict=True)
    octets = run(laws, name, "equal", montgomery(x, modulus), montgomery(y, modulus), len(x))
    assert from_montgomery(octets, modulus) == [int(a == b) for a, b in operands]


def extension_operands(count: int, modulus: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of elements of the extension, of the same edge and random values as the prime field's."""
    values = [value for pair in pairs(modulus, count) for value in pair]
    Random("extension").shuffle(values)
    return [((a, b), (c, d)) for a, b, c, d in zip(*[iter(values)] * 4, strict=False)]


def flatten(elements: Sequence[tuple[int, int]], modulus: int) -> bytes:
    return montgomery([value for element in elements for value in element], modulus)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
@pytest.mark.parametrize("operation", ORACLE)
def test_extension_operations(laws: HostBackend, operation: str, curve: Curve) -> None:
    q, element = curve.q, EXTENSIONS[curve.ident]
    operands = extension_operands(OPERANDS, q)
    assert len(operands) >= OPERANDS
    x, y = zip(*operands, strict=True)
    octets = run(laws, f"{curve.ident}_law_fq2", operation, flatten(x, q), flatten(y, q), len(x))
    expected = [int(value) for a, b in operands for value in ORACLE[operation](element(a), element(b)).coeffs]
    assert from_montgomery(octets, q) == expected


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_extension_inverse(laws: HostBackend, curve: Curve) -> None:
    q, element = curve.q, EXTENSIONS[curve.ident]
    values = [(0, 0), *[x for x, _ in extension_operands(OPERANDS, q)]]
    entry = f"{curve.ident}_law_fq2"
    octets = run(laws, entry, "inverse", flatten(values, q), b"\0" * 2 * size_of(q), len(values))
    found = from_montgomery(octets, q)
    assert found[:2] == [0, 0]
    for value, inverse in zip(values[1:], zip(found[2::2], found[3::2], strict=True), strict=True):
        assert element(value) * element(inverse) == element.one()
