"""Proofs: right, the same whoever computes them, refused where they would be wrong."""

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kernels.curves import BN254, Curve
from kernels.reference.groth16 import prove as prove_by_reference
from prover import circuits
from prover.backends.base import Buffer, Traits
from prover.backends.host import HostBackend
from prover.errors import Cancelled, DeviceError, Mismatch, ProofRejected
from prover.formats.plain import plain_key
from prover.formats.points import g1_to_bytes
from prover.formats.snarkjson import Proof, proof_to_json, public_to_json, vkey_from_json
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import CPU_PHASES, PHASES, Blinding, Tuning, prove
from prover.verify import verify
from tests.kernels.operands import GPU
from tests.prover import toy
from tests.prover.toy import (
    AS_FRESH_SETUP,
    MIXED,
    MULTIPLY,
    MULTIPLY_WITNESS,
    Circuit,
    mixed_witness,
    setup,
    wtns,
)

R = BN254.r
FIXED = Blinding(r=R - 1234567, s=(1 << 251) + 89)


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def bundled() -> Iterator[tuple[ZKey, Witness]]:
    with ZKey.open(circuits.ZKEY) as zkey, Witness.open(circuits.WITNESS) as witness:
        yield zkey, witness


@pytest.fixture(scope="module")
def bundled_text(bundled: tuple[ZKey, Witness], host: HostBackend) -> str:
    """The bundled circuit's proof with fixed blinding."""
    return proof_to_json(prove(*bundled, host, blinding=FIXED).proof)


def test_the_bundled_circuit(bundled: tuple[ZKey, Witness], host: HostBackend) -> None:
    result = prove(*bundled, host)
    key = vkey_from_json(circuits.VERIFICATION_KEY.read_bytes())
    assert result.public == bundled[1].public(2)
    assert verify(key, result.public, result.proof)
    assert not verify(key, [result.public[0], result.public[1] + 1], result.proof)
    assert list(result.timings_ms) == list(CPU_PHASES)
    assert set(CPU_PHASES) == set(PHASES)
    assert all(value >= 0 for value in result.timings_ms.values())


def test_blinding_is_fresh_each_time(bundled: tuple[ZKey, Witness], host: HostBackend) -> None:
    proofs = [prove(*bundled, host).proof for _ in range(2)]
    assert proofs[0].a != proofs[1].a
    assert proofs[0].b != proofs[1].b
    assert proofs[0].c != proofs[1].c
    factors = [Blinding.random(BN254) for _ in range(300)]
    assert all(0 <= value < R for factor in factors for value in (factor.r, factor.s))
    assert max(factor.r for factor in factors).bit_length() == R.bit_length()
    assert len({factor.r for factor in factors} | {factor.s for factor in factors}) == 600
    assert "r=" not in repr(factors[0])


@pytest.mark.parametrize(
    "backend",
    [
        {"threads": 1},
        {"threads": 2},
        {"threads": 5},
        {"planned_as": GPU},
        {"planned_as": GPU, "flags": ("-O1", "-DPROVEWIRE_EMULATE_CARRY", "-DPROVEWIRE_REVERSE_ORDER")},
    ],
    ids=["1 thread", "2 threads", "5 threads", "launches of a GPU", "limbs of a GPU, threads in reverse order"],
)
def test_fixed_blinding_gives_the_same_bytes_everywhere(
    bundled: tuple[ZKey, Witness], bundled_text: str, backend: dict[str, object]
) -> None:
    with HostBackend(**backend) as device:  # type: ignore[arg-type]
        assert proof_to_json(prove(*bundled, device, blinding=FIXED).proof) == bundled_text


@pytest.mark.parametrize(
    "tuning",
    [Tuning(window_bits=4), Tuning(window_bits=13), Tuning(chunk=100), Tuning(window_bits=9, chunk=1001)],
    ids=str,
)
@pytest.mark.parametrize("planned_as", [None, GPU], ids=["host", "gpu"])
def test_windows_and_chunks_change_nothing(
    bundled: tuple[ZKey, Witness], bundled_text: str, planned_as: Traits | None, tuning: Tuning
) -> None:
    with HostBackend(planned_as=planned_as) as device:
        assert proof_to_json(prove(*bundled, device, blinding=FIXED, tuning=tuning).proof) == bundled_text


def test_several_threads_prove_at_once(bundled: tuple[ZKey, Witness], bundled_text: str) -> None:
    found: list[str] = []

    def work() -> None:
        with HostBackend(threads=1) as device:
            found.extend(proof_to_json(prove(*bundled, device, blinding=FIXED).proof) for _ in range(2))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [bundled_text] * 8


ALL_PUBLIC = Circuit(n_vars=3, n_public=2, constraints=[({1: 1}, {1: 1}, {2: 1})])
"""No private wire: section C is empty."""
UNUSED_WIRES = Circuit(n_vars=40, n_public=1, constraints=[({2: 1}, {2: 1}, {1: 1})])
"""Nearly every point is infinity."""
FEW_WIRES_MANY_ROWS = Circuit(n_vars=3, n_public=0, constraints=[({1: 1}, {1: 1}, {2: 1})] * 9)
"""The domain is larger than the witness."""
NO_B = Circuit(n_vars=3, n_public=1, constraints=[({1: 1, 0: R - 4}, {}, {})])
"""B is empty: all that is left of it is beta and blinding."""


def random_wide() -> tuple[Circuit, list[int]]:
    """A circuit of 40 random constraints on 60 wires, and a witness with edge values."""
    random = Random("wide")
    values = [1, *(random.choice([0, 1, R - 1, R // 2, random.randrange(R)]) for _ in range(19))]
    constraints = []
    for _ in range(40):
        a = {random.randrange(len(values)): random.choice([1, R - 1, random.randrange(R)]) for _ in range(3)}
        b = {random.randrange(len(values)): random.choice([1, 0, random.randrange(R)]) for _ in range(2)}
        product = sum(f * values[w] for w, f in a.items()) * sum(f * values[w] for w, f in b.items()) % R
        constraints.append((a, b, {len(values): 1}))
        values.append(product)
    return Circuit(n_vars=len(values), n_public=3, constraints=constraints, repeated=True), values


SHAPES: dict[str, tuple[Circuit, list[int]]] = {
    "domain of two, nothing public": (MULTIPLY, list(MULTIPLY_WITNESS)),
    "mixed": (MIXED, mixed_witness()),
    "all public": (ALL_PUBLIC, [1, R - 3, 9]),
    "unused wires": (UNUSED_WIRES, [1, 49, 7, *range(37)]),
    "few wires, many rows": (FEW_WIRES_MANY_ROWS, [1, 5, 25]),
    "no B": (NO_B, [1, 4, 123]),
    "all zero": (MULTIPLY, [1, 0, 0, 0]),
    "wide": random_wide(),
}


def open_pair(folder: Path, circuit: Circuit, values: list[int]) -> tuple[ZKey, Witness]:
    key = setup(circuit)
    key.order = AS_FRESH_SETUP
    (folder / "k.zkey").write_bytes(key.file())
    (folder / "w.wtns").write_bytes(wtns(values).file())
    return ZKey.open(folder / "k.zkey"), Witness.open(folder / "w.wtns")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("planned_as", [None, GPU], ids=["host", "gpu"])
def test_shapes_agree_with_the_reference(shape: str, planned_as: Traits | None, tmp_path: Path) -> None:
    circuit, values = SHAPES[shape]
    assert circuit.holds(values)
    zkey, witness = open_pair(tmp_path, circuit, values)
    with zkey, witness, HostBackend(planned_as=planned_as) as device:
        result = prove(zkey, witness, device, blinding=FIXED)
        a, b, c = prove_by_reference(plain_key(zkey), values, FIXED.r, FIXED.s)
        assert result.proof == Proof(a, b, c)
        assert result.public == values[1 : circuit.n_public + 1]
        assert public_to_json(result.public)


def test_a_key_of_an_unfinished_ceremony(tmp_path: Path, host: HostBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key made from a fresh powers-of-tau file has tau = 1, and infinity in place of every point of H."""

    def lagrange_at_one(_curve: Curve, log2_size: int, _tau: int) -> list[int]:
        return [1] + [0] * ((1 << log2_size) - 1)

    monkeypatch.setattr(toy, "lagrange", lagrange_at_one)
    zkey, witness = open_pair(tmp_path, MIXED, mixed_witness())
    with zkey, witness:
        assert not any(zkey.points_h)
        result = prove(zkey, witness, host, blinding=FIXED)
        assert result.proof == Proof(*prove_by_reference(plain_key(zkey), mixed_witness(), FIXED.r, FIXED.s))


def test_without_blinding_points_may_be_equal(tmp_path: Path, host: HostBackend) -> None:
    zkey, witness = open_pair(tmp_path, MULTIPLY, [1, 0, 0, 0])
    with zkey, witness:
        result = prove(zkey, witness, host, blinding=Blinding(0, 0))
        assert result.proof == Proof(*prove_by_reference(plain_key(zkey), [1, 0, 0, 0], 0, 0))


def test_b_of_different_infinity_in_the_two_groups(tmp_path: Path, host: HostBackend) -> None:
    """No honest key has this; the result must still be what the formulas say, and is refused by itself."""
    sections = setup(MIXED)
    size = BN254.g1_bytes
    sections.payloads[6] = bytes(size) + sections.payloads[6][size:]
    (tmp_path / "k.zkey").write_bytes(sections.file())
    (tmp_path / "w.wtns").write_bytes(wtns(mixed_witness()).file())
    with (
        ZKey.open(tmp_path / "k.zkey") as zkey,
        Witness.open(tmp_path / "w.wtns") as witness,
        pytest.raises(ProofRejected),
    ):
        prove(zkey, witness, host)


@pytest.mark.parametrize("wire", range(1, MIXED.n_vars))
def test_a_witness_that_does_not_satisfy_the_circuit(tmp_path: Path, host: HostBackend, wire: int) -> None:
    values = mixed_witness()
    values[wire] = (values[wire] + 1) % R
    zkey, witness = open_pair(tmp_path, MIXED, values)
    with zkey, witness, pytest.raises(ProofRejected) as caught:
        prove(zkey, witness, host)
    assert caught.value.exit_code == 4
    sentence = str(caught.value)
    assert "the witness does not satisfy the circuit, or the key is damaged" in sentence
    assert str(tmp_path / "w.wtns") in sentence


def test_a_witness_of_another_circuit(tmp_path: Path, host: HostBackend, bundled: tuple[ZKey, Witness]) -> None:
    zkey, witness = open_pair(tmp_path, MULTIPLY, list(MULTIPLY_WITNESS))
    with zkey, witness, pytest.raises(Mismatch):
        prove(zkey, bundled[1], host)


@pytest.mark.parametrize("planned_as", [None, GPU], ids=["host", "gpu"])
def test_progress_and_order_of_phases(bundled: tuple[ZKey, Witness], planned_as: Traits | None) -> None:
    steps: list[tuple[str, int, int]] = []
    with HostBackend(planned_as=planned_as) as device:
        prove(*bundled, device, progress=lambda *step: steps.append(step), tuning=Tuning(chunk=700))
    assert list(dict.fromkeys(phase for phase, _, _ in steps)) == list(PHASES if planned_as else CPU_PHASES)
    # Done never goes back, begins at nothing and ends at the whole; every phase has its share of it.
    (whole,) = {total for _, _, total in steps}
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert (steps[0][1], steps[-1][1]) == (0, whole)
    for phase in PHASES:
        first, *_, last = [done for name, done, _ in steps if name == phase]
        assert first < last
    if planned_as:
        assert len([step for step in steps if step[0] == "msm_h"]) == 7  # six chunks, private wires and rows together


@pytest.mark.parametrize("phase", CPU_PHASES)
def test_cancelled_at_every_phase(bundled: tuple[ZKey, Witness], phase: str) -> None:
    begun: list[str] = []
    with CountingHost() as device:
        with pytest.raises(Cancelled):
            prove(
                *bundled,
                device,
                progress=lambda name, _done, _total: begun.append(name),
                cancelled=lambda: len(set(begun)) == CPU_PHASES.index(phase),
            )
        assert list(dict.fromkeys(begun)) == list(CPU_PHASES[: CPU_PHASES.index(phase)])
        assert device.live == 0, "all memory is given back"


class CountingHost(HostBackend):
    """The host, with what it released kept for inspection."""

    def __init__(self, planned_as: Traits | None = None) -> None:
        super().__init__(planned_as=planned_as)
        self.live = 0
        self.released: list[bytes] = []

    def allocate(self, nbytes: int) -> Buffer:
        buffer = super().allocate(nbytes)
        self.live += 1
        return buffer

    def release(self, buffer: Buffer) -> None:
        if buffer.address:
            self.live -= 1
            self.released.append(self.download(buffer, 0, buffer.nbytes))
        super().release(buffer)


@pytest.mark.parametrize("planned_as", [None, GPU], ids=["host", "gpu"])
def test_no_secret_is_left_in_memory(bundled: tuple[ZKey, Witness], planned_as: Traits | None) -> None:
    zkey, witness = bundled
    secrets = [FIXED.r.to_bytes(32, "little"), FIXED.s.to_bytes(32, "little")]
    secrets += [
        witness.value(wire).to_bytes(32, "little")
        for wire in range(3, witness.n_witness)
        if witness.value(wire).bit_length() > 200
    ]
    with CountingHost(planned_as) as device:
        result = prove(zkey, witness, device, blinding=FIXED)
        assert device.live == 0
        released = b"".join(device.released)
    assert len(released) > witness.n_witness * 32
    # What is not secret need not be wiped, and shows that this test can see.
    assert (zkey.alpha1 if planned_as else g1_to_bytes(BN254, result.proof.a)) in released
    assert not [secret for secret in secrets if secret in released]


def test_memory_is_given_back_and_stays_flat(bundled: tuple[ZKey, Witness]) -> None:
    with CountingHost() as device:
        for _ in range(3):
            prove(*bundled, device)
            assert device.live == 0


@pytest.mark.parametrize(
    ("memory_bytes", "sentence"),
    [(1 << 16, "the proving key needs [0-9]+ bytes"), (1_300_000, "the proof needs [0-9]+ bytes")],
    ids=["key", "proof"],
)
def test_what_cannot_fit_is_refused_before_it_is_tried(
    bundled: tuple[ZKey, Witness], memory_bytes: int, sentence: str
) -> None:
    with CountingHost(planned_as=GPU._replace(memory_bytes=memory_bytes)) as device:
        with pytest.raises(DeviceError, match=sentence):
            prove(*bundled, device)
        assert device.live == 0
    poor = Traits(kind="cpu", parallel=2, shared_bytes_max=32 * 1024, memory_bytes=1 << 16)
    with CountingHost(planned_as=poor) as device, pytest.raises(DeviceError, match=r"the proof needs [0-9]+ bytes"):
        prove(*bundled, device)


def test_files_may_be_closed_after_the_key_is_used(tmp_path: Path, host: HostBackend) -> None:
    zkey, witness = open_pair(tmp_path, MIXED, mixed_witness())
    prove(zkey, witness, host)
    zkey.close()
    witness.close()
    (tmp_path / "k.zkey").unlink()
