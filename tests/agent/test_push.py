import msgspec
import pytest

from agent.push import STATE_EVERY_S, Change, Pusher, change_between
from wire.engines import EngineJob, EngineJobState, EngineReading, EngineState
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import JobProgress, NodeStatus, OutboxReading, WorkerReading, WorkerState

JOB = "01890a5d-ac96-774b-bcce-0000000000aa"
GPU = GpuReading(uuid="GPU-1", temperature_c=40, energy_mj=5)
ENGINE = EngineReading(engine="cuzk", state=EngineState.OK, answered_at_ms=1, queued=0)
PICTURE = NodeStatus(
    hostname="node-a",
    host=HostReading(cpu_used_ratio=0.1, uptime_s=1, network_rx_bytes=1, network_tx_bytes=1),
    gpus=[GPU],
    workers=[WorkerReading(device="cuda:0", state=WorkerState.PROVING)],
    jobs=[JobProgress(job=JOB, attempt=1, phase="msm")],
    outbox=OutboxReading(events_held=0, bytes_held=0),
    draining=False,
    engines=[ENGINE],
)


def with_gpu(**changes: object) -> NodeStatus:
    return msgspec.structs.replace(PICTURE, gpus=[msgspec.structs.replace(GPU, **changes)])


def with_host(**changes: object) -> NodeStatus:
    assert isinstance(PICTURE.host, HostReading)
    return msgspec.structs.replace(PICTURE, host=msgspec.structs.replace(PICTURE.host, **changes))


def with_job(**changes: object) -> NodeStatus:
    return msgspec.structs.replace(PICTURE, jobs=[JobProgress(job=JOB, attempt=1, **{"phase": "msm", **changes})])  # type: ignore[arg-type]


def with_engine(**changes: object) -> NodeStatus:
    return msgspec.structs.replace(PICTURE, engines=[msgspec.structs.replace(ENGINE, **changes)])


HOT, LOST = with_gpu(temperature_c=41), with_gpu(state=GpuState.LOST)
FIRST_JOB = EngineJob(id="1", kind="post")


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (PICTURE, Change.NONE),
        (with_gpu(energy_mj=6), Change.NONE),
        (with_host(uptime_s=2, network_rx_bytes=9, network_tx_bytes=9), Change.NONE),
        (with_engine(answered_at_ms=2), Change.NONE),
        (msgspec.structs.replace(PICTURE, outbox=OutboxReading(events_held=9, bytes_held=9)), Change.NONE),
        (HOT, Change.READINGS),
        (with_host(cpu_used_ratio=0.2), Change.READINGS),
        (with_job(done=1, total=2), Change.READINGS),
        (with_engine(queued=1), Change.READINGS),
        (LOST, Change.STATE),
        (with_gpu(detail="why"), Change.STATE),
        (with_gpu(xid_count=1), Change.STATE),
        (msgspec.structs.replace(PICTURE, gpus=[]), Change.STATE),
        (with_job(phase="ntt"), Change.STATE),
        (msgspec.structs.replace(PICTURE, jobs=[]), Change.STATE),
        (msgspec.structs.replace(PICTURE, workers=[]), Change.STATE),
        (msgspec.structs.replace(PICTURE, draining=True), Change.STATE),
        (with_engine(state=EngineState.DOWN), Change.STATE),
        (with_engine(jobs=(FIRST_JOB,)), Change.STATE),
        (msgspec.structs.replace(PICTURE, engines=[]), Change.STATE),
    ],
)
def test_what_counts_as_a_change(now: NodeStatus, change: Change) -> None:
    assert change_between(PICTURE, now) is change
    assert change_between(now, PICTURE) is change


def test_partitions_of_an_engines_job_are_readings_and_its_end_is_a_state() -> None:
    before = with_engine(jobs=(FIRST_JOB,))
    moved = with_engine(jobs=(msgspec.structs.replace(FIRST_JOB, partitions_done=1),))
    failed = with_engine(jobs=(msgspec.structs.replace(FIRST_JOB, state=EngineJobState.FAILED),))
    assert (change_between(before, moved), change_between(before, failed)) == (Change.READINGS, Change.STATE)


def begun(readings_s: float = 5.0) -> Pusher:
    """A pusher that has just sent the first picture, at 100 s."""
    pusher = Pusher(readings_s)
    assert pusher.due_s() == float("-inf")
    assert pusher.decide(PICTURE, 100.0)
    return pusher


@pytest.mark.parametrize(
    ("picture", "touched_s", "pushed_s"),
    [
        (LOST, 103.0, 103.0),  # a state, at once
        (LOST, 100.1, 100.0 + STATE_EVERY_S),  # together with what comes within the half second
        (HOT, 103.0, 105.0),  # readings, at the hub's rate
        (HOT, 107.0, 107.0),  # which is over
        (PICTURE, 103.0, None),
    ],
)
def test_when_a_touched_picture_goes(picture: NodeStatus, touched_s: float, pushed_s: float | None) -> None:
    pusher = begun()
    assert pusher.due_s() is None
    pusher.touch()
    if pushed_s == touched_s:
        assert pusher.decide(picture, touched_s)
    else:
        assert not pusher.decide(picture, touched_s)
        assert pusher.due_s() == pushed_s
    if pushed_s is not None and pushed_s > touched_s:
        assert not pusher.decide(picture, pushed_s - 0.01)
        assert pusher.decide(picture, pushed_s)
    assert pusher.due_s() is None


def test_a_state_overtakes_readings_that_wait() -> None:
    pusher = begun()
    pusher.touch()
    assert not pusher.decide(HOT, 101.0)
    pusher.touch()
    assert pusher.decide(LOST, 101.5)


def test_heartbeats_and_requests_go_whatever_has_changed() -> None:
    pusher = begun()
    assert not pusher.decide(PICTURE, 110.0)
    pusher.want()
    assert pusher.due_s() == float("-inf")
    assert pusher.decide(PICTURE, 110.0)
    assert pusher.due_s() is None


def test_a_hub_that_wants_readings_faster_than_states_coalesce_gets_them_so() -> None:
    pusher = begun(readings_s=0.1)
    pusher.touch()
    assert not pusher.decide(HOT, 100.1)
    assert pusher.due_s() == 100.0 + STATE_EVERY_S
