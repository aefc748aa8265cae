"""Bodies of the REST interface. Separate from the wire's frames and the store's records; `hub.api.views` converts.

Names are long, units stand in them, unknown values are null. Requests refuse fields they do not know, so that a
misspelt option is never silently ignored.
"""

from importlib.metadata import version
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from wire.jobs import Name, Sha256, Uuid

VERSION: Final = version("provewire")

Hex32 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="32 bytes in lower-case hex")]
Hex64 = Annotated[str, Meta(pattern="^[0-9a-f]{128}$", description="64 bytes in lower-case hex")]
UnixMs = Annotated[int, Meta(description="Unix time in milliseconds, by the hub's clock")]
CircuitName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="letters, digits, dot, dash, underscore",
    ),
]

USES_MAX = 10_000
TTL_S_MAX = 30 * 24 * 3600
PRIORITY_MAX = 1000
JOB_LABEL_CHARS_MAX = 128
LABELS_MAX = 16
LABEL_CHARS_MAX = 128


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what clients send."""


# --- enrolment ---------------------------------------------------------------------------------------------------


class EnrollRequest(Request, frozen=True):
    """A node asks to be known.

    ``signature`` is over "provewire enroll v1", a zero byte, the enrollment_id and the 32 bytes of the public key.
    """

    secret: Annotated[str, Meta(min_length=1, max_length=128)]
    enrollment_id: Annotated[Uuid, Meta(description="made by the node; asking again with it is harmless")]
    public_key: Hex32
    name: Name
    signature: Hex64


class Enrolled(Struct, frozen=True):
    """The node is known.

    ``signature`` is the hub's, over "provewire enrolled v1", a zero byte, enrollment_id, agent_id and the node's key.
    """

    agent_id: Uuid
    hub_id: Uuid
    hub_key: Hex32
    signature: Hex64


class EnrollTokenRequest(Request, frozen=True):
    """Leave for some nodes to enrol."""

    uses: Annotated[int, Meta(ge=1, le=USES_MAX)] = 1
    ttl_s: Annotated[int, Meta(ge=1, le=TTL_S_MAX, description="the setting enroll_ttl_s if left out")] | UnsetType = (
        UNSET
    )
    labels: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9._/-]+$")],
            Annotated[str, Meta(max_length=128)],
        ],
        Meta(max_length=16, description="given to every node that enrols with it"),
    ] = {}


class EnrollTokenMade(Struct, frozen=True):
    """A new token, shown this once."""

    token: str
    id: Uuid
    expires_at_ms: UnixMs


class EnrollTokenView(Struct, frozen=True):
    """A token without its secret."""

    id: Uuid
    uses: int
    uses_max: int
    created_at_ms: UnixMs
    expires_at_ms: UnixMs
    revoked_at_ms: UnixMs | None
    labels: dict[str, str]


# --- artifacts, circuits, jobs ------------------------------------------------------------------------------------


class ArtifactView(Struct, frozen=True):
    """A stored file."""

    sha256: Sha256
    bytes: int


class CircuitRequest(Request, frozen=True):
    """Register an uploaded proving key."""

    name: CircuitName
    zkey: Annotated[Sha256, Meta(description="digest of an uploaded .zkey")]


LabelText = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]


class CircuitChange(Request, frozen=True):
    """Which nodes may get a circuit."""

    node_labels: Annotated[
        dict[LabelText, LabelText],
        Meta(max_length=LABELS_MAX, description="jobs handed in from now on go only to nodes with all of these"),
    ]


class CircuitView(Struct, frozen=True):
    """A registered circuit."""

    id: Annotated[Sha256, Meta(description="digest of its .zkey")]
    name: str
    curve: str
    zkey_bytes: int
    n_public: int
    n_vars: int
    domain_size: int
    created_at_ms: UnixMs
    contributions: Annotated[
        int | None,
        Meta(
            description="to the key, as its file says, not verified; 0: whoever made it can forge proofs; null: unknown"
        ),
    ]
    node_labels: Annotated[dict[str, str], Meta(description="its jobs go only to nodes with all of these labels")]


class JobRequest(Request, frozen=True):
    """Prove a witness."""

    circuit: Annotated[str, Meta(min_length=1, max_length=64, description="id or name of a circuit")]
    witness: Annotated[Sha256, Meta(description="digest of an uploaded .wtns")]
    priority: Annotated[int, Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX, description="higher goes first")] = 0
    label: Annotated[str, Meta(max_length=JOB_LABEL_CHARS_MAX, description="for people; nothing goes by it")] = ""


class ErrorView(Struct, frozen=True):
    """Why something came to nothing. ``code`` as the exit codes: 2, 3, 4, 5, 6."""

    code: int | None
    detail: str


class AttemptView(Struct, frozen=True):
    """One lease of a job to a node, and what became of it."""

    attempt: int
    node: Uuid
    node_name: str
    state: Annotated[str, Meta(description="assigned, accepted, running, result, or an outcome")]
    outcome: Annotated[
        str | None,
        Meta(description="null while it goes on; done, failed, refused, declined, expired, lost, cancelled"),
    ]
    device: str
    code: int | None
    detail: str
    assigned_at_ms: UnixMs
    started_at_ms: UnixMs | None
    ended_at_ms: UnixMs | None


class FailureView(Struct, frozen=True):
    """The latest attempt that came to nothing, while the job goes on or after it ended."""

    attempt: int
    node: Uuid
    node_name: str
    outcome: str
    code: int | None
    detail: str


class JobView(Struct, frozen=True, kw_only=True):
    """A job. ``attempts`` stands only where one job is asked for."""

    id: Uuid
    circuit: Annotated[str, Meta(description="name of the circuit")]
    circuit_id: Sha256
    state: Annotated[str, Meta(description="queued, leased, running, verifying, done, failed, cancelled")]
    priority: int
    label: Annotated[str, Meta(description="for people")]
    node_labels: Annotated[dict[str, str], Meta(description="it goes only to nodes with all of these labels")]
    attempt: Annotated[int, Meta(description="number of the latest attempt; 0 before the first")]
    node: Annotated[Uuid | None, Meta(description="which node holds it, or proved it")]
    node_name: str | None
    phase: str | None
    done: int
    total: int
    elapsed_s: Annotated[float | None, Meta(description="since it started, or from start to end")]
    error: ErrorView | None
    last_failure: FailureView | None
    created_at_ms: UnixMs
    started_at_ms: UnixMs | None
    ended_at_ms: UnixMs | None
    timings_ms: dict[str, float]
    attempts: list[AttemptView] | UnsetType = UNSET
    waits_for: Annotated[
        str | UnsetType, Meta(description="why it is still queued, where that is known; beside its attempts")
    ] = UNSET


# --- listings, and the hub itself ---------------------------------------------------------------------------------


class Jobs(Struct, frozen=True):
    """One page of jobs, newest first."""

    jobs: list[JobView]
    next: str | None


class Circuits(Struct, frozen=True):
    """One page of circuits."""

    circuits: list[CircuitView]
    next: str | None


class EnrollTokens(Struct, frozen=True):
    """One page of tokens."""

    tokens: list[EnrollTokenView]
    next: str | None


class HubView(Struct, frozen=True):
    """The hub itself."""

    id: Uuid
    version: str
    insecure: bool
    stale_after_s: float
    lost_after_s: float


class Health(Struct, frozen=True):
    """The hub answers."""

    ok: bool
    version: str
