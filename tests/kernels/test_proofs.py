"""Whole proofs by the cards' kernels on the CPU, with the cards' limbs, against the host's fast path, byte for byte.

Threads of a block run in reverse order and blocks too; tiles, windows and chunks are so small that every launch has
several blocks, every transform several passes, every multi-exponentiation several chunks and levels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernels.curves import BLS12_381, BN254, CURVES, Curve
from prover.backends.base import Scope, Traits
from prover.backends.host import HostBackend
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import proof_to_json
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import Blinding, Tuning, prove
from prover.ntt import forward_to_quotient, inverse_to_coset, make_domain
from prover.setup import setup_unsafe
from tests.kernels.operands import GPU, montgomery, numbers
from tests.prover.cuda.simulated import SimulatedDriver, simulated
from tests.prover.r1cs_writer import r1cs_file, wtns_file
from tests.prover.shapes import shapes

pytestmark = pytest.mark.timeout(600)  # the first proof of a curve builds its kernels
FLAGS = ("-O1", "-DPROVEWIRE_EMULATE_CARRY", "-DPROVEWIRE_REVERSE_ORDER")
TINY = Traits(kind="gpu", parallel=1, shared_bytes_max=1024, memory_bytes=1 << 34)
TUNINGS = (Tuning(window_bits=3, chunk=7), Tuning(window_bits=11, chunk=33), Tuning())
NAMES = list(shapes(BN254))
IN_A_HURRY = ("no public signals, two rows", "repeated wires", "bits")
"""Shapes of the second curve that are not left to the long run: its kernels take five times as long."""
LARGE_LOG2 = 12


@dataclass(frozen=True)
class Cards:
    """The cards' kernels for each way of planning, and the fast path that they are compared with."""

    tiny: HostBackend
    usual: HostBackend
    fast: HostBackend


@pytest.fixture(scope="module")
def cards() -> Iterator[Cards]:
    with (
        HostBackend(planned_as=TINY, flags=FLAGS) as tiny,
        HostBackend(planned_as=GPU, flags=FLAGS) as usual,
        HostBackend() as fast,
    ):
        yield Cards(tiny, usual, fast)


def agree(folder: Path, curve: Curve, name: str, cards: Cards, tunings: tuple[Tuning, ...], log2_chain: int) -> None:
    """Prove one shape every way."""
    with proved_fast(folder, curve, name, cards, log2_chain) as (zkey, witness, fixed, expected):
        for tuning in tunings:
            device = cards.usual if tuning == Tuning() else cards.tiny
            assert proof_to_json(prove(zkey, witness, device, blinding=fixed, tuning=tuning).proof) == expected, tuning


@contextmanager
def proved_fast(
    folder: Path, curve: Curve, name: str, cards: Cards, log2_chain: int
) -> Iterator[tuple[ZKey, Witness, Blinding, str]]:
    """Key and witness of a shape, with the factors and the text of the fast path's proof."""
    circuit, values = shapes(curve, log2_chain=log2_chain)[name]
    (folder / "c.r1cs").write_bytes(r1cs_file(circuit, curve))
    (folder / "w.wtns").write_bytes(wtns_file(values, curve))
    with R1cs.open(folder / "c.r1cs") as r1cs:
        setup_unsafe(r1cs, folder / "k.zkey", cards.fast)
    fixed = Blinding(r=curve.r - 98765, s=(1 << 252) - 3)
    with ZKey.open(folder / "k.zkey") as zkey, Witness.open(folder / "w.wtns") as witness:
        expected = proof_to_json(prove(zkey, witness, cards.fast, blinding=fixed).proof)
        yield zkey, witness, fixed, expected


@pytest.mark.parametrize("name", NAMES)
def test_every_shape(cards: Cards, name: str, tmp_path: Path) -> None:
    agree(tmp_path, BN254, name, cards, TUNINGS[:1] if name in {"dense", "bits"} else TUNINGS, log2_chain=6)


@pytest.mark.parametrize(
    "name", [name if name in IN_A_HURRY else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
def test_every_shape_of_the_second_curve(cards: Cards, name: str, tmp_path: Path) -> None:
    agree(tmp_path, BLS12_381, name, cards, TUNINGS[1:2], log2_chain=4)


@pytest.mark.long
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
@pytest.mark.parametrize("name", ["dense", "bits"])
@pytest.mark.parametrize("log2_size", [9, LARGE_LOG2])
def test_larger_ones(cards: Cards, curve: Curve, name: str, log2_size: int, tmp_path: Path) -> None:
    agree(tmp_path, curve, name, cards, (Tuning(window_bits=6, chunk=1 << (log2_size - 2)), Tuning()), log2_size)


@pytest.mark.long
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
@pytest.mark.parametrize("name", ["repeated wires", "bits", "dense"])
def test_a_key_that_comes_again(cards: Cards, curve: Curve, name: str, tmp_path: Path) -> None:
    """A card that keeps keys proves the second time with multiples of the points."""
    driver = SimulatedDriver(host=cards.usual)
    with (
        proved_fast(tmp_path, curve, name, cards, 4) as (zkey, witness, fixed, expected),
        simulated(driver) as card,
    ):
        for _ in range(2):
            assert proof_to_json(prove(zkey, witness, card, blinding=fixed).proof) == expected
    assert f"{curve.ident}_g2_doublings" in driver.launches


@pytest.mark.parametrize("log_n", [1, 7])
def test_what_may_be_scalars_is_below_the_modulus(cards: Cards, log_n: int) -> None:
    """The cards' limbs keep an element below twice the modulus; digits are of numbers below it."""
    r = BN254.r
    values = [r - 1 - i % 3 if i % 2 else r // (i + 1) for i in range(1 << log_n)]
    with Scope(cards.tiny) as scope:
        domain = make_domain(
            cards.tiny, scope, BN254, log_n, root=BN254.fr_root_of_order(log_n), coset=BN254.fr_non_residue
        )
        data = scope.uploaded(montgomery(values * 3, r))
        inverse_to_coset(cards.tiny, BN254, domain, data, 3)
        assert max(numbers(cards.tiny.download(data, 0, data.nbytes))) < r
        forward_to_quotient(cards.tiny, BN254, domain, data)
        assert max(numbers(cards.tiny.download(data, 0, 32 << log_n))) < r
