"""What the child finds out beside NVML; the rest of it is tested through the sensor."""

from pathlib import Path

import pytest

from agent.sensors.nvml_child import kernel_module, library_replaced

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Sat May 24 07:19:15 UTC 2025\nGCC version: 12.2.0\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (builder@host)\n"


@pytest.mark.parametrize(
    ("text", "version"), [(PROPRIETARY, "575.57.08"), (OPEN, "580.65.06"), ("nonsense", None), ("", None)]
)
def test_the_kernel_modules_version(tmp_path: Path, text: str, version: str | None) -> None:
    assert kernel_module(tmp_path) is None
    path = tmp_path / "driver" / "nvidia" / "version"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert kernel_module(tmp_path) == version


def test_a_library_that_was_upgraded_under_the_child_is_noticed() -> None:
    line = "7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.575.57.08"
    assert not library_replaced(f"{line}\n7f02-7f03 r-xp 0 fe:00 2 /usr/lib/libc.so.6 (deleted)\n")
    assert library_replaced(f"{line} (deleted)\n")
