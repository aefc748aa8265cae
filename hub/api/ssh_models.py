"""Bodies of the REST interface about SSH, and how records become them."""

import base64
from typing import Annotated

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from hub import ports
from hub.api.fallback import FallbackView, fallback_view
from hub.api.models import Request, UnixMs
from hub.registry import Node
from hub.ssh.identity import fingerprint
from hub.ssh.importing import Form, Step
from hub.ssh.pins import KEY_CHARS_MAX, KEYS_MAX
from hub.ssh.record import Record
from hub.ssh.streams import shown
from hub.ssh.targets import TEXT_CHARS_MAX
from wire.jobs import Uuid

COMMAND_CHARS_MAX = 32 * 1024
IMPORT_CHARS_MAX = 512 * 1024
DEADLINE_S_MAX = 600

TargetText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TEXT_CHARS_MAX,
        description="ssh -p PORT user@host, user@host:port or ssh://user@host:port; of options only -p, -l and -J",
    ),
]
HostKeyText = Annotated[str, Meta(max_length=KEY_CHARS_MAX, description="ssh-ed25519 AAAA...")]
HostKeyTexts = Annotated[list[HostKeyText], Meta(max_length=KEYS_MAX)]
AskedBy = Annotated[str, Meta(max_length=64, description="who asks, kept beside the credential's kind")]


class SshTargetRequest(Request, frozen=True):
    """Where a node's sshd is."""

    target: TargetText
    host_keys: (
        Annotated[HostKeyTexts, Meta(description="pinned in place of those before; left out: they stay")] | UnsetType
    ) = UNSET
    asked_by: AskedBy = ""


class SshHostKeysRequest(Request, frozen=True):
    """Host keys to pin in place of those before; none: no login is possible."""

    host_keys: HostKeyTexts
    jump: Annotated[
        str, Meta(max_length=TEXT_CHARS_MAX, description="a host to jump over, user@host:port; else the node")
    ] = ""
    asked_by: AskedBy = ""


class SshAcceptRequest(Request, frozen=True):
    """Take over what the node suggests."""

    target: bool = True
    host_keys: Annotated[bool, Meta(description="also its host keys, in place of those pinned")] = False
    asked_by: AskedBy = ""


class SshRunRequest(Request, frozen=True):
    """Try the way in: a probe by name, or with the admin token a command."""

    probe: Annotated[str, Meta(description="login, or look: everything the node can say of itself")] = "login"
    command: Annotated[
        str, Meta(max_length=COMMAND_CHARS_MAX, description="for a POSIX shell, in place of a probe")
    ] = ""
    deadline_s: Annotated[float, Meta(gt=0, le=DEADLINE_S_MAX)] | UnsetType = UNSET
    asked_by: AskedBy = ""


class SshImportRequest(Request, frozen=True):
    """Targets of many nodes."""

    text: Annotated[str, Meta(max_length=IMPORT_CHARS_MAX)]
    form: Form = Form.AUTO
    dry_run: Annotated[bool, Meta(description="only tell what would change")] = True
    asked_by: AskedBy = ""


class HostKeyView(Struct, frozen=True):
    """A pinned host key."""

    key: str
    fingerprint: str


class SshSuggestionView(Struct, frozen=True):
    """What the node says of its sshd."""

    target: str
    host_keys: list[HostKeyView]
    key_install: Annotated[bool, Meta(description="its own configuration lets the hub install a key over the session")]


class SshView(Struct, frozen=True, kw_only=True):
    """A node's way in."""

    node: Uuid
    name: str
    fallback: FallbackView
    target: str | None
    source: Annotated[str | None, Meta(description="operator, node, import")]
    host_keys: list[HostKeyView]
    pinned_by: Annotated[str | None, Meta(description="operator, node, import")]
    jump_keys: dict[str, list[HostKeyView]]
    suggested: SshSuggestionView | None
    host_keys_differ: Annotated[bool, Meta(description="the node says other host keys than those pinned")]
    evidence: Annotated[str, Meta(description="the line of ssh that decided the cause")]
    changed_at_ms: UnixMs | None
    tried_at_ms: UnixMs | None
    proved_at_ms: UnixMs | None
    broken_since_ms: UnixMs | None


class SshTargets(Struct, frozen=True):
    """One page of ways in, by node id."""

    targets: list[SshView]
    next: str | None


class SshOriginView(Struct, frozen=True):
    """From where an attempt was made, to make it again by hand."""

    host: str
    user: str
    pid: int
    version: Annotated[str, Meta(description="of the hub")]
    ssh_version: str
    fingerprints: Annotated[list[str], Meta(description="of the keys the hub had to offer")]
    asked_by: str
    asked_from: str


class SshAttemptView(Struct, frozen=True, kw_only=True):
    """One try to reach a node. Texts of others are made harmless for terminals; the raw bytes stand beside them."""

    id: Uuid
    node: Uuid
    node_name: str
    target: str
    purpose: str
    started_at_ms: UnixMs
    duration_s: float
    ok: bool
    way_works: Annotated[bool, Meta(description="the login worked, whatever became of the command")]
    fresh: Annotated[bool, Meta(description="a login of its own; false: through a connection that stood already")]
    cause: str
    evidence: str
    remedy: str
    exit_code: Annotated[int | None, Meta(description="of ssh")]
    signal: int | None
    remote_exit_code: Annotated[int | None, Meta(description="of the command at the node")]
    stderr: str
    stderr_bytes: Annotated[int, Meta(description="as much as came, kept or not")]
    stdout: str
    stdout_bytes: int
    before: Annotated[str, Meta(description="what the login printed before the command began")]
    differs: Annotated[list[str], Meta(description="what differs from the last login that worked")]
    verbose: Annotated[str, Meta(description="which keys were offered and what became of each")]
    retry_of: str | None
    note: str
    command: Annotated[str, Meta(description="what was run, ready to paste on the host and as the user of origin")]
    login: Annotated[str, Meta(description="the same without what it ran at the node")]
    origin: SshOriginView
    stderr_base64: Annotated[str, Meta(description="as it came; only where one attempt is asked for")] | UnsetType = (
        UNSET
    )
    stdout_base64: str | UnsetType = UNSET


class SshAttempts(Struct, frozen=True):
    """One page of a node's attempts, newest first; of their stderr the first 16 KiB, and no stdout."""

    attempts: list[SshAttemptView]
    next: str | None


class SshImportStep(Struct, frozen=True):
    """One entry of an import."""

    line: int
    node: str
    node_id: Uuid | None
    outcome: Annotated[str, Meta(description="new, changed, same, refused")]
    before: str | None
    target: str | None
    detail: str


class SshImported(Struct, frozen=True):
    """What an import changes, or would change."""

    dry_run: bool
    counts: dict[str, int]
    steps: list[SshImportStep]


def ssh_view(app: web.Application, node: Node) -> SshView:
    """A node's way in, from memory."""
    reach = app[ports.SSH].readiness(node.id)
    said = reach.suggested
    return SshView(
        node=node.id,
        name=node.name,
        fallback=fallback_view(app, node),
        target=None if reach.target is None else str(reach.target),
        source=None if reach.target is None else reach.source.value,
        host_keys=_keys(reach.host_keys),
        pinned_by=None if reach.pinned_by is None else reach.pinned_by.value,
        jump_keys={name: _keys(keys) for name, keys in reach.jump_keys.items()},
        suggested=None
        if said is None
        else SshSuggestionView(str(said.target), _keys(said.host_keys), said.key_install),
        host_keys_differ=reach.host_keys_differ,
        evidence=shown(reach.evidence.encode()),
        changed_at_ms=reach.changed_at_ms or None,
        tried_at_ms=reach.tried_at_ms,
        proved_at_ms=reach.proved_at_ms,
        broken_since_ms=reach.broken_since_ms,
    )


def _keys(keys: tuple[str, ...]) -> list[HostKeyView]:
    return [HostKeyView(key, fingerprint(key)) for key in keys]


def attempt_view(record: Record, node_name: str, *, whole: bool = False) -> SshAttemptView:
    """A try as it is told."""
    origin = record.origin
    return SshAttemptView(
        id=record.id,
        node=record.node_id,
        node_name=node_name,
        target=record.target,
        purpose=record.purpose,
        started_at_ms=record.started_at_ms,
        duration_s=round(record.duration_s, 3),
        ok=record.ok,
        way_works=record.way_works,
        fresh=record.fresh,
        cause=record.cause.value,
        evidence=shown(record.evidence.encode()),
        remedy=record.remedy,
        exit_code=record.exit_code,
        signal=record.signal,
        remote_exit_code=record.remote_exit_code,
        stderr=shown(record.stderr),
        stderr_bytes=record.stderr_bytes,
        stdout=shown(record.stdout),
        stdout_bytes=record.stdout_bytes,
        before=shown(record.before),
        differs=list(record.differs),
        verbose=record.verbose,
        retry_of=record.retry_of or None,
        note=record.note,
        command=record.pasteable,
        login=record.login_pasteable,
        origin=SshOriginView(
            host=origin.host,
            user=origin.user,
            pid=origin.pid,
            version=origin.version,
            ssh_version=origin.ssh_version,
            fingerprints=list(origin.fingerprints),
            asked_by=origin.asked_by,
            asked_from=origin.asked_from,
        ),
        stderr_base64=base64.b64encode(record.stderr).decode("ascii") if whole else UNSET,
        stdout_base64=base64.b64encode(record.stdout).decode("ascii") if whole else UNSET,
    )


def step_view(step: Step) -> SshImportStep:
    """One entry of an import."""
    return SshImportStep(
        line=step.line,
        node=step.node,
        node_id=step.node_id or None,
        outcome=step.outcome.value,
        before=None if step.before is None else str(step.before),
        target=None if step.target is None else str(step.target),
        detail=step.detail,
    )
