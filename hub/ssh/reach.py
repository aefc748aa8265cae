"""What is known of the way in to one node: where, which host keys, by whose word, and whether it was proved; pure."""

from datetime import UTC, datetime
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from hub.ssh.cause import Cause
from hub.ssh.streams import shown
from hub.ssh.targets import Target

MINUTE_MS = 60_000
DAY_MS = 24 * 3_600_000
WHY_CHARS_MAX = 200
"""Of ssh's own words in a node's sentence: it goes to every viewer."""
NO_WAY_IN = "no way in"
NEVER_PROVED = "no login has succeeded before"


class Source(StrEnum):
    """Whose word a target or a host key is."""

    OPERATOR = "operator"
    NODE = "node"
    """Suggested by the node in its authenticated hello."""
    IMPORT = "import"


class State(StrEnum):
    """Whether the way was gone."""

    UNPROVED = "unproved"
    PROVED = "proved"
    BROKEN = "broken"


class Suggestion(Struct, frozen=True, kw_only=True):
    """What the node itself last said of its sshd."""

    target: Target
    host_keys: tuple[str, ...] = ()
    key_install: bool = False
    """Its own configuration lets the hub install a key over the session."""


class Basis(Struct, frozen=True, kw_only=True):
    """What a login was made with: compared with the next one's when that fails."""

    target: str
    host_keys: tuple[str, ...]
    fingerprints: tuple[str, ...]
    """Of the keys the hub had to offer."""
    ssh_version: str
    version: str
    """Of the hub."""
    host: str
    user: str
    pid: int


class Reach(Struct, frozen=True, kw_only=True):
    """One node's way in. Times are Unix milliseconds."""

    node_id: str
    target: Target | None = None
    """Where its sshd is; None while nobody said so, or nobody accepted what the node suggests."""
    source: Source = Source.OPERATOR
    """Whose word the target is."""
    host_keys: tuple[str, ...] = ()
    """Pinned: ``type base64`` each."""
    pinned_by: Source | None = None
    jump_keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Pinned host keys of the hosts to jump over, by the name known_hosts has for them."""
    suggested: Suggestion | None = None
    changed_at_ms: int = 0
    """When target or host keys last changed."""
    tried_at_ms: int | None = None
    """When a login was last tried."""
    state: State = State.UNPROVED
    proved_at_ms: int | None = None
    """The last login that worked, of whatever state now."""
    broken_since_ms: int | None = None
    """The first failure by this cause without a success since."""
    cause: Cause = Cause.OK
    evidence: str = ""
    """The line of ssh that decided the cause."""
    basis: Basis | None = None
    """Of the last login that worked."""

    @property
    def accepted(self) -> bool:
        """Whether there is a target the hub may use."""
        return self.target is not None

    @property
    def host_keys_differ(self) -> bool:
        """Whether the node says other host keys than those pinned: told to the operator, never taken over silently."""
        said = self.suggested
        return (
            said is not None
            and bool(said.host_keys and self.host_keys)
            and not (set(said.host_keys) & set(self.host_keys))
        )

    @property
    def why_broken(self) -> str:
        """In ssh's own words where it had any, without the name it puts in front."""
        if not self.evidence:
            return self.cause.value.replace("_", " ")
        head, colon, rest = self.evidence.partition(": ")
        words = rest if colon and self.target is not None and head.endswith(f"@{self.target.host}") else self.evidence
        said = shown(words.strip().removesuffix(".").encode())
        return said if len(said) <= WHY_CHARS_MAX else f"{said[:WHY_CHARS_MAX]}..."

    def sentence(self, now_ms: int) -> str:
        """How the fallback is, in one short line."""
        if self.target is None:
            return NO_WAY_IN
        if self.state is State.BROKEN:
            return f"fallback broken: {self.why_broken}"
        if self.state is State.PROVED and self.proved_at_ms is not None:
            return f"fallback proved {moment(self.proved_at_ms, now_ms)}"
        return "fallback unproved"

    # --- what changes it

    def with_target(self, target: Target | None, source: Source, now_ms: int) -> "Reach":
        """Another way in: nothing is proved of it."""
        if target == self.target:
            return msgspec.structs.replace(self, source=source)
        return msgspec.structs.replace(self, target=target, source=source, **_anew(now_ms))

    def with_host_keys(self, keys: tuple[str, ...], by: Source, now_ms: int) -> "Reach":
        """Other pinned host keys."""
        if keys == self.host_keys:
            return msgspec.structs.replace(self, pinned_by=by if keys else None)
        return msgspec.structs.replace(self, host_keys=keys, pinned_by=by if keys else None, **_anew(now_ms))

    def with_jump_keys(self, known_host: str, keys: tuple[str, ...], now_ms: int) -> "Reach":
        """Other pinned host keys of a host to jump over."""
        others = {name: kept for name, kept in self.jump_keys.items() if name != known_host}
        return msgspec.structs.replace(self, jump_keys=others | ({known_host: keys} if keys else {}), **_anew(now_ms))

    def proved(self, at_ms: int, basis: Basis) -> "Reach":
        """A login worked."""
        return msgspec.structs.replace(
            self,
            state=State.PROVED,
            tried_at_ms=at_ms,
            proved_at_ms=at_ms,
            broken_since_ms=None,
            cause=Cause.OK,
            evidence="",
            basis=basis,
        )

    def broken(self, at_ms: int, cause: Cause, evidence: str) -> "Reach":
        """A login failed. While it goes on failing alike, it is broken since the first time."""
        alike = self.state is State.BROKEN and self.cause is cause and self.broken_since_ms is not None
        return msgspec.structs.replace(
            self,
            state=State.BROKEN,
            tried_at_ms=at_ms,
            broken_since_ms=self.broken_since_ms if alike else at_ms,
            cause=cause,
            evidence=evidence,
        )


def _anew(now_ms: int) -> dict[str, object]:
    return {
        "changed_at_ms": now_ms,
        "state": State.UNPROVED,
        "broken_since_ms": None,
        "cause": Cause.OK,
        "evidence": "",
    }


def moment(at_ms: int, now_ms: int) -> str:
    """The hub's local time, with the date unless it is less than a day ago."""
    local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return f"{local:%H:%M}" if 0 <= now_ms - at_ms < DAY_MS else f"{local:%Y-%m-%d %H:%M}"


def differences(before: Basis | None, now: Basis) -> tuple[str, ...]:
    """What differs from the last login that worked, a line each; nothing differs: none."""
    if before is None:
        return (NEVER_PROVED,)
    compared = (
        ("target", before.target, now.target),
        ("pinned host keys", _keys(before.host_keys), _keys(now.host_keys)),
        ("the hub's key", _list(before.fingerprints), _list(now.fingerprints)),
        ("ssh", before.ssh_version, now.ssh_version),
        ("hub's version", before.version, now.version),
        ("hub's host", before.host, now.host),
        ("hub's user", before.user, now.user),
        ("hub's process (restarted)", str(before.pid), str(now.pid)),
    )
    return tuple(f"{what}: {old} then, {new} now" for what, old, new in compared if old != new)


def _keys(keys: tuple[str, ...]) -> str:
    """Host keys, short enough to be compared by eye."""
    return _list(tuple(f"{kind} ...{body[-16:]}" for kind, _, body in (key.partition(" ") for key in sorted(keys))))


def _list(items: tuple[str, ...]) -> str:
    return ", ".join(items) or "none"
