"""Helps a node back: restart its agent, fetch its logs, have it enrol anew, upgrade it. Preview, then exactly that.

Provers are listed before and after and compared: no recovery touches one. Every recovery is kept with the node, as what
was done, by whom, and what came of it.
"""

import asyncio
import base64
import hashlib
import re
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from hub.registry import Registry
from hub.ssh import recovery_scripts
from hub.ssh.book import Asked
from hub.ssh.desk import SshDesk
from hub.ssh.record import Record
from hub.ssh.scripts import sections
from hub.ssh.streams import shown

DEADLINE_S = 90.0
UPGRADE_S = 540.0
WHEEL_BYTES_MAX = 64 * 1024 * 1024
WHEEL = re.compile(r"provewire-([0-9][0-9A-Za-z.+!]*)-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+\.whl")
PROVERS = frozenset({"worker", "cuzk"})
GONE = "Z"
"""The state of a process that has ended and waits to be read."""
OUTPUT_CHARS_MAX = 256 * 1024
SENTENCE_CHARS_MAX = 600


class Action(StrEnum):
    """What can be done."""

    RESTART_AGENT = "restart-agent"
    FETCH_LOGS = "fetch-logs"
    RE_ENROL = "re-enrol"
    UPGRADE = "upgrade"


class RecoveryRefused(ValueError):
    """It would be wrong, or cannot be done as asked; the sentence says why. Nothing was done."""


class RecoveryPlan(Struct, frozen=True, kw_only=True):
    """What a recovery would do: shown, then done exactly so."""

    node_id: str
    action: Action
    script: str
    effects: tuple[str, ...]
    """What it means, a sentence each."""
    stdin: str = ""
    """What the script reads, in words: it may be a secret, or large."""
    via_key: Path | None = None
    via_user: str = ""
    wheel: Path | None = None
    wheel_sha256: str = ""


class Process(Struct, frozen=True):
    """A process of ours at a node."""

    pid: int
    state: str
    """One letter, as ``ps`` has it."""
    kind: str
    """``agent``, ``supervise``, ``worker`` or ``cuzk``."""
    command: str


class Recovered(Struct, frozen=True, kw_only=True):
    """What came of a recovery."""

    node_id: str
    action: Action
    ok: bool
    sentence: str
    attempt: str
    """The record's id."""
    before: tuple[Process, ...] = ()
    after: tuple[Process, ...] = ()
    provers_lost: tuple[Process, ...] = ()
    """Provers that were there before and are not any more: none, or something is very wrong."""
    output: str = ""
    """What the script printed beside the lists of processes, safe to show."""


def processes(section: str) -> tuple[Process, ...]:
    """The processes a script listed."""
    found = []
    for line in section.splitlines():
        words = line.split(None, 3)
        if len(words) > 2 and words[0].isascii() and words[0].isdigit():  # noqa: PLR2004 - number, state, kind
            found.append(Process(int(words[0]), words[1], words[2], words[3] if len(words) > 3 else ""))  # noqa: PLR2004 - the rest
    return tuple(found)


def lost(before: tuple[Process, ...], after: tuple[Process, ...]) -> tuple[Process, ...]:
    """The provers that lived before and do not live any more."""
    alive = {(process.pid, process.kind) for process in after if process.state != GONE}
    return tuple(
        process
        for process in before
        if process.kind in PROVERS and process.state != GONE and (process.pid, process.kind) not in alive
    )


def wheel_version(path: Path) -> str:
    """The version a wheel's name says.

    Raises:
        RecoveryRefused: it is no wheel of ours.
    """
    found = WHEEL.fullmatch(path.name)
    if found is None:
        raise RecoveryRefused(
            f"{path.name!r} is no wheel of provewire; build one with `pip wheel --no-deps .` and name that file"
        )
    return found[1]


class Recovery:
    """Plans recoveries and does them."""

    def __init__(self, *, ssh: SshDesk, registry: Registry) -> None:
        self._ssh = ssh
        self._registry = registry

    async def plan(
        self,
        node_id: str,
        action: Action,
        *,
        via_key: Path | None = None,
        via_user: str = "",
        wheel: Path | None = None,
    ) -> RecoveryPlan:
        """What would be done. Nothing is asked of the node.

        Args:
            node_id: where.
            action: what.
            via_key: another key of the operator's, where the hub's own does not get in.
            via_user: who logs in there, where the target's own user may not do it.
            wheel: for `Action.UPGRADE`.

        Raises:
            RecoveryRefused: it would be wrong, or something is missing.
        """
        if self._ssh.target(node_id) is None:
            raise RecoveryRefused("the node has no way in: set one with `provewire ssh-target set`")
        plan = await self._plan(node_id, action, wheel)
        return msgspec.structs.replace(plan, via_key=via_key, via_user=via_user)

    async def _plan(self, node_id: str, action: Action, wheel: Path | None) -> RecoveryPlan:
        match action:
            case Action.RESTART_AGENT:
                return RecoveryPlan(
                    node_id=node_id,
                    action=action,
                    script=recovery_scripts.RESTART_AGENT,
                    effects=(
                        "The agent is restarted by its systemd unit, or by `provewire supervise`.",
                        "Where that was killed too, it is started as it wrote down: by supervise-agent.sh in its home.",
                        "Workers and cuzk are left alone and listed before and after; a running proof goes on.",
                    ),
                )
            case Action.FETCH_LOGS:
                return RecoveryPlan(
                    node_id=node_id,
                    action=action,
                    script=recovery_scripts.fetch_logs(),
                    effects=("Reads the newest lines of the agent's, workers' and unit's logs; changes nothing.",),
                )
            case Action.RE_ENROL:
                return self._re_enrolment(node_id)
            case Action.UPGRADE:
                return await self._upgrade(node_id, wheel)

    def _re_enrolment(self, node_id: str) -> RecoveryPlan:
        node = self._registry.node(node_id)
        if node is not None and node.connected:
            raise RecoveryRefused("the node is connected: enrolling it anew would only make it another node")
        return RecoveryPlan(
            node_id=node_id,
            action=Action.RE_ENROL,
            script=recovery_scripts.RE_ENROL,
            effects=(
                "The node becomes a new one with another id; its old identity is kept beside as *.before-provewire-*.",
                "Its present job, if it has one, is proved to its end, and counted to nobody: it goes to another node.",
                "What it has not told yet, logs and events, it tells as the new node.",
                "Revoke the old node when the new one is here, and set the new one's target.",
            ),
            stdin="a new enrolment token for one node, made when this is confirmed; never shown and in no command line",
        )

    async def _upgrade(self, node_id: str, wheel: Path | None) -> RecoveryPlan:
        if wheel is None or not wheel.is_absolute():
            raise RecoveryRefused("an upgrade needs --wheel FILE: the whole path of a wheel on the hub's machine")
        version = wheel_version(wheel)
        digest = hashlib.sha256(await asyncio.to_thread(_wheel, wheel)).hexdigest()
        return RecoveryPlan(
            node_id=node_id,
            action=Action.UPGRADE,
            script=recovery_scripts.upgrade(wheel.name, digest, version),
            effects=(
                f"pip installs provewire {version} into the Python that runs the agent; then the agent is restarted.",
                "Workers go on with the version they run, and a running proof with them, until they are started anew.",
            ),
            stdin=f"{wheel} (SHA-256 {digest})",
            wheel=wheel,
            wheel_sha256=digest,
        )

    async def apply(self, plan: RecoveryPlan, asked: Asked, *, token: str = "") -> Recovered:
        """Do what was shown.

        Args:
            plan: the preview.
            asked: by whom.
            token: a fresh enrolment token, for `Action.RE_ENROL`.

        Raises:
            RecoveryRefused: what was shown is not there any more.
        """
        stdin = b""
        if plan.action is Action.RE_ENROL:
            self._re_enrolment(plan.node_id)  # it may have come back meanwhile
            stdin = f"{token}\n".encode()
        elif plan.wheel is not None:
            data = await asyncio.to_thread(_wheel, plan.wheel)
            if hashlib.sha256(data).hexdigest() != plan.wheel_sha256:
                raise RecoveryRefused(f"{plan.wheel} is not the file any more that was shown; make a new preview")
            stdin = base64.b64encode(data)
        record = await self._ssh.run(
            plan.node_id,
            plan.action.value,
            plan.script,
            deadline_s=UPGRADE_S if plan.action is Action.UPGRADE else DEADLINE_S,
            asked_by=asked.by,
            asked_from=asked.from_,
            stdin=stdin,
            via_key=plan.via_key,
            via_user=plan.via_user,
        )
        result = _result(plan, record)
        level = "info" if result.ok and not result.provers_lost else "warning"
        detail = f"{asked}: {result.sentence}"
        if result.provers_lost:
            detail += f"; provers lost: {', '.join(str(process.pid) for process in result.provers_lost)}"
        await self._ssh.book.note(plan.node_id, f"ssh.{plan.action.value}", detail, level)
        return result


def _wheel(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(WHEEL_BYTES_MAX + 1)
    except OSError as error:
        raise RecoveryRefused(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > WHEEL_BYTES_MAX:
        raise RecoveryRefused(f"{path} has more than {WHEEL_BYTES_MAX} bytes")
    return data


def _result(plan: RecoveryPlan, record: Record) -> Recovered:
    text = shown(record.stdout)
    found = sections(text)
    before, after = processes(found.get("before", "")), processes(found.get("after", ""))
    said = [found[name] for name in ("enrol", "upgrade", "restart", "logs") if found.get(name)]
    gone = lost(before, after) if "after" in found else ()
    if not record.way_works:
        sentence = record.why
    elif plan.action is Action.FETCH_LOGS:
        sentence = "the logs were read"
    else:
        last = [line for part in said for line in part.splitlines()][-1:]
        sentence = last[0] if last else record.remedy
    return Recovered(
        node_id=plan.node_id,
        action=plan.action,
        ok=record.ok and not gone,
        sentence=sentence[:SENTENCE_CHARS_MAX],
        attempt=record.id,
        before=before,
        after=after,
        provers_lost=gone,
        output="\n".join(said)[-OUTPUT_CHARS_MAX:],
    )
