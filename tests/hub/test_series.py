"""Which numbers become series."""

from hub.series import FIELDS_MAX, GPU_FIELDS, GPU_STATES, HOST_FIELDS, Kind, fields_of, named, values_of
from wire.events import Readings
from wire.readings import GpuProcess, GpuReading, GpuState, HostReading

NUMBERS_RECORDED = {
    "host": "cpu_used_ratio load_1min memory_total_bytes memory_used_bytes disk_total_bytes disk_free_bytes uptime_s "
    "cpu_limit_cores memory_limit_bytes memory_limit_used_bytes swap_total_bytes swap_used_bytes root_disk_total_bytes "
    "root_disk_free_bytes disk_inodes_free network_rx_bytes network_tx_bytes network_errors temperature_c "
    "open_files_used open_files_limit cpu_count",
    "gpu.": "state utilization_ratio memory_utilization_ratio encoder_utilization_ratio decoder_utilization_ratio "
    "memory_total_bytes memory_used_bytes memory_free_bytes memory_reserved_bytes sm_clock_mhz memory_clock_mhz "
    "temperature_c memory_temperature_c power_draw_mw power_limit_mw energy_mj fan_ratio pcie_generation pcie_width "
    "pcie_rx_bytes_per_s pcie_tx_bytes_per_s pcie_replays nvlinks_active ecc_corrected_volatile "
    "ecc_uncorrected_volatile ecc_corrected_aggregate ecc_uncorrected_aggregate remapped_rows_corrected "
    "remapped_rows_uncorrected remapped_rows_pending remapped_rows_failed retired_pages xid_count throttled_power "
    "throttled_thermal throttled_hardware processes",
}
"""Names by number, as stores hold them: only ever added to."""


def value(readings: Readings, name: str) -> object:
    source, _, field = name.rpartition(".")
    number = next(item.number for item in fields_of(source) if item.name == field)
    return values_of(readings).get(source, {}).get(number)


def test_numbers_of_fields_are_never_changed() -> None:
    for source, names in NUMBERS_RECORDED.items():
        recorded = names.split()
        assert [(field.number, field.name) for field in fields_of(source)][: len(recorded)] == list(enumerate(recorded))


def test_every_number_of_a_kind_is_one_bit() -> None:
    for fields in (HOST_FIELDS, GPU_FIELDS):
        numbers = [field.number for field in fields]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) < FIELDS_MAX


def test_every_number_of_a_reading_is_a_series_or_known_to_be_none() -> None:
    """A field that is added to the wire has to be thought of here."""
    words = {"boot_id", "container", "kernel"}
    assert set(HostReading.__struct_fields__) - {field.name for field in HOST_FIELDS} == words
    words = {"uuid", "name", "detail", "index", "pci_bus_id", "driver_version", "cuda_version", "vbios_version"}
    words |= {
        "persistence_mode",
        "mig_mode",
        "mig_instances",
        "throttle_reasons",
        "xid_last",
        "xid_last_time_ms",
        "age_s",
    }
    assert set(GpuReading.__struct_fields__) - {field.name for field in GPU_FIELDS} == words
    assert set(GPU_STATES) == set(GpuState)


def test_what_cannot_be_read_has_no_value_and_zero_is_one() -> None:
    readings = Readings(HostReading(cpu_used_ratio=0.0, memory_used_bytes=7))
    assert value(readings, "host.cpu_used_ratio") == 0.0
    assert value(readings, "host.memory_used_bytes") == 7
    assert value(readings, "host.load_1min") is None
    assert values_of(Readings()) == {}
    assert values_of(Readings(HostReading())) == {}


def test_states_and_truth_values_are_numbers() -> None:
    card = GpuReading(
        "GPU-1",
        state=GpuState.DEGRADED,
        remapped_rows_pending=True,
        remapped_rows_failed=False,
        throttle_reasons=0x40 | 0x1,
        processes=(GpuProcess(5), GpuProcess(6)),
    )
    readings = Readings(gpus=(card,))
    assert value(readings, "gpu.GPU-1.state") == 1
    assert value(readings, "gpu.GPU-1.remapped_rows_pending") == 1
    assert type(value(readings, "gpu.GPU-1.remapped_rows_failed")) is int
    assert value(readings, "gpu.GPU-1.throttled_thermal") == 1
    assert value(readings, "gpu.GPU-1.throttled_power") == 0
    assert value(readings, "gpu.GPU-1.processes") == 2


def test_a_card_whose_readings_are_old_shows_its_state_and_a_gap() -> None:
    card = GpuReading("GPU-1", state=GpuState.DRIVER_HUNG, temperature_c=50, throttle_reasons=0, age_s=30.0)
    assert values_of(Readings(gpus=(card,))) == {"gpu.GPU-1": {0: GPU_STATES[GpuState.DRIVER_HUNG]}}


def test_series_are_named_by_the_bits_of_their_fields() -> None:
    found = dict(named("gpu.GPU.with.dots", 1 << 11 | 1 << 15))
    assert list(found) == ["gpu.GPU.with.dots.temperature_c", "gpu.GPU.with.dots.energy_mj"]
    assert [field.kind for field in found.values()] == [Kind.GAUGE, Kind.COUNTER]
