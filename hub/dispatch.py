"""Pure: which job goes to which node, and when a lease is taken away.

`Dispatch` is the hub's picture of every open job, kept in step with the store by ``absorb``: each picture that a
committed change returned is shown to it, and the one with the larger revision holds. ``decide`` says what to do next
and changes nothing; the doer carries each instruction out through the store and shows what came of it.

Leases live here only, in monotonic seconds. A hub that restarts grants every live attempt a fresh lease, so time the
hub was away is never counted; ``forgive`` does the same for a hitch of its own loop.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop

from msgspec import Struct

from hub.jobs import BLAMED
from hub.store.records import Attempt, AttemptState, Job, JobPicture
from wire.frames import JobHeld
from wire.jobs import ENDED, JobState

DECLINES_TOLERATED = 3
"""After so many a node no longer counts as one that could do the job instead of one that failed it."""
DECLINE_DOUBLINGS_MAX = 6
"""The wait after a decline doubles so many times: 5 s to 320 s."""

ENDED_REMEMBERED_MAX = 4096
"""Far more than changes of one job can be under way at once."""


class Limits(Struct, frozen=True, kw_only=True):
    """The times that decide, in seconds."""

    lease_s: float
    lease_grace_s: float
    attempt_s: float
    """However often its lease is renewed, an attempt is given up after this: a node can say for ever it is at it."""
    decline_backoff_s: float


class Candidate(Struct, frozen=True, kw_only=True):
    """A node that is online and proves."""

    agent_id: str
    slots: int = 1
    """Jobs it can be at, at once."""
    cuda: bool = False
    labels: Mapping[str, str] = {}

    def may_get(self, job: Job) -> bool:
        """Whether the node has every label the job asks for."""
        return all(self.labels.get(name) == value for name, value in job.node_labels.items())


class Assign(Struct, frozen=True):
    """Lease a queued job to a node."""

    job_id: str
    agent_id: str


class Expire(Struct, frozen=True):
    """Take a lease away."""

    job_id: str
    attempt: int
    agent_id: str
    detail: str


class _Declined(Struct):
    count: int
    until_s: float


class Dispatch:
    """Every open job, its leases, and who declined what."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, JobPicture] = {}
        self._queued: set[str] = set()
        self._verifying: set[str] = set()
        self._leases: dict[tuple[str, int], float] = {}
        """(job, attempt) -> monotonic seconds when it ends, grace included."""
        self._give_up: dict[tuple[str, int], float] = {}
        """The same keys -> monotonic seconds beyond which no renewal counts."""
        self._declined: dict[tuple[str, str], _Declined] = {}
        self._resting: dict[str, float] = {}
        """Agent that declined something -> monotonic seconds until it is offered anything: else a node that is busy
        with what we do not know of would be offered the whole queue, one job after the other."""
        self._ended: dict[str, None] = {}
        """The last jobs that ended, oldest first: an older picture that comes late must not bring one back."""

    # --- what is known

    def __len__(self) -> int:
        return len(self._jobs)

    def picture(self, job_id: str) -> JobPicture | None:
        """An open job."""
        return self._jobs.get(job_id)

    def live(self, job_id: str) -> Attempt | None:
        """The attempt that holds a job's lease."""
        picture = self._jobs.get(job_id)
        return None if picture is None else picture.live

    def held_by(self, agent_id: str) -> list[Attempt]:
        """The live attempts of an agent."""
        live = (self._jobs[job_id].live for job_id, _ in self._leases if job_id in self._jobs)
        return [attempt for attempt in live if attempt is not None and attempt.agent_id == agent_id]

    def held_counts(self) -> Counter[str]:
        """How many live attempts each agent has, by its id."""
        live = (self.live(job_id) for job_id, _ in self._leases)
        return Counter(attempt.agent_id for attempt in live if attempt is not None)

    def results(self) -> list[tuple[JobPicture, Attempt]]:
        """Results that wait for verification, oldest job first."""
        return [
            (picture, attempt)
            for picture in (self._jobs[job_id] for job_id in sorted(self._verifying))
            for attempt in picture.attempts
            if attempt.state is AttemptState.RESULT
        ]

    def queued(self) -> int:
        """Jobs that wait for a node."""
        return len(self._queued)

    # --- what changes it

    def absorb(self, picture: JobPicture, now_s: float) -> bool:
        """Take over a committed picture; False for one older than what is known."""
        job = picture.job
        known = self._jobs.get(job.id)
        if job.id in self._ended or (known is not None and known.job.revision > job.revision):
            return False
        for attempt in picture.attempts:
            if not attempt.live:
                self._drop_lease((job.id, attempt.attempt))
        self._sort_in(job.id, job.state)
        if job.state in ENDED:
            self._jobs.pop(job.id, None)
            self._ended[job.id] = None
            if len(self._ended) > ENDED_REMEMBERED_MAX:
                del self._ended[next(iter(self._ended))]
            for pair in [pair for pair in self._declined if pair[0] == job.id]:
                del self._declined[pair]
            return True
        self._jobs[job.id] = picture
        live = picture.live
        if live is not None and (job.id, live.attempt) not in self._leases:
            self._give_up[job.id, live.attempt] = now_s + self._limits.attempt_s
            self._renew((job.id, live.attempt), now_s)
        return True

    def renew(self, agent_id: str, job_id: str, number: int, now_s: float) -> bool:
        """Extend the lease of a live attempt of this agent; False if it has none."""
        live = self.live(job_id)
        if live is None or live.attempt != number or live.agent_id != agent_id:
            return False
        self._renew((job_id, number), now_s)
        return True

    def _renew(self, key: tuple[str, int], now_s: float) -> None:
        self._leases[key] = min(now_s + self._limits.lease_s + self._limits.lease_grace_s, self._give_up[key])

    def _drop_lease(self, key: tuple[str, int]) -> None:
        self._leases.pop(key, None)
        self._give_up.pop(key, None)

    def _sort_in(self, job_id: str, state: JobState | None) -> None:
        for ids, wanted in ((self._queued, JobState.QUEUED), (self._verifying, JobState.VERIFYING)):
            (ids.add if state is wanted else ids.discard)(job_id)

    def forget(self, job_id: str) -> None:
        """The store does not know this job."""
        self._jobs.pop(job_id, None)
        self._sort_in(job_id, None)
        for key in [key for key in self._leases if key[0] == job_id]:
            self._drop_lease(key)

    def declined(self, agent_id: str, job_id: str, now_s: float) -> None:
        """The agent did not take the job: it is not offered it again for a while."""
        entry = self._declined.setdefault((job_id, agent_id), _Declined(0, now_s))
        wait_s = self._limits.decline_backoff_s * 2 ** min(entry.count, DECLINE_DOUBLINGS_MAX)
        entry.count += 1
        entry.until_s = now_s + wait_s
        self._resting[agent_id] = now_s + self._limits.decline_backoff_s

    def forgive(self, seconds: float) -> None:
        """The hub itself was away: no lease has aged by it."""
        for ends in (self._leases, self._give_up):
            for key in ends:
                ends[key] += seconds

    # --- what to do

    def next_deadline(self, now_s: float) -> float | None:
        """When ``decide`` may have news although nothing happened: a lease's end, or the end of a decline's wait.

        Waits that are over already do not count: a job that still queues then waits for a node, not for a time.
        """
        waits = [entry.until_s for (job_id, _), entry in self._declined.items() if job_id in self._queued]
        if self._queued:
            waits += self._resting.values()
        return min([*self._leases.values(), *(until_s for until_s in waits if until_s > now_s)], default=None)

    def decide(self, fleet: Iterable[Candidate], now_s: float) -> list[Assign | Expire]:
        """Leases to take away, then jobs to hand out, most urgent first. Every job is named at most once."""
        expired = [
            Expire(job_id, number, live.agent_id, self._why_over((job_id, number), now_s))
            for (job_id, number), end_s in self._leases.items()
            if end_s <= now_s and (live := self.live(job_id)) is not None and live.attempt == number
        ]
        candidates = list(fleet)
        free = {
            candidate.agent_id: candidate.slots if self._resting.get(candidate.agent_id, now_s) <= now_s else 0
            for candidate in candidates
        }
        for job_id, _ in self._leases:
            live = self.live(job_id)
            if live is not None and live.agent_id in free:
                free[live.agent_id] -= 1
        assigned = []
        waiting = [self._urgency(job_id) for job_id in self._queued] if any(n > 0 for n in free.values()) else []
        heapify(waiting)  # with ten thousand jobs and one free place, sorting them all would be the cost
        while waiting and any(slots > 0 for slots in free.values()):
            picture = self._jobs[heappop(waiting)[1]]
            chosen = self._choose(picture, candidates, free, now_s)
            if chosen is not None:
                free[chosen] -= 1
                assigned.append(Assign(picture.job.id, chosen))
        return [*expired, *assigned]

    def _why_over(self, key: tuple[str, int], now_s: float) -> str:
        if now_s >= self._give_up[key]:
            return f"it did not end within {self._limits.attempt_s:g} s"
        return f"nothing was heard of it for {self._limits.lease_s:g} s"

    def _urgency(self, job_id: str) -> tuple[int, str]:
        """Smallest first: the highest priority, then the oldest id."""
        return (-self._jobs[job_id].job.priority, job_id)

    def _choose(
        self, picture: JobPicture, candidates: Collection[Candidate], free: dict[str, int], now_s: float
    ) -> str | None:
        """The node for a job: never one that failed it, as long as another is there that might do it."""
        allowed = [item for item in candidates if item.may_get(picture.job)]
        blamed = {attempt.agent_id for attempt in picture.attempts if attempt.state in BLAMED}
        others = [item for item in allowed if item.agent_id not in blamed and self._might(picture, item)]
        eligible = [
            item
            for item in others or allowed
            if free[item.agent_id] > 0 and self._may(picture.job.id, item.agent_id, now_s)
        ]
        if not eligible:
            return None
        return min(eligible, key=lambda item: (not item.cuda, -free[item.agent_id], item.agent_id)).agent_id

    def _might(self, picture: JobPicture, candidate: Candidate) -> bool:
        entry = self._declined.get((picture.job.id, candidate.agent_id))
        return entry is None or entry.count < DECLINES_TOLERATED

    def _may(self, job_id: str, agent_id: str, now_s: float) -> bool:
        entry = self._declined.get((job_id, agent_id))
        return entry is None or entry.until_s <= now_s


class Greeting(Struct, frozen=True, kw_only=True):
    """What a hello's list of jobs means."""

    adopt: tuple[Attempt, ...] = ()
    """Live attempts it is still at: the lease goes on."""
    assign: tuple[Attempt, ...] = ()
    """Assigned, and nobody knows whether the agent ever heard: say it again."""
    missing: tuple[Attempt, ...] = ()
    """It had taken them and does not list them: lost, unless its outbox still says what became of them."""
    cancel: tuple[JobHeld, ...] = ()
    """It is at them in vain."""


def greet(dispatch: Dispatch, agent_id: str, jobs: Iterable[JobHeld]) -> Greeting:
    """What to do about an agent that came (back) with these jobs."""
    listed = {(item.job, item.attempt): item for item in jobs}
    live = {(item.job_id, item.attempt): item for item in dispatch.held_by(agent_id)}
    not_listed = [attempt for key, attempt in live.items() if key not in listed]
    return Greeting(
        adopt=tuple(attempt for key, attempt in live.items() if key in listed),
        assign=tuple(item for item in not_listed if item.state is AttemptState.ASSIGNED),
        missing=tuple(item for item in not_listed if item.state is not AttemptState.ASSIGNED),
        cancel=tuple(item for key, item in listed.items() if key not in live and in_vain(dispatch, agent_id, item)),
    )


def in_vain(dispatch: Dispatch, agent_id: str, held: JobHeld) -> bool:
    """Whether an agent's work on an attempt without a lease can no longer be of use.

    A late attempt of an open job goes on, also beside the attempt that replaced it: its work is done already, and
    whoever is first wins.
    """
    picture = dispatch.picture(held.job)
    attempt = None if picture is None else picture.attempt(held.attempt)
    if attempt is None or attempt.agent_id != agent_id:
        return True
    return attempt.state not in {AttemptState.RESULT, AttemptState.EXPIRED, AttemptState.LOST}
