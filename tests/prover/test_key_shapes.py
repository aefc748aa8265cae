"""The same key written in other ways gives the same proof: order, repeats and zeros of coefficients, sections."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from kernels.curves import CURVES, Curve
from prover.backends.host import HostBackend
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import Proof
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import Blinding, prove
from prover.setup import setup_unsafe
from tests.kernels.operands import GPU
from tests.prover.mutation import sections
from tests.prover.r1cs_writer import chain, r1cs_file, wtns_file
from tests.prover.toy import container

FIXED = Blinding(r=0x1234 << 200, s=(1 << 250) + 7)
Records = list[bytes]


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend(threads=3) as backend:
        yield backend


@pytest.fixture(scope="module", params=CURVES, ids=lambda curve: curve.ident)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, host: HostBackend) -> Path:
    """A folder with constraints, a witness and a key."""
    curve: Curve = request.param
    made = tmp_path_factory.mktemp(curve.ident)
    circuit, values = chain(6, curve, bits=False)
    (made / "c.r1cs").write_bytes(r1cs_file(circuit, curve))
    (made / "w.wtns").write_bytes(wtns_file(values, curve))
    with R1cs.open(made / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, made / "k.zkey", host)
    return made


def proof_of(folder: Path, key: Path, host: HostBackend) -> Proof:
    with ZKey.open(key) as zkey, Witness.open(folder / "w.wtns") as witness:
        return prove(zkey, witness, host, blinding=FIXED).proof


def shuffled(records: Records, _modulus: int) -> Records:
    mixed = [*records]
    Random("shuffled").shuffle(mixed)
    return mixed


def halved(records: Records, modulus: int) -> Records:
    """Each coefficient as two that add up to it."""
    found = []
    for record in records:
        value = int.from_bytes(record[12:], "little")
        part = value * 7 % modulus
        found += [record[:12] + each.to_bytes(32, "little") for each in (part, (value - part) % modulus)]
    return found


def with_zeros(records: Records, _modulus: int) -> Records:
    return [part for record in records for part in (record, record[:12] + bytes(32))]


def in_both_matrices(records: Records, _modulus: int) -> Records:
    """A's records first, then B's: each sorted, the whole not."""
    return sorted(records, key=lambda record: record[0])


CHANGES: list[Callable[[Records, int], Records]] = [shuffled, halved, with_zeros, in_both_matrices]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_coefficients_in_any_order_repeated_and_zero(
    folder: Path, host: HostBackend, tmp_path: Path, change: Callable[[Records, int], Records]
) -> None:
    data = (folder / "k.zkey").read_bytes()
    entries = [(ident, data[start + 12 : start + 12 + size]) for ident, start, size in sections(data)]
    with ZKey.open(folder / "k.zkey") as key:
        modulus, view = key.curve.r, bytes(key.coefficients)
    records = change([view[i : i + 44] for i in range(0, len(view), 44)], modulus)
    section = len(records).to_bytes(4, "little") + b"".join(records)
    changed = [(ident, section if ident == 4 else payload) for ident, payload in entries]
    (tmp_path / "k.zkey").write_bytes(container(b"zkey", 1, changed))
    expected = proof_of(folder, folder / "k.zkey", host)
    assert proof_of(folder, tmp_path / "k.zkey", host) == expected
    with HostBackend(planned_as=GPU) as device:
        assert proof_of(folder, tmp_path / "k.zkey", device) == expected


def test_sections_in_any_order_and_without_the_last(folder: Path, host: HostBackend, tmp_path: Path) -> None:
    data = (folder / "k.zkey").read_bytes()
    entries = [(ident, data[start + 12 : start + 12 + size]) for ident, start, size in sections(data) if ident != 10]
    expected = proof_of(folder, folder / "k.zkey", host)
    for seed in range(3):
        Random(seed).shuffle(entries)
        (tmp_path / f"{seed}.zkey").write_bytes(container(b"zkey", 1, entries))
        assert proof_of(folder, tmp_path / f"{seed}.zkey", host) == expected
