"""Examples of every frame and body, in full and at their least: what the golden frames were recorded from.

An example that was recorded is never changed; new ones are added.
"""

from msgspec import Struct

from wire.frames import (
    Ack,
    AgentFrame,
    AssignJob,
    Bye,
    CancelJob,
    Challenge,
    Event,
    EventBody,
    Events,
    Gap,
    HeldRange,
    Hello,
    HubFrame,
    JobFailed,
    JobHeld,
    JobReply,
    JobStarted,
    JobStopped,
    JobSucceeded,
    LeaseRenew,
    Level,
    LogRecord,
    NodeEvent,
    Refused,
    ReportFull,
    Status,
    Stream,
    StreamHave,
    UnknownBody,
    Unsupported,
    Welcome,
)
from wire.jobs import Groth16Spec, Input, Output
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import JobProgress, NodeStatus, OutboxReading, WorkerReading, WorkerState
from wire.worker import (
    Abort,
    DeviceNews,
    DeviceState,
    Ended,
    FromWorker,
    Greeting,
    InputFile,
    Ping,
    Pong,
    Progress,
    Prove,
    Release,
    ToWorker,
)

AGENT = "0197b2a4-0000-7000-8000-00000000000a"
EPOCH = "0197b2a4-0000-7000-8000-00000000000e"
OLDER_EPOCH = "0197b2a4-0000-7000-8000-0000000000e0"
JOB = "0197b2a4-0000-7000-8000-0000000000b1"
HUB = "0197b2a4-0000-7000-8000-0000000000ff"
SESSION = "0197b2a4-0000-7000-8000-00000000005e"
ZKEY = "11" * 32
WTNS = "22" * 32
PROOF = "33" * 32
NOW_MS = 1_764_000_000_123
NOW_NS = 987_654_321_000

SPEC = Groth16Spec(circuit=ZKEY, curve="bn128")
INPUTS = [Input(role="zkey", sha256=ZKEY, bytes_=70_000), Input(role="wtns", sha256=WTNS, bytes_=4_096)]
OUTPUT = Output(role="proof", sha256=PROOF, bytes_=5, data=b"proof")

BODIES: dict[str, EventBody] = {
    "started": JobStarted(job=JOB, attempt=1, device="cuda:0", pid=4321),
    "succeeded": JobSucceeded(job=JOB, attempt=2, outputs=[OUTPUT], timings_ms={"msm": 12.5, "ntt": 3.25}),
    "succeeded.least": JobSucceeded(job=JOB, attempt=2, outputs=[]),
    "failed": JobFailed(job=JOB, attempt=3, code=6, detail="the worker died (signal 9, Killed) in phase msm"),
    "stopped": JobStopped(job=JOB, attempt=4),
    "node": NodeEvent(
        kind="worker.died",
        detail="worker of cuda:0 died",
        level=Level.ERROR,
        fields={"device": "cuda:0", "signal": 9, "after_s": 1.5, "restarted": True, "core": None},
    ),
    "node.least": NodeEvent(kind="agent.started", detail=""),
    "log": LogRecord(source="agent.uplink", text="connected \u2713", level=Level.DEBUG, fields={"try": 3}),
    "log.least": LogRecord(source="worker", text="ready"),
    "gap": Gap(first=3, last=7, count=5, reason="the outbox is full"),
    "unknown": UnknownBody(kind="new", packed=bytes.fromhex("82a16ba36e6577a171c3")),
}

_STREAM_OF_BODY = {NodeEvent: Stream.EVENTS, LogRecord: Stream.LOGS, Gap: Stream.LOGS}


def _events_frame(body: EventBody) -> Events:
    stream = _STREAM_OF_BODY.get(type(body), Stream.JOBS)
    return Events(epoch=EPOCH, stream=stream, events=[Event(seq=7, time_ms=NOW_MS, monotonic_ns=NOW_NS, body=body)])


FULL_STATUS = NodeStatus(
    hostname="gpu-7",
    host=HostReading(
        cpu_count=64,
        cpu_used_ratio=0.25,
        load_1min=3.5,
        memory_total_bytes=2**37,
        memory_used_bytes=2**34,
        disk_total_bytes=2**40,
        disk_free_bytes=2**39,
        uptime_s=86_400,
    ),
    gpus=[
        GpuReading(
            uuid="GPU-5d1f", name="H200", memory_total_bytes=2**37, memory_used_bytes=2**30, state=GpuState.DEGRADED
        ),
        GpuReading(uuid="GPU-0000"),
    ],
    workers=[
        WorkerReading(device="cuda:0", state=WorkerState.PROVING, pid=4321),
        WorkerReading(device="host", state=WorkerState.DOWN, detail="no compiler"),
    ],
    jobs=[JobProgress(job=JOB, attempt=1, phase="msm", done=3, total=4, elapsed_s=2.5)],
    outbox=OutboxReading(events_held=12, bytes_held=3_456, dropped=1),
    draining=True,
)

AGENT_FRAMES: dict[str, AgentFrame] = {
    "hello": Hello(
        agent_id=AGENT,
        epoch=EPOCH,
        boot_id="b0071d",
        nonce=bytes(range(32)),
        version="0.1.0",
        minor=0,
        time_ms=NOW_MS,
        name="gpu-7",
        capabilities=["groth16.cuda"],
        jobs=[JobHeld(job=JOB, attempt=1)],
        held=[HeldRange(epoch=OLDER_EPOCH, stream=Stream.JOBS, first=5, last=9)],
        signature=bytes(range(64)),
    ),
    "hello.least": Hello(
        agent_id=AGENT,
        epoch=EPOCH,
        boot_id="b",
        nonce=bytes(32),
        version="0.1.0",
        minor=0,
        time_ms=0,
        name="n",
    ),
    "status.full": Status(status_seq=1, full=True, time_ms=NOW_MS, monotonic_ns=NOW_NS, status=FULL_STATUS),
    "status.heartbeat": Status(status_seq=2, full=False, time_ms=NOW_MS, monotonic_ns=NOW_NS, status=NodeStatus()),
    **{f"events.{name}": _events_frame(body) for name, body in BODIES.items()},
    "job-reply": JobReply(job=JOB, attempt=1, accepted=False, detail="draining"),
    "job-reply.least": JobReply(job=JOB, attempt=1, accepted=True),
    "lease-renew": LeaseRenew(jobs=[JobHeld(job=JOB, attempt=1)]),
    "unsupported": Unsupported(tag="zz"),
    "bye": Bye(code=0, detail="the agent is stopping", wait_s=0.0),
}

HUB_FRAMES: dict[str, HubFrame] = {
    "challenge": Challenge(nonce=bytes(range(32)), hub_key=bytes(range(32, 64)), minor=0),
    "welcome": Welcome(
        session=SESSION,
        hub_id=HUB,
        generation=7,
        minor=0,
        heartbeat_s=10.0,
        stale_after_s=30.0,
        lost_after_s=45.0,
        reconnect_spread_s=2.5,
        frame_bytes_max=262_144,
        time_ms=NOW_MS,
        have=[StreamHave(epoch=EPOCH, stream=Stream.EVENTS, seq=0)],
        signature=bytes(range(64)),
    ),
    "refused": Refused(code=8, detail="revoked by the operator", wait_s=90.0),
    "ack": Ack(streams=[StreamHave(epoch=EPOCH, stream=Stream.JOBS, seq=41)], status_seq=9),
    "ack.least": Ack(),
    "report-full": ReportFull(detail="status 5 does not follow a known one"),
    "assign": AssignJob(
        job=JOB,
        attempt=1,
        lease_s=60.0,
        engine="groth16",
        spec=SPEC,
        inputs=INPUTS,
        outputs=["proof", "public"],
        fetch_token=f"pwj.{JOB}.1.aa",
    ),
    "cancel": CancelJob(job=JOB, attempt=1, detail="cancelled by the operator"),
    "unsupported": Unsupported(tag="zz"),
    "bye": Bye(code=1, detail="the hub is stopping", wait_s=2.5),
}

TO_WORKER: dict[str, ToWorker] = {
    "prove": Prove(
        job=JOB, attempt=1, engine="groth16", spec=SPEC, inputs=[InputFile(role="zkey", path="/data/a.zkey")]
    ),
    "abort": Abort(job=JOB, attempt=1),
    "release": Release(job=JOB, attempt=1),
    "ping": Ping(number=1),
}

_PROGRESS = Progress(job=JOB, attempt=1, phase="msm", done=1, total=4, elapsed_s=0.5)

FROM_WORKER: dict[str, FromWorker] = {
    "greeting": Greeting(pid=4321, device="cuda:0", started_ms=NOW_MS, version="0.1.0", current=_PROGRESS),
    "greeting.idle": Greeting(pid=4321, device="cuda:0", started_ms=NOW_MS, version="0.1.0"),
    "device": DeviceNews(state=DeviceState.READY),
    "device.unusable": DeviceNews(state=DeviceState.UNUSABLE, detail="no C++ compiler"),
    "progress": _PROGRESS,
    "ended": Ended(job=JOB, attempt=1, code=0, outputs=[OUTPUT], timings_ms={"msm": 12.5}),
    "ended.failed": Ended(job=JOB, attempt=1, code=5, detail="out of device memory"),
    "pong": Pong(number=1),
}

BY_DIRECTION: dict[str, dict[str, Struct]] = {
    "agent": dict(AGENT_FRAMES),
    "hub": dict(HUB_FRAMES),
    "to-worker": dict(TO_WORKER),
    "from-worker": dict(FROM_WORKER),
}
