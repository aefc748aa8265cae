"""The store, as the rest of the hub sees it: typed methods, no SQL.

Every method that writes returns only after its transaction is committed and on the disk. Reads see every write that
has returned. Absence is ``None``; what the caller must tell its client apart is an exception of this module.

StoreError
├── StoreClosed            the store is shutting down, nothing was written
├── StoreUnavailable       the database could not read or write (disk full, damaged): the text says what it said
├── StoreVersionError      the file was written by a newer hub
└── Conflict               the request contradicts what is stored
    ├── HoleInStream
    ├── NameTaken
    ├── KeyTaken
    ├── IdempotencyConflict
    └── UserNameTaken
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from hub.rollups import Tier
from hub.ssh.reach import Reach
from hub.ssh.record import Record
from hub.store.access import AccessStore
from hub.store.alerts import AlertStore
from hub.store.log_records import LogFilter, LogPage
from hub.store.records import (
    Agent,
    Artifact,
    Circuit,
    EnrollRefusal,
    EnrollToken,
    HistoryRow,
    Hub,
    HubEvent,
    Job,
    JobPicture,
    SessionRow,
    Source,
    StatusNote,
    StoredEvent,
    StreamHead,
    Usage,
)
from wire.frames import Event, EventBody, Stream
from wire.jobs import JobState

PAGE_MAX = 1000
"""Rows of one listing; a larger ``limit`` is cut to it."""

HISTORY_ROWS_MAX = 10_000
"""Rows of one look into the history."""

Step = Callable[[JobPicture], JobPicture | None]
"""A pure function from a job's picture to its next one; ``None`` for no change."""


Applies = Callable[[EventBody], tuple[str, Step] | None]
"""From an event's body to the job it speaks of and what it does to it."""


class ForeignReference(Exception):
    """Raised by a `Step`: an agent spoke of a job or attempt that is not its own; nothing was changed."""


class StoreError(Exception):
    """Base of the store's errors."""


class StoreClosed(StoreError):
    """The store is shutting down; nothing was written."""


class StoreUnavailable(StoreError):
    """The database failed; the operation was not done."""


class StoreVersionError(StoreError):
    """The file has a schema this version does not know."""


class Conflict(StoreError):
    """The request contradicts what is stored; nothing was written."""


class HoleInStream(Conflict):
    """Events do not follow what is stored of their stream."""


class NameTaken(Conflict):
    """Another circuit has this name."""


class KeyTaken(Conflict):
    """This circuit has another name."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used for another request."""


class UserNameTaken(Conflict):
    """Another user has this name."""


class Listed(StrEnum):
    """What can be looked for by the beginning of an id."""

    JOBS = "jobs"
    CIRCUITS = "circuits"
    ARTIFACTS = "artifacts"
    ENROLL_TOKENS = "enroll_tokens"
    SSH_ATTEMPTS = "ssh_attempts"


class IngestResult(Struct, frozen=True, kw_only=True):
    """What one batch of events did."""

    head: int
    """The stream's committed head now."""
    stored: int
    """Events that were new."""
    pictures: tuple[JobPicture, ...] = ()
    """Jobs that changed, as they are now."""
    foreign: tuple[str, ...] = ()
    """A sentence for each event about a job that is not the agent's."""


class StoreStats(Struct, frozen=True, kw_only=True):
    """How the writer fares, for the metrics; counted since the start."""

    commits: int
    operations: int
    commit_s_total: float
    """Seconds spent in transactions, fsync included."""
    waiting: int
    """Operations that wait for their turn now."""
    waiting_max: int
    samples_late: int = 0
    """Samples that came when their time was given up already."""
    sources_refused: int = 0
    """Sources of samples beyond a node's limit, counted at each sample."""


class Store(Protocol):
    """Everything the hub keeps."""

    @property
    def access(self) -> AccessStore:
        """Who may come in, and what they did."""

    @property
    def alerts(self) -> AlertStore:
        """What is wrong, and who is told."""

    def stats(self) -> StoreStats:
        """How the writer fares."""

    async def like(self, listed: Listed, beginning: str, *, limit: int) -> list[tuple[str, str]]:
        """Ids that begin so, in order, each with a name if it has one."""

    async def close(self) -> None:
        """Commit what is queued; nothing is taken from then on."""

    # --- the hub and its sessions

    async def begin_generation(self, now_ms: int) -> Hub:
        """Count this start; closes sessions the last run left open."""

    async def open_session(self, session: SessionRow, agent: Agent) -> None:
        """Note a session and what its hello said (boot id, epoch, version, capabilities, name)."""

    async def close_session(self, session_id: str, now_ms: int, reason_code: int, detail: str) -> None:
        """Note a session's end, also as the agent's last reason."""

    async def refused_session(self, session: SessionRow) -> None:
        """Note a newcomer that was refused, as a session that ended when it began."""

    async def sessions(self, agent_id: str, *, before: str = "", limit: int = PAGE_MAX) -> list[SessionRow]:
        """An agent's sessions, newest first, older than the id ``before`` if given."""

    async def note_reason(self, agent_id: str, now_ms: int, reason_code: int, detail: str) -> None:
        """Note the reason of a refusal as the agent's last reason."""

    async def note_status(self, notes: Sequence[StatusNote]) -> None:
        """Write down when agents were last heard, and their last status."""

    # --- agents and enrolment

    async def agent(self, agent_id: str) -> Agent | None:
        """One agent, revoked ones too."""

    async def agents(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Agent]:
        """Agents by id, ascending, after ``after``."""

    async def revoke_agent(self, agent_id: str, now_ms: int) -> Agent | None:
        """Revoke; the first time stands. None if there is no such agent."""

    async def add_enroll_token(self, token: EnrollToken) -> None:
        """Store a new token."""

    async def enroll_token(self, token_id: str) -> EnrollToken | None:
        """One token."""

    async def enroll_tokens(self, *, after: str = "", limit: int = PAGE_MAX) -> list[EnrollToken]:
        """Tokens by id, ascending."""

    async def revoke_enroll_token(self, token_id: str, now_ms: int) -> EnrollToken | None:
        """Revoke; the first time stands. None if there is no such token."""

    async def enroll(
        self, *, secret_hash: bytes, enrollment_id: str, public_key: bytes, name: str, agent_id: str, now_ms: int
    ) -> Agent | EnrollRefusal:
        """Use a token up once and make the agent, in one transaction.

        The same enrolment id with the same key and secret gives the same agent again, without a further use, also
        after the token was used up, expired or revoked. ``agent_id`` is taken only for a new agent.
        """

    # --- artifacts and circuits

    async def add_artifact(self, artifact: Artifact) -> Artifact:
        """Note a file that lies complete in the artifact folder; the first entry stands."""

    async def artifact(self, sha256: str) -> Artifact | None:
        """One artifact."""

    async def add_circuit(self, circuit: Circuit) -> tuple[Circuit, bool]:
        """Register; the same name with the same key gives the stored one and False.

        Raises:
            NameTaken: the name belongs to another key.
            KeyTaken: the key is registered by another name.
        """

    async def artifacts(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Artifact]:
        """Artifacts by digest, ascending."""

    async def circuit(self, id_or_name: str) -> Circuit | None:
        """One circuit, by id, else by name."""

    async def circuits(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Circuit]:
        """Circuits by id, ascending."""

    async def set_circuit_labels(self, circuit_id: str, node_labels: dict[str, str]) -> Circuit | None:
        """Which nodes jobs handed in from now on may go to; None for no such circuit."""

    # --- jobs

    async def add_job(self, job: Job) -> tuple[Job, bool]:
        """Persist a job; with a known idempotency key the stored one and False.

        Raises:
            IdempotencyConflict: the key came with another ``request_sha256`` before.
        """

    async def job(self, job_id: str) -> JobPicture | None:
        """One job with its attempts."""

    async def job_pictures(
        self, *, before: str = "", limit: int = PAGE_MAX, state: JobState | None = None
    ) -> list[JobPicture]:
        """Jobs with their attempts, newest first, older than the id ``before`` if given.

        Without the bulk: ``proof`` and ``public`` are None and the attempts have no outputs.
        """

    async def job_counts(self) -> dict[JobState, int]:
        """How many jobs are in each state; every state has an entry."""

    async def open_jobs(self) -> list[JobPicture]:
        """Every job that has not ended, oldest first."""

    async def change_job(self, job_id: str, step: Step) -> JobPicture | None:
        """Apply ``step`` to the stored picture in a transaction; the new picture, None if nothing changed."""

    # --- events

    async def heads(self, agent_id: str, epochs: Sequence[str]) -> list[StreamHead]:
        """Committed heads of these epochs' streams; a stream without one has none."""

    async def ingest(
        self,
        agent_id: str,
        epoch: str,
        stream: Stream,
        events: Sequence[Event],
        received_at_ms: int,
        applies: Applies,
        *,
        sampled_at: Callable[[Event], int] | None = None,
        left_out: str = "",
    ) -> IngestResult:
        """Store new events, move the head and apply job events to their jobs: all in one transaction.

        Events at or below the head were stored before and are passed over. An event that speaks of a job that is not
        the agent's is stored like any other, touches no job and is told in ``foreign``. Readings become samples, log
        records go to their own table.

        Args:
            agent_id: whose they are.
            epoch: the run of the agent that made them.
            stream: of all of them.
            events: ascending, without holes.
            received_at_ms: by the hub's clock.
            applies: what a job event does.
            sampled_at: when readings were made, by the hub's clock; the node's own time if left out.
            left_out: why the content is not stored. The head moves, and what the hub saw tells how many were left out.

        Raises:
            HoleInStream: the first new event does not follow the head.
        """

    def ingest_soon(
        self,
        agent_id: str,
        epoch: str,
        stream: Stream,
        events: Sequence[Event],
        received_at_ms: int,
        settled: Callable[[IngestResult | BaseException], None],
        sampled_at: Callable[[Event], int] | None = None,
    ) -> bool:
        """The same without waiting, for events that do nothing to jobs: ``settled`` is told, in the order of the calls.

        False: too much waits, or the store is closed; nothing was done.
        """

    async def node_events(
        self,
        agent_id: str,
        *,
        stream: Stream | None = None,
        before: tuple[int, str, str, int] | None = None,
        limit: int = PAGE_MAX,
    ) -> list[StoredEvent]:
        """A node's events, of all streams or of one, newest received first.

        Descending by (received_at_ms, epoch, stream, seq); those below ``before``, if given.
        """

    async def add_hub_event(self, event: HubEvent) -> None:
        """Keep something the hub saw about a node."""

    async def hub_events(self, agent_id: str, *, before: str = "", limit: int = PAGE_MAX) -> list[HubEvent]:
        """What the hub saw about a node, newest first, older than the id ``before`` if given."""

    # --- the history of what nodes measured

    async def sources(self, agent_id: str) -> list[Source]:
        """What a node has series of."""

    async def history(
        self, agent_id: str, tier: Tier, from_ms: int, to_ms: int, *, limit: int = HISTORY_ROWS_MAX
    ) -> list[HistoryRow]:
        """A node's rows of a tier that begin at ``from_ms`` or later and before ``to_ms``, oldest first."""

    async def horizons(self) -> dict[Tier, int]:
        """How far each tier reaches back: what is older is given up."""

    async def roll(self, ended_before_ms: int, *, limit: int) -> int:
        """Make at most ``limit`` of the rollups that are due and whose time ended before; how many that were.

        Zero: none is due. Each is made from all rows of the tier below, so it may be made again at any time.
        """

    # --- logs

    async def log_page(
        self, agent_id: str, wanted: LogFilter, *, after: int | None = None, newest_first: bool, limit: int = PAGE_MAX
    ) -> LogPage:
        """Log records of a node beyond the id ``after`` in the order asked for.

        A page may be short, or even empty, and not be the last: only so many records are looked at for one.
        """

    async def newest_log(self, agent_id: str) -> int:
        """The id of a node's newest log record; 0 without one."""

    async def logs_behind(self, agent_id: str, after: int, count_max: int) -> int:
        """How many log records of a node there are after an id, counted up to ``count_max``."""

    # --- the SSH fallback

    async def ssh_targets(self) -> list[Reach]:
        """Every node's way in, revoked nodes' too."""

    async def save_ssh_target(self, reach: Reach, event: HubEvent | None = None) -> None:
        """Write down a node's way in and, in the same transaction, who changed it."""

    async def add_ssh_attempts(
        self, records: Sequence[Record], reach: Reach | None = None, event: HubEvent | None = None
    ) -> None:
        """Keep the tries of one attempt and, with them, what they say of the way in. The oldest beyond a quota go."""

    async def ssh_attempt(self, attempt_id: str) -> Record | None:
        """One try, whole."""

    async def ssh_attempts(self, node_id: str, *, before: str = "", limit: int = PAGE_MAX) -> list[Record]:
        """A node's tries, newest first, older than the id ``before`` if given.

        Without the bulk: no standard output, and of stderr the first 16 KiB.
        """

    async def expire_ssh_attempts(self, before_ms: int, *, limit: int) -> int:
        """Give up tries begun before."""

    # --- giving up, in bounded steps: each says how much it did, zero when nothing is left to do

    async def expire_tier(self, tier: Tier, before_ms: int, bytes_max: int, *, limit: int) -> int:
        """Give up the oldest rows of a tier: those that begin before, or are too much. Their rollups stay."""

    async def expire_sources(self, before_ms: int, *, limit: int) -> int:
        """Give up the series of cards that nothing was heard of since."""

    async def expire_events(self, before_ms: int, bytes_max: int, *, limit: int) -> int:
        """Give up the oldest events: received before, or, if all are too much, of the node that keeps most.

        An event of a job that has not ended is kept.
        """

    async def expire_logs(self, before_ms: int, bytes_max: int, *, limit: int) -> int:
        """Give up the oldest log records: received before, or, if all are too much, of the node that keeps most."""

    async def expire_records(self, before_ms: int, rows_max: int, *, limit: int) -> int:
        """Give up ended sessions and what the hub saw: begun before, or more of either than ``rows_max``."""

    async def reclaim(self, bytes_max: int) -> int:
        """Hand some of the space that was given up back to the file system; how much that was."""

    async def usage(self) -> Usage:
        """How much is kept of everything that grows."""
