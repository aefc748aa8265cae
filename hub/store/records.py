"""What the store keeps, as frozen values. Separate from the wire's frames and from the REST bodies.

Times are Unix milliseconds (``_at_ms``); ids are UUIDv7 text; digests are lower-case hex unless they are ``bytes``.
"""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from hub.rollups import Rolled
from wire.jobs import Input, JobState, Output


class Hub(Struct, frozen=True, kw_only=True):
    """The hub itself: one row."""

    id: str
    generation: int
    """Counts the starts of this store; it never goes back."""
    created_at_ms: int
    started_at_ms: int


class Agent(Struct, frozen=True, kw_only=True):
    """An enrolled node and what was last known of it."""

    id: str
    name: str
    public_key: bytes
    """Ed25519, 32 bytes."""
    enrollment_id: str
    token_id: str
    created_at_ms: int
    labels: dict[str, str] = field(default_factory=dict)
    revoked_at_ms: int | None = None
    last_heard_at_ms: int | None = None
    """Written coarsely: it may lag what the registry knows."""
    last_status: bytes | None = None
    """The last full `wire.status.NodeStatus`, as JSON; written coarsely."""
    last_reason_code: int | None = None
    """`wire.reasons.Reason` of the last session's end or refusal."""
    last_reason_detail: str = ""
    last_reason_at_ms: int | None = None
    boot_id: str = ""
    epoch: str = ""
    version: str = ""
    capabilities: tuple[str, ...] = ()


class EnrollToken(Struct, frozen=True, kw_only=True):
    """Leave for ``uses_max`` nodes to enrol until ``expires_at_ms``. The secret itself is never stored."""

    id: str
    secret_hash: bytes
    """SHA-256 of the secret, 32 bytes."""
    uses_max: int
    expires_at_ms: int
    created_at_ms: int
    uses: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    revoked_at_ms: int | None = None


class EnrollRefusal(StrEnum):
    """Why an enrolment was refused; the text is the ``code`` of the answer."""

    UNKNOWN = "token_unknown"
    EXPIRED = "token_expired"
    USED_UP = "token_used_up"
    REVOKED = "token_revoked"
    KEY_IN_USE = "key_in_use"
    """The public key, or the enrolment id, belongs to another enrolment."""


class Artifact(Struct, frozen=True, kw_only=True):
    """A file in the artifact folder, named by its digest."""

    sha256: str
    bytes_: int
    created_at_ms: int


class Circuit(Struct, frozen=True, kw_only=True):
    """A registered proving key."""

    id: str
    """SHA-256 of the .zkey: what a circuit is named by, and the artifact that holds it."""
    name: str
    """What people call it."""
    zkey_bytes: int
    curve: str
    n_public: int
    n_vars: int
    domain_size: int
    verification_key: bytes
    """verification_key.json as snarkjs writes it."""
    created_at_ms: int
    contributions: int | None = None
    """To the key, as its file says; None where it does not say."""
    node_labels: dict[str, str] = field(default_factory=dict)
    """Its jobs go only to nodes with all of these labels."""


class Job(Struct, frozen=True, kw_only=True):
    """One request to one engine."""

    id: str
    circuit_id: str
    engine: str
    curve: str
    inputs: tuple[Input, ...]
    """For groth16: roles ``zkey`` and ``wtns``."""
    created_at_ms: int
    label: str = ""
    """For people; nothing goes by it."""
    node_labels: dict[str, str] = field(default_factory=dict)
    """It goes only to nodes with all of these labels: its circuit's when it was handed in."""
    priority: int = 0
    """Higher goes first; among equals the older one."""
    idempotency_key: str | None = None
    request_sha256: str = ""
    """Digest of the request's body, so that one key is never two requests."""
    state: JobState = JobState.QUEUED
    attempt: int = 0
    """Number of the latest attempt; 0 before the first."""
    failures: int = 0
    """Attempts that came to nothing by their node's doing: they count towards the poison limit."""
    error_code: int | None = None
    """As the exit codes, once the job has failed."""
    error_detail: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    proof: bytes | None = None
    """proof.json, once verified."""
    public: bytes | None = None
    """public.json, read from the submitted witness, once verified."""
    timings_ms: dict[str, float] = field(default_factory=dict)
    """Per phase, as the node said; informative only."""
    revision: int = 0
    """Counts the changes of this row: the newer of two pictures is the one with the larger number."""

    def input(self, role: str) -> Input | None:
        """The input of that role, if the job has one."""
        return next((item for item in self.inputs if item.role == role), None)


class AttemptState(StrEnum):
    """Where one attempt is."""

    ASSIGNED = "assigned"
    """Leased; the agent has not answered yet."""
    ACCEPTED = "accepted"
    RUNNING = "running"
    RESULT = "result"
    """Its outputs are stored and wait for verification."""
    DONE = "done"
    FAILED = "failed"
    """The node said so."""
    REFUSED = "refused"
    """The hub's own verification refused the result."""
    DECLINED = "declined"
    """The agent did not take it."""
    EXPIRED = "expired"
    """The lease ran out."""
    LOST = "lost"
    """The agent came back without it."""
    CANCELLED = "cancelled"
    """Told to stop: the job was cancelled, or another attempt won."""


ATTEMPT_LIVE = frozenset({AttemptState.ASSIGNED, AttemptState.ACCEPTED, AttemptState.RUNNING})
"""An attempt that holds the job's lease."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One lease of a job to an agent, and what became of it."""

    job_id: str
    attempt: int
    agent_id: str
    assigned_at_ms: int
    state: AttemptState = AttemptState.ASSIGNED
    device: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    code: int | None = None
    detail: str = ""
    outputs: tuple[Output, ...] = ()
    """What the node sent; kept until it is verified."""
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Whether this attempt holds the job's lease."""
        return self.state in ATTEMPT_LIVE


class JobPicture(Struct, frozen=True, kw_only=True):
    """A job with all its attempts, oldest first."""

    job: Job
    attempts: tuple[Attempt, ...] = ()

    def attempt(self, number: int) -> Attempt | None:
        """The attempt of that number, if there is one."""
        return next((item for item in self.attempts if item.attempt == number), None)

    @property
    def live(self) -> Attempt | None:
        """The attempt that holds the lease, if any: never more than one."""
        return next((item for item in reversed(self.attempts) if item.live), None)


class StoredEvent(Struct, frozen=True, kw_only=True):
    """An event as it lies in the store."""

    agent_id: str
    epoch: str
    stream: str
    seq: int
    time_ms: int
    """By the node's clock."""
    received_at_ms: int
    kind: str
    """The tag of the body (``js``, ``jr``, ``jf``, ``jx``, ``ev``, ``lg``, ``gap`` or an unknown one)."""
    packed: bytes
    """The whole event, for `wire.codec.decode_event`."""


class HubEvent(Struct, frozen=True, kw_only=True):
    """Something the hub itself saw about a node, kept with the node."""

    id: str
    agent_id: str
    time_ms: int
    kind: str
    level: str
    detail: str


class SessionRow(Struct, frozen=True, kw_only=True):
    """One session of an agent, open while ``closed_at_ms`` is None."""

    id: str
    agent_id: str
    opened_at_ms: int
    generation: int
    remote: str
    boot_id: str
    epoch: str
    closed_at_ms: int | None = None
    reason_code: int | None = None
    reason_detail: str = ""


class StreamHead(Struct, frozen=True, kw_only=True):
    """The last number of one stream that is committed."""

    epoch: str
    stream: str
    seq: int


class StatusNote(Struct, frozen=True, kw_only=True):
    """The latest known of one agent, to be written down coarsely."""

    agent_id: str
    heard_at_ms: int
    packed: bytes | None


class Source(Struct, frozen=True, kw_only=True):
    """What a node has series of: its host, or a card."""

    number: int
    name: str
    fields: int
    """A bit for each of `hub.series.fields_of` that ever had a value."""
    seen_at_ms: int
    """The last day it was heard of."""


class HistoryRow(NamedTuple):
    """What a node measured at one time, or over one."""

    time_ms: int
    """The moment of a sample; of a rollup, when its time begins."""
    rolled: Rolled


class Volume(Struct, frozen=True, kw_only=True):
    """How much is kept of something."""

    rows: int
    size_bytes: int
    horizon_ms: int = 0
    """What is older is given up, or about to be."""


class Usage(Struct, frozen=True, kw_only=True):
    """How much the store keeps of what grows."""

    volumes: dict[str, Volume]
    """By name: ``raw``, ``minute``, ``ten_minutes``, ``hour``, ``events``, ``logs``, ``ssh_attempts``."""
    file_bytes: int
    """Of the database, what is free in it included."""
    free_bytes: int
    """Free in it: taken before the file grows."""
    rollups_due: int
