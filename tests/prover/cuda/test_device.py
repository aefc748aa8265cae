"""A card behind the recording driver: what is asked of it, in which order, and what becomes of its errors."""

import ctypes
from collections.abc import Iterator

import pytest

from prover.backends.arena import ALIGNMENT, Arena, rounded
from prover.backends.base import Launch, Scope
from prover.backends.device import DeviceBackend
from prover.backends.host import HostBackend
from prover.errors import DeviceError, InternalError
from prover.scan import exclusive_scan
from tests.prover.cuda.simulated import NamedImages, Order, SimulatedDriver, simulated


@pytest.fixture(scope="module")
def host() -> Iterator[HostBackend]:
    with HostBackend(files=("counters",)) as backend:
        yield backend


def test_it_takes_what_it_needs_and_gives_everything_back(host: HostBackend) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        assert device.name == "cuda:0"
        assert device.description == "Simulated H200 (sm_90, 132 multiprocessors)"
        traits = device.traits()
        assert (traits.kind, traits.parallel, traits.memory_bytes) == ("gpu", 132, (1 << 34) * 95 // 100)
        assert [call.name for call in driver.calls[:3]] == ["open", "make_stream", "make_stream"]
    assert driver.calls[-1].name == "close"


@pytest.mark.parametrize("order", ["early", "late", 1, 2, 3])
def test_memory_goes_there_and_back(host: HostBackend, order: Order) -> None:
    data = bytes(range(256)) * (9 << 12)  # 9 MiB: more than one piece of staging
    with simulated(SimulatedDriver(host=host, order=order)) as device, Scope(device) as scope:
        buffer = scope.allocate(len(data) + 1)
        assert device.download(buffer, 0, 3) == bytes(3), "memory comes zeroed"
        changing = bytearray(data)
        device.upload(buffer, changing, 1)
        changing[:] = bytes(len(changing))
        assert device.download(buffer, 0, len(data) + 1) == b"\0" + data
        device.zero(buffer)
        assert not any(device.download(buffer, 0, 1000))
        with pytest.raises(ValueError, match="do not lie in a buffer"):
            device.upload(buffer, b"xx", len(data))


@pytest.mark.parametrize("order", ["early", "late", 1, 2, 3])
def test_kernels_run_in_order(host: HostBackend, order: Order) -> None:
    driver = SimulatedDriver(host=host, order=order)
    with simulated(driver) as device, Scope(device) as scope:
        counters = scope.uploaded(b"\1\0\0\0" * 5000)
        exclusive_scan(device, device.traits(), counters.address, 5000)
        got = memoryview(device.download(counters, 0, 20_000)).cast("I")
        assert [*got] == [*range(5000)]
        assert driver.launches == ["scan_tiles", "scan_tiles", "scan_add"]
        exclusive_scan(device, device.traits(), counters.address, 7)
    assert [call.detail for call in driver.calls if call.name == "load"] == ["counters"], "a module is loaded once"


@pytest.mark.parametrize("order", ["early", "late", 1, 2, 3, 4, 5])
def test_marks_order_the_queues(host: HostBackend, order: Order) -> None:
    with simulated(SimulatedDriver(host=host, order=order)) as device, Scope(device) as scope:
        buffer = scope.allocate(64)
        for round_ in range(4):
            with device.on(1):
                device.upload(buffer, bytes([round_]) * 64)
                mark = device.mark()
            device.wait(mark)
            assert device.download(buffer, 0, 64) == bytes([round_]) * 64
        with device.on(1), pytest.raises(InternalError, match="dealt out on queue 0"):
            device.allocate(8)


def test_the_simulation_sees_a_missing_mark(host: HostBackend) -> None:
    with simulated(SimulatedDriver(host=host, order="late")) as device, Scope(device) as scope:
        buffer = scope.allocate(64)
        with device.on(1):
            device.upload(buffer, b"x" * 64)
        assert device.download(buffer, 0, 64) == bytes(64)


def test_an_arena_deals_out_zeroed_memory_and_knows_its_peak(host: HostBackend) -> None:
    driver = SimulatedDriver(host=host, order="late")
    with simulated(driver) as device:
        arena = device.reserve(3000, "a test")
        assert arena.nbytes == rounded(3000) == 3072
        with device.within(arena):
            for _ in range(2):
                with Scope(device) as scope:
                    first, second = scope.allocate(1), scope.allocate(700, secret=True)
                    assert second.address - first.address == ALIGNMENT
                    assert not any(device.download(first, 0, 1) + device.download(second, 0, 700))
                    device.upload(first, b"x")
                    device.upload(second, b"y" * 700)
            assert arena.peak_bytes == 256 + 768
            arena.reset_peak()
            assert arena.peak_bytes == arena.used_bytes == 0
            with Scope(device) as scope:
                scope.allocate(100)
                with pytest.raises(DeviceError, match="planned for a test is too little: 3000"):
                    scope.allocate(3000)
        assert [call.name for call in driver.calls].count("allocate") == 1, "the driver is asked once"
        arena.close()
        arena.close()
        assert device.held_bytes == 0


def test_an_arena_takes_back_only_what_came_last() -> None:
    given: list[int] = []
    arena = Arena("a test", 4096, 1024, given.append)
    first, _second = arena.take(1), arena.take(1)
    with pytest.raises(ValueError, match="what was taken last has to be given back first"):
        arena.give(first)
    arena.close()
    assert given == [4096]
    with pytest.raises(DeviceError, match="fault of the plan"):
        arena.take(1)


def test_too_little_memory_is_said_and_breaks_nothing(host: HostBackend) -> None:
    with simulated(SimulatedDriver(host=host, memory_bytes=1 << 20)) as device:
        with pytest.raises(DeviceError, match=r"cuda:0 has no 2097152 bytes of memory for a key \(out of memory\)"):
            device.reserve(2 << 20, "a key")
        assert not device.broken
        device.reserve(1 << 19, "a key").close()


def test_max_vram_is_honoured(host: HostBackend) -> None:
    with simulated(SimulatedDriver(host=host), max_vram_bytes=1 << 20) as device:
        assert device.traits().memory_bytes == 1 << 20
        arena = device.reserve(1 << 19, "a key")
        assert device.traits().memory_bytes == 1 << 19
        arena.close()


def test_an_error_names_kernel_and_stage(host: HostBackend) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        device.stage = "msm_a"
        driver.fail_at = len(driver.calls) + 2  # after load and function
        with pytest.raises(
            DeviceError, match="cuda:0: the kernel scan_add failed in the stage msm_a: launch: an injected"
        ) as caught:
            device.launch("scan_add", Launch(1), [0] * 5)
        assert caught.value.exit_code == 5
        assert device.broken
        with pytest.raises(DeviceError, match="failed before and was not opened anew"):
            device.launch("scan_add", Launch(1), [0] * 5)
    with simulated(driver) as device:
        assert not device.broken, "opened anew it works again"


def test_a_late_error_names_the_launches_that_may_be_the_cause(host: HostBackend) -> None:
    driver = SimulatedDriver(host=host, runs=False)
    with simulated(driver) as device:
        device.stage = "msm_b"
        for _ in range(4):
            device.launch("scan_add", Launch(1), [0] * 5)
        driver.fail_late("an illegal memory access was encountered")
        with pytest.raises(DeviceError, match=r"illegal memory access .*; not checked before: scan_add \(msm_b\)"):
            device.finish()
    with simulated(driver, check_each=True) as device:
        driver.fail_late("an illegal memory access was encountered")
        with pytest.raises(DeviceError, match=r"not checked before: scan_add \(PROVEWIRE"):
            device.launch("scan_add", Launch(1), [0] * 5)


def test_secrets_are_wiped_when_a_card_failed(host: HostBackend) -> None:
    freed: list[bytes] = []

    class Watching(SimulatedDriver):
        def free(self, address: int) -> None:
            nbytes, _ = self.held[address]
            freed.append(ctypes.string_at(address, nbytes))
            super().free(address)

    driver = Watching(host=host)
    with simulated(driver) as device:
        arena = device.reserve(1 << 12, "secrets")
        with device.within(arena), Scope(device) as scope:
            scope.uploaded(b"secret" * 10, secret=True)
            driver.fail_at = 0
            with pytest.raises(DeviceError):
                device.finish()
    assert freed == [bytes(1 << 12)]


def test_pages_are_locked_or_not(host: HostBackend) -> None:
    driver = SimulatedDriver(host=host)
    with simulated(driver) as device:
        assert device.register(1 << 20, 4096)
        driver.fail_at = 0
        assert not device.register(2 << 20, 4096)
        assert not device.broken
        assert driver.registered == {1 << 20: 4096}


def test_unknown_kernels_and_wrong_arguments(host: HostBackend) -> None:
    with simulated(SimulatedDriver(host=host), files=("counters",)) as device:
        with pytest.raises(DeviceError, match="opened without the kernel bn254_powers"):
            device.launch("bn254_powers", Launch(1), [0] * 4)
        with pytest.raises(ValueError, match="scan_add takes 5 arguments, not 2"):
            device.launch("scan_add", Launch(1), [0, 0])


def test_what_is_missing_at_the_start_is_given_back() -> None:
    for number in range(1, 11):
        driver = SimulatedDriver(fail_at=number, runs=False)
        backend = DeviceBackend(0, driver, NamedImages())
        with pytest.raises(DeviceError, match="an injected failure"):
            backend.__enter__()
        assert not driver.leaks(), driver.calls[number]
