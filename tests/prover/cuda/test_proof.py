"""Whole proofs on a simulated card: the same bytes, what is asked in which order, what failures leave."""

import contextlib
import ctypes
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from kernels.curves import BLS12_381, BN254, Curve
from prover import circuits
from prover.backends.arena import Arena
from prover.backends.base import Launch
from prover.backends.device import SPARED_PERCENT, DeviceBackend
from prover.backends.driver import DriverFailure, Handle
from prover.backends.host import HostBackend
from prover.device_plan import plan_multiples, plan_proof
from prover.device_proof import KernelComputation
from prover.errors import Cancelled, DeviceError
from prover.formats.snarkjson import proof_to_json
from prover.formats.strategy import SNARKJS, ProvingKey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import PHASES, Blinding, Tuning, _Phases, prove
from prover.keys import Survey
from prover.native_plan import phase_weights
from tests.prover.cuda.simulated import NamedImages, Order, SimulatedDriver, simulated
from tests.prover.toy import MIXED, MULTIPLY, MULTIPLY_WITNESS, Circuit, mixed_witness, setup, wtns

FIXED = Blinding(r=BN254.r - 1234567, s=(1 << 251) + 89)
MULTIPLES = "multiples of a proving key's points"


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
    return proof_to_json(prove(*bundled, host, blinding=FIXED).proof)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ZKey, Witness]]:
    """Two rows."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "k.zkey").write_bytes(setup(MULTIPLY).file())
    (folder / "w.wtns").write_bytes(wtns(list(MULTIPLY_WITNESS)).file())
    with ZKey.open(folder / "k.zkey") as zkey, Witness.open(folder / "w.wtns") as witness:
        yield zkey, witness


@pytest.mark.parametrize("order", ["late", 1, 2])
def test_a_card_gives_the_same_bytes_in_whatever_order_its_queues_run(
    bundled: tuple[ZKey, Witness], bundled_text: str, host: HostBackend, order: Order
) -> None:
    with simulated(SimulatedDriver(order=order, host=host)) as device:
        for tuning in (Tuning(), Tuning(window_bits=7, chunk=900), Tuning(overlap=False, resident=True)):
            assert proof_to_json(prove(*bundled, device, blinding=FIXED, tuning=tuning).proof) == bundled_text


@pytest.mark.parametrize("order", ["late", 1])
def test_a_key_that_comes_again_gets_multiples_and_the_same_bytes(
    bundled: tuple[ZKey, Witness], bundled_text: str, host: HostBackend, order: Order
) -> None:
    driver = SimulatedDriver(order=order, host=host)
    with simulated(driver) as device:
        made = []
        for tuning in (Tuning(), Tuning(), Tuning(), Tuning(chunk=900), Tuning(resident=True), Tuning()):
            before = len(driver.launches)
            assert proof_to_json(prove(*bundled, device, blinding=FIXED, tuning=tuning).proof) == bundled_text
            made.append([name for name in driver.launches[before:] if name.endswith("_doublings")])
        assert [bool(names) for names in made] == [False, True, False, False, False, False]
        assert set(made[1]) == {"bn254_g1_doublings", "bn254_g2_doublings"}


def test_multiples_give_way_before_keys_do_and_do_not_come_again(
    bundled: tuple[ZKey, Witness], small: tuple[ZKey, Witness], bundled_text: str, host: HostBackend
) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        prove(*bundled, device)
        needed = driver.in_use_bytes
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        for _ in range(2):
            prove(*small, device)
        assert MULTIPLES in arenas(device)
        # Just enough for the larger key beside the smaller one alone; some percent are spared.
        driver.memory_bytes = arenas(device)["a proving key"].nbytes + needed * 100 // (100 - SPARED_PERCENT) + 512
        assert proof_to_json(prove(*bundled, device, blinding=FIXED).proof) == bundled_text
        assert MULTIPLES not in arenas(device)
        for _ in range(2):
            prove(*small, device)
        assert MULTIPLES not in arenas(device)
    assert driver.launches.count("bn254_row_count") == 2, "the keys stayed"


def test_where_there_is_no_memory_for_multiples_there_are_none(
    bundled: tuple[ZKey, Witness], bundled_text: str, host: HostBackend
) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        prove(*bundled, device)
        needed = driver.in_use_bytes
    driver = SimulatedDriver(host=host)
    with simulated(driver, max_vram_bytes=needed + (1 << 16)) as device:
        for _ in range(3):
            assert proof_to_json(prove(*bundled, device, blinding=FIXED).proof) == bundled_text
        assert MULTIPLES not in arenas(device)
        assert driver.peak_bytes <= needed + (1 << 16)


@pytest.mark.long
@pytest.mark.parametrize("order", ["late", 5])
def test_the_second_curve(tmp_path: Path, host: HostBackend, order: Order) -> None:
    (tmp_path / "k.zkey").write_bytes(setup(MIXED, curve=BLS12_381).file())
    (tmp_path / "w.wtns").write_bytes(wtns(mixed_witness(curve=BLS12_381), BLS12_381.r).file())
    with (
        ZKey.open(tmp_path / "k.zkey") as zkey,
        Witness.open(tmp_path / "w.wtns") as witness,
        simulated(SimulatedDriver(order=order, host=host)) as device,
    ):
        fixed = Blinding(r=BLS12_381.r - 7, s=5)
        expected = proof_to_json(prove(zkey, witness, host, blinding=fixed).proof)
        for tuning in (Tuning(), Tuning(window_bits=5, chunk=3), Tuning()):
            assert proof_to_json(prove(zkey, witness, device, blinding=fixed, tuning=tuning).proof) == expected
        assert MULTIPLES in arenas(device)


@pytest.mark.parametrize("order", ["late", 1])
def test_a_dense_key_shares_one_list_of_digits(tmp_path: Path, host: HostBackend, order: Order) -> None:
    rows = [({wire: 1, 0: 1}, {wire: 1, 0: 1}, {wire + 1: 1}) for wire in range(1, 28)]
    values = [1, 12345]
    for _ in rows:
        values.append((values[-1] + 1) ** 2 % BN254.r)
    (tmp_path / "k.zkey").write_bytes(setup(Circuit(n_vars=29, n_public=1, constraints=rows)).file())
    (tmp_path / "w.wtns").write_bytes(wtns(values).file())
    with contextlib.ExitStack() as stack:
        pair = (
            stack.enter_context(ZKey.open(tmp_path / "k.zkey")),
            stack.enter_context(Witness.open(tmp_path / "w.wtns")),
        )
        survey = Survey(pair[0])
        assert survey.all_are_shared
        assert [(each.name, len(each.point_bytes)) for each in survey.shape.sums] == [("msm_a", 3), ("msm_h", 1)]
        expected = proof_to_json(prove(*pair, host, blinding=FIXED).proof)
        device = stack.enter_context(simulated(SimulatedDriver(order=order, host=host)))
        for tuning in (Tuning(), Tuning(chunk=20), Tuning(), Tuning(chunk=20, resident=False)):
            assert proof_to_json(prove(*pair, device, blinding=FIXED, tuning=tuning).proof) == expected
        assert MULTIPLES in arenas(device)


@pytest.mark.parametrize("order", ["late", 1, 2])
@pytest.mark.parametrize("is_locked", [True, False])
def test_points_that_stay_on_the_host_give_the_same_bytes(
    bundled: tuple[ZKey, Witness], bundled_text: str, host: HostBackend, order: Order, *, is_locked: bool
) -> None:
    driver = Unlocked(order=order, host=host) if not is_locked else SimulatedDriver(order=order, host=host)
    with simulated(driver) as device:
        for chunk in (500, 5000):
            tuning = Tuning(resident=False, chunk=chunk)
            assert proof_to_json(prove(*bundled, device, blinding=FIXED, tuning=tuning).proof) == bundled_text
        assert len(driver.registered) == int(is_locked)
    assert not driver.registered


class Unlocked(SimulatedDriver):
    """Locks no pages."""

    def register(self, address: int, nbytes: int) -> None:
        raise DriverFailure("register", f"{nbytes} bytes at {address}: operation not permitted")


def test_a_key_that_does_not_fit_comes_from_the_host(
    bundled: tuple[ZKey, Witness], bundled_text: str, host: HostBackend
) -> None:
    shape = Survey(bundled[0]).shape
    with simulated(SimulatedDriver(host=host)) as device:
        traits = device.traits()
    resident, streamed = (plan_proof(shape, traits, resident=there, chunk=400) for there in (True, False))
    room = streamed.key_bytes + streamed.workspace_bytes
    assert room < resident.key_bytes + resident.workspace_bytes
    driver = SimulatedDriver(host=host)
    with simulated(driver, max_vram_bytes=room) as device:
        for _ in range(2):
            assert (
                proof_to_json(prove(*bundled, device, blinding=FIXED, tuning=Tuning(chunk=400)).proof) == bundled_text
            )
        assert driver.in_use_bytes <= room
    assert [call.name for call in driver.calls].count("register") == 1, "pages stay locked for the next proof"


def test_what_is_asked_of_the_driver_and_in_which_order(small: tuple[ZKey, Witness], host: HostBackend) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        for _ in range(2):
            prove(*small, device, blinding=FIXED)
        first = len(driver.calls)
        prove(*small, device, blinding=FIXED)
        calls = driver.calls[first:]
        assert driver.peak_bytes == driver.in_use_bytes, "key, multiples and workspace stay for the next proof"
    assert [call.name for call in driver.calls].count("allocate") == 3, "for the key, its multiples, for proofs"
    assert not [call for call in calls if call.name in {"allocate", "load", "function", "make_stream", "free"}]
    # The rows and the transforms have a queue of their own, which waits for the witness.
    launches = [(call.detail.removeprefix("bn254_"), call.stream) for call in calls if call.name == "launch"]
    aside = [name for name, stream in launches if stream == 1]
    assert aside == ["row_sums", "ntt_pass", "ntt_pass", "quotient"]
    names = [(call.name, call.stream) for call in calls]
    copies = [place for place, call in enumerate(calls) if call.name == "copy_in"]
    assert names[copies[1] + 1 : copies[1] + 4] == [("record", 0), ("record", 0), ("wait", 1)]
    # The last sum waits for the quotient: the record follows it, the wait comes before that sum's digits.
    quotient = next(place for place, call in enumerate(calls) if call.detail == "bn254_quotient")
    assert names[quotient + 1] == ("record", 1)
    waits = [place for place, name in enumerate(names) if name == ("wait", 0)]
    digits = [place for place, call in enumerate(calls) if call.detail == "bn254_digits"]
    assert len(waits) == 1
    assert quotient < digits[-2] < waits[0] < digits[-1]
    # Whatever was copied through page-locked memory is followed by the record that frees it.
    for place in copies:
        assert names[place + 1][0] == "record"
    # At the end: the points come back, after what makes them.
    assert [name for name, _ in names if name in {"launch", "copy_out"}][-2:] == ["launch", "copy_out"]


def test_failures_at_any_call_free_everything_and_say_where(small: tuple[ZKey, Witness], host: HostBackend) -> None:
    counting = SimulatedDriver(host=host)
    with simulated(counting) as device:
        for _ in range(2):
            prove(*small, device, blinding=FIXED)
        total = len(counting.calls)
    stages = set()
    for number in range(0, total, 13):
        driver = SimulatedDriver(host=host, fail_at=number)
        stages |= _fails(driver, small)
        assert not driver.leaks(), counting.calls[number]
    assert len(stages) > 4


@pytest.mark.long
@pytest.mark.parametrize("order", ["early", "late", 3])
def test_failures_at_every_single_call(small: tuple[ZKey, Witness], host: HostBackend, order: Order) -> None:
    counting = SimulatedDriver(host=host, order=order)
    with simulated(counting) as device:
        for _ in range(2):
            prove(*small, device, blinding=FIXED)
        total = len(counting.calls)
    stages = set()
    for number in range(total):
        driver = SimulatedDriver(host=host, order=order, fail_at=number)
        stages |= _fails(driver, small)
        assert not driver.leaks(), counting.calls[number]
    assert stages >= {"key", "rows", "transforms", "msm_a", "msm_b", "msm_h", "assemble"}


def _fails(driver: SimulatedDriver, pair: tuple[ZKey, Witness]) -> set[str]:
    """Prove twice on a driver that fails somewhere; return the stage that the error names."""
    expected = driver.fail_at
    try:
        with simulated(driver) as device:
            for _ in range(2):
                prove(*pair, device, blinding=FIXED)
    except DeviceError as error:
        sentence = str(error)
        assert "an injected failure" in sentence
        failed = driver.calls[cast(int, expected)]
        if failed.name == "launch":
            assert f"the kernel {failed.detail} failed in the stage" in sentence
        return {phase for phase in PHASES if f"in the stage {phase}:" in sentence}
    except DriverFailure:
        return set()  # of opening the card, which a driver says in words of its own
    pytest.fail(f"call {expected} failed and nobody noticed")


def test_a_cancelled_proof_leaves_the_card_ready(
    bundled: tuple[ZKey, Witness], bundled_text: str, host: HostBackend
) -> None:
    driver = SimulatedDriver(host=host, order="late")
    with simulated(driver) as device:
        for phase in ("rows", "msm_b", "assemble"):
            begun: list[str] = []
            with pytest.raises(Cancelled):
                prove(
                    *bundled,
                    device,
                    progress=lambda name, _done, _total, begun=begun: begun.append(name),  # type: ignore[misc]
                    cancelled=lambda begun=begun, phase=phase: len(set(begun)) == PHASES.index(phase),  # type: ignore[misc]
                )
        assert proof_to_json(prove(*bundled, device, blinding=FIXED).proof) == bundled_text


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(),
        Tuning(window_bits=5),
        Tuning(chunk=300),
        Tuning(resident=False, chunk=600),
        Tuning(window_bits=11, chunk=900),
    ],
)
def test_the_planned_peak_of_each_stage_is_the_real_one(
    bundled: tuple[ZKey, Witness], host: HostBackend, tuning: Tuning
) -> None:
    driver = SimulatedDriver(host=host)
    peaks: dict[str, int] = {}
    with simulated(driver) as device:

        def watch(name: str, done: int, whole: int) -> None:
            arena = arenas(device).get("a proof")
            if arena is not None:
                peaks[name] = max(peaks.get(name, 0), arena.peak_bytes)
                arena.reset_peak()
            assert 0 <= done <= whole

        free = device.traits()
        prove(*bundled, device, progress=watch, tuning=tuning)
        survey = Survey(bundled[0])
        plan = plan_proof(
            survey.shape, free, window_bits=tuning.window_bits, chunk=tuning.chunk, resident=tuning.resident
        )
        planned = plan.stage_bytes()
        assert {name: peaks[name] for name in planned} == planned
        assert max(planned.values()) == plan.workspace_bytes == arenas(device)["a proof"].nbytes
        key = arenas(device)["a proving key"]
        assert key.peak_bytes == key.nbytes == plan.key_bytes
        assert driver.peak_bytes == plan.key_bytes + plan.workspace_bytes
        if tuning != Tuning():
            return
        traits = device.traits()
        room = traits._replace(memory_bytes=traits.memory_bytes + arenas(device)["a proof"].nbytes)
        plan_with = plan_multiples(survey.shape, room)
        assert plan_with is not None
        for _ in range(2):
            peaks.clear()
            prove(*bundled, device, progress=watch)
            assert {name: peaks[name] for name in planned} == plan_with.stage_bytes()
        multiples = arenas(device)[MULTIPLES]
        assert multiples.peak_bytes == multiples.nbytes == plan_with.multiples_bytes


def arenas(device: DeviceBackend) -> dict[str, Arena]:
    return {arena.what: arena for arena in device._reserved.values()}


def test_memory_stays_flat_and_keys_give_way_to_others(
    bundled: tuple[ZKey, Witness], small: tuple[ZKey, Witness], host: HostBackend
) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        prove(*bundled, device)
        alone = driver.in_use_bytes
        prove(*bundled, device)
        with_multiples = driver.in_use_bytes
        assert with_multiples > alone
        for _ in range(2):
            prove(*bundled, device)
            assert driver.in_use_bytes == with_multiples
        small_needs = plan_proof(Survey(small[0]).shape, device.traits()).key_bytes
    # Just enough for the larger one: the smaller key has to go, and comes back.
    limit = alone + small_needs // 2
    driver = SimulatedDriver(host=host)
    with simulated(driver, max_vram_bytes=limit) as device:
        for pair in (small, bundled, small, bundled):
            prove(*pair, device)
            assert driver.in_use_bytes <= limit
    assert driver.peak_bytes <= limit
    assert driver.launches.count("bn254_row_count") >= 3


def test_what_does_not_fit_is_refused_before_anything_is_taken(
    bundled: tuple[ZKey, Witness], host: HostBackend
) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver, max_vram_bytes=1 << 20) as device:
        with pytest.raises(DeviceError, match=r"needs [0-9]+ bytes of memory on cuda:0 .* would do, or --device host"):
            prove(*bundled, device)
        assert not device.broken
        assert not driver.in_use_bytes


@dataclass
class Synthetic:
    """A key of any size whose points are none: what counts here is how many there are.

    Attributes:
        sparse: whether B has infinity for half of the wires.
    """

    log2_domain: int
    sparse: bool = False
    curve: Curve = BN254
    format = SNARKJS
    path = "synthetic"
    n_public = 1

    def __post_init__(self) -> None:
        curve, size = self.curve, 1 << self.log2_domain
        self.n_vars = self.domain_size = size
        self.alpha1 = self.beta1 = self.delta1 = b"\1" * curve.g1_bytes
        self.beta2 = self.gamma2 = self.delta2 = b"\1" * curve.g2_bytes
        points = memoryview(b"\1" * (size * curve.g2_bytes))
        self.points_a = self.points_b1 = self.points_h = points[: size * curve.g1_bytes]
        self.points_c = points[: (size - 2) * curve.g1_bytes]
        self.points_b2 = points
        if self.sparse:
            half = size // 2
            self.points_b1 = memoryview(b"\1" * half * curve.g1_bytes + bytes(half * curve.g1_bytes))
            self.points_b2 = memoryview(b"\1" * half * curve.g2_bytes + bytes(half * curve.g2_bytes))
        self.n_coefficients = 3
        self.coefficients = memoryview(bytes(3 * 44))


class Dense(SimulatedDriver):
    """Runs nothing, and answers every question for the number of entries with the most there can be."""

    def __init__(self) -> None:
        super().__init__(runs=False, memory_bytes=1 << 40)
        self.entries = 0

    def launch(
        self,
        function: Handle,
        grid: tuple[int, int],
        threads: int,
        shared_bytes: int,
        stream: Handle,
        arguments: tuple[int, ...],
    ) -> None:
        if str(function).endswith("_digits"):
            self.entries = arguments[2] * arguments[4] * arguments[5]
        super().launch(function, grid, threads, shared_bytes, stream, arguments)

    def copy_out(self, host: int, address: int, nbytes: int, stream: Handle) -> None:
        super().copy_out(host, address, nbytes, stream)
        if nbytes == 4:
            ctypes.memmove(host, array("I", [self.entries]).tobytes(), 4)


@pytest.mark.parametrize(("sparse", "launches_max"), [(False, 40), (True, 45)])
def test_a_proof_of_2_16_takes_few_launches(*, sparse: bool, launches_max: int) -> None:
    """The key being there; 60 are allowed, the aim is 40."""
    driver = Dense()
    key = Synthetic(16, sparse=sparse)
    phases = _Phases(lambda *_step: None, lambda: False, phase_weights(n_vars=1 << 16, n_public=1, domain_size=1 << 16))
    witness = cast(Witness, type("Zeros", (), {"values": memoryview(bytes(32 << 16))}))
    with simulated(driver) as device:
        taken = []
        for resident in (True, True, None, None):
            before = len(driver.launches)
            with KernelComputation(cast(ProvingKey, key), device, phases, resident=resident) as computation:
                computation.run(witness, 5, 7)
            taken.append(driver.launches[before:])
    assert "bn254_g2_doublings" in taken[2]
    for launches in (taken[1], taken[3]):  # by the points alone, and by their multiples
        assert launches.count("bn254_g1_accumulate") + launches.count("bn254_g2_accumulate") == 4
        assert len(launches) <= launches_max, launches


def test_a_device_is_opened_once() -> None:
    driver = SimulatedDriver(runs=False)
    backend = DeviceBackend(0, driver, NamedImages())
    with backend, backend:
        backend.launch("scan_add", Launch(1), [0] * 5)
    assert [call.name for call in driver.calls].count("open") == 1
