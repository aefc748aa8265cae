import hashlib
import random
import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.curves import BLS12_381, BN254
from prover import circuits
from prover.errors import MalformedFile, Mismatch, ProverError
from prover.formats import zkey as zkey_module
from prover.formats.plain import plain_key
from prover.formats.snarkjson import vkey_from_zkey
from prover.formats.zkey import ZKey
from tests.prover.toy import AS_FRESH_SETUP, ASCENDING, MIXED, MULTIPLY, Sections, setup

SECTIONS = setup(MIXED).payloads
COUNTS_AT = 2 * (4 + 32)


Read = Callable[[bytes], ZKey]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Open bytes as a file; always the same name, of the whole module, as hypothesis asks."""
    path = tmp_path_factory.mktemp("zkey") / "k.zkey"

    def opened(data: bytes) -> ZKey:
        path.unlink(missing_ok=True)  # never shorten what is mapped: its next reader would get SIGBUS
        path.write_bytes(data)
        return ZKey.open(path)

    return opened


def refusal(read: Read, data: bytes) -> ProverError | None:
    """Return the error that a file is refused with, or None."""
    try:
        read(data).close()
    except ProverError as error:
        return error
    return None


def changed(ident: int, change: Callable[[bytearray], object]) -> bytes:
    payload = bytearray(SECTIONS[ident])
    change(payload)
    return Sections({**SECTIONS, ident: bytes(payload)}).file()


def put(offset: int, data: bytes) -> Callable[[bytearray], None]:
    def change(payload: bytearray) -> None:
        payload[offset : offset + len(data)] = data

    return change


def test_every_field_is_read(read: Read) -> None:
    with read(Sections(SECTIONS).file()) as key:
        assert (key.curve, key.n_vars, key.n_public, key.domain_size, key.log2_domain) == (BN254, 7, 2, 8, 3)
        assert key.n_coefficients * 44 == len(key.coefficients) == len(SECTIONS[4]) - 4
        for ident, view in (
            (3, key.ic),
            (5, key.points_a),
            (6, key.points_b1),
            (7, key.points_b2),
            (8, key.points_c),
            (9, key.points_h),
        ):
            assert bytes(view) == SECTIONS[ident]
            assert view.readonly
        points = key.alpha1 + key.beta1 + key.beta2 + key.gamma2 + key.delta1 + key.delta2
        assert points == SECTIONS[2][COUNTS_AT + 12 :]
        assert key.sha256() == hashlib.sha256(Sections(SECTIONS).file()).hexdigest()


@given(order=st.permutations(ASCENDING), unknown=st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_order_of_sections_and_unknown_ones_are_read(read: Read, order: list[int], unknown: bool) -> None:  # noqa: FBT001
    extra = [(77, b"from the future")] if unknown else []
    with read(Sections(SECTIONS, order=order, extra=extra).file()) as key:
        assert bytes(key.points_h) == SECTIONS[9]


def test_nine_sections_suffice(read: Read) -> None:
    with read(Sections(SECTIONS, order=[ident for ident in AS_FRESH_SETUP if ident != 10]).file()) as key:
        assert key.n_vars == 7


def test_contributions_are_counted_where_the_file_says_how_many(read: Read) -> None:
    order = [ident for ident in AS_FRESH_SETUP if ident != 10]
    for payload, count in ((bytes(64) + b"\x03\0\0\0", 3), (bytes(64) + bytes(4), 0), (bytes(67), None), (None, None)):
        extra = [] if payload is None else [(10, payload)]
        with read(Sections(SECTIONS, order=order, extra=extra).file()) as key:
            assert key.contributions() == count


def test_contributions_may_be_there_twice_but_needed_sections_may_not(read: Read) -> None:
    with read(Sections(SECTIONS, extra=[(10, b"")]).file()) as key:
        assert key.contributions() is None
    for ident in range(1, 10):
        with pytest.raises(MalformedFile, match=rf"section {ident} \(.*\): is there 2 times"):
            read(Sections(SECTIONS, extra=[(ident, SECTIONS[ident])]).file())
        order = [other for other in ASCENDING if other != ident]
        with pytest.raises(MalformedFile, match=rf"section {ident} \(.*\): is missing"):
            read(Sections(SECTIONS, order=order).file())


def test_a_domain_of_two_rows_and_no_private_wires_are_read(read: Read) -> None:
    with read(setup(MULTIPLY).file()) as key:
        assert (key.n_public, key.domain_size, key.log2_domain) == (0, 2, 1)


def counts(n_vars: int, n_public: int, domain_size: int) -> bytes:
    return changed(2, put(COUNTS_AT, struct.pack("<III", n_vars, n_public, domain_size)))


DAMAGED = {
    "section 1 (protocol): is 3": changed(1, put(0, b"\3")),
    "section 1 (protocol): has 5 bytes": changed(1, lambda payload: payload.append(0)),
    "header), q: claims 0 bytes": changed(2, put(0, struct.pack("<I", 0))),
    "header), q: claims 4294967295 bytes": changed(2, put(0, struct.pack("<I", 2**32 - 1))),
    "header), q: claims 33 bytes": changed(2, put(0, struct.pack("<I", 33))),
    "header), q: q and r are not the moduli": changed(2, put(4, b"\0")),
    "header), r: q and r are not the moduli": changed(2, put(40, b"\0")),
    "header), r: claims 31 bytes": changed(2, put(36, b"\x1f")),
    "header), q: is cut off": changed(2, lambda payload: payload.__delitem__(slice(20, None))),
    "header), r: is cut off": changed(2, lambda payload: payload.__delitem__(slice(38, None))),
    "section 2 (header): has 661 bytes": changed(2, lambda payload: payload.append(0)),
    "section 2 (header): has 659 bytes": changed(2, lambda payload: payload.pop()),
    "nVars: is 0": counts(0, 0, 8),
    "nVars: is 4294967295": counts(2**32 - 1, 2, 8),
    "nPublic: is 7": counts(7, 7, 8),
    "nPublic: is 4294967295": counts(7, 2**32 - 1, 8),
    "domainSize: is 0": counts(7, 2, 0),
    "domainSize: is 1": counts(7, 0, 1),
    "domainSize: is 12": counts(7, 2, 12),
    "domainSize: is 536870912": counts(7, 2, 1 << 29),
    "section 3 (IC points): has 192 bytes, but 4 points": counts(7, 3, 8),
    "section 5 (A points): has 448 bytes, but 8 points": counts(8, 2, 8),
    "section 9 (H points): has 512 bytes, but 16 points": counts(7, 2, 16),
    "section 8 (C points): has 255 bytes": changed(8, lambda payload: payload.pop()),
    "section 7 (B2 points): has 897 bytes": changed(7, lambda payload: payload.append(0)),
    "section 4 (coefficients): has 3 bytes": changed(4, lambda payload: payload.__delitem__(slice(3, None))),
    "section 4 (coefficients): claims 4294967295 records": changed(4, put(0, struct.pack("<I", 2**32 - 1))),
    "but 2147483647 records of 44 bytes": changed(4, put(0, struct.pack("<I", 2**31 - 1))),
    "coefficients), matrix: of record 0 is not below 2": changed(4, put(4, b"\2")),
    "coefficients), constraint: of record 2 is not below 8": changed(4, put(4 + 88 + 4, b"\x08")),
    "coefficients), signal: of record 1 is not below 7": changed(4, put(4 + 44 + 8, b"\x07")),
    "coefficients), value: of record 0 is not below": changed(4, put(16, BN254.r.to_bytes(32, "little"))),
    "alpha1: a coordinate is not below": changed(2, put(COUNTS_AT + 12 + 32, BN254.q.to_bytes(32, "little"))),
    "delta1: is the point at infinity": changed(2, put(660 - 192, bytes(64))),
    "gamma2: is the point at infinity": changed(2, put(660 - 320, bytes(128))),
    "section 7 (B2 points): a coordinate of point 1 ": changed(7, put(128 + 96, b"\xff" * 32)),
    "section 9 (H points): a coordinate of point 7 ": changed(9, put(512 - 32, BN254.q.to_bytes(32, "little"))),
    "section 3 (IC points): a coordinate of point 0 ": changed(3, put(0, b"\xff" * 32)),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_each_damaged_field_is_named(read: Read, message: str) -> None:
    with pytest.raises(MalformedFile) as caught:
        read(DAMAGED[message])
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_values_that_share_the_top_word_of_the_modulus_are_told_apart(read: Read) -> None:
    with read(changed(4, put(16, (BN254.r - 1).to_bytes(32, "little")))):
        pass
    with read(changed(9, put(512 - 32, (BN254.q - 1).to_bytes(32, "little")))):
        pass


@pytest.mark.parametrize(("number", "name"), [(2, "plonk"), (10, "fflonk")])
def test_keys_of_other_proof_systems_are_refused_by_name(read: Read, number: int, name: str) -> None:
    with pytest.raises(Mismatch, match=rf"section 1 \(protocol\): the key is for {name}") as caught:
        read(changed(1, put(0, struct.pack("<I", number))))
    assert caught.value.exit_code == 3


def test_a_key_of_the_other_curve(read: Read) -> None:
    with read(setup(MULTIPLY, curve=BLS12_381).file()) as key:
        assert key.curve is BLS12_381
        assert vkey_from_zkey(key).curve is BLS12_381


def test_a_header_with_the_moduli_of_two_curves_is_refused(read: Read) -> None:
    header = struct.pack("<I", 48) + BLS12_381.q.to_bytes(48, "little")
    header += struct.pack("<I", 32) + BN254.r.to_bytes(32, "little") + bytes(12 + 9 * 96)
    with pytest.raises(MalformedFile, match=r"section 2 \(header\), r: q and r are not the moduli"):
        read(Sections({**SECTIONS, 2: header}).file())


def test_points_off_their_curve_are_found_when_a_verification_key_is_made(read: Read) -> None:
    for ident, offset, name in ((2, COUNTS_AT + 12, "alpha1"), (2, 660 - 128, "delta2"), (3, 64, r"IC\[1\]")):
        with (
            read(changed(ident, put(offset, b"\1\2\3"))) as key,
            pytest.raises(MalformedFile, match=f"{name}: the point does not lie on the curve"),
        ):
            vkey_from_zkey(key)


def test_the_bundled_key_is_read_quickly_enough_for_the_hub() -> None:
    with ZKey.open(circuits.ZKEY) as key:
        assert (key.n_public, key.log2_domain) == (2, 11)
        assert len(plain_key(key).terms) == key.n_coefficients


def mutated(data: bytes, seed: int) -> bytes:
    """Return ``data`` after one to three changes, most of them where structure is: at the start of a section."""
    chance = random.Random(seed)
    octets = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        start = chance.choice([chance.randrange(len(octets)), chance.randrange(min(900, len(octets)))])
        match chance.randrange(6):
            case 0:
                octets[start] ^= 1 << chance.randrange(8)
            case 1:
                octets[start] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                del octets[start:]
                octets += b"\0"
            case 3:
                octets[start:start] = chance.randbytes(chance.choice([1, 4, 12, 44, 64]))
            case 4:
                del octets[start : start + chance.choice([1, 4, 12, 44, 64])]
                octets += b"\0"
            case _:
                octets[start : start + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f"])
    return bytes(octets)


@given(seed=st.integers(0, 2**32), fresh=st.booleans())
@settings(max_examples=2000, deadline=None)
def test_a_mutated_key_is_refused_in_one_sentence_or_still_consistent(read: Read, seed: int, fresh: bool) -> None:  # noqa: FBT001
    data = Sections(SECTIONS, order=AS_FRESH_SETUP if fresh else ASCENDING).file()
    error = refusal(read, mutated(data, seed))
    if error is not None:
        assert error.exit_code in {2, 3}
        assert "k.zkey: " in str(error)
        assert "\n" not in str(error)
        return
    with read(mutated(data, seed)) as key:
        plain = plain_key(key)
        assert all(term.matrix < 2 and term.signal < key.n_vars for term in plain.terms)
        assert all(term.constraint < key.domain_size for term in plain.terms)
        assert len(plain.points_b2) == len(plain.points_a) == key.n_vars


@given(data=st.binary(max_size=200), magic=st.booleans())
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_refused(read: Read, data: bytes, magic: bool) -> None:  # noqa: FBT001
    with pytest.raises(MalformedFile):
        read((b"zkey\1\0\0\0" if magic else b"") + data)


def test_limits_are_what_the_kernels_can_index() -> None:
    assert zkey_module.WIRES_MAX.bit_length() - 1 <= BN254.fr_two_adicity
    assert zkey_module.COEFFICIENTS_MAX.bit_length() <= 31
