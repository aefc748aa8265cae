"""What the hub knows of one node at one moment, and what a trouble of it is; pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum

from msgspec import Struct, field

from hub.liveness import NodeState
from hub.ssh.charts import Finding
from hub.ssh.looking import Ladder
from hub.ssh.reach import Reach, moment
from hub.ssh.verdict import Problem
from wire.status import NodeStatus

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A name that may stand in a command to paste; another node's id stands there in place of its name."""
MINUTE_MS = 60_000


class Severity(IntEnum):
    """How much somebody is needed; the order of what is said first."""

    OK = 0
    INFO = 1
    """Worth a word, and nobody has to do anything."""
    WARN = 2
    """It works, and will not for ever."""
    BAD = 3
    """It does not do what it is there for."""


class Trouble(Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    state: str
    """Its name, for programs."""
    text: str
    """A few words, which stand in the node's sentence."""
    severity: Severity
    cause: str = ""
    """Why; empty where the text says all there is."""
    remedy: str = ""
    """What to do; empty where nothing has to be done."""
    certain: bool = True
    """What is named as the cause was seen. False: it is likely, or not known, and the words say so."""
    since_ms: int | None = None
    key: str = ""
    """What tells it from others of the same name: a card, an engine."""


class Why(Struct, frozen=True, kw_only=True):
    """A cause, as far as it is known."""

    state: str = ""
    """Its name, for programs."""
    cause: str
    remedy: str
    certain: bool


class Facts(Struct, frozen=True, kw_only=True):
    """One node, as the hub knows it. Times are Unix milliseconds of the hub's clock."""

    id: str
    name: str
    now_ms: int
    state: NodeState
    created_at_ms: int = 0
    last_heard_at_ms: int | None = None
    session_opened_at_ms: int | None = None
    reason_code: int | None = None
    """Why its last session ended."""
    reason_detail: str = ""
    reason_at_ms: int | None = None
    status: NodeStatus | None = None
    """What it last said of itself; None for nothing."""
    status_at_ms: int | None = None
    via_ssh_at_ms: int | None = None
    """Set while that came by ssh and not over a session."""
    observes: bool = False
    clock_skew_ms: int | None = None
    reach: Reach
    ladder: Ladder | None = None
    """What the last look at it by ssh found."""
    looking: bool = False
    """Such a look is under way."""
    next_look_s: float | None = None
    paused: str = ""
    """Why the hub tries nothing by ssh now."""
    heard_since_start: bool = True
    """It was heard in this run of the hub."""
    hub_started_at_ms: int = 0
    problems: tuple[Problem, ...] = ()
    """What is wrong with the hub's own side of ssh."""
    answers: str = ""
    """Who answers at its address, where another host key does: another node's name, or a fingerprint."""
    answers_node: bool = False
    """It is another node of ours, which is sure."""
    doctor: Finding | None = None
    """What the doctor last found wrong with the way in."""
    double_at_ms: int | None = None
    """When a second process with its key was last sent away."""
    double_detail: str = ""
    since: Mapping[str, int] = field(default_factory=dict)
    """Since when each trouble has lasted, by `slot`."""

    @property
    def called(self) -> str:
        """How a command names it: whatever it calls itself is pasted into a shell by somebody."""
        return self.name if PLAIN.fullmatch(self.name) else self.id

    @property
    def heard(self) -> bool:
        """Whether its session speaks now."""
        return self.state is NodeState.ONLINE

    @property
    def said(self) -> NodeStatus | None:
        """What it said over the session that is open now; None: what is known is of an earlier one, or of the store."""
        told_ms, opened_ms = self.status_at_ms, self.session_opened_at_ms
        earlier = told_ms is not None and opened_ms is not None and told_ms < opened_ms
        return self.status if self.heard and not earlier else None

    def at(self, time_ms: int | None) -> str:
        """A moment in words; ``an unknown time`` for none."""
        return "an unknown time" if time_ms is None else moment(time_ms, self.now_ms)

    @property
    def seen(self) -> Ladder | None:
        """The last look at it, if that is newer than its last word."""
        ladder = self.ladder
        return ladder if ladder is not None and ladder.at_ms > (self.last_heard_at_ms or 0) else None


def slot(trouble: Trouble) -> str:
    """Under which its beginning is remembered."""
    return f"{trouble.state} {trouble.key}" if trouble.key else trouble.state


def node_time(time_ms: int) -> str:
    """A moment by a node's own clock, in UTC."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%H:%M:%S} UTC"
