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
from enum import StrEnum

from msgspec import Struct

from agent.sensors.cuzk.answer import GpuWorker, Partition, Pipeline
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
TOTAL_MAX = 1_000_000
"""No proof has more partitions; a larger number is a fault."""
LISTED_AFTER_END_S = 25.0
"""A job that ends stays listed longer than this: one seen less long ago cannot have come to its end unseen."""


class Sure(StrEnum):
    """How sure a conclusion is."""

    CERTAIN = "certain"
    LIKELY = "likely"
    SUSPECTED = "suspected"


class Job(Struct):
    """One job that is listed, or was in the last answer."""

    id: str
    kind: str
    began: Moment
    total: int
    """Partitions it is to have."""
    states: tuple[str, ...]
    partitions: list[Partition]
    moved_s: float
    """When anything of it last changed; when it was first seen, at first."""
    advanced: bool
    """Whether a change of it was ever seen."""
    passed_by_s: float
    """When a younger job of its kind last went on."""
    whole_s: float | None
    """Since when all partitions are done."""
    watched: bool
    """Whether it was seen before it was whole."""
    orphans: dict[int, float]
    """Since when a partition on the GPU has no worker."""
    fate: EngineJobState = EngineJobState.RUNNING
    sure: Sure = Sure.CERTAIN
    why: str = ""
    culprit: int | None = None
    """The partition that brought it down, if that is known."""
    ended_s: float = 0.0
    counted: bool = False
    """Whether the daemon itself counts its failure."""


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
        self._completed: Mapping[str, int] | None = None
        self._failed: Mapping[str, int] = {}
        self._last_s: float | None = None
        self._outcomes: list[Outcome] = []
        self._uncounted: Counter[str] = Counter()

    @property
    def uncounted(self) -> Counter[str]:
        """Failures by kind that the daemon does not count."""
        return +self._uncounted

    def told(self) -> dict[str, Ended]:
        """What has been told of jobs that are still listed."""
        return {
            job.id: Ended(job.began.unix_ms, job.fate)
            for job in self.jobs.values()
            if job.fate is not EngineJobState.RUNNING
        }

    def expect_counters_from_zero(self) -> None:
        """This run was seen from its beginning: whatever is counted now happened since the last answer."""
        self._completed = {}

    def restarted(self) -> list[Outcome]:
        """The outcomes of a restart of the daemon for what ran before it."""
        for job in self.jobs.values():
            if job.fate is not EngineJobState.RUNNING:
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
        before_, self.jobs = self.jobs, {}
        for key, pipeline in _keyed(pipelines).items():
            self.jobs[key] = self._followed(before_.pop(key, None), pipeline, now, before_)
            self._watch_orphans(self.jobs[key], held, now.monotonic_s)
        gone = [job for job in before_.values() if job.fate is EngineJobState.RUNNING]
        self._count(gone, completed=completed, failed=failed, now_s=now.monotonic_s)
        self._conclude(now.monotonic_s)
        self._last_s = now.monotonic_s
        self._told = {}
        return self._taken()

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

    # --- what the daemon counts -----------------------------------------------------------------------------------

    def _count(self, gone: list[Job], *, completed: Mapping[str, int], failed: Mapping[str, int], now_s: float) -> None:
        """Give what the daemon has counted since the last answer to the jobs it can be of."""
        first = self._completed is None
        done_new = {} if first else _risen(completed, self._completed or {})
        failed_new = {} if first else _risen(failed, self._failed)
        self._completed, self._failed = completed, failed
        for kind in {job.kind for job in (*self.jobs.values(), *gone)}:
            whole = [
                job
                for job in (*gone, *self.jobs.values())
                if job.kind == kind and job.whole_s is not None and not _settled(job)
            ]
            whole.sort(key=lambda job: (job.fate is not EngineJobState.RUNNING, job.whole_s or 0.0))
            self._give(whole, done_new, failed_new, kind=kind, now_s=now_s)
        for job in gone:
            if job.fate is EngineJobState.RUNNING:
                self._vanished(job, done_new, failed_new, now_s)

    def _give(
        self, whole: list[Job], done_new: dict[str, int], failed_new: dict[str, int], *, kind: str, now_s: float
    ) -> None:
        """Settle whole jobs of one kind, longest whole first."""
        failures = min(failed_new.get(kind, 0), len(whole))
        successes = min(done_new.get(kind, 0), len(whole) - failures)
        mixed = 0 < failures < len(whole)
        why = "its proof did not pass the daemon's own check"
        if mixed:
            why = f"one of {len(whole)} finished at the same time did not pass the daemon's own check; taken to be this"
        for job in whole[:successes]:
            self._end(job, EngineJobState.DONE, now_s, "", sure=Sure.SUSPECTED if mixed else Sure.CERTAIN)
        for job in whole[len(whole) - failures :]:
            self._end(
                job, EngineJobState.FAILED, now_s, why, sure=Sure.SUSPECTED if mixed else Sure.CERTAIN, counted=True
            )
        done_new[kind] = done_new.get(kind, 0) - successes
        failed_new[kind] = failed_new.get(kind, 0) - failures

    def _vanished(self, job: Job, done_new: dict[str, int], failed_new: dict[str, int], now_s: float) -> None:
        """Settle a job that is not listed any more."""
        unseen_s = now_s - (now_s if self._last_s is None else self._last_s)
        if job.whole_s is not None:
            self._end(job, EngineJobState.DONE, now_s, "it went from the list whole")
        elif failed_new.get(job.kind, 0) > 0:
            failed_new[job.kind] -= 1
            self._end(
                job,
                EngineJobState.FAILED,
                now_s,
                "it ended while the daemon could not be read, and the daemon has counted a failure since",
                sure=Sure.LIKELY,
                counted=True,
            )
        elif done_new.get(job.kind, 0) > 0 and unseen_s >= LISTED_AFTER_END_S:
            done_new[job.kind] -= 1
            why = "it ended while the daemon could not be read, and the daemon has counted a success since"
            self._end(job, EngineJobState.DONE, now_s, why, sure=Sure.LIKELY)
        else:
            why = "it went from the list unfinished and the daemon counts no success"
            self._end(job, EngineJobState.FAILED, now_s, why, sure=Sure.SUSPECTED)

    # --- what the daemon keeps to itself --------------------------------------------------------------------------

    def _conclude(self, now_s: float) -> None:
        """End what failed unsaid."""
        younger_s: dict[str, float] = {}
        """By kind: when one of the jobs younger than the present one last went on."""
        for job in sorted(self.jobs.values(), key=lambda job: -job.began.monotonic_s):
            job.passed_by_s = max(job.passed_by_s, younger_s.get(job.kind, 0.0))
            if job.advanced:
                younger_s[job.kind] = max(younger_s.get(job.kind, 0.0), job.moved_s)
            if job.fate is not EngineJobState.RUNNING:
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


def _settled(job: Job) -> bool:
    """Whether nothing the daemon counts can be of this job any more."""
    return job.fate is EngineJobState.DONE or (
        job.fate is EngineJobState.FAILED and (job.counted or job.sure is Sure.CERTAIN)
    )


def _risen(now: Mapping[str, int], before_: Mapping[str, int]) -> dict[str, int]:
    return {kind: count - before_.get(kind, 0) for kind, count in now.items() if count > before_.get(kind, 0)}


def _keyed(pipelines: Sequence[Pipeline]) -> dict[str, Pipeline]:
    """Pipelines by their id; a second of the same id, which callers can bring about, by its place in time."""
    keyed: dict[str, Pipeline] = {}
    seen: Counter[str] = Counter()
    for pipeline in sorted(pipelines, key=lambda each: -each.started_secs_ago):
        number = seen[pipeline.job_id]
        seen[pipeline.job_id] += 1
        keyed[f"{pipeline.job_id}\0{number}" if number else pipeline.job_id] = pipeline
    return keyed
