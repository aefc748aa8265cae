"""docs/gpu.md says what the code does: its tables are compared with the code's own."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.sensors import gpu, gpu_health, gpu_states
from agent.sensors.nvml_fields import READINGS
from agent.sensors.xids import XIDS
from wire.readings import GpuReading, GpuState

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
NOT_BY_NVML = {"uuid", "index", "state", "detail", "xid_count", "xid_last", "xid_last_time_ms", "age_s"}


def readings() -> Iterator[str]:
    yield "| reading | NVML | taken |"
    yield "|---|---|---|"
    for reading in READINGS:
        functions = re.sub(r"(nvml\w+|NVML_\w+|\.\.\._\w+)", r"`\1`", reading.functions)
        yield f"| {', '.join(f'`{field}`' for field in reading.fields)} | {functions} | {reading.often.value} |"


def xids() -> Iterator[str]:
    yield "| XID | name | kind | what to do |"
    yield "|---|---|---|---|"
    for number, row in sorted(XIDS.items()):
        yield f"| {number} | {row.name} | {row.kind.value} | {row.action} |"


def reasons() -> Iterator[str]:
    yield "| bit | reason | an event |"
    yield "|---|---|---|"
    for bit, name in gpu_health.THROTTLE_NAMES.items():
        yield f"| {bit:#x} | {name} | {'yes' if bit & gpu_health.THROTTLE_SAID else ''} |"


@pytest.mark.parametrize("table", [readings, xids, reasons])
def test_a_table_is_the_codes_own(table: Callable[[], Iterator[str]]) -> None:
    expected = "\n".join(table())
    assert f"\n{expected}\n\n" in TEXT, f"docs/gpu.md should hold this table:\n{expected}"


def test_every_field_of_a_card_has_a_source() -> None:
    read = {field for reading in READINGS for field in reading.fields}
    assert read | NOT_BY_NVML == set(GpuReading.__struct_fields__)
    assert not read & NOT_BY_NVML


def first_cells(heading: str) -> list[str]:
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [line.split("|")[1].strip(" `") for line in section.splitlines() if line.startswith("| `")]


def test_every_state_says_what_to_do() -> None:
    assert first_cells("States") == [state.value for state in GpuState]


def test_every_event_is_listed() -> None:
    sources = "".join(inspect.getsource(module) for module in (gpu_health, gpu_states))
    assert set(first_cells("Events")) == set(re.findall(r'"(gpu\.[a-z_]+)"', sources))


def test_the_times_are_the_true_ones() -> None:
    for value in (
        f"within {gpu.SILENCE_S:g} s ({gpu.FIRST_SILENCE_S:g} s in a child's first round)",
        f"after {gpu.RECYCLE_S / 3600:g} hour",
        f"after {', '.join(f'{life:g}' for life in gpu.RECYCLE_LOST_S)} s while a card is lost",
        f"every {gpu.MISMATCH_RECHECK_S:g} s after a mismatch",
        f"every {gpu.MISSING_RECHECK_S / 60:g} minutes",
        f"after {', '.join(f'{wait:g}' for wait in gpu.SUSPECT_WAIT_S)} s",
        f"older than {gpu_states.WITHDRAWN_S:g} s",
        f"for {gpu_health.THROTTLE_END_S:g} s",
        f"for {gpu_health.STRUCK_S / 3600:g} hour",
    ):
        assert value in TEXT, value


def test_the_units_let_the_driver_be_reached() -> None:
    for unit in ("provewire-agent.service", "provewire-worker@.service"):
        text = (ROOT / "systemd" / unit).read_text(encoding="utf-8")
        for setting in ("PrivateDevices", "DevicePolicy", "DeviceAllow", "MemoryDenyWriteExecute", "PrivateUsers"):
            assert f"\n{setting}=" not in text, f"{setting} in {unit} would hide the cards, or break their library"
    agent = (ROOT / "systemd" / "provewire-agent.service").read_text(encoding="utf-8")
    assert "nvidia-persistenced.service" in agent.split("After=")[1].splitlines()[0]
