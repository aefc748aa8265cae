"""Plans for cards of four sizes and circuits of every size: what fits, what is refused, and what is said then."""

import re

import pytest

from kernels.curves import BLS12_381, BN254, CURVES, Curve
from prover.backends.base import Traits
from prover.device_plan import CHUNK_MIN, KeyShape, ProofPlan, Sum, plan_multiples, plan_proof
from prover.errors import DeviceError
from prover.plan import COUNTERS_MAX

GB = 10**9
CARDS = {size: Traits("gpu", 132, 227 << 10, size * GB * 95 // 100) for size in (8, 24, 80, 141)}
LOGS = range(1, 28)


def dense(log2: int, curve: Curve = BN254) -> KeyShape:
    """As many wires as rows, no point at infinity, four coefficients a row."""
    n = 1 << log2
    g1, g2 = curve.g1_bytes, curve.g2_bytes
    sums = (Sum("msm_a", n + 2, (g1,)), Sum("msm_b", n + 2, (g1, g2)), Sum("msm_h", 2 * n - 1, (g1,)))
    return KeyShape(n, log2, 4 * n, curve.r.bit_length(), g1, g2, 1, sums)


def fits(log2: int, card: Traits, curve: Curve = BN254, *, resident: bool | None = None) -> ProofPlan | None:
    try:
        return plan_proof(dense(log2, curve), card, resident=resident)
    except DeviceError:
        return None


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
@pytest.mark.parametrize("size", CARDS)
def test_a_plan_keeps_to_the_cards_memory_and_limits(size: int, curve: Curve) -> None:
    card = CARDS[size]
    for log2 in LOGS:
        plan = fits(log2, card, curve)
        if plan is None:
            continue
        assert plan.key_bytes + plan.workspace_bytes <= card.memory_bytes
        assert max(plan.stage_bytes().values()) == plan.workspace_bytes
        for each in plan.shape.sums:
            msm = plan.sums[each.name]
            assert msm.count == each.count
            assert msm.windows * msm.window_bits >= plan.shape.scalar_bits
            assert msm.chunk * msm.windows <= COUNTERS_MAX
            for group in each.point_bytes:
                launch = msm.reduce_launch(2 * group)
                assert launch.shared_bytes <= card.shared_bytes_max
                assert launch.threads <= 1024
            assert all(launch.blocks_x < 1 << 31 for launch, _ in msm.runs(msm.chunk * msm.windows))


def test_the_largest_circuits_of_each_card() -> None:
    def largest(curve: Curve, *, resident: bool) -> dict[int, int]:
        return {
            size: max(log2 for log2 in LOGS if fits(log2, card, curve, resident=resident))
            for size, card in CARDS.items()
        }

    assert largest(BN254, resident=True) == {8: 23, 24: 24, 80: 26, 141: 27}
    assert largest(BN254, resident=False) == {8: 23, 24: 25, 80: 27, 141: 27}
    assert largest(BLS12_381, resident=True) == {8: 22, 24: 24, 80: 26, 141: 27}
    assert largest(BLS12_381, resident=False) == {8: 23, 24: 25, 80: 27, 141: 27}


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_what_fits_a_card_fits_every_larger_one(curve: Curve) -> None:
    for log2 in LOGS:
        found = [fits(log2, card, curve) is not None for card in CARDS.values()]
        assert found == sorted(found)


def test_a_key_that_is_there_needs_no_memory_again() -> None:
    shape = dense(20)
    plan = plan_proof(shape, CARDS[24])
    again = plan_proof(shape, CARDS[24]._replace(memory_bytes=plan.workspace_bytes), key_is_there=True)
    assert again.workspace_bytes <= plan.workspace_bytes


def test_little_memory_makes_small_chunks_before_it_is_refused() -> None:
    shape = dense(20)
    whole = plan_proof(shape, CARDS[141])
    assert whole.resident
    assert {msm.chunk >= msm.count for msm in whole.sums.values()} == {True}
    tight = CARDS[8]._replace(memory_bytes=whole.key_bytes + whole.proof_bytes + max(whole.scratch_bytes.values()) // 2)
    small = plan_proof(shape, tight)
    assert small.key_bytes == whole.key_bytes
    assert CHUNK_MIN <= max(msm.chunk for msm in small.sums.values()) < 1 << 20


def test_what_is_refused_would_fit_with_what_is_said() -> None:
    for log2, card in ((20, CARDS[8]._replace(memory_bytes=1 << 28)), (25, CARDS[8]), (27, CARDS[24])):
        shape = dense(log2)
        with pytest.raises(DeviceError, match=r"a card with [0-9]+ MiB free would do, or --device host$") as caught:
            plan_proof(shape, card, name="cuda:3")
        assert "on cuda:3" in str(caught.value)
        said = re.search(r"with ([0-9]+) MiB", str(caught.value))
        assert said is not None
        assert int(said[1]) << 20 > card.memory_bytes
        plan_proof(shape, card._replace(memory_bytes=int(said[1]) << 20))


def test_windows_and_chunks_can_be_forced() -> None:
    plan = plan_proof(dense(12), CARDS[8], window_bits=5, chunk=100)
    assert {(msm.window_bits, msm.chunk) for msm in plan.sums.values()} == {(5, 100)}


def test_two_rows_are_planned_as_well() -> None:
    plan = plan_proof(dense(1), CARDS[8])
    assert plan.key_bytes < 1 << 14
    assert plan.workspace_bytes < 1 << 20


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
@pytest.mark.parametrize("size", CARDS)
def test_multiples_take_what_key_and_proof_leave_and_no_more_than_half(size: int, curve: Curve) -> None:
    card = CARDS[size]
    for log2 in LOGS:
        plain = fits(log2, card, curve, resident=True)
        if plain is None:
            continue
        room = card._replace(memory_bytes=card.memory_bytes - plain.key_bytes)
        plan = plan_multiples(plain.shape, room)
        if plan is None:
            continue
        assert plan.workspace_bytes + 2 * plan.multiples_bytes <= room.memory_bytes
        assert plan.key_bytes == plain.key_bytes
        for each in plan.shape.sums:
            msm = plan.sums[each.name]
            assert msm.count * msm.multiples <= COUNTERS_MAX
            assert msm.windows == msm.groups * msm.multiples
            assert msm.multiples * msm.doublings >= plan.shape.scalar_bits
            assert msm.groups <= plain.sums[each.name].groups
        # Once they are there, proofs go on with them as long as the workspace has room.
        rest = room._replace(memory_bytes=room.memory_bytes - plan.multiples_bytes)
        again = plan_multiples(plain.shape, rest, plan.layout)
        assert again is not None
        assert again.layout == plan.layout
        assert again.workspace_bytes <= rest.memory_bytes
        assert plan_multiples(plain.shape, rest._replace(memory_bytes=1 << 10), plan.layout) is None


def test_multiples_of_each_card() -> None:
    """How many groups of windows are left, by card and size; `--max-vram` makes a card smaller."""

    def groups(log2: int, card: Traits) -> int | None:
        plain = fits(log2, card)
        assert plain is not None
        plan = plan_multiples(plain.shape, card._replace(memory_bytes=card.memory_bytes - plain.key_bytes))
        return max(msm.groups for msm in plan.sums.values()) if plan is not None else None

    assert {size: [groups(log2, card) for log2 in (1, 12, 16, 20)] for size, card in CARDS.items()} == {
        8: [1, 1, 1, 2],
        24: [1, 1, 1, 1],
        80: [1, 1, 1, 1],
        141: [1, 1, 1, 1],
    }
    assert {size: groups(22, card) for size, card in CARDS.items()} == {8: None, 24: 3, 80: 1, 141: 1}
    assert {size: groups(24, CARDS[size]) for size in (24, 80, 141)} == {24: None, 80: 4, 141: 2}
    assert [groups(20, CARDS[141]._replace(memory_bytes=size << 30)) for size in (2, 4, 8)] == [None, 5, 2]
