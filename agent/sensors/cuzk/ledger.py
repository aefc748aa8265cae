"""Whose the daemon's counts are: jobs done and failed self-checks are counted by kind, and not said of a job.

A count is of a job whose partitions are all done. Where there are as many of these as counts, they are settled at once.
Where there are more, one of them may have failed uncounted: then the count waits until a job goes from the list, which
a finished one does after 30 s and a failed one never.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from agent.sensors.cuzk.job import Job, Sure
from wire.engines import EngineJobState

LISTED_AFTER_END_S = 25.0
"""A job that ends stays listed longer than this: one seen less long ago cannot have come to its end unseen."""


class Verdict(Struct, frozen=True):
    """The end of a job by the daemon's own counts and list."""

    job: Job
    fate: EngineJobState
    why: str = ""
    sure: Sure = Sure.CERTAIN
    counted: bool = True
    """Whether the daemon counts it."""


class Ledger:
    """The counts of one run of the daemon that have not found their job yet."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[str, int], Mapping[str, int]] | None = None
        self._done: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def expect_from_zero(self) -> None:
        """This run was seen from its beginning: whatever is counted happened since."""
        self._last = ({}, {})

    def settle(
        self,
        listed: list[Job],
        gone: list[Job],
        *,
        completed: Mapping[str, int],
        failed: Mapping[str, int],
        unseen_s: float,
    ) -> list[Verdict]:
        """Take one answer's counts; what they, and the going of ``gone``, say of jobs.

        Args:
            listed: the jobs in the answer.
            gone: those that ran and are in it no more.
            completed: jobs done since the daemon's start, by kind.
            failed: failed self-checks, likewise.
            unseen_s: the time since the answer before.
        """
        if self._last is not None:
            self._done.update(_risen(completed, self._last[0]))
            self._failed.update(_risen(failed, self._last[1]))
        self._last = (completed, failed)
        verdicts: list[Verdict] = []
        for kind in {job.kind for job in (*listed, *gone)} | self._done.keys() | self._failed.keys():
            whole_gone = [job for job in gone if job.kind == kind and job.whole_s is not None]
            whole = [job for job in listed if job.kind == kind and job.whole_s is not None]
            running = sorted((job for job in whole if job.open), key=lambda job: job.whole_s or 0.0)
            settled = self._whole(kind, whole_gone, running)
            waiting = len(settled) < len(whole_gone) + len(running)
            if not waiting:
                settled += self._late(kind, [job for job in whole if _may_revive(job)])
            settled += [self._vanished(job, unseen_s) for job in gone if job.kind == kind and job.whole_s is None]
            if not waiting:
                self._done[kind] = self._failed[kind] = 0  # of jobs that were never seen
            verdicts += settled
        return verdicts

    def _whole(self, kind: str, gone: list[Job], running: list[Job]) -> list[Verdict]:
        """Whole jobs that are surely settled, those that are gone first."""
        done, failed = self._done[kind], self._failed[kind]
        clear = done + failed >= len(gone) + len(running)
        jobs = [*gone, *(running if clear else [])]
        failures = min(failed, max(0, len(jobs) - done))
        mixed = done > 0 and failed > 0
        sure = Sure.SUSPECTED if mixed else Sure.CERTAIN
        why = "its proof did not pass the daemon's own check"
        if mixed:
            why = "of jobs that ended together one did not pass the daemon's own check; taken to be this one"
        self._done[kind] = max(0, done - (len(jobs) - failures))
        self._failed[kind] -= failures
        good, bad = jobs[: len(jobs) - failures], jobs[len(jobs) - failures :]
        # One that went whole and is not counted was counted before this agent started: as what, nobody knows any more.
        unknown = "it went from the list whole, and what the daemon counted of it this agent did not see"
        return [
            *(Verdict(job, EngineJobState.DONE, sure=sure) for job in good[:done]),
            *(Verdict(job, EngineJobState.DONE, unknown, Sure.SUSPECTED) for job in good[done:]),
            *(Verdict(job, EngineJobState.FAILED, why, sure) for job in bad),
        ]

    def _late(self, kind: str, taken_for_failed: list[Job]) -> list[Verdict]:
        """Whole jobs that were given up and are counted in the end; of several it is taken to be the latest."""
        sure = Sure.SUSPECTED if len(taken_for_failed) > 1 else Sure.LIKELY
        verdicts = []
        for job in sorted(taken_for_failed, key=lambda job: -(job.whole_s or 0.0)):
            if self._done[kind] > 0:
                self._done[kind] -= 1
                verdicts.append(Verdict(job, EngineJobState.DONE, "it was taken for failed", sure))
            elif self._failed[kind] > 0:
                self._failed[kind] -= 1
                verdicts.append(Verdict(job, EngineJobState.FAILED, job.why, job.sure))
        return verdicts

    def restarted(self, running: list[Job]) -> list[Verdict]:
        """What the counts that still wait say of whole jobs when the daemon ends: the latest are taken to be theirs."""
        verdicts = []
        for job in sorted((job for job in running if job.whole_s is not None), key=lambda job: -(job.whole_s or 0.0)):
            if self._done[job.kind] > 0:
                self._done[job.kind] -= 1
                why = "the daemon had counted a success before it restarted"
                verdicts.append(Verdict(job, EngineJobState.DONE, why, Sure.SUSPECTED))
        return verdicts

    def _vanished(self, job: Job, unseen_s: float) -> Verdict:
        """A job that is not listed any more and was not whole when it last was."""
        if self._failed[job.kind] > 0:
            self._failed[job.kind] -= 1
            why = "it ended while the daemon could not be read, and the daemon has counted a failure since"
            return Verdict(job, EngineJobState.FAILED, why, Sure.LIKELY)
        if self._done[job.kind] > 0 and unseen_s >= LISTED_AFTER_END_S:
            self._done[job.kind] -= 1
            why = "it ended while the daemon could not be read, and the daemon has counted a success since"
            return Verdict(job, EngineJobState.DONE, why, Sure.LIKELY)
        why = "it went from the list unfinished and the daemon counts no success"
        return Verdict(job, EngineJobState.FAILED, why, Sure.SUSPECTED, counted=False)


def _may_revive(job: Job) -> bool:
    """Whether it was taken for failed, not for certain and not by the daemon's own count."""
    return job.fate is EngineJobState.FAILED and not job.counted and job.sure is not Sure.CERTAIN


def _risen(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {kind: count - before.get(kind, 0) for kind, count in now.items() if count > before.get(kind, 0)}
