"""Damaged keys and witnesses all the way through the prover: an error of ours or a proof that verifies, no crash."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.backends import open_backend
from prover.backends.base import Backend
from prover.errors import MalformedFile, Mismatch, ProofRejected
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from tests.prover.toy import MIXED, mixed_witness, setup, wtns

KEY = setup(MIXED).file()
WITNESS = wtns(mixed_witness()).file()


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with open_backend("host") as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


def outcome(folder: Path, backend: Backend, key: bytes, witness: bytes) -> str:
    """Return how proving ended: the error's name, or ``proof``."""
    for name, data in (("k.zkey", key), ("w.wtns", witness)):
        (folder / name).unlink(missing_ok=True)  # never shorten what is mapped
        (folder / name).write_bytes(data)
    try:
        with ZKey.open(folder / "k.zkey") as zkey, Witness.open(folder / "w.wtns") as opened:
            prove(zkey, opened, backend)
    except (MalformedFile, Mismatch, ProofRejected) as error:
        return type(error).__name__
    return "proof"


def damaged(data: bytes, chance: random.Random) -> bytes:
    octets = bytearray(data)
    at = chance.randrange(12, len(octets))
    match chance.randrange(3):
        case 0:
            octets[at] ^= 1 << chance.randrange(8)
        case 1:
            octets[at] = chance.choice([0, 0xFF])
        case _:
            other = chance.randrange(12, len(octets) - 64)
            octets[at : at + 32] = octets[other : other + 32]
    return bytes(octets)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_no_damage_reaches_a_kernel_unchecked(folder: Path, backend: Backend, seed: int) -> None:
    chance = random.Random(seed)
    key = damaged(KEY, chance) if seed % 4 else KEY
    outcome(folder, backend, key, damaged(WITNESS, chance) if seed % 4 in {0, 1} else WITNESS)


def test_a_bit_in_any_part_of_a_point_or_value_matters(folder: Path, backend: Backend) -> None:
    """Bits of the sections that a proof is made of, one at a time."""
    payloads = setup(MIXED).payloads
    seen: Counter[str] = Counter()
    for ident in (3, 4, 5, 6, 7, 8, 9):
        start = KEY.index(payloads[ident])
        for share in (0.3, 0.6, 0.9):
            octets = bytearray(KEY)
            octets[start + int(share * len(payloads[ident]))] ^= 1
            seen[outcome(folder, backend, bytes(octets), WITNESS)] += 1
    assert outcome(folder, backend, KEY, WITNESS) == "proof"
    # A point of a wire that B does not use, or IC's of a wire that is zero, may not matter; almost all do.
    assert seen["ProofRejected"] + seen["MalformedFile"] >= sum(seen.values()) - 3
