"""Examples of every frame and body, in full and at their least: what the golden frames were recorded from.

An example that was recorded is never changed; new ones are added.
"""

from msgspec import Struct

from wire.deltas import EngineChange, GpuChange, HostChange, NodeChanges
from wire.engines import (
    EngineJob,
    EngineJobState,
    EngineKey,
    EnginePartition,
    EngineReading,
    EngineState,
    EngineWorker,
    PartitionState,
)
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
    InstallKey,
    JobFailed,
    JobHeld,
    JobReply,
    JobStarted,
    JobStopped,
    JobSucceeded,
    KeyInstalled,
    LeaseRenew,
    Level,
    LogRecord,
    NodeEvent,
    Readings,
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
from wire.readings import GpuProcess, GpuReading, GpuState, HostReading
from wire.status import JobProgress, NodeStatus, OutboxReading, SshHint, WorkerReading, WorkerState
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
    "readings": Readings(
        host=HostReading(cpu_used_ratio=0.25, memory_used_bytes=2**34),
        gpus=(GpuReading(uuid="GPU-5d1f", temperature_c=71, power_draw_mw=340_000),),
    ),
    "readings.least": Readings(),
    "gap": Gap(first=3, last=7, count=5, reason="the outbox is full"),
    "unknown": UnknownBody(kind="new", packed=bytes.fromhex("82a16ba36e6577a171c3")),
}

_STREAM_OF_BODY = {NodeEvent: Stream.EVENTS, LogRecord: Stream.LOGS, Gap: Stream.LOGS, Readings: Stream.READINGS}


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

GPUS_READ = NodeStatus(
    host=HostReading(
        cpu_limit_cores=7.5,
        memory_limit_bytes=2**36,
        memory_limit_used_bytes=2**33,
        swap_total_bytes=2**30,
        swap_used_bytes=2**20,
        root_disk_total_bytes=2**38,
        root_disk_free_bytes=2**37,
        disk_inodes_free=1_000_000,
        network_rx_bytes=2**40,
        network_tx_bytes=2**39,
        network_errors=3,
        temperature_c=61,
        boot_id="6a0e6c2e-2f7e-4f57-9d5b-6a7c7c2b1d11",
        container="docker",
        kernel="6.8.0",
        open_files_used=30,
        open_files_limit=1024,
    ),
    gpus=[
        GpuReading(
            uuid="GPU-5d1f",
            name="H200",
            memory_total_bytes=2**37,
            memory_used_bytes=2**30,
            state=GpuState.DEGRADED,
            detail="row remapping is pending: reset the card",
            index=0,
            pci_bus_id="00000000:41:00.0",
            driver_version="580.65.06",
            cuda_version="13.0",
            vbios_version="96.00.89.00.01",
            persistence_mode=True,
            mig_mode=True,
            mig_instances=("MIG-1", "MIG-2"),
            utilization_ratio=0.97,
            memory_utilization_ratio=0.4,
            encoder_utilization_ratio=0.0,
            decoder_utilization_ratio=0.0,
            memory_free_bytes=2**36,
            memory_reserved_bytes=2**29,
            sm_clock_mhz=1980,
            memory_clock_mhz=3201,
            temperature_c=71,
            memory_temperature_c=80,
            power_draw_mw=640_000,
            power_limit_mw=700_000,
            energy_mj=123_456_789,
            fan_ratio=0.5,
            pcie_generation=5,
            pcie_width=16,
            pcie_rx_bytes_per_s=1_000_000,
            pcie_tx_bytes_per_s=2_000_000,
            pcie_replays=1,
            nvlinks_active=18,
            throttle_reasons=0x24,
            ecc_corrected_volatile=1,
            ecc_uncorrected_volatile=0,
            ecc_corrected_aggregate=7,
            ecc_uncorrected_aggregate=1,
            remapped_rows_corrected=1,
            remapped_rows_uncorrected=1,
            remapped_rows_pending=True,
            remapped_rows_failed=False,
            retired_pages=0,
            xid_count=2,
            xid_last=63,
            xid_last_time_ms=NOW_MS,
            processes=(GpuProcess(pid=4321, memory_used_bytes=2**30, sm_ratio=0.9),),
            age_s=12.0,
        )
    ],
)

CUZK = EngineReading(
    engine="cuzk",
    state=EngineState.STATUS_DISABLED,
    detail="set daemon.status_listen",
    source="grpc",
    answered_at_ms=NOW_MS,
    started_at_ms=NOW_MS - 5_000,
    memory_total_bytes=2**38,
    memory_used_bytes=2**37,
    synthesis_active=1,
    synthesis_max=27,
    queued=2,
    completed=212,
    failed=1,
    completed_by_kind={"porep-c2": 180},
    failed_by_kind={"porep-c2": 1},
    jobs=(
        EngineJob(
            id="ps-porep-1000-7-4411",
            kind="porep-c2",
            state=EngineJobState.FAILED,
            started_at_ms=NOW_MS - 41_700,
            partitions_total=2,
            partitions_done=1,
            partitions=(
                EnginePartition(index=0, state=PartitionState.DONE, synthesis_ms=30_110, gpu_ms=1_422),
                EnginePartition(index=1, state=PartitionState.FAILED),
            ),
            detail="partition 1 failed",
        ),
    ),
    jobs_left_out=1,
    workers=(
        EngineWorker(id=0, gpu_ordinal=0, proving=True, job="ps-porep-1000-7-4411", partition=1, since_ms=NOW_MS - 610),
        EngineWorker(id=1, gpu_ordinal=0),
    ),
    keys=(EngineKey(id="porep-32g", kind="srs", bytes_=47_244_640_256, evictable=True, last_used_at_ms=NOW_MS),),
    in_flight={"provers": 1},
    limits=("post_jobs",),
)

CHANGES = NodeChanges(
    host=HostChange(cpu_used_ratio=0.5, temperature_c=None),
    gpus=(GpuChange(slot=0, power_draw_mw=650_000, state=GpuState.LOST), GpuChange(slot=7, temperature_c=72)),
    engines=(EngineChange(slot=0, answered_at_ms=NOW_MS),),
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
    "status.gpus": Status(status_seq=3, full=True, time_ms=NOW_MS, monotonic_ns=NOW_NS, status=GPUS_READ),
    "status.engines": Status(
        status_seq=4,
        full=False,
        time_ms=NOW_MS,
        monotonic_ns=NOW_NS,
        status=NodeStatus(engines=[CUZK, EngineReading(engine="other", state=EngineState.DOWN)]),
    ),
    "status.ssh": Status(
        status_seq=6,
        full=False,
        time_ms=NOW_MS,
        monotonic_ns=NOW_NS,
        status=NodeStatus(
            ssh=SshHint(port=22022, user="prover", host_keys=("ssh-ed25519 AAAA",), address="203.0.113.5")
        ),
    ),
    "status.on_host": Status(
        status_seq=7,
        full=False,
        time_ms=NOW_MS,
        monotonic_ns=NOW_NS,
        status=NodeStatus(
            workers=[WorkerReading(device="cuda:0", state=WorkerState.IDLE, pid=4321, on_host="the driver is too old")]
        ),
    ),
    "status.changes": Status(
        status_seq=5, full=False, time_ms=NOW_MS, monotonic_ns=NOW_NS, status=NodeStatus(), changes=CHANGES
    ),
    **{f"events.{name}": _events_frame(body) for name, body in BODIES.items()},
    "job-reply": JobReply(job=JOB, attempt=1, accepted=False, detail="draining"),
    "job-reply.least": JobReply(job=JOB, attempt=1, accepted=True),
    "lease-renew": LeaseRenew(jobs=[JobHeld(job=JOB, attempt=1)]),
    "key-installed": KeyInstalled(request=JOB, ok=True, detail="/root/.ssh/authorized_keys"),
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
    "welcome.rates": Welcome(
        session=SESSION,
        hub_id=HUB,
        generation=7,
        minor=1,
        heartbeat_s=15.0,
        stale_after_s=45.0,
        lost_after_s=60.0,
        reconnect_spread_s=60.0,
        frame_bytes_max=262_144,
        time_ms=NOW_MS,
        readings_s=5.0,
        sample_s=15.0,
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
    "install-key": InstallKey(request=JOB, user="root", public_key="ssh-ed25519 AAAA hub"),
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
    "device.on_host": DeviceNews(state=DeviceState.READY, on_host="cuda:0: the driver is too old"),
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
