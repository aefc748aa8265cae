"""A proving engine that proves nothing and says of itself what a cuzk-daemon says, wrong things included.

The test moves it: jobs are submitted, partitions go from state to state, things fail. `status` is what its HTTP status
would hold at that moment. What is wrong in it is wrong on purpose, each time where a comment says so.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

GIB = 1 << 30
PARTITION_BYTES = 14 * GIB
KEPT_S = 30.0
"""A finished job stays listed for this long."""
WRAPPED = 2**64 - 1


@dataclass
class FakePartition:
    """One partition."""

    state: str = "pending"
    since_s: float = 0.0
    synth_ms: int | None = None
    gpu_ms: int | None = None


@dataclass
class FakeJob:
    """One tracked job."""

    id: str
    kind: str
    started_s: float
    partitions: list[FakePartition]
    finished_s: float | None = None
    failed: bool = False


@dataclass
class FakeWorker:
    """One GPU worker."""

    id: int
    ordinal: int
    job: str | None = None
    partition: int | None = None
    since_s: float = 0.0


@dataclass
class FakeKey:
    """One SRS or PCE in memory."""

    bytes_: int
    used_s: float
    in_use: bool = False


@dataclass
class FakeEngine:
    """One run of the daemon. ``now_s`` is its clock."""

    now_s: Callable[[], float]
    workers: int = 2
    total_bytes: int = 251 * GIB
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    completed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    srs: dict[str, FakeKey] = field(default_factory=dict)
    pce: dict[str, FakeKey] = field(default_factory=dict)
    srs_loading: bool = False
    synthesis_leaked: int = 0
    aux: int = 0
    synth_in_flight_off: int = 0

    def __post_init__(self) -> None:
        self.started_s = self.now_s()
        self.gpu_workers = [FakeWorker(number, number // 2) for number in range(self.workers)]

    # --- what happens in it ---------------------------------------------------------------------------------------

    def submit(self, job: str, kind: str = "porep-c2", partitions: int = 4) -> None:
        self.jobs[job] = FakeJob(job, kind, self.now_s(), [FakePartition() for _ in range(partitions)])

    def synthesize(self, job: str, index: int) -> None:
        self._move(job, index, "synthesizing")

    def synthesized(self, job: str, index: int) -> None:
        partition = self._move(job, index, "synth_done")
        partition.synth_ms = 30_000 + index
        self.aux += 1  # never lowered

    def on_gpu(self, job: str, index: int, worker: int = 0) -> None:
        self._move(job, index, "gpu")
        self._take(job, index, worker)

    def gpu_done(self, job: str, index: int, worker: int = 0) -> None:
        self._move(job, index, "done").gpu_ms = 1_400 + index
        self._free(worker)

    def complete(self, job: str, *, good: bool = True) -> None:
        """The proof is assembled and checked by the daemon itself."""
        ended = self.jobs[job]
        ended.finished_s, ended.failed = self.now_s(), not good
        (self.completed if good else self.failed)[ended.kind] += 1

    def run_partition(self, job: str, index: int, worker: int = 0) -> None:
        """One partition from beginning to end, without time passing."""
        self.synthesize(job, index)
        self.synthesized(job, index)
        self.on_gpu(job, index, worker)
        self.gpu_done(job, index, worker)

    def run(self, job: str) -> None:
        """All partitions."""
        for index in range(len(self.jobs[job].partitions)):
            self.run_partition(job, index)

    def run_unlisted(self) -> None:
        """A WindowPoSt: in no list and no counter, and the counter of syntheses in flight goes below zero."""
        self.synth_in_flight_off -= 1

    # --- what goes wrong ------------------------------------------------------------------------------------------

    def fail_partition(self, job: str, index: int) -> None:
        """Said so; not counted, and never taken off the list."""
        self._move(job, index, "failed")

    def fail_synthesis(self, job: str, index: int) -> None:
        """The partition stays as it was, the count of active syntheses is not lowered, the job is never ended."""
        self._move(job, index, "pending")
        self.synthesis_leaked += 1

    def fail_gpu_start(self, job: str, index: int, worker: int = 0) -> None:
        """The partition stays ``gpu`` for ever."""
        self._move(job, index, "gpu")
        self._free(worker)

    def fail_gpu_finish(self, job: str, index: int, worker: int = 0) -> None:
        """Shown ``done``."""
        self.gpu_done(job, index, worker)

    def pass_over(self, job: str, index: int, worker: int = 0) -> None:
        """A worker takes a partition of a failed job, does nothing, and stays ``proving`` until its next job."""
        self._take(job, index, worker)

    def _move(self, job: str, index: int, state: str) -> FakePartition:
        partition = self.jobs[job].partitions[index]
        partition.state, partition.since_s = state, self.now_s()
        return partition

    def _take(self, job: str, index: int, worker: int) -> None:
        self.gpu_workers[worker] = FakeWorker(worker, worker // 2, job, index, self.now_s())

    def _free(self, worker: int) -> None:
        self.gpu_workers[worker] = FakeWorker(worker, worker // 2)

    # --- what it says ---------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Its HTTP status. Finished jobs are cleaned up here and nowhere else, as there."""
        now_s = self.now_s()
        self.jobs = {
            key: job for key, job in self.jobs.items() if job.finished_s is None or now_s - job.finished_s < KEPT_S
        }
        synthesizing = self._count("synthesizing")
        used = PARTITION_BYTES * (synthesizing + self._count("synth_done") + self._count("gpu"))
        used += sum(key.bytes_ for key in (*self.srs.values(), *self.pce.values()))
        return {
            "uptime_secs": now_s - self.started_s,
            "memory": {"total_bytes": self.total_bytes, "used_bytes": used, "available_bytes": self.total_bytes - used},
            "synthesis": {
                "max_concurrent": self.total_bytes // (9 * GIB),  # not what it keeps to
                "active": synthesizing + self.synthesis_leaked,
            },
            # In no order.
            "pipelines": [
                self._pipeline(job, now_s) for job in sorted(self.jobs.values(), key=lambda job: hash(job.id))
            ],
            "gpu_workers": [self._worker(worker, now_s) for worker in self.gpu_workers],
            "allocations": {
                # Empty while one loads.
                "srs": [] if self.srs_loading else [_key(name, key, now_s) for name, key in self.srs.items()],
                # Only those that nothing uses.
                "pce": [_key(name, key, now_s) for name, key in self.pce.items() if not key.in_use],
            },
            "counters": {
                "total_completed": self.completed.total(),
                "total_failed": self.failed.total(),
                "completed_by_kind": dict(self.completed),
                "failed_by_kind": dict(self.failed),
                "queue_depth": 0,  # of the queue in front, which empties at once
            },
            "buffers": {
                "synth_in_flight": (synthesizing + self.synth_in_flight_off) % (WRAPPED + 1),
                "provers_in_flight": self._count("gpu"),
                "aux_in_flight": self.aux,
                "shells_in_flight": self.aux,
                "pending_handles": 0,
            },
        }

    def _count(self, state: str) -> int:
        return sum(partition.state == state for job in self.jobs.values() for partition in job.partitions)

    def _pipeline(self, job: FakeJob, now_s: float) -> dict[str, Any]:
        return {
            "job_id": job.id,
            "proof_kind": job.kind,
            "started_secs_ago": now_s - job.started_s,
            "total_partitions": len(job.partitions),
            "partitions_done": sum(partition.state == "done" for partition in job.partitions),
            "partitions": [
                {
                    "index": index,
                    "state": partition.state,
                    # Running values while open.
                    "synth_ms": _ms(partition, "synthesizing", partition.synth_ms, now_s),
                    "gpu_ms": _ms(partition, "gpu", partition.gpu_ms, now_s),
                }
                for index, partition in enumerate(job.partitions)
            ],
        }

    def _worker(self, worker: FakeWorker, now_s: float) -> dict[str, Any]:
        busy = worker.job is not None
        return {
            "worker_id": worker.id,
            "gpu_ordinal": worker.ordinal,
            "state": "proving" if busy else "idle",
            "current_job": worker.job,
            "current_partition": worker.partition,
            "busy_secs": now_s - worker.since_s if busy else None,
        }


def _ms(partition: FakePartition, open_state: str, closed_ms: int | None, now_s: float) -> int | None:
    return int((now_s - partition.since_s) * 1000) if partition.state == open_state else closed_ms


def _key(name: str, key: FakeKey, now_s: float) -> dict[str, Any]:
    return {
        "circuit_id": name,
        "bytes": key.bytes_,
        "last_used_secs_ago": 0.0 if key.in_use else now_s - key.used_s,
        "evictable": not key.in_use,
    }
