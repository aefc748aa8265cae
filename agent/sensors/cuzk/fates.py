"""What became of each job: the daemon says so for few of them, the rest is concluded from successive answers.

Pure: answers and moments in, outcomes out. Known of the daemon, and what is made of it:

- It lists a finished job for 30 s more and counts it: a counter that moves, or a whole job that goes, is a job done.
- A job that fails in synthesis or on the GPU is neither counted nor taken off the list, and its remaining partitions
  are passed over. A partition says ``failed``, or stays ``gpu`` though no worker has it, or is shown ``done`` so that
  the job is whole and never ends, or nothing at all is said and younger jobs of its kind pass by: the daemon works
  strictly oldest first.
- Only a failed self-check is counted as a failure.
- A restart ends what ran.

How sure a conclusion is goes with it, and one that was not certain is taken back when the job moves again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agent.sensors.cuzk.answer import GpuWorker, Partition, Pipeline
from agent.sensors.cuzk.job import Job, Sure
from agent.sensors.cuzk.ledger import Ledger
from agent.sensors.cuzk.steady import TOLERANCE_S, Moment, before
from wire.engines import EngineJobState

ORPHAN_S = 120.0
"""A partition on the GPU that no worker has; the work behind a worker's back takes 20 s."""
OVERTAKEN_S = 180.0
"""Standing still while younger jobs go on, with nothing being synthesised."""
OVERTAKEN_SYNTHESIS_S = 300.0
"""The same while a partition is said to be synthesised, which takes a minute."""
STALLED_S = 900.0
"""Standing still, for whatever reason: blocked for ever, hanging, or failed with nobody else to overtake it."""
WHOLE_S = 90.0
"""All partitions done and still listed; a finished job goes after 30 s."""
UNSEEN_S = 10.0
"""Between two answers; of a longer time no more is counted as time in which a job stood still."""
TOTAL_MAX = 1_000_000
"""No proof has more partitions; a larger number is a fault."""


class Outcome(Struct, frozen=True):
    """Something to tell of a job: it is done, it failed, or (``RUNNING``) it was taken for failed and moves again."""

    id: str
    kind: str
    fate: EngineJobState
    sure: Sure
    why: str
    culprit: int | None
    elapsed_s: float | None
    partitions: int


class Ended(Struct, frozen=True):
    """A fate that was told already; what is remembered over a restart of the agent."""

    began_ms: int
    fate: EngineJobState


class Fates:
    """Follows the jobs of one run of the daemon. A new one for each run: `restarted` says what that ends."""

    def __init__(self, told: Mapping[str, Ended] | None = None) -> None:
        self.jobs: dict[str, Job] = {}
        self._told = dict(told or {})
        self._ledger = Ledger()
        self._last_s: float | None = None
        self._outcomes: list[Outcome] = []
        self._uncounted: Counter[str] = Counter()

    @property
    def uncounted(self) -> Counter[str]:
        """Failures by kind that the daemon does not count."""
        return +self._uncounted

    def told(self) -> dict[str, Ended]:
        """What has been told of jobs that are still listed."""
        return {job.id: Ended(job.began.unix_ms, job.fate) for job in self.jobs.values() if not job.open}

    def expect_counters_from_zero(self) -> None:
        """This run was seen from its beginning: whatever is counted now happened since the last answer."""
        self._ledger.expect_from_zero()

    def restarted(self) -> list[Outcome]:
        """The outcomes of a restart of the daemon for what ran before it."""
        for verdict in self._ledger.restarted([job for job in self.jobs.values() if job.open]):
            self._end(verdict.job, verdict.fate, verdict.job.moved_s, verdict.why, sure=verdict.sure)
        for job in self.jobs.values():
            if not job.open:
                continue
            if job.whole_s is None:
                self._end(job, EngineJobState.FAILED, job.moved_s, "the daemon restarted while it ran")
            else:
                why = "the daemon restarted before it said whether the finished proof was good"
                self._end(job, EngineJobState.FAILED, job.whole_s, why, sure=Sure.SUSPECTED)
        return self._taken()

    def update(
        self,
        pipelines: Sequence[Pipeline],
        workers: Iterable[GpuWorker],
        *,
        completed: Mapping[str, int],
        failed: Mapping[str, int],
        now: Moment,
    ) -> list[Outcome]:
        """Take one answer; what is to be told because of it."""
        held = {(w.current_job, w.current_partition) for w in workers if w.state == "proving"}
        unseen_s = 0.0 if self._last_s is None else now.monotonic_s - self._last_s
        if unseen_s > UNSEEN_S:
            self._pass_over(unseen_s - UNSEEN_S)
        before_, self.jobs = self.jobs, {}
        for key, pipeline in _keyed(pipelines).items():
            self.jobs[key] = self._followed(before_.pop(key, None), pipeline, now, before_)
            self._watch_orphans(self.jobs[key], held, now.monotonic_s)
        gone = [job for job in before_.values() if job.open]
        for verdict in self._ledger.settle(
            list(self.jobs.values()), gone, completed=completed, failed=failed, unseen_s=unseen_s
        ):
            self._end(
                verdict.job,
                verdict.fate,
                now.monotonic_s,
                verdict.why,
                sure=verdict.sure,
                counted=verdict.fate is EngineJobState.FAILED and verdict.counted,
            )
        self._conclude(now.monotonic_s)
        self._last_s = now.monotonic_s
        self._told = {}
        return self._taken()

    def _pass_over(self, unseen_s: float) -> None:
        """Count time in which the daemon could not be read, and may have been stopped, as no time standing still."""
        for job in self.jobs.values():
            job.moved_s += unseen_s
            job.passed_by_s += unseen_s
            job.orphans = {index: since_s + unseen_s for index, since_s in job.orphans.items()}
            if job.whole_s is not None:
                job.whole_s += unseen_s

    # --- following ------------------------------------------------------------------------------------------------

    def _followed(self, job: Job | None, pipeline: Pipeline, now: Moment, gone: dict[str, Job]) -> Job:
        """The job of ``pipeline``, moved on; one that began anew under the same id leaves the old one in ``gone``."""
        began = before(now, pipeline.started_secs_ago) or (now if job is None else job.began)
        if job is not None and abs(job.began.monotonic_s - began.monotonic_s) > TOLERANCE_S:
            gone[f"{pipeline.job_id}\0before"] = job
            job = None
        partitions = sorted(pipeline.partitions, key=lambda partition: partition.index)
        states = tuple(partition.state for partition in partitions)
        whole = len(states) >= pipeline.total_partitions and bool(states) and set(states) == {"done"}
        if job is None:
            return self._first_seen(pipeline, began, states, partitions, whole=whole, now_s=now.monotonic_s)
        job.partitions = partitions
        if states != job.states:
            job.states, job.moved_s, job.advanced = states, now.monotonic_s, True
            if job.fate is EngineJobState.FAILED and job.sure is not Sure.CERTAIN:
                self._resume(job, now.monotonic_s)
        job.whole_s = (job.whole_s or now.monotonic_s) if whole else None
        return job

    def _first_seen(
        self,
        pipeline: Pipeline,
        began: Moment,
        states: tuple[str, ...],
        partitions: list[Partition],
        *,
        whole: bool,
        now_s: float,
    ) -> Job:
        job = Job(
            id=pipeline.job_id,
            kind=pipeline.proof_kind,
            began=began,
            total=min(max(0, pipeline.total_partitions), TOTAL_MAX),
            states=states,
            partitions=partitions,
            moved_s=now_s,
            advanced=False,
            passed_by_s=0.0,
            whole_s=now_s if whole else None,
            watched=not whole,
            orphans={},
        )
        told = self._told.get(job.id)
        if told is not None and abs(told.began_ms - began.unix_ms) <= TOLERANCE_S * 2000:
            job.fate, job.ended_s = told.fate, now_s
            job.sure, job.why = Sure.LIKELY, "it was told before this agent started"
            if told.fate is EngineJobState.FAILED:
                self._uncounted[job.kind] += 1
        return job

    def _resume(self, job: Job, now_s: float) -> None:
        if not job.counted:
            self._uncounted[job.kind] -= 1
        job.fate, job.sure, job.why, job.culprit, job.counted = EngineJobState.RUNNING, Sure.CERTAIN, "", None, False
        self._outcomes.append(_outcome(job, now_s, "it was taken for failed and moves again"))

    @staticmethod
    def _watch_orphans(job: Job, held: set[tuple[str | None, int | None]], now_s: float) -> None:
        job.orphans = {
            partition.index: job.orphans.get(partition.index, now_s)
            for partition in job.partitions
            if partition.state == "gpu" and (job.id, partition.index) not in held
        }

    # --- what the daemon keeps to itself --------------------------------------------------------------------------

    def _conclude(self, now_s: float) -> None:
        """End what failed unsaid."""
        younger_s: dict[str, float] = {}
        """By kind: when one of the jobs younger than the present one last went on."""
        for job in sorted(self.jobs.values(), key=lambda job: -job.began.monotonic_s):
            job.passed_by_s = max(job.passed_by_s, younger_s.get(job.kind, 0.0))
            if job.advanced:
                younger_s[job.kind] = max(younger_s.get(job.kind, 0.0), job.moved_s)
            if not job.open:
                continue
            failed = next((partition.index for partition in job.partitions if partition.state == "failed"), None)
            if failed is not None:
                why = f"partition {failed} failed and the rest is passed over"
                self._end(job, EngineJobState.FAILED, now_s, why, culprit=failed)
            elif job.whole_s is not None:
                self._conclude_whole(job, job.whole_s, now_s)
            else:
                self._conclude_quiet(job, now_s)

    def _conclude_whole(self, job: Job, whole_s: float, now_s: float) -> None:
        """End a job that should have ended by itself."""
        if now_s - whole_s >= WHOLE_S:
            why = (
                f"all partitions are shown done and {WHOLE_S:g} s later the daemon has neither counted nor dropped it: "
                "the end of a partition on the GPU, or the assembly, failed"
            )
            self._end(job, EngineJobState.FAILED, now_s, why, sure=Sure.LIKELY)

    def _conclude_quiet(self, job: Job, now_s: float) -> None:
        """End a job that has stood still for longer than it can by itself."""
        quiet_s = now_s - job.moved_s
        orphan = next((i for i, since_s in job.orphans.items() if now_s - since_s >= ORPHAN_S), None)
        limit_s = OVERTAKEN_SYNTHESIS_S if "synthesizing" in job.states else OVERTAKEN_S
        if orphan is not None:
            why = f"partition {orphan} is said to be on the GPU and no worker has had it for {ORPHAN_S:g} s"
            self._end(job, EngineJobState.FAILED, now_s, why, sure=Sure.LIKELY, culprit=orphan)
        elif quiet_s >= limit_s and job.passed_by_s > job.moved_s + limit_s / 2:
            why = f"it stands still for {limit_s:g} s while younger jobs go on, and the daemon works oldest first"
            self._end(job, EngineJobState.FAILED, now_s, why, sure=Sure.LIKELY)
        elif quiet_s >= STALLED_S:
            why = f"it stands still for {STALLED_S:g} s: failed, hanging, or waiting for memory that never comes"
            self._end(job, EngineJobState.FAILED, now_s, why, sure=Sure.SUSPECTED)

    # --- telling --------------------------------------------------------------------------------------------------

    def _end(
        self,
        job: Job,
        fate: EngineJobState,
        now_s: float,
        why: str,
        *,
        sure: Sure = Sure.CERTAIN,
        culprit: int | None = None,
        counted: bool = False,
    ) -> None:
        if job.fate is EngineJobState.FAILED and not job.counted:
            self._uncounted[job.kind] -= 1
        if fate is EngineJobState.FAILED and not counted:
            self._uncounted[job.kind] += 1
        told_before = job.fate is fate
        job.fate, job.sure, job.why, job.culprit, job.counted = fate, sure, why, culprit, counted
        job.ended_s = now_s
        if not told_before:
            self._outcomes.append(_outcome(job, job.whole_s or now_s, why))

    def _taken(self) -> list[Outcome]:
        taken, self._outcomes = self._outcomes, []
        return taken


def _outcome(job: Job, end_s: float, why: str) -> Outcome:
    return Outcome(
        id=job.id,
        kind=job.kind,
        fate=job.fate,
        sure=job.sure,
        why=why,
        culprit=job.culprit,
        elapsed_s=max(0.0, end_s - job.began.monotonic_s) if job.watched else None,
        partitions=len(job.states),
    )


def _keyed(pipelines: Sequence[Pipeline]) -> dict[str, Pipeline]:
    """Pipelines by their id; a second of the same id, which callers can bring about, by its place in time."""
    keyed: dict[str, Pipeline] = {}
    seen: Counter[str] = Counter()
    for pipeline in sorted(pipelines, key=lambda each: -each.started_secs_ago):
        number = seen[pipeline.job_id]
        seen[pipeline.job_id] += 1
        keyed[f"{pipeline.job_id}\0{number}" if number else pipeline.job_id] = pipeline
    return keyed
