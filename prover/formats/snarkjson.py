"""Proofs, public signals and verification keys as JSON, byte for byte as snarkjs writes them.

Numbers are decimal strings, the indent is one space, and no newline ends the file. Points carry a third
coordinate: 1, or 0 at infinity, where x is 0 and y is 1.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Final, NamedTuple

from kernels.curves import BLS12_381, BN254, Curve, Fq2, G1Point, G2Point
from prover.errors import MalformedFile, Mismatch, printable
from prover.formats.container import open_regular
from prover.formats.points import g1_from_bytes, g2_from_bytes
from prover.formats.strategy import ProvingKey
from prover.pairing import lies_in_g1, lies_in_g2, lies_on_curve

PROOF_BYTES_MAX: Final = 64 * 1024
"""A proof takes about 800 bytes."""
JSON_BYTES_MAX: Final = 16 * 1024 * 1024
"""A verification key takes some 200 bytes for each public signal: room for 80,000 of them."""
DIGITS_MAX: Final = 120
"""Decimal digits of one number; 381 bits take 115."""
PROTOCOL: Final = "groth16"

Source = str | PathLike[str]
"""The name of what is parsed, for messages."""

_CURVES: Final[Mapping[str, Curve]] = {
    "BN128": BN254,
    "BN254": BN254,
    "ALTBN128": BN254,
    "BLS12381": BLS12_381,
}
"""Names as snarkjs accepts them, punctuation and case apart."""
_DIGITS: Final = re.compile(rf"[0-9]{{1,{DIGITS_MAX}}}")
_PUNCTUATION: Final = re.compile(r"[^A-Z0-9]")


class Proof(NamedTuple):
    """A Groth16 proof; None is the point at infinity.

    Attributes:
        a: point of the first group.
        b: point of the second group.
        c: point of the first group.
        curve: the curve they lie on.
    """

    a: G1Point
    b: G2Point
    c: G1Point
    curve: Curve = BN254


class VerifyingKey(NamedTuple):
    """A verification key whose points were checked to lie in their groups.

    Attributes:
        alpha1: point of the first group.
        beta2: point of the second group, as are ``gamma2`` and ``delta2``; never infinity.
        ic: points of the first group, one more than there are public signals.
        curve: the curve they lie on.
    """

    alpha1: G1Point
    beta2: G2Point
    gamma2: G2Point
    delta2: G2Point
    ic: tuple[G1Point, ...]
    curve: Curve = BN254

    @property
    def n_public(self) -> int:
        """Public signals."""
        return len(self.ic) - 1


def read_bounded(path: Source, limit_bytes: int) -> bytes:
    """Return the content of a regular file of at most ``limit_bytes`` bytes.

    Raises:
        MalformedFile: it cannot be read, is no regular file, or is larger.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise MalformedFile(path, "", f"cannot be read: {error.strerror}") from error
    if len(data) > limit_bytes:
        raise MalformedFile(path, "", f"is larger than the {limit_bytes} bytes accepted for such a file")
    return data


def proof_to_json(proof: Proof) -> str:
    """Return the text of ``proof.json``; ASCII, without a newline at its end."""
    return _dump(
        {
            "pi_a": _g1_strings(proof.a),
            "pi_b": _g2_strings(proof.b),
            "pi_c": _g1_strings(proof.c),
            "protocol": PROTOCOL,
            "curve": proof.curve.name,
        }
    )


def proof_from_json(data: bytes | str, source: Source = "proof.json") -> Proof:
    """Parse a proof; keys that are not needed are ignored.

    Args:
        data: the file's content, at most ``PROOF_BYTES_MAX`` bytes.
        source: its name, for messages.

    Raises:
        MalformedFile: not JSON, a key is missing, or a coordinate is not a number below the field's modulus.
        Mismatch: another proof system, or a curve that is not supported.
    """
    document = _load_object(data, source, PROOF_BYTES_MAX)
    curve = _curve_of(document, source)
    parse = _Parser(source, curve)
    return Proof(
        a=parse.g1(document.get("pi_a"), "pi_a"),
        b=parse.g2(document.get("pi_b"), "pi_b"),
        c=parse.g1(document.get("pi_c"), "pi_c"),
        curve=curve,
    )


def public_to_json(public: Sequence[int]) -> str:
    """Return the text of ``public.json``; ASCII, without a newline at its end."""
    return _dump([str(value) for value in public])


def public_from_json(data: bytes | str, source: Source = "public.json") -> list[int]:
    """Parse public signals. Whether each is below r is for the verifier to say.

    Raises:
        MalformedFile: not a JSON array of decimal strings.
    """
    values = _load(data, source, JSON_BYTES_MAX)
    if not isinstance(values, list):
        raise MalformedFile(source, "", "is not a JSON array of decimal strings")
    return [_number(value, source, f"signal {number}") for number, value in enumerate(values, 1)]


def vkey_from_zkey(zkey: ProvingKey) -> VerifyingKey:
    """Return the verification key inside a proving key.

    Raises:
        MalformedFile: a point does not lie in its group.
    """
    curve, size = zkey.curve, zkey.curve.g1_bytes
    key = VerifyingKey(
        alpha1=g1_from_bytes(curve, zkey.alpha1),
        beta2=g2_from_bytes(curve, zkey.beta2),
        gamma2=g2_from_bytes(curve, zkey.gamma2),
        delta2=g2_from_bytes(curve, zkey.delta2),
        ic=tuple(g1_from_bytes(curve, zkey.ic[start : start + size]) for start in range(0, len(zkey.ic), size)),
        curve=curve,
    )
    _check_key(key, zkey.path)
    return key


def vkey_to_json(key: VerifyingKey) -> str:
    """Return the text of ``verification_key.json``; computes the pairing of alpha and beta, some 50 ms."""
    return _dump(
        {
            "protocol": PROTOCOL,
            "curve": key.curve.name,
            "nPublic": key.n_public,
            "vk_alpha_1": _g1_strings(key.alpha1),
            "vk_beta_2": _g2_strings(key.beta2),
            "vk_gamma_2": _g2_strings(key.gamma2),
            "vk_delta_2": _g2_strings(key.delta2),
            "vk_alphabeta_12": _alpha_beta(key),
            "IC": [_g1_strings(point) for point in key.ic],
        }
    )


def vkey_from_json(data: bytes | str, source: Source = "verification_key.json") -> VerifyingKey:
    """Parse a verification key; ``vk_alphabeta_12`` and keys that are not needed are ignored.

    Args:
        data: the file's content, at most ``JSON_BYTES_MAX`` bytes.
        source: its name, for messages.

    Raises:
        MalformedFile: not JSON, a key is missing, a number is out of range, or a point is not in its group.
        Mismatch: another proof system, or a curve that is not supported.
    """
    document = _load_object(data, source, JSON_BYTES_MAX)
    curve = _curve_of(document, source)
    parse = _Parser(source, curve)
    points = document.get("IC")
    if not isinstance(points, list) or not points:
        raise MalformedFile(source, "IC", "is missing or is not an array of points")
    n_public = document.get("nPublic", len(points) - 1)
    if isinstance(n_public, bool) or n_public != len(points) - 1:
        raise MalformedFile(
            source, "nPublic", f"does not fit the {len(points)} points of IC, which are for {len(points) - 1} signals"
        )
    key = VerifyingKey(
        alpha1=parse.g1(document.get("vk_alpha_1"), "vk_alpha_1"),
        beta2=parse.g2(document.get("vk_beta_2"), "vk_beta_2"),
        gamma2=parse.g2(document.get("vk_gamma_2"), "vk_gamma_2"),
        delta2=parse.g2(document.get("vk_delta_2"), "vk_delta_2"),
        ic=tuple(parse.g1(point, f"IC[{index}]") for index, point in enumerate(points)),
        curve=curve,
    )
    _check_key(key, source)
    return key


class _Parser(NamedTuple):
    """Points of one curve out of one document."""

    source: Source
    curve: Curve

    def coordinate(self, value: object, field: str) -> int:
        """Return a number below q."""
        number = _number(value, self.source, field)
        if number >= self.curve.q:
            raise MalformedFile(self.source, field, "a coordinate is not below the base field's modulus")
        return number

    def g1(self, value: object, field: str) -> G1Point:
        """Return a point of the first group from ``[x, y, z]``."""
        x, y, z = (self.coordinate(item, field) for item in self._array(value, field, 3))
        if z == 1:
            return x, y
        if (x, y, z) == (0, 1, 0):
            return None
        raise MalformedFile(self.source, field, "the third coordinate must be 1, or 0 with x = 0 and y = 1 at infinity")

    def g2(self, value: object, field: str) -> G2Point:
        """Return a point of the second group from ``[[x0, x1], [y0, y1], [z0, z1]]``."""
        x, y, z = (self._fq2(item, field) for item in self._array(value, field, 3))
        if z == (1, 0):
            return x, y
        if (x, y, z) == ((0, 0), (1, 0), (0, 0)):
            return None
        raise MalformedFile(self.source, field, "the third coordinate must be 1, or 0 with x = 0 and y = 1 at infinity")

    def _fq2(self, value: object, field: str) -> Fq2:
        c0, c1 = (self.coordinate(item, field) for item in self._array(value, field, 2))
        return c0, c1

    def _array(self, value: object, field: str, length: int) -> list[object]:
        if not isinstance(value, list) or len(value) != length:
            raise MalformedFile(self.source, field, f"is missing or is not an array of {length}")
        return value


def _check_key(key: VerifyingKey, source: Source) -> None:
    """Check that all points lie in their groups and that the four fixed ones are not infinity."""
    curve = key.curve
    for name, fixed in (("alpha1", key.alpha1), ("beta2", key.beta2), ("gamma2", key.gamma2), ("delta2", key.delta2)):
        if fixed is None:
            raise MalformedFile(source, name, "is the point at infinity; proofs of such a key prove nothing")
    if not lies_in_g1(curve, key.alpha1):
        raise _outside(curve, key.alpha1, source, "alpha1")
    for name, point in (("beta2", key.beta2), ("gamma2", key.gamma2), ("delta2", key.delta2)):
        if not lies_in_g2(curve, point):
            raise _outside(curve, point, source, name)
    for index, ic in enumerate(key.ic):
        if not lies_in_g1(curve, ic):  # infinity is legal here
            raise _outside(curve, ic, source, f"IC[{index}]")


def _outside(curve: Curve, point: G1Point | G2Point, source: Source, name: str) -> MalformedFile:
    """Return the error of a point that does not lie in its group."""
    place = "in the subgroup of order r" if lies_on_curve(curve, point) else "on the curve"
    return MalformedFile(source, name, f"the point does not lie {place}")


def _alpha_beta(key: VerifyingKey) -> list[list[list[str]]]:
    """Return the pairing of alpha and beta as snarkjs exports it.

    Its final exponentiation (for BN curves that of Fuentes-Castaneda, Knapp, Rodriguez-Henriquez 2011) yields a fixed
    power of the pairing, which is a pairing as well; verifiers do not read the value.
    """
    from kernels.reference.pairing import pairing, tower  # noqa: PLC0415 - a proof does without

    x = key.curve.parameter
    power = 2 * x * (6 * x * x + 3 * x + 1) if key.curve.family == "bn" else 3
    value = tower(key.curve).power12(pairing(key.curve, key.alpha1, key.beta2), power)
    return [[[str(c0), str(c1)] for c0, c1 in half] for half in value]


def _g1_strings(point: G1Point) -> list[str]:
    return ["0", "1", "0"] if point is None else [str(point[0]), str(point[1]), "1"]


def _g2_strings(point: G2Point) -> list[list[str]]:
    if point is None:
        return [["0", "0"], ["1", "0"], ["0", "0"]]
    (x0, x1), (y0, y1) = point
    return [[str(x0), str(x1)], [str(y0), str(y1)], ["1", "0"]]


def _dump(document: object) -> str:
    """Return JSON with snarkjs's habits; its empty array has a line break."""
    return "[\n]" if document == [] else json.dumps(document, indent=1)


def _load(data: bytes | str, source: Source, limit_bytes: int) -> object:
    """Parse JSON of bounded size."""
    if len(data) > limit_bytes:
        raise MalformedFile(source, "", f"is {len(data)} long; at most {limit_bytes} bytes are accepted")
    try:
        document: object = json.loads(data)
    except RecursionError as error:
        raise MalformedFile(source, "", "is not JSON we can read: it is nested too deeply") from error
    except ValueError as error:
        raise MalformedFile(source, "", f"is not JSON: {printable(str(error))}") from error
    return document


def _load_object(data: bytes | str, source: Source, limit_bytes: int) -> dict[str, object]:
    document = _load(data, source, limit_bytes)
    if not isinstance(document, dict):
        raise MalformedFile(source, "", "is not a JSON object")
    return document


def _number(value: object, source: Source, field: str) -> int:
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise MalformedFile(source, field, f"a decimal string of at most {DIGITS_MAX} digits is expected")
    return int(value)


def _curve_of(document: dict[str, object], source: Source) -> Curve:
    """Return the document's curve, after checking that it is of Groth16; some provers leave out both keys."""
    protocol = document.get("protocol", PROTOCOL)
    if protocol != PROTOCOL:
        raise Mismatch(f"{printable(source)}: protocol: is {_shown(protocol)}; only {PROTOCOL} is supported")
    name = document.get("curve", BN254.name)
    plain = _PUNCTUATION.sub("", name.upper()) if isinstance(name, str) else ""
    if plain not in _CURVES:
        raise MalformedFile(source, "curve", f"{_shown(name)} is no known curve")
    return _CURVES[plain]


def _shown(value: object) -> str:
    """Return a stranger's value for a message: printable and short."""
    return printable(repr(value)[:40])
