"""Why a node is not heard: from how its last session ended and from what looking after it by ssh found; pure.

Silence itself says nothing of its reason. What the look saw is certain; what is only the likeliest reading of it is
called probable; and before there was a look, the cause is said not to be known yet.
"""

from msgspec import Struct

from hub.facts import Facts, Severity, Trouble, Why
from hub.liveness import NodeState
from hub.ssh.cause import REMEDIES, Cause
from hub.ssh.ladder import OURS as NO_WORD
from hub.ssh.ladder import Rung, State
from hub.ssh.looking import Ladder
from hub.ssh.verdict import OURS
from hub.troubles import AUTHENTICATION, fallback_cause
from wire.reasons import Reason

UNKNOWN = "cause not known"
RESTORE = (
    "Stop the hub, put its newest data back and start it. If that is lost, raise its generation as docs/operations.md "
    "says (Back up the hub)."
)


def loss(facts: Facts) -> Trouble | None:
    """The trouble that a node is not heard; None while it is."""
    if facts.state is NodeState.ONLINE:
        return None
    if facts.state is NodeState.NEVER:
        return Trouble(
            state="never_heard",
            text=f"enrolled {facts.at(facts.created_at_ms)}, never heard",
            severity=Severity.INFO,
            cause="no agent has come with this node's key yet",
            remedy="Start the agent at the node; `provewire status` there says why it does not come.",
            since_ms=facts.created_at_ms,
        )
    why = _told(facts) or _looked(facts)
    return Trouble(
        state=why.state,
        text=f"{_silence(facts)}: {why.cause}",
        severity=_severity(facts, why),
        cause=why.cause,
        remedy=why.remedy,
        certain=why.certain,
        since_ms=facts.last_heard_at_ms,
    )


def refuses(facts: Facts) -> bool:
    """Whether the node and this hub do not take each other, as the node itself said when it left."""
    return facts.state is not NodeState.ONLINE and facts.reason_code == Reason.GENERATION_WENT_BACK


def _silence(facts: Facts) -> str:
    heard = facts.at(facts.last_heard_at_ms)
    if refuses(facts):
        return f"refuses this hub since {facts.at(facts.reason_at_ms)}"
    if facts.state is NodeState.LOST:
        return f"lost, last heard {heard}"
    if facts.state is NodeState.STALE:
        return f"silent since {heard}"
    return f"without a connection since {heard}"


def _severity(facts: Facts, why: Why) -> Severity:
    if facts.state is NodeState.LOST or refuses(facts):
        return Severity.WARN if why.state == "stopped" else Severity.BAD
    return Severity.WARN if facts.state is NodeState.STALE else Severity.INFO


def _told(facts: Facts) -> Why | None:
    """What the node itself said when it left."""
    if refuses(facts):
        return Why(
            state="hub_is_older",
            cause=f"it has seen a newer run of this hub than this one: this hub runs on an older copy of its data "
            f"({facts.reason_detail})",
            remedy=RESTORE,
            certain=True,
        )
    if facts.reason_code == Reason.GOODBYE and _reason_is_last(facts):
        return Why(
            state="stopped",
            cause=f"its agent was stopped on purpose: it said goodbye {facts.at(facts.reason_at_ms)}",
            remedy=f"Start it at the node when it is wanted again, or from here: `provewire recover {facts.called} "
            "restart-agent --yes`.",
            certain=True,
        )
    return None


def _reason_is_last(facts: Facts) -> bool:
    return facts.reason_at_ms is not None and facts.reason_at_ms >= (facts.last_heard_at_ms or 0)


def _looked(facts: Facts) -> Why:
    """What is known from this side."""
    if not facts.heard_since_start and facts.state is not NodeState.LOST:
        return Why(
            state="awaited",
            cause=f"awaited since this hub was started {facts.at(facts.hub_started_at_ms)}",
            remedy="Wait a minute: agents come back by themselves.",
            certain=True,
        )
    if (ladder := facts.seen) is not None:
        return _inside(facts, ladder) if ladder.reached else _outside(facts, ladder)
    if facts.state is not NodeState.LOST:
        said = f" ({facts.reason_detail})" if facts.reason_detail and _reason_is_last(facts) else ""
        return Why(
            state="silent" if facts.state is NodeState.STALE else "reconnecting",
            cause=f"{UNKNOWN} yet{said}",
            remedy="Wait: it comes back by itself within a minute, or is looked after by ssh.",
            certain=False,
        )
    return Why(state="lost", cause=f"{UNKNOWN}{_search(facts)}", remedy=_meanwhile(facts), certain=False)


def _search(facts: Facts) -> str:
    """How far looking for the cause has come."""
    if facts.reach.target is None:
        return ": there is no way in by ssh to look"
    stopped = ""
    if facts.seen is not None and (broken := _broken(facts.seen)) is not None:
        stopped = f", {broken}"
    if facts.looking:
        return f" yet, looking by ssh now{stopped}"
    if facts.paused:
        return f" yet; nobody looks by ssh now: {facts.paused}{stopped}"
    if facts.next_look_s is not None:
        return f" yet{stopped}; the next look by ssh is at {facts.at(facts.now_ms + round(facts.next_look_s * 1000))}"
    return f" yet{stopped}"


def _meanwhile(facts: Facts) -> str:
    if facts.reach.target is None:
        return (
            f"Set one: `provewire ssh-target set {facts.called} USER@HOST:PORT`; meanwhile the provider's console says "
            "whether the machine runs."
        )
    return f"Wait for the look, or look now: `provewire probe {facts.called}`."


def _broken(ladder: Ladder) -> str | None:
    """``rung 4 of 12 (login)``: the first that is not good."""
    for number, step in enumerate(ladder.steps, 1):
        if step.state is State.FAILED:
            return f"rung {number} of {len(ladder.steps)} ({step.rung.value})"
    return None


# --- a shell at the node answered


def _inside(facts: Facts, ladder: Ladder) -> Why:
    agent, status = ladder.step(Rung.AGENT), ladder.step(Rung.STATUS)
    restart = f"`provewire recover {facts.called} restart-agent --yes` starts it and leaves provers alone."
    provers = _alive(ladder)
    if agent.state is State.FAILED:
        how = agent.sentence.removeprefix("it does not run, and ")
        return Why(
            state="agent_dead",
            cause=f"the agent does not run ({how}){provers}{_room(ladder)}",
            remedy=f"{_make_room(ladder)}{restart}",
            certain=True,
        )
    if agent.state is not State.OK:
        return Why(
            state="lost",
            cause=f"{UNKNOWN}: the look by ssh was cut off before the agent",
            remedy=f"Look again: `provewire probe {facts.called}`.",
            certain=False,
        )
    if status.state is State.OK:
        return Why(
            state="cut_off",
            cause=f"the agent runs and answers on its own node; probably it does not reach the hub{provers}",
            remedy=f"Its own words: `provewire probe {facts.called} --last --details`; see that the hub's address and "
            "port can be reached from the node.",
            certain=False,
        )
    if status.state is State.FAILED:
        return Why(
            state="agent_stuck",
            cause=f"the agent's process is there and gives no status, not even on its own node{provers}{_room(ladder)}",
            remedy=f"{_make_room(ladder)}{restart}",
            certain=True,
        )
    return Why(
        state="cut_off",
        cause=f"the agent runs; probably it does not reach the hub, and its own status could not be asked for{provers}",
        remedy=f"Its own words: `provewire probe {facts.called} --last --details`.",
        certain=False,
    )


def _alive(ladder: Ladder) -> str:
    step = ladder.step(Rung.PROVERS)
    return "; provers are alive" if step.state in {State.OK, State.WARNING} else ""


def _room(ladder: Ladder) -> str:
    step = ladder.step(Rung.DISK)
    return f"; probably for want of disk: {step.sentence}" if step.state is State.WARNING else ""


def _make_room(ladder: Ladder) -> str:
    return "Make room on its disk first. Then " if ladder.step(Rung.DISK).state is State.WARNING else ""


# --- none did


class _Outside(Struct, frozen=True):
    """What a cause of ssh's says of a node that is lost."""

    state: str
    words: str
    remedy: str


CONSOLE = (
    "Look at the provider's console: start the machine again, or set its new address: `provewire ssh-target set NODE "
    "USER@HOST:PORT`. If it is gone for good, revoke the node."
)
OUTSIDE = {
    Cause.CONNECT_TIMED_OUT: _Outside(
        "node_gone", "the machine is off, gone or cut off: nothing answers at TARGET", CONSOLE
    ),
    Cause.NO_ROUTE: _Outside("node_gone", "the machine is off or gone: there is no host at TARGET", CONSOLE),
    Cause.FIREWALL_REJECT: _Outside(
        "firewalled", "a firewall refuses the packets to TARGET", REMEDIES[Cause.FIREWALL_REJECT]
    ),
    Cause.REFUSED: _Outside(
        "node_gone",
        "the machine was stopped or has another port: its address answers, nothing listens at TARGET",
        CONSOLE,
    ),
    Cause.CLOSED_BEFORE_BANNER: _Outside(
        "node_gone", "the machine behind TARGET is stopped or overloaded: the port closes at once", CONSOLE
    ),
    Cause.RESET_BEFORE_BANNER: _Outside(
        "node_gone", "the machine behind TARGET is stopped: the connection is reset before its sshd speaks", CONSOLE
    ),
    Cause.BANNER_TIMED_OUT: _Outside(
        "node_stuck", "the machine is stuck or overloaded: TARGET takes connections and says nothing", CONSOLE
    ),
    Cause.DEADLINE: _Outside("node_stuck", "the machine is stuck or overloaded: its sshd hangs", CONSOLE),
    Cause.NOT_SSH: _Outside(
        "port_reused", "its port was given to something else: what answers at TARGET is no sshd", CONSOLE
    ),
    Cause.NAME_RESOLUTION: _Outside(
        "name_gone", "its name is wrong or gone: TARGET cannot be resolved", REMEDIES[Cause.NAME_RESOLUTION]
    ),
}
"""Each only the likeliest reading: from outside, what is off and what is cut off look alike."""


def _outside(facts: Facts, ladder: Ladder) -> Why:
    cause = ladder.cause
    ours = [problem for problem in facts.problems if problem.cause is cause and problem.explains(ladder.at_ms)]
    target = str(facts.reach.target or "its address")
    if cause is Cause.HOST_KEY_CHANGED and facts.reach.cause is cause:
        way = fallback_cause(facts)
        return Why(state="port_reused", cause=way.cause, remedy=way.remedy, certain=way.certain)
    if (known := OUTSIDE.get(cause)) is not None and not ours:
        return Why(
            state=known.state,
            cause=f"probably {known.words.replace('TARGET', target)}",
            remedy=known.remedy.replace("NODE", facts.called),
            certain=False,
        )
    if ours:
        words = f"{ours[0].sentence}, since {facts.at(ours[0].since_ms)}"
        return Why(
            state="lost",
            cause=f"{UNKNOWN}: this hub cannot look, for a fault of its own: {words}",
            remedy=ours[0].remedy,
            certain=False,
        )
    if cause in AUTHENTICATION and facts.reach.cause is cause:
        way = fallback_cause(facts)
        at = f", {broken}" if (broken := _broken(ladder)) else ""
        return Why(
            state="lost",
            cause=f"{UNKNOWN}: ssh does not let the hub in to look{at}: {facts.reach.why_broken}; {way.cause}",
            remedy=way.remedy,
            certain=False,
        )
    whose = "this hub's own ssh failed" if cause in OURS | NO_WORD else "ssh came no further"
    at = f" than {broken}" if (broken := _broken(ladder)) else ""
    return Why(
        state="lost",
        cause=f"{UNKNOWN}: {whose}{at}: {cause.value.replace('_', ' ')}",
        remedy=REMEDIES[cause],
        certain=False,
    )
