"""Whether the hub may restart a dead agent unasked, and which one next; pure.

Off unless the operator names labels. Never two at once, never more than so many an hour, and after a quiet hour the
first one is a canary: until its node is back nobody else is touched, and if it does not come back, nobody is until the
operator has looked.
"""

from collections.abc import Sequence

from msgspec import Struct

HOUR_MS = 3_600_000
CANARY_MS = 5 * 60_000
"""For a canary's node to come back."""
EVERYBODY = "*"


class Rule(Struct, frozen=True):
    """What the operator allows."""

    labels: tuple[tuple[str, str], ...] = ()
    """Nodes with any of these labels; none: the policy is off."""
    everybody: bool = False
    per_hour: int = 4

    def covers(self, labels: dict[str, str]) -> bool:
        """Whether a node with these labels is among them."""
        return self.everybody or any(labels.get(name) == value for name, value in self.labels)


class Suspect(Struct, frozen=True, kw_only=True):
    """A node that is lost, whose shell answers, and whose agent does not run."""

    node_id: str
    labels: dict[str, str]
    since_ms: int


class Done(Struct, frozen=True, kw_only=True):
    """A restart the hub made unasked."""

    node_id: str
    at_ms: int
    ok: bool
    """The restart itself worked."""
    back: bool
    """The node has been back since."""


class Decision(Struct, frozen=True):
    """Whom to restart now, if anybody, and why nobody else."""

    node_id: str | None
    reason: str


def rule(text: str, per_hour: int) -> Rule:
    """From the settings: ``pool=a,pool=b``, ``*`` for every node, nothing for none.

    Raises:
        ValueError: a part is neither.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if EVERYBODY in parts:
        return Rule(everybody=True, per_hour=per_hour)
    labels = []
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} is no label: write name=value, or * for every node")
        labels.append((name.strip(), value.strip()))
    return Rule(tuple(labels), per_hour=per_hour)


def decide(allowed: Rule, suspects: Sequence[Suspect], done: Sequence[Done], now_ms: int) -> Decision:
    """Whom to restart next.

    Args:
        allowed: the operator's rule.
        suspects: who may need it.
        done: what was done before, in any order.
        now_ms: Unix time.
    """
    if not allowed.labels and not allowed.everybody:
        return Decision(None, "the policy is off")
    recent = sorted((item for item in done if now_ms - item.at_ms < HOUR_MS), key=lambda item: item.at_ms)
    if recent:
        canary = recent[0]
        if not canary.back:
            if canary.ok and now_ms - canary.at_ms < CANARY_MS:
                return Decision(None, f"waiting for the canary {canary.node_id} to come back")
            return Decision(
                None, f"the canary {canary.node_id} did not come back: nobody else is restarted for an hour"
            )
        if len(recent) >= allowed.per_hour:
            return Decision(None, f"{len(recent)} restarts within an hour: no more are allowed")
    tried = {item.node_id for item in recent}
    wanted = [item for item in suspects if allowed.covers(item.labels) and item.node_id not in tried]
    if not wanted:
        return Decision(None, "nobody needs it")
    first = min(wanted, key=lambda item: (item.since_ms, item.node_id))
    return Decision(first.node_id, "next" if recent else "canary")
