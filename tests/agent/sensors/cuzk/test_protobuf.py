"""Our reader of the gRPC messages against the real protobuf, and against bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sensors.cuzk.protobuf import ROWS_MAX, GpuRow, Malformed, QueueRow, status_message
from tests.agent.sensors.cuzk.fake_daemon import MESSAGES, status_response

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
GPU = st.fixed_dictionaries(
    {
        "ordinal": U32,
        "name": st.text(max_size=20),
        "vram_total_bytes": U64,
        "vram_free_bytes": U64,
        "current_job_id": st.text(max_size=40),
        "current_proof_kind": st.integers(0, 4),
    }
)
SRS = st.fixed_dictionaries({"circuit_id": st.text(max_size=20), "tier": st.integers(0, 2), "size_bytes": U64})
QUEUE = st.fixed_dictionaries({"proof_kind": st.integers(0, 4), "pending": U32, "in_progress": U32})
STATUS = st.fixed_dictionaries(
    {
        "gpus": st.lists(GPU, max_size=8),
        "loaded_srs": st.lists(SRS, max_size=4),
        "queues": st.lists(QUEUE, max_size=4),
        "total_proofs_completed": U64,
        "total_proofs_failed": U64,
        "uptime_seconds": U64,
        "pinned_memory_bytes": U64,
    }
)


@given(STATUS)
def test_what_protobuf_writes_is_read(fields: dict[str, object]) -> None:
    response = status_response(**fields)
    read = status_message(response.SerializeToString())
    assert read.gpus == [GpuRow(gpu.ordinal, gpu.current_job_id, gpu.current_proof_kind) for gpu in response.gpus]
    assert read.queues == [QueueRow(queue.proof_kind, queue.in_progress) for queue in response.queues]
    assert (read.completed, read.failed) == (response.total_proofs_completed, response.total_proofs_failed)
    assert read.uptime_s == response.uptime_seconds


@given(st.binary(max_size=200))
def test_bytes_that_protobuf_refuses_are_refused_or_read_as_something(data: bytes) -> None:
    """Nothing else than `Malformed` comes of them."""
    try:
        status_message(data)
    except Malformed:
        return
    # What we read without a complaint, protobuf may refuse for fields we pass over (nested messages, UTF-8).


@given(STATUS, st.data())
def test_a_message_that_is_cut_is_refused_or_shorter(fields: dict[str, object], data: st.DataObject) -> None:
    packed = status_response(**fields).SerializeToString()
    cut = packed[: data.draw(st.integers(0, len(packed)))]
    try:
        MESSAGES["GetStatusResponse"].FromString(cut)
    except Exception:  # noqa: BLE001 - protobuf's own error class differs between its implementations
        with pytest.raises(Malformed):
            status_message(cut)
    else:
        status_message(cut)


def test_rows_without_end_are_refused() -> None:
    packed = status_response(gpus=[{"ordinal": 1}] * (ROWS_MAX + 1)).SerializeToString()
    with pytest.raises(Malformed, match="rows"):
        status_message(packed)
