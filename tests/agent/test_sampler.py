import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.board import Board
from agent.outbox import open_outbox
from agent.outbox_bounds import Bounds
from agent.sampler import keep_samples, sample
from tests.agent.samples import EPOCHS
from tests.agent.virtual_time import VirtualClock, eventually
from wire.events import Readings, Stream
from wire.readings import GpuProcess, GpuReading, GpuState, HostReading

HOST = HostReading(cpu_used_ratio=0.25, memory_used_bytes=1 << 30, boot_id="b", container="docker", kernel="6.1")
GPU = GpuReading(
    uuid="GPU-1",
    name="H200",
    index=3,
    pci_bus_id="0000:01:00.0",
    driver_version="580",
    cuda_version="13.0",
    vbios_version="9",
    persistence_mode=True,
    mig_mode=False,
    mig_instances=("MIG-1",),
    temperature_c=40,
    power_draw_mw=70_000,
    xid_count=2,
    xid_last=79,
    xid_last_time_ms=5,
    processes=(GpuProcess(pid=1),),
    state=GpuState.DEGRADED,
    detail="pages are retired",
)


def test_only_numbers_and_the_state_are_kept() -> None:
    body = sample(HOST, [GPU])
    assert body == Readings(
        host=HostReading(cpu_used_ratio=0.25, memory_used_bytes=1 << 30),
        gpus=(GpuReading(uuid="GPU-1", temperature_c=40, power_draw_mw=70_000, xid_count=2, state=GpuState.DEGRADED),),
    )


@pytest.mark.parametrize("of", [HostReading, GpuReading])
def test_no_text_is_left_in_a_sample_whatever_is_added(of: type[HostReading | GpuReading]) -> None:
    """A field that a later version adds must be a number, or be left out."""
    text: dict[str, Any] = {
        "name": "n",
        "detail": "d",
        "mig_instances": ("m",),
        "processes": (GpuProcess(pid=1),),
        "uuid": "GPU-1",
    }
    values = {each.name: text.get(each.name, 1) for each in msgspec.structs.fields(of)}
    for each in msgspec.structs.fields(of):
        if "str" in str(each.type) and each.name not in text:
            values[each.name] = "text"
    values = {**values, "age_s": None, "state": GpuState.OK} if of is GpuReading else values
    reading = of(**values)
    body = sample(reading, []) if isinstance(reading, HostReading) else sample(None, [reading])
    assert body is not None
    kept = msgspec.structs.asdict(body.host if body.host is not None else body.gpus[0])
    kept = {name: value for name, value in kept.items() if name not in ("uuid", "state")}
    assert all(value is None or isinstance(value, int | float) or value in ("", ()) for value in kept.values()), kept


def test_an_old_reading_is_no_sample_and_nothing_is_nothing() -> None:
    assert sample(None, []) is None
    assert sample(HostReading(boot_id="b"), [GpuReading(uuid="GPU-1", name="H200")]) is None
    stale = msgspec.structs.replace(GPU, age_s=12.0, state=GpuState.DRIVER_HUNG)
    assert sample(None, [stale]) == Readings(gpus=(GpuReading(uuid="GPU-1", state=GpuState.DRIVER_HUNG),))
    assert sample(None, [msgspec.structs.replace(stale, state=GpuState.OK)]) is None


async def test_a_sample_is_stored_at_the_hubs_rate_connected_or_not(tmp_path: Path) -> None:
    clock, board, rate_s = VirtualClock(), Board(), [10.0]
    outbox = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], clock, Bounds())
    task = asyncio.create_task(keep_samples(board, outbox, clock=clock, every_s=lambda: rate_s[0]))

    async def after(seconds: float, held: int) -> None:
        await eventually(lambda: clock.sleeping, "the sampler to wait")
        await clock.advance(seconds)
        await eventually(lambda: outbox.reading.events_held == held, f"{held} samples")

    try:
        await after(10, 0)  # nothing was read yet
        board.host = HOST
        await after(10, 1)
        await after(9.9, 1)
        await after(0.2, 2)
        rate_s[0] = 60.0  # what a welcome says holds from the next one on
        await after(10, 3)
        await after(59, 3)
        await after(1, 4)
        stored = await outbox.read(EPOCHS[0], Stream.READINGS, 0, 100, 1 << 20)
        assert [each.seq for each in stored] == [1, 2, 3, 4]
        assert {each.body for each in stored} == {sample(HOST, [])}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await outbox.close()
