"""From the daemon's answers to a reading that is true: what it is known to say wrong is mended or left out.

Pure: `Mender.take` is given each answer with its moment. An answer in which nothing happened gives the very reading of
the answer before it.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from agent.sensors.cuzk.answer import Allocation, Answer, GpuWorker, Partition
from agent.sensors.cuzk.fates import Ended, Fates, Outcome
from agent.sensors.cuzk.job import Job
from agent.sensors.cuzk.steady import TOLERANCE_S, Beginnings, Moment, before
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
from wire.limits import (
    ENGINE_JOBS_MAX,
    ENGINE_KEYS_MAX,
    ENGINE_KINDS_MAX,
    ENGINE_PARTITIONS_MAX,
    ENGINE_WORKERS_MAX,
    INTEGER_MAX,
    NAME_CHARS_MAX,
)
from wire.text import clipped

ENGINE = "cuzk"
MEBIBYTE = 1 << 20
FAILED_SHOWN_S = 600.0
"""A failed job is shown for this long; the daemon lists it until it is restarted."""
ANSWERED_EVERY_S = 10.0
"""While nothing else changes, the time of the last answer moves in steps of this."""
IDLE_SHOWN_S = 60.0
"""A key used less long ago counts as in use: its last use is not news."""
EVICTABLE_IDLE_S = 290.0
"""The daemon evicts a key only after 300 s without use: one that goes earlier is in use, and not gone."""
SRS_UNSEEN_MAX_S = 900.0
"""The list of the SRS is empty while one loads, which takes minutes at most."""
WRAPPED = 1 << 32
"""More buffers than fit any machine: the counter has gone below zero."""
RISING_ONLY = frozenset({"aux_in_flight", "shells_in_flight"})
"""Counters the daemon never lowers."""
UNLISTED_JOBS = "post_jobs"
"""WindowPoSt, WinningPoSt, batched and unpipelined jobs are in no list and no counter of the HTTP status."""
SYNTHESIS_CAP = "synthesis_cap"
"""What it gives as the most syntheses at once is its budget divided by a constant, and not what it keeps to."""
SRS_UNREADABLE = "srs_list"
"""The list of the SRS cannot be read while one loads: the last one stands."""
PARTITION_STATES = {
    "pending": PartitionState.PENDING,
    "synthesizing": PartitionState.SYNTHESIZING,
    "synth_done": PartitionState.SYNTHESIZED,
    "gpu": PartitionState.GPU,
    "done": PartitionState.DONE,
    "failed": PartitionState.FAILED,
}
ON_WORKER = ("gpu", "synth_done")
"""States of a partition that a worker can have."""


class Known(Struct, frozen=True):
    """What is remembered over a restart of the agent: one run of the daemon, and what was told of its jobs."""

    started: Moment
    told: dict[str, Ended]


class Mender:
    """Follows one daemon through its restarts.

    Args:
        known: what an earlier agent, of the same boot of the machine, remembered.
    """

    def __init__(self, known: Known | None = None) -> None:
        self._known = known
        self._started: Moment | None = None
        self._uptime_s = 0.0
        self._begin_run()
        self._reading: EngineReading | None = None

    def _begin_run(self) -> None:
        self._fates = Fates()
        self._beginnings = Beginnings()
        self._wrapped: set[str] = set()
        self._keys: dict[str, dict[str, EngineKey]] = {"srs": {}, "pce": {}}
        self._idle_s: dict[tuple[str, str], float] = {}
        self._srs_seen_s: float | None = None

    def known(self) -> Known | None:
        """What to remember over a restart of the agent."""
        return None if self._started is None else Known(self._started, self._fates.told())

    def take(self, answer: Answer, now: Moment) -> tuple[EngineReading, list[Outcome]]:
        """The reading ``answer`` stands for, and what became of jobs."""
        outcomes = self._follow_run(answer, now)
        outcomes += self._fates.update(
            answer.pipelines,
            answer.gpu_workers,
            completed=_counts(answer.counters.completed_by_kind),
            failed=_counts(answer.counters.failed_by_kind),
            now=now,
        )
        reading = self._made(answer, now)
        last = self._reading
        if last is not None and (last.answered_at_ms or 0) + ANSWERED_EVERY_S * 1000 > now.unix_ms:
            same = msgspec.structs.replace(reading, answered_at_ms=last.answered_at_ms)
            reading = last if same == last else reading
        self._reading = reading
        return reading, outcomes

    def _follow_run(self, answer: Answer, now: Moment) -> list[Outcome]:
        """Notice that the daemon was restarted: its counters begin anew, and what ran is lost."""
        started = before(now, answer.uptime_secs)
        outcomes: list[Outcome] = []
        if started is None:
            return outcomes
        if self._started is None:
            self._started = started
            if self._known is not None and _same_run(self._known.started, started):
                self._started = self._known.started
                self._fates = Fates(self._known.told)
        elif started.monotonic_s > self._started.monotonic_s + TOLERANCE_S or answer.uptime_secs < self._uptime_s:
            outcomes = self._fates.restarted()
            self._begin_run()
            self._fates.expect_counters_from_zero()
            self._started = started
        self._uptime_s = answer.uptime_secs
        return outcomes

    # --- the picture ----------------------------------------------------------------------------------------------

    def _made(self, answer: Answer, now: Moment) -> EngineReading:
        used_bytes = _count(answer.memory.used_bytes)
        total_bytes = _count(answer.memory.total_bytes)
        if used_bytes is not None and total_bytes is not None:
            used_bytes = min(used_bytes, total_bytes)
        running = [job for job in self._fates.jobs.values() if job.fate is EngineJobState.RUNNING]
        jobs, left_out = self._jobs(now)
        keys, srs_unreadable = self._keys_now(answer, used_bytes, now)
        uncounted = self._fates.uncounted
        failed = _count(answer.counters.total_failed)
        reading = EngineReading(
            engine=ENGINE,
            state=EngineState.OK,
            source="http",
            answered_at_ms=now.unix_ms,
            started_at_ms=None if self._started is None else self._started.unix_ms,
            memory_total_bytes=total_bytes,
            memory_used_bytes=None if used_bytes is None else used_bytes // MEBIBYTE * MEBIBYTE,
            synthesis_active=sum(job.states.count("synthesizing") for job in running),
            queued=sum(job.states.count("pending") for job in running),
            completed=_count(answer.counters.total_completed),
            failed=None if failed is None else min(failed + uncounted.total(), INTEGER_MAX),
            completed_by_kind=_by_kind(_counts(answer.counters.completed_by_kind)),
            failed_by_kind=_by_kind(_added(_counts(answer.counters.failed_by_kind), uncounted)),
            jobs=jobs,
            jobs_left_out=left_out,
            workers=self._workers(answer.gpu_workers, now),
            keys=keys,
            in_flight=self._in_flight(answer.buffers),
            limits=(UNLISTED_JOBS, SYNTHESIS_CAP, *([SRS_UNREADABLE] if srs_unreadable else [])),
        )
        self._beginnings.answer_ends()
        return reading

    def _jobs(self, now: Moment) -> tuple[tuple[EngineJob, ...], int]:
        """What runs, then what has just ended, each oldest first, as many as a frame may carry."""
        shown = [
            job
            for job in self._fates.jobs.values()
            if job.fate is not EngineJobState.FAILED or now.monotonic_s - job.ended_s < FAILED_SHOWN_S
        ]
        shown.sort(key=lambda job: (job.fate is not EngineJobState.RUNNING, job.began.monotonic_s, job.id))
        return tuple(_engine_job(job) for job in shown[:ENGINE_JOBS_MAX]), max(0, len(shown) - ENGINE_JOBS_MAX)

    def _workers(self, workers: Iterable[GpuWorker], now: Moment) -> tuple[EngineWorker, ...]:
        return tuple(
            self._worker(worker, now)
            for worker in sorted(workers, key=lambda worker: worker.worker_id)
            if _count(worker.worker_id) is not None and _count(worker.gpu_ordinal) is not None
        )[:ENGINE_WORKERS_MAX]

    def _worker(self, worker: GpuWorker, now: Moment) -> EngineWorker:
        """One worker: idle if what it is said to prove cannot be proved any more."""
        idle = EngineWorker(id=worker.worker_id, gpu_ordinal=worker.gpu_ordinal)
        job = self._fates.jobs.get(worker.current_job or "")
        partition = worker.current_partition
        if worker.state != "proving" or job is None or job.fate is not EngineJobState.RUNNING:
            return idle
        if not any(each.index == partition and each.state in ON_WORKER for each in job.partitions):
            return idle
        thing = ("worker", worker.worker_id, worker.current_job, partition)
        return msgspec.structs.replace(
            idle,
            proving=True,
            job=name(job.id),
            partition=_count(partition),
            since_ms=self._beginnings.of(thing, now, worker.busy_secs),
        )

    def _in_flight(self, buffers: Mapping[str, int]) -> dict[str, int]:
        """The counters of buffers that can be trusted: one that has wrapped once is off by an unknown number."""
        self._wrapped |= {kind for kind, count in buffers.items() if not 0 <= count < WRAPPED}
        good = {k: n for k, n in buffers.items() if k not in RISING_ONLY and k not in self._wrapped}
        return _by_kind(good)

    # --- keys -----------------------------------------------------------------------------------------------------

    def _keys_now(self, answer: Answer, used_bytes: int | None, now: Moment) -> tuple[tuple[EngineKey, ...], bool]:
        """The keys in memory, and whether the list of the SRS could not be read.

        The daemon lists no SRS at all while one loads, and no PCE that is in use. What is not listed any more is still
        there as long as the budget holds its bytes and it was not idle for long enough to be evicted.
        """
        listed = {
            "srs": {each.circuit_id: each for each in answer.allocations.srs},
            "pce": {each.circuit_id: each for each in answer.allocations.pce},
        }
        if listed["srs"] or self._srs_seen_s is None:
            self._srs_seen_s = now.monotonic_s
        loading = not listed["srs"] and bool(self._keys["srs"])
        loading = loading and now.monotonic_s - self._srs_seen_s < SRS_UNSEEN_MAX_S
        kept = {
            "srs": dict(self._keys["srs"]) if loading else {},
            "pce": {
                circuit: msgspec.structs.replace(key, evictable=False, last_used_at_ms=None)
                for circuit, key in self._keys["pce"].items()
                if circuit not in listed["pce"] and self._idle_s.get(("pce", circuit), 0.0) < EVICTABLE_IDLE_S
            },
        }
        made = {kind: {c: self._key(kind, each, now) for c, each in listed[kind].items()} for kind in listed}
        in_use_bytes = sum(key.bytes_ for keys in (*kept.values(), *made.values()) for key in keys.values())
        if used_bytes is not None and in_use_bytes > used_bytes:
            kept, loading = {"srs": {}, "pce": {}}, False
        self._keys = {kind: {**kept[kind], **made[kind]} for kind in kept}
        self._idle_s = {
            (kind, circuit): each.last_used_secs_ago for kind in listed for circuit, each in listed[kind].items()
        } | {(kind, c): s for (kind, c), s in self._idle_s.items() if c in kept[kind]}
        keys = [key for kind in ("srs", "pce") for _, key in sorted(self._keys[kind].items())]
        return tuple(keys[:ENGINE_KEYS_MAX]), loading

    def _key(self, kind: str, each: Allocation, now: Moment) -> EngineKey:
        idle = each.last_used_secs_ago >= IDLE_SHOWN_S
        thing = ("key", kind, each.circuit_id)
        return EngineKey(
            id=name(each.circuit_id),
            kind=kind,
            bytes_=_count(each.bytes_) or 0,
            evictable=each.evictable,
            last_used_at_ms=self._beginnings.of(thing, now, each.last_used_secs_ago) if idle else None,
        )


def _engine_job(job: Job) -> EngineJob:
    partitions = tuple(
        _partition(partition, failed=partition.index == job.culprit)
        for partition in job.partitions
        if _count(partition.index) is not None
    )
    return EngineJob(
        id=name(job.id),
        kind=name(job.kind),
        state=job.fate,
        started_at_ms=job.began.unix_ms,
        partitions_total=max(job.total, len(partitions)),
        partitions_done=sum(partition.state is PartitionState.DONE for partition in partitions),
        partitions=partitions[:ENGINE_PARTITIONS_MAX],
        detail=clipped(job.why),
    )


def _partition(partition: Partition, *, failed: bool) -> EnginePartition:
    """One partition; a time that still runs is left out."""
    state = PARTITION_STATES.get(partition.state, PartitionState.UNKNOWN)
    past_synthesis = state not in (PartitionState.PENDING, PartitionState.SYNTHESIZING, PartitionState.UNKNOWN)
    return EnginePartition(
        index=partition.index,
        state=PartitionState.FAILED if failed else state,
        synthesis_ms=_count(partition.synth_ms) if past_synthesis else None,
        gpu_ms=_count(partition.gpu_ms) if state is PartitionState.DONE else None,
    )


def _same_run(one: Moment, other: Moment) -> bool:
    return abs(one.monotonic_s - other.monotonic_s) <= TOLERANCE_S


def name(text: str) -> str:
    """A name as a frame can carry it."""
    return clipped(text, NAME_CHARS_MAX) or "(none)"


def _count(number: int | None) -> int | None:
    """A number a frame can carry; None for what has wrapped, or is below zero."""
    return number if number is not None and 0 <= number <= INTEGER_MAX else None


def _counts(by_kind: Mapping[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in by_kind.items() if _count(count) is not None}


def _added(by_kind: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {kind: min(by_kind.get(kind, 0) + more.get(kind, 0), INTEGER_MAX) for kind in by_kind.keys() | more.keys()}


def _by_kind(counts: Mapping[str, int]) -> dict[str, int]:
    """In the order of the names, as many as a frame may carry: the daemon's own order is arbitrary."""
    return {name(kind): counts[kind] for kind in sorted(counts)[:ENGINE_KINDS_MAX]}
