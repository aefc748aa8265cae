"""What sensors and engines say reaches REST whole, in long names, with unknown as null."""

from typing import Any

import msgspec
import pytest

from hub.api import readings
from hub.api.readings import DETAIL_CHARS_MAX, THROTTLE_REASONS, engine_view, gpu_view, host_view
from tests.hub.api.conftest import Web
from wire.engines import (
    EngineJob,
    EngineKey,
    EnginePartition,
    EngineReading,
    EngineState,
    EngineWorker,
    PartitionState,
)
from wire.inputs import Heard
from wire.readings import GpuProcess, GpuReading, GpuState, HostReading
from wire.status import NodeStatus

CUZK = EngineReading(
    engine="cuzk",
    state=EngineState.OK,
    source="http",
    answered_at_ms=1_700_000_000_000,
    queued=14,
    completed=3,
    completed_by_kind={"porep": 3},
    jobs=(
        EngineJob(
            "job-1",
            "porep",
            partitions_total=2,
            partitions_done=1,
            partitions=(
                EnginePartition(0, PartitionState.DONE, 120, 80),
                EnginePartition(1, PartitionState.GPU),
            ),
        ),
    ),
    workers=(EngineWorker(0, 0, proving=True, job="job-1", partition=1),),
    keys=(EngineKey("porep-32g", "srs", 2**35, evictable=True),),
    limits=("post_jobs",),
)


@pytest.mark.parametrize(
    ("reading", "view", "renamed"),
    [
        (HostReading, readings.HostView, {}),
        (GpuReading, readings.GpuView, {}),
        (GpuProcess, readings.GpuProcessView, {}),
        (EngineReading, readings.EngineView, {}),
        (EngineJob, readings.EngineJobView, {}),
        (EnginePartition, readings.EnginePartitionView, {}),
        (EngineWorker, readings.EngineWorkerView, {}),
        (EngineKey, readings.EngineKeyView, {"bytes_": "bytes"}),
    ],
)
def test_no_field_of_a_reading_is_left_out(reading: Any, view: Any, renamed: dict[str, str]) -> None:
    said = {renamed.get(name, name) for name in reading.__struct_fields__}
    assert said <= set(view.__struct_fields__)


def shown(view: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(view))


def test_what_cannot_be_read_is_null_and_no_0() -> None:
    host = shown(host_view(HostReading()))
    assert set(host.values()) == {None}
    gpu = shown(gpu_view(GpuReading("GPU-1")))
    known = {name: value for name, value in gpu.items() if value is not None}
    assert known == {"uuid": "GPU-1", "state": "ok", "detail": "", "mig_instances": []}


def test_a_card_with_everything() -> None:
    reading = GpuReading(
        "GPU-1",
        state=GpuState.DEGRADED,
        detail="x" * 8000,
        throttle_reasons=0x1 | 0x40,
        mig_instances=("MIG-1",),
        processes=(GpuProcess(7, 1024, 0.5),),
        power_draw_mw=65_000,
        xid_count=2,
        xid_last=79,
    )
    gpu = shown(gpu_view(reading))
    assert gpu["throttle_reasons"] == ["idle", "hardware_thermal"]
    assert gpu["throttle_reason_bits"] == 0x41
    assert gpu["processes"] == [{"pid": 7, "memory_used_bytes": 1024, "sm_ratio": 0.5}]
    assert (gpu["state"], gpu["power_draw_mw"], gpu["xid_count"], gpu["xid_last"]) == ("degraded", 65_000, 2, 79)
    assert len(gpu["detail"]) == DETAIL_CHARS_MAX
    assert sorted(THROTTLE_REASONS) == [1 << bit for bit in range(9)]


def test_an_engine_whole_and_as_viewers_get_it() -> None:
    engine = shown(engine_view(CUZK, whole=True))
    assert engine["jobs"][0]["partitions"] == [
        {"index": 0, "state": "done", "synthesis_ms": 120, "gpu_ms": 80},
        {"index": 1, "state": "gpu", "synthesis_ms": None, "gpu_ms": None},
    ]
    assert engine["keys"] == [
        {"id": "porep-32g", "kind": "srs", "bytes": 2**35, "evictable": True, "last_used_at_ms": None}
    ]
    live = shown(engine_view(CUZK, whole=False))
    del engine["keys"], engine["jobs"][0]["partitions"]
    assert live == engine
    assert (live["queued"], live["workers"][0]["partition"], live["limits"]) == (14, 1, ["post_jobs"])


async def test_a_nodes_engine_is_at_its_address(web: Web) -> None:
    peer = await web.hub.enroll()
    async with peer.connect() as connection:
        await connection.status(NodeStatus(gpus=[GpuReading("GPU-1", index=3)], engines=[CUZK]))
        await connection.until(Heard)
        status = (await web.ask("GET", f"/api/v1/nodes/{peer.id}")).json["status"]
        listed = (await web.ask("GET", "/api/v1/nodes")).json["nodes"][0]["status"]
    assert status["engines"] == [shown(engine_view(CUZK, whole=True))]
    assert listed["engines"] == [shown(engine_view(CUZK, whole=False))]
    assert status["gpus"][0]["index"] == 3
