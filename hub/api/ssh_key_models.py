"""Bodies of the REST interface about the hub's key and about recoveries, and how plans and outcomes become them."""

from typing import Annotated

from msgspec import Meta, Struct

from hub.api.models import Request, UnixMs
from hub.api.ssh_models import AskedBy
from hub.ssh.doctor import Chart
from hub.ssh.install import Installed, Plan
from hub.ssh.keys import OwnKey
from hub.ssh.recovery import Process, Recovered, RecoveryPlan
from hub.ssh.rotating import Progress
from hub.ssh.scripts import console_line
from hub.ssh.streams import shown
from hub.ssh.symptoms import Symptom
from hub.ssh.targets import USER_CHARS_MAX
from wire.jobs import Uuid

PATH_CHARS_MAX = 1024
NODES_MAX = 10_000

KeyPath = Annotated[
    str,
    Meta(max_length=PATH_CHARS_MAX, description="another private key, by its whole path on the hub's machine"),
]
UserName = Annotated[
    str, Meta(max_length=USER_CHARS_MAX, description="who logs in with that key, where the target's own user may not")
]
Token = Annotated[str, Meta(min_length=1, max_length=64, description="of the preview that is confirmed")]


class SshDoctorRequest(Request, frozen=True):
    """By what way to look."""

    via_key: KeyPath = ""
    via_user: UserName = ""
    asked_by: AskedBy = ""


class SshInstallRequest(Request, frozen=True):
    """What to preview."""

    via_key: KeyPath = ""
    via_user: UserName = ""
    mend: Annotated[bool, Meta(description="also put right what is wrong with other lines of the file")] = False
    nodes: Annotated[
        list[Annotated[str, Meta(max_length=128)]],
        Meta(max_length=NODES_MAX, description="ids; none: every node"),
    ] = []  # noqa: RUF012 - msgspec copies it
    asked_by: AskedBy = ""


class SshConfirmRequest(Request, frozen=True):
    """Do what the preview of this token showed, once."""

    token: Token
    asked_by: AskedBy = ""


class RecoveryRequest(Request, frozen=True):
    """What to preview."""

    action: Annotated[str, Meta(max_length=32, description="restart-agent, fetch-logs, re-enrol, upgrade, install-key")]
    via_key: KeyPath = ""
    via_user: UserName = ""
    wheel: Annotated[
        str, Meta(max_length=PATH_CHARS_MAX, description="for upgrade: a wheel, by its whole path on the hub's machine")
    ] = ""
    mend: Annotated[bool, Meta(description="for install-key, as there")] = False
    asked_by: AskedBy = ""


class SymptomView(Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    kind: str
    what: str
    where: str
    repair: Annotated[str, Meta(description="the exact change")]
    installer: Annotated[bool, Meta(description="installing the key makes it, after a preview")]
    blocks: Annotated[bool, Meta(description="it alone keeps the hub out")]
    evidence: str


class SshChart(Struct, frozen=True, kw_only=True):
    """What the doctor found."""

    node: Uuid
    path: str
    user: str
    seen_from: Annotated[str, Meta(description="the hub's address as the node sees it")]
    key_there: Annotated[bool, Meta(description="the hub's key stands on a readable line that does not shut it out")]
    healthy: Annotated[bool, Meta(description="nothing was found that keeps the hub out")]
    symptoms: list[SymptomView]


class SshKeyView(Struct, frozen=True):
    """A key the hub offers; never the private half."""

    path: str
    public: str
    fingerprint: str


class RotationStation(Struct, frozen=True, kw_only=True):
    """How far a rotation is at one node."""

    node: Uuid
    new_proved: bool
    old_removed: bool
    detail: str


class RotationView(Struct, frozen=True, kw_only=True):
    """How far a rotation is."""

    started_at_ms: UnixMs
    asked_by: str
    old_fingerprint: str
    new_fingerprint: str
    retired_at_ms: Annotated[int | None, Meta(description="when the new key took the old one's place at the hub")]
    retired_to: str
    done: bool
    nodes: list[RotationStation]


class SshKeysView(Struct, frozen=True, kw_only=True):
    """The hub's keys."""

    keys: list[SshKeyView]
    console_line: Annotated[str, Meta(description="lets the first key in, run by hand at a node")]
    rotation: RotationView | None
    without_way: list[Uuid]


class SshInstallPlan(Struct, frozen=True, kw_only=True):
    """What would be done at one node."""

    node: Uuid
    way: Annotated[str, Meta(description="nothing, own, session, via_key or console")]
    user: str
    passed_over: list[str]
    commands: Annotated[list[str], Meta(description="exactly what is run")]
    diff: str
    symptoms: list[SymptomView]


class SshInstallPreview(Struct, frozen=True, kw_only=True):
    """What would be done; confirm it by its token."""

    token: str
    plans: list[SshInstallPlan]
    not_looked_at: Annotated[dict[str, str], Meta(description="nodes whose file could not be read, and why")]


class SshInstalled(Struct, frozen=True, kw_only=True):
    """What came of it at one node."""

    node: Uuid
    ok: Annotated[bool, Meta(description="a fresh login with the hub's key worked")]
    way: str
    sentence: str
    backup: str
    attempts: list[Uuid]
    symptoms: list[SymptomView]


class SshInstalledAll(Struct, frozen=True):
    """What came of it."""

    installed: list[SshInstalled]


class RotationPreview(Struct, frozen=True, kw_only=True):
    """What a rotation would do; confirm it by its token."""

    token: str
    steps: list[str]
    nodes: int
    without_way: list[Uuid]


class RecoveryPreview(Struct, frozen=True, kw_only=True):
    """What a recovery would do; confirm it by its token."""

    token: str
    node: Uuid
    action: str
    effects: list[str]
    commands: list[str]
    by_hand: Annotated[bool, Meta(description="the hub cannot do it: the commands are for the provider's console")]
    stdin: str
    diff: str


class ProcessView(Struct, frozen=True):
    """A process of ours at a node."""

    pid: int
    state: str
    kind: str
    command: str


class RecoveredView(Struct, frozen=True, kw_only=True):
    """What came of a recovery."""

    node: Uuid
    action: str
    ok: bool
    sentence: str
    attempts: list[Uuid]
    before: list[ProcessView]
    after: list[ProcessView]
    provers_lost: list[ProcessView]
    output: str


def symptom_view(symptom: Symptom) -> SymptomView:
    """Its texts come from the node: made safe to show."""
    return SymptomView(
        kind=symptom.kind.value,
        what=_safe(symptom.what),
        where=_safe(symptom.where),
        repair=_safe(symptom.repair),
        installer=symptom.installer,
        blocks=symptom.blocks,
        evidence=_safe(symptom.evidence),
    )


def chart_view(node_id: str, chart: Chart) -> SshChart:
    """What the doctor found."""
    return SshChart(
        node=node_id,
        path=_safe(chart.place.path),
        user=_safe(chart.place.user),
        seen_from=_safe(chart.place.seen_from),
        key_there=bool(chart.lets_in),
        healthy=chart.healthy,
        symptoms=[symptom_view(symptom) for symptom in chart.symptoms],
    )


def plan_view(plan: Plan) -> SshInstallPlan:
    """One node's plan."""
    return SshInstallPlan(
        node=plan.node_id,
        way=plan.way.value,
        user=_safe(plan.user),
        passed_over=[_safe(why) for why in plan.passed_over],
        commands=[_safe(command) for command in plan.commands],
        diff=_safe(plan.diff),
        symptoms=[symptom_view(symptom) for symptom in plan.symptoms],
    )


def installed_view(made: Installed) -> SshInstalled:
    """One node's outcome."""
    return SshInstalled(
        node=made.node_id,
        ok=made.ok,
        way=made.way.value,
        sentence=_safe(made.sentence),
        backup=_safe(made.backup),
        attempts=list(made.attempts),
        symptoms=[symptom_view(symptom) for symptom in made.symptoms],
    )


def keys_view(keys: list[OwnKey], progress: Progress) -> SshKeysView:
    """The keys and how far a rotation is."""
    return SshKeysView(
        keys=[SshKeyView(str(key.path), key.public, key.fingerprint) for key in keys],
        console_line=console_line(keys[0].public) if keys else "",
        rotation=rotation_view(progress),
        without_way=list(progress.without_way),
    )


def rotation_view(progress: Progress) -> RotationView | None:
    """How far a rotation is; None if there never was one."""
    rotation = progress.rotation
    if rotation is None:
        return None
    stations = [
        RotationStation(
            node=node_id,
            new_proved=station.proved_at_ms is not None,
            old_removed=station.removed_at_ms is not None,
            detail=_safe(station.detail),
        )
        for node_id, station in sorted(rotation.nodes.items())
    ]
    return RotationView(
        started_at_ms=rotation.started_at_ms,
        asked_by=rotation.asked_by,
        old_fingerprint=rotation.old_fingerprint,
        new_fingerprint=rotation.new_fingerprint,
        retired_at_ms=rotation.retired_at_ms,
        retired_to=rotation.retired_to,
        done=progress.done,
        nodes=stations,
    )


def recovery_preview(token: str, plan: RecoveryPlan) -> RecoveryPreview:
    """What would be done."""
    return RecoveryPreview(
        token=token,
        node=plan.node_id,
        action=plan.action.value,
        effects=list(plan.effects),
        commands=[plan.script],
        by_hand=False,
        stdin=plan.stdin,
        diff="",
    )


def recovered_view(done: Recovered) -> RecoveredView:
    """What came of it."""
    return RecoveredView(
        node=done.node_id,
        action=done.action.value,
        ok=done.ok,
        sentence=done.sentence,
        attempts=[done.attempt],
        before=[_process(process) for process in done.before],
        after=[_process(process) for process in done.after],
        provers_lost=[_process(process) for process in done.provers_lost],
        output=done.output,
    )


def _process(process: Process) -> ProcessView:
    return ProcessView(process.pid, process.state, process.kind, process.command)


def _safe(text: str) -> str:
    """Text that may be a node's, as a page or terminal may show it."""
    return shown(text.encode("utf-8", "surrogateescape"))
