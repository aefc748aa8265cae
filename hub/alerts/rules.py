"""The rules of alerts as declared, and what operators may change of them; pure.

Thresholds come in pairs: at ``bad`` and beyond it is bad, back beyond ``clear`` it is good, between them it stays as it
was. A rule without thresholds looks at a state. Times are seconds for which it has to be bad until an alert fires, and
good until it resolves.
"""

import math
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType

from hub.alerts.facts import Condition, Rule, Severity

HOLD_S_MAX = 86_400.0


class Limits(Struct, frozen=True, kw_only=True):
    """How one rule is applied now."""

    severity: Severity
    hold_s: float
    resolve_s: float
    bad: float | None = None
    clear: float | None = None
    enabled: bool = True


class Declared(Struct, frozen=True, kw_only=True):
    """One rule."""

    limits: Limits
    unit: str = ""
    """Of the thresholds."""
    about: str
    many: str
    """A headline about several subjects, after their number."""
    remedy: str
    low_is_bad: bool = False
    """Of the thresholds: a remaining time, not a level."""
    follows_cause: bool = False
    """Another cause is another alert: the fault of a card, the reason of a refused login."""


def _limits(
    severity: Severity, hold_s: float, resolve_s: float, bad: float | None = None, clear: float | None = None
) -> Limits:
    return Limits(severity=severity, hold_s=hold_s, resolve_s=resolve_s, bad=bad, clear=clear)


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING

RULES: Mapping[Rule, Declared] = {
    Rule.NODE_LOST: Declared(
        limits=_limits(_CRITICAL, 0, 30),
        about="nothing was heard of a node for lost_after_s, the hub's own troubles and its start excepted",
        many="nodes are lost",
        remedy="See what the hub found by ssh (`provewire probe NODE`); then `provewire recover NODE` or the provider.",
    ),
    Rule.FALLBACK_BROKEN: Declared(
        limits=_limits(_WARNING, 0, 60),
        about="the last login by ssh failed: the way in will not work when it is needed",
        many="nodes do not let the hub in by ssh",
        remedy="`provewire ssh-key doctor NODE` says why; `provewire incidents` what many have in common.",
        follows_cause=True,
    ),
    Rule.GPU_FAULT: Declared(
        limits=_limits(_CRITICAL, 15, 120),
        about="a card is lost, hung, degraded or gone, its driver does not fit, or the CPU proves in its place",
        many="nodes have a faulty card",
        remedy="docs/gpu.md has each state with its remedy; a lost card comes back by a reset or a reboot only.",
        follows_cause=True,
    ),
    Rule.GPU_TEMPERATURE: Declared(
        limits=_limits(_WARNING, 120, 300, bad=90, clear=85),
        unit="°C",
        about="the hottest card of a node is too hot",
        many="nodes have a card that is too hot",
        remedy="Look at fans and air; a lower power limit helps at once (`nvidia-smi -pl`).",
    ),
    Rule.GPU_THROTTLING: Declared(
        limits=_limits(_WARNING, 300, 300),
        about="a card slows itself down: heat, or the hardware's own brake; a power limit in force does not count",
        many="nodes have a card that slows itself down",
        remedy="Look at cooling and power supply; docs/gpu.md explains the reasons.",
    ),
    Rule.JOB_FAILING: Declared(
        limits=_limits(_CRITICAL, 0, 60, bad=1, clear=1),
        unit="failed jobs of a circuit within an hour, none done since",
        about="jobs of a circuit fail for good",
        many="circuits have jobs that fail",
        remedy="The job's page has the whole error: code 2 and 3 are the files', 4 the witness or key, 5 the card.",
    ),
    Rule.QUEUE_AGE: Declared(
        limits=_limits(_WARNING, 30, 60, bad=900, clear=600),
        unit="s",
        about="the oldest job that no node has taken waits too long",
        many="queues are old",
        remedy="See whether any node proves (`provewire nodes`): add nodes, or end a drain.",
    ),
    Rule.OUTBOX_GROWING: Declared(
        limits=_limits(_WARNING, 300, 120, bad=5000, clear=1000),
        unit="events",
        about="a node that is heard holds many events unacknowledged, and they do not become fewer",
        many="nodes cannot hand over their events",
        remedy="See whether the hub's store keeps up (queue `store_writes` of /metrics), and the node's quota.",
    ),
    Rule.CLOCK_SKEW: Declared(
        limits=_limits(_WARNING, 60, 60, bad=30, clear=20),
        unit="s",
        about="a node's clock differs from the hub's",
        many="nodes have another time than the hub",
        remedy="Set the clock by NTP (`timedatectl`); if most nodes differ alike, it is the hub's.",
    ),
    Rule.DUPLICATE_IDENTITY: Declared(
        limits=_limits(_CRITICAL, 0, 300, bad=600, clear=600),
        unit="s since the last refusal",
        low_is_bad=True,
        about="two machines use one node's key; one of them was refused",
        many="nodes exist twice",
        remedy="One of the two is a copy: stop its agent, remove its data directory, enrol it anew.",
    ),
    Rule.DISK_FORECAST: Declared(
        limits=_limits(_WARNING, 1800, 1800, bad=24, clear=36),
        unit="hours until full",
        low_is_bad=True,
        about="a node's disk fills up, if it goes on as in the last six hours",
        many="nodes have a disk that fills up",
        remedy="Remove keys and logs that are not needed, or take a larger disk.",
    ),
    Rule.HUB_STORE: Declared(
        limits=_limits(_CRITICAL, 30, 60),
        about="the hub's store cannot be written or read, or less than 1 GiB is free for it",
        many="stores are in trouble",
        remedy="The hub's log has the database's own words; most often the disk is full. Nodes keep their events.",
    ),
    Rule.HUB_DISK: Declared(
        limits=_limits(_WARNING, 3600, 1800, bad=48, clear=72),
        unit="hours until full",
        low_is_bad=True,
        about="the disk under the hub's data fills up, if its store grows on as in the last hour",
        many="disks of the hub fill up",
        remedy="Lower the keep_* settings (docs/settings.md), or give the hub a larger disk.",
    ),
    Rule.HUB_LAG: Declared(
        limits=_limits(_WARNING, 60, 120, bad=1.0, clear=0.25),
        unit="s",
        about="the hub's own loop runs late: what it says of nodes is late as well",
        many="loops run late",
        remedy="See what else takes this machine's processor; docs/performance.md says what a hub needs.",
    ),
    Rule.HUB_OVERLOAD: Declared(
        limits=_limits(_WARNING, 60, 120, bad=0.8, clear=0.5),
        unit="of the bound",
        about="a queue of the hub is nearly full",
        many="queues of the hub are nearly full",
        remedy="/metrics has each queue and its bound; docs/performance.md says what a hub can take.",
    ),
    Rule.HUB_SELFCHECK: Declared(
        limits=_limits(_WARNING, 0, 60),
        about="the hub found something wrong with its own side of the ways in by ssh",
        many="things are wrong with the hub's own side",
        remedy="`provewire incidents` has each with what to do.",
    ),
    Rule.NOTICE_UNDELIVERED: Declared(
        limits=_limits(_WARNING, 600, 0),
        about="notices to a channel came to nothing",
        many="channels do not take notices",
        remedy="The channel's last failure is on the page of alerts; mend its address, then send a test.",
    ),
}
"""Every rule."""


class Change(Struct, frozen=True, kw_only=True):
    """What an operator changes of a rule; unset fields stay as they are."""

    enabled: bool | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    hold_s: float | UnsetType = UNSET
    resolve_s: float | UnsetType = UNSET
    bad: float | UnsetType = UNSET
    clear: float | UnsetType = UNSET


def changed(rule: Rule, before: Limits, change: Change) -> Limits:
    """The limits with a change.

    Raises:
        ValueError: it makes no sense; the sentence says why.
    """
    given = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
    after = msgspec.structs.replace(before, **given)
    for name in ("hold_s", "resolve_s"):
        if not 0 <= getattr(after, name) <= HOLD_S_MAX:  # false for NaN, too
            raise ValueError(f"{name} must be 0 to {HOLD_S_MAX:g}")
    declared = RULES[rule].limits
    if declared.bad is None or declared.clear is None:
        if after.bad is not None or after.clear is not None:
            raise ValueError(f"{rule.value} looks at a state; it has no thresholds")
        return after
    if after.bad is None or after.clear is None or not (math.isfinite(after.bad) and math.isfinite(after.clear)):
        raise ValueError("bad and clear must be finite numbers")
    low_is_bad = RULES[rule].low_is_bad
    if after.bad != after.clear and (after.bad < after.clear) != low_is_bad:
        raise ValueError(f"clear must be {'above' if low_is_bad else 'below'} bad, or the same")
    return after


def judged(rule: Rule, limits: Limits, value: float | None) -> Condition:
    """A level against the rule's two thresholds."""
    if value is None or limits.bad is None or limits.clear is None:
        return Condition.HOLD
    sign = -1 if RULES[rule].low_is_bad else 1
    if value * sign >= limits.bad * sign:
        return Condition.BAD
    return Condition.HOLD if value * sign > limits.clear * sign else Condition.GOOD
