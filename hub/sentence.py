"""How a node is, in one sentence, and its two lights: heard from, and proving; pure.

The worst first, each with its cause and what to do. Nothing that is only likely is said as certain. That a node is not
heard says nothing of what it proves: the second light then keeps what was last known, with when, and is otherwise
unknown; never does silence alone make it say that a node is unable to prove.
"""

from enum import StrEnum

from msgspec import UNSET, Struct

from hub import losses, troubles
from hub.facts import Facts, Severity, Trouble
from hub.liveness import NodeState
from hub.ssh import ladder
from hub.ssh.ladder import Rung
from wire.engines import EngineJobState, EngineReading, EngineState
from wire.status import NodeStatus, WorkerReading, WorkerState
from wire.text import clipped


class Heard(StrEnum):
    """Whether the hub hears the node."""

    LIVE = "live"
    STALE = "stale"
    """Silent, or between two connections, and too early to call it lost."""
    LOST = "lost"
    NEVER = "never"
    REFUSED = "refused"
    """It comes, and one of the two does not take the other."""


class Proving(StrEnum):
    """Whether it proves."""

    PROVING = "proving"
    IDLE = "idle"
    UNABLE = "unable"
    """By its own word, or seen by ssh: it cannot prove."""
    UNKNOWN = "unknown"


class HeardLight(Struct, frozen=True):
    """The first light."""

    state: Heard
    text: str
    at_ms: int | None
    """When the node was last heard; None for never."""


class ProvingLight(Struct, frozen=True):
    """The second light."""

    state: Proving
    text: str
    at_ms: int | None
    """Of when that is, or of when ``last`` was; None for never."""
    last: Proving
    """What was last known, of ``at_ms``: the same as ``state`` while the node is heard."""


class Lights(Struct, frozen=True):
    """Both: the loss of the first never colours the second."""

    heard: HeardLight
    proving: ProvingLight


class Sentence(Struct, frozen=True, kw_only=True):
    """How a node is."""

    state: str
    """The name of what is said first: ``proving``, ``idle``, ``agent_dead``, ``gpu_lost``, ..."""
    text: str
    cause: str
    """Why, of what is said first; empty where the text says it all."""
    remedy: str
    """What to do about that; empty for nothing."""
    severity: Severity
    since_ms: int | None
    certain: bool
    """The cause was seen; False: it is likely, or not known yet, and the words say so."""


DOES = {
    Proving.IDLE: ("idle", "idle"),
    Proving.UNABLE: ("unable", "nothing here can prove"),
    Proving.UNKNOWN: ("watched", "what it does is not told"),
}
"""Of a node that does not prove: a name, and words."""
TEXT_CHARS_MAX = 1000
"""Of what is shown: parts of it are a node's own words."""
HEARD = {
    NodeState.ONLINE: Heard.LIVE,
    NodeState.STALE: Heard.STALE,
    NodeState.RECONNECTING: Heard.STALE,
    NodeState.LOST: Heard.LOST,
    NodeState.NEVER: Heard.NEVER,
}


def sentence(facts: Facts) -> Sentence:
    """The node's sentence: what is wrong, the worst first, and what it does."""
    found = all_troubles(facts)
    does, does_text, since_ms = _does(facts)
    if not found:
        return Sentence(
            state=does, text=does_text, cause="", remedy="", severity=Severity.OK, since_ms=since_ms, certain=True
        )
    first = found[0]
    words = [trouble.text for trouble in found]
    if does_text:
        words.insert(sum(trouble.severity > Severity.INFO for trouble in found), does_text)
    return Sentence(
        state=first.state,
        text=clipped("; ".join(words), TEXT_CHARS_MAX),
        cause=clipped(first.cause, TEXT_CHARS_MAX),
        remedy=first.remedy,
        severity=first.severity,
        since_ms=first.since_ms,
        certain=first.certain,
    )


def all_troubles(facts: Facts) -> list[Trouble]:
    """Everything that is not as it should be, the worst first; what explains the silence stands before the rest."""
    silence = losses.loss(facts)
    found = troubles.troubles(facts)
    if silence is not None:
        # Of one that is not heard, the way in is told with the silence, where it is the reason that nobody knows more.
        explained = facts.seen is not None and not facts.seen.reached and facts.state is NodeState.LOST
        found = [silence, *(one for one in found if not (explained and one.state == "fallback_broken"))]
    return sorted(found, key=lambda trouble: -trouble.severity)


def _does(facts: Facts) -> tuple[str, str, int | None]:
    """What it does, for one that is heard: a name, words, and since when."""
    status = facts.said
    if status is None:
        return ("online", "connected, nothing said yet", facts.session_opened_at_ms) if facts.heard else ("", "", None)
    jobs, doing = _jobs(status), _doing(status, observes=facts.observes)
    drains = status.draining is True
    if jobs or doing is Proving.PROVING:
        count = f" {jobs} job{'' if jobs == 1 else 's'}" if jobs else ""
        return "proving", f"proving{count}{', draining' if drains else ''}", None
    if drains:
        return "draining", "draining", None
    name, words = DOES[doing]
    return name, "only watched" if facts.observes and doing is Proving.UNKNOWN else words, None


def _jobs(status: NodeStatus) -> int:
    ours = 0 if status.jobs is UNSET else len(status.jobs)
    return ours + sum(job.state is EngineJobState.RUNNING for one in _engines(status) for job in one.jobs)


def _engines(status: NodeStatus) -> list[EngineReading]:
    """Those whose word is of now: of one that cannot be read only the last good answer is kept."""
    engines = () if status.engines is UNSET else status.engines
    return [one for one in engines if one.state in {EngineState.OK, EngineState.STATUS_DISABLED}]


def _workers(status: NodeStatus) -> list[WorkerReading]:
    return [] if status.workers is UNSET else list(status.workers)


def _doing(status: NodeStatus, *, observes: bool) -> Proving:
    """Whether it proves, by its own word."""
    workers, engines = _workers(status), _engines(status)
    if any(worker.state is WorkerState.PROVING for worker in workers) or any(
        job.state is EngineJobState.RUNNING for one in engines for job in one.jobs
    ):
        return Proving.PROVING
    if engines or any(worker.state in {WorkerState.IDLE, WorkerState.STARTING} for worker in workers):
        return Proving.IDLE
    silent = any(worker.state is WorkerState.SILENT for worker in workers)
    broken = () if status.engines is UNSET else status.engines
    if silent or any(one.state is not EngineState.DOWN for one in broken):
        return Proving.UNKNOWN  # its process lives, and what it does is not told
    if workers or broken:
        return Proving.UNABLE
    return Proving.UNKNOWN if observes else Proving.UNABLE


# --- the lights


def lights(facts: Facts) -> Lights:
    """Both lights."""
    return Lights(_heard(facts), _proving(facts))


def _heard(facts: Facts) -> HeardLight:
    state = Heard.REFUSED if losses.refuses(facts) else HEARD[facts.state]
    at = facts.at(facts.last_heard_at_ms)
    text = {
        Heard.LIVE: "heard now",
        Heard.STALE: f"silent since {at}",
        Heard.LOST: f"lost, last heard {at}",
        Heard.NEVER: "never heard",
        Heard.REFUSED: f"refuses this hub, last heard {at}",
    }[state]
    return HeardLight(state, text, facts.last_heard_at_ms)


def _proving(facts: Facts) -> ProvingLight:
    if facts.status is None:
        return _seen_by_ssh(facts, "unknown", Proving.UNKNOWN, None)
    doing = _doing(facts.status, observes=facts.observes)
    if facts.said is not None:
        return ProvingLight(doing, doing.value, facts.last_heard_at_ms, doing)
    if facts.via_ssh_at_ms is not None and (facts.seen is None or facts.seen.at_ms <= facts.via_ssh_at_ms):
        at = facts.at(facts.via_ssh_at_ms)
        return ProvingLight(doing, f"{doing.value} at {at}, by its own word over ssh", facts.via_ssh_at_ms, doing)
    told_ms = facts.via_ssh_at_ms or (facts.status_at_ms if facts.heard else facts.last_heard_at_ms)
    return _seen_by_ssh(facts, f"{doing.value} when last heard {facts.at(told_ms)}", doing, told_ms)


def _seen_by_ssh(facts: Facts, said: str, last: Proving, at_ms: int | None) -> ProvingLight:
    """What a look by ssh adds to the last word: that there is no prover is seen; that there is one is no proof made."""
    look = facts.seen
    step = None if look is None or not look.reached else look.step(Rung.PROVERS)
    if look is None or step is None or step.state is ladder.State.UNKNOWN:
        return ProvingLight(Proving.UNKNOWN, said if said == "unknown" else f"{said}, unknown since", at_ms, last)
    text = f"{said}; at {facts.at(look.at_ms)} by ssh: {step.sentence}"
    if step.state is ladder.State.FAILED:
        return ProvingLight(Proving.UNABLE, text, look.at_ms, Proving.UNABLE)
    return ProvingLight(Proving.UNKNOWN, text, at_ms, last)
