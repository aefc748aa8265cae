import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.curves import BLS12_381, BN254
from prover import circuits
from prover.errors import MalformedFile, Mismatch, ProverError
from prover.formats.plain import plain_witness
from prover.formats.wtns import Witness, check_pair
from prover.formats.zkey import ZKey
from tests.prover.toy import MIXED, Sections, mixed_witness, setup, wtns

VALUES = mixed_witness()


Read = Callable[[bytes], Witness]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Open bytes as a file; always the same name, of the whole module, as hypothesis asks."""
    path = tmp_path_factory.mktemp("wtns") / "w.wtns"

    def opened(data: bytes) -> Witness:
        path.unlink(missing_ok=True)  # never shorten what is mapped: its next reader would get SIGBUS
        path.write_bytes(data)
        return Witness.open(path)

    return opened


def refusal(read: Read, data: bytes) -> ProverError | None:
    """Return the error that a file is refused with, or None."""
    try:
        read(data).close()
    except ProverError as error:
        return error
    return None


def with_header(header: bytes) -> bytes:
    return Sections({**wtns(VALUES).payloads, 1: header}, order=(1, 2), magic=b"wtns", version=2).file()


def test_every_value_is_read(read: Read) -> None:
    for order in ((1, 2), (2, 1)):
        sections = wtns(VALUES)
        sections.order = order
        with read(sections.file()) as witness:
            assert (witness.n_witness, witness.prime, witness.curve) == (len(VALUES), BN254.r, BN254)
            assert plain_witness(witness) == VALUES
            assert witness.public(2) == VALUES[1:3]
            assert witness.public(0) == []
            assert witness.values.readonly
            for wire in (-1, len(VALUES)):
                with pytest.raises(IndexError):
                    witness.value(wire)
            with pytest.raises(Mismatch, match="number of values: is 7, too few for 7 public signals"):
                witness.public(7)


PRIME = BN254.r.to_bytes(32, "little")
DAMAGED = {
    "magic: ": Sections(wtns(VALUES).payloads, order=(1, 2), magic=b"wtnz", version=2).file(),
    "version: is 3": Sections(wtns(VALUES).payloads, order=(1, 2), magic=b"wtns", version=3).file(),
    "section 1 (header): has 3 bytes": with_header(b"abc"),
    "section 1 (header): has 41 bytes": with_header(struct.pack("<I", 32) + PRIME + bytes(5)),
    "n8: is 0": with_header(struct.pack("<I", 0) + PRIME + bytes(4)),
    "n8: is 4294967288": with_header(struct.pack("<I", 2**32 - 8) + PRIME + bytes(4)),
    "n8: is 36": with_header(struct.pack("<I", 36) + PRIME + bytes(8)),
    "prime: 0x30644e72": with_header(struct.pack("<I", 40) + BN254.r.to_bytes(40, "little") + b"\7\0\0\0"),
    "prime: 0x1 ": with_header(struct.pack("<I", 32) + (1).to_bytes(32, "little") + b"\7\0\0\0"),
    "number of values: is 0": wtns(VALUES, count=0).file(),
    "number of values: is 4294967295": wtns(VALUES, count=2**32 - 1).file(),
    "section 2 (values): has 224 bytes, but 8 values of 32 bytes make 256": wtns(VALUES, count=8).file(),
    "value 0 is 2; it is the constant 1": wtns([2, *VALUES[1:]]).file(),
    "value 6 is not below": wtns([*VALUES[:-1], BN254.r]).file(),
    "value 3 is not below": wtns([*VALUES[:3], 2**256 - 1, *VALUES[4:]]).file(),
    "section 2 (values): is missing": Sections(wtns(VALUES).payloads, order=(1,), magic=b"wtns", version=2).file(),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_each_damaged_field_is_named(read: Read, message: str) -> None:
    with pytest.raises(MalformedFile) as caught:
        read(DAMAGED[message])
    assert message in str(caught.value)


def test_a_witness_of_the_other_curve(read: Read) -> None:
    with read(wtns([1, BLS12_381.r - 1], prime=BLS12_381.r).file()) as witness:
        assert witness.curve is BLS12_381
        assert witness.value(1) == BLS12_381.r - 1


def test_the_largest_value_is_read(read: Read) -> None:
    with read(wtns([1, BN254.r - 1]).file()) as witness:
        assert witness.value(1) == BN254.r - 1


def test_a_witness_of_another_circuit_is_told_by_both_numbers(read: Read, tmp_path: Path) -> None:
    (tmp_path / "k.zkey").write_bytes(setup(MIXED).file())
    with ZKey.open(tmp_path / "k.zkey") as key:
        with read(wtns(VALUES).file()) as witness:
            check_pair(key, witness)
        with Witness.open(circuits.WITNESS) as witness, pytest.raises(Mismatch) as caught:
            check_pair(key, witness)
    for part in ("merkle8.wtns", "k.zkey", "number of values", str(1948), "7 wires"):
        assert part in str(caught.value)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_a_mutated_witness_is_refused_in_one_sentence_or_still_in_range(read: Read, seed: int) -> None:
    chance = random.Random(seed)
    octets = bytearray(wtns(VALUES).file())
    start = chance.randrange(len(octets))
    match chance.randrange(4):
        case 0:
            octets[start] ^= 1 << chance.randrange(8)
        case 1:
            del octets[start:]
        case 2:
            octets[start:start] = chance.randbytes(chance.choice([1, 4, 32]))
        case _:
            octets[start : start + 4] = b"\xff" * 4
    error = refusal(read, bytes(octets))
    if error is not None:
        assert error.exit_code in {2, 3}
        assert "w.wtns: " in str(error)
        assert "\n" not in str(error)
        return
    with read(bytes(octets)) as witness:
        values = plain_witness(witness)
        assert values[0] == 1
        assert all(0 <= value < BN254.r for value in values)
