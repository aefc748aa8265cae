"""Installs the hub's key at nodes and looks why it is not taken: preview, exactly that, then a fresh login as proof.

Nothing here touches anything of a node but one authorized_keys file and the modes of the folders it lies in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import Struct

from hub.clock import Clock
from hub.registry import Registry
from hub.ssh import identity
from hub.ssh.book import Asked
from hub.ssh.charts import Charts
from hub.ssh.desk import NoWayIn, SshDesk
from hub.ssh.doctor import Chart, Unreadable, examine
from hub.ssh.install import Installed, Plan, Way, diff, mendable, write_of
from hub.ssh.record import Record
from hub.ssh.scripts import read_keys, sections
from hub.ssh.streams import shown
from hub.ssh.symptoms import Symptom
from hub.ssh.targets import USER_DEFAULT
from wire.frames import Capability, KeyInstalled

log = structlog.get_logger(__name__)

SESSION_S = 20.0
"""For an agent to answer; it waits for its disk."""
AT_ONCE_MAX = 4
"""Nodes worked on at the same time, once the canary is through."""
PATH_CHARS_MAX = 1024


class KeyRefused(ValueError):
    """A key of this side cannot be used, or there is none; the sentence says why."""


class NotLookedAt(Exception):
    """The file at the node could not be read; the sentence says why, ``record`` is the attempt."""

    def __init__(self, sentence: str, record: Record) -> None:
        super().__init__(sentence)
        self.record = record


class Messenger(Protocol):
    """Who reaches agents over their sessions: `hub.sessions.Sessions`."""

    async def install_key(self, agent_id: str, *, user: str, public_key: str, within_s: float) -> KeyInstalled | None:
        """Have an agent let a key in; None: it has no session, or does not answer in time."""


class OwnKey(Struct, frozen=True):
    """A key the hub offers."""

    path: Path
    public: str
    """``type body comment``."""
    fingerprint: str


class KeyDesk:
    """Plans and does installations."""

    def __init__(self, *, ssh: SshDesk, clock: Clock, registry: Registry, messenger: Messenger) -> None:
        self.ssh = ssh
        self._clock = clock
        self._registry = registry
        self._messenger = messenger
        self.charts = Charts()

    # --- this side

    async def own_keys(self) -> list[OwnKey]:
        """The keys the hub offers now, the first of which is installed.

        Raises:
            KeyRefused: none of them can be used.
        """
        looked = await asyncio.to_thread(lambda: [identity.look(path) for path in self.ssh.way.identities])
        keys = [await asyncio.to_thread(own_key, each) for each in looked if each.usable]
        if not keys:
            why = "; ".join(each.detail for each in looked) or "ssh_identities names none"
            raise KeyRefused(f"the hub has no key to install: {why}")
        return keys

    # --- looking

    async def look(self, node_id: str, asked: Asked, *, via_key: Path | None = None, via_user: str = "") -> Chart:
        """Read a node's authorized_keys and everything around it, and say what is wrong.

        Args:
            node_id: where.
            asked: by whom.
            via_key: another key of the operator's, where the hub's own does not get in.
            via_user: who logs in there, where the target's own user may not.

        Raises:
            NotLookedAt: the login failed, or what came back is not whole.
            NoWayIn: the node has no target.
            KeyRefused: ``via_key`` cannot be used, or the hub has no key.
        """
        keys = await self.own_keys()
        chart = await self._look(node_id, keys, asked, via_key, via_user, path="")
        if chart.reads:
            chart = await self._look(node_id, keys, asked, via_key, via_user, path=chart.reads)
        self.charts.note(node_id, chart, self._clock.time_ms())
        return chart

    async def _look(
        self, node_id: str, keys: Sequence[OwnKey], asked: Asked, via_key: Path | None, via_user: str, *, path: str
    ) -> Chart:
        record = await self.ssh.run(
            node_id,
            "doctor",
            read_keys(path, self._whose(node_id, via_user)),
            asked_by=asked.by,
            asked_from=asked.from_,
            fresh=True,
            via_key=via_key,
            via_user=via_user,
        )
        if not record.ok:
            raise NotLookedAt(record.why, record)
        try:
            found = sections(record.stdout.decode("utf-8", "surrogateescape"))
            # In a thread: what a node says may be large, and is its own choice.
            return await asyncio.to_thread(examine, found, [key.public for key in keys], self._clock.time_ms() / 1000)
        except Unreadable as error:
            raise NotLookedAt(str(error), record) from error

    # --- installing at one node

    async def plan(
        self, node_id: str, asked: Asked, *, via_key: Path | None = None, via_user: str = "", mend: bool = False
    ) -> Plan:
        """What an installation would do. Reads, and changes nothing.

        The ways in, in their order: the hub's own key, if it gets in there is nothing to install; the live session;
        another key; the console.

        Raises:
            KeyRefused: a key of this side cannot be used.
            NotLookedAt: the other key does not get in.
        """
        keys = await self.own_keys()
        public, passed_over = keys[0].public, []
        if via_key is not None:
            await asyncio.to_thread(checked_key, via_key)
        try:
            chart = await self.look(node_id, asked)
        except NotLookedAt as error:
            passed_over.append(f"the hub's own key: {error}")
        except NoWayIn:
            passed_over.append("the hub's own key: the node has no target")
        else:
            return self._plan_by(Way.OWN, node_id, chart, public, passed_over, None, "", mend=mend)
        why_not = self._no_session(node_id, mend=mend)
        if not why_not:
            who = self._user(node_id)
            return Plan(node_id=node_id, way=Way.SESSION, public=public, passed_over=tuple(passed_over), user=who)
        passed_over.append(f"the live session: {why_not}")
        if via_key is None or self.ssh.target(node_id) is None:
            passed_over.append(
                "another key: none was named (--via-key FILE)" if via_key is None else "another key: no target"
            )
            return Plan(
                node_id=node_id,
                way=Way.CONSOLE,
                public=public,
                passed_over=tuple(passed_over),
                user=self._user(node_id),
            )
        chart = await self.look(node_id, asked, via_key=via_key, via_user=via_user)
        return self._plan_by(Way.VIA_KEY, node_id, chart, public, passed_over, via_key, via_user, mend=mend)

    def _plan_by(
        self,
        way: Way,
        node_id: str,
        chart: Chart,
        public: str,
        passed_over: Sequence[str],
        via_key: Path | None,
        via_user: str,
        *,
        mend: bool,
    ) -> Plan:
        write = write_of(chart, public, user=self._whose(node_id, via_user), mend=mend)
        there = " ".join(public.split()[:2]) in chart.lets_in
        if there and write.text == chart.text and not (mend and mendable(chart.symptoms)):
            way = Way.NOTHING
        return Plan(
            node_id=node_id,
            way=way,
            public=public,
            passed_over=tuple(passed_over),
            user=chart.place.user,
            via_key=via_key,
            via_user=via_user,
            write=None if way is Way.NOTHING else write,
            diff="" if way is Way.NOTHING else diff(chart.place.path, chart.text, write.text),
            symptoms=chart.symptoms,
        )

    def _no_session(self, node_id: str, *, mend: bool) -> str:
        """Why the live session is no way; empty where it is one."""
        node = self._registry.node(node_id)
        if node is None or not node.connected:
            return "the node is not connected"
        if Capability.KEY_INSTALL not in node.capabilities:
            return "the node's own configuration does not allow it (--allow-key-install)"
        return "the agent only appends, and the file is to be mended" if mend else ""

    def _whose(self, node_id: str, via_user: str) -> str:
        """Whose file is meant, where somebody else than the target's user logs in."""
        target = self.ssh.target(node_id)
        return target.user if via_user and target is not None and target.user != via_user else ""

    def _user(self, node_id: str) -> str:
        target = self.ssh.target(node_id)
        said = self.ssh.readiness(node_id).suggested
        return target.user if target is not None else said.target.user if said is not None else USER_DEFAULT

    async def apply(self, plan: Plan, asked: Asked, *, proof_key: Path | None = None) -> Installed:
        """Do what was shown, and prove it by a login that uses no connection that stands.

        Args:
            plan: the preview.
            asked: by whom.
            proof_key: the key the login has to work with; the hub's own if left out.
        """
        backup, attempts = "", []
        match plan.way:
            case Way.CONSOLE:
                sentence = "run the line at the provider's console as that user; then prove it with this command again"
                return await self._told(plan, asked, ok=False, sentence=sentence)
            case Way.SESSION:
                said = await self._messenger.install_key(
                    plan.node_id, user=plan.user, public_key=plan.public, within_s=SESSION_S
                )
                if said is None or not said.ok:
                    why = "the agent did not answer in time" if said is None else f"the agent says: {said.detail}"
                    return await self._told(plan, asked, ok=False, sentence=why)
            case Way.OWN | Way.VIA_KEY if plan.write is not None:
                record = await self.ssh.run(
                    plan.node_id,
                    "install key",
                    plan.write.script,
                    asked_by=asked.by,
                    asked_from=asked.from_,
                    stdin=plan.write.stdin,
                    via_key=plan.via_key,
                    via_user=plan.via_user,
                )
                attempts.append(record.id)
                if not record.ok:
                    return await self._told(plan, asked, ok=False, sentence=record.why, attempts=attempts)
                backup = _backup(record)
        return await self._prove(plan, asked, backup, attempts, proof_key)

    async def _prove(
        self, plan: Plan, asked: Asked, backup: str, attempts: list[str], proof_key: Path | None
    ) -> Installed:
        if self.ssh.target(plan.node_id) is None:
            sentence = "the key was installed; it is proved once the node has a target (`provewire ssh-target`)"
            return await self._told(plan, asked, ok=False, sentence=sentence, backup=backup, attempts=attempts)
        proof = await self.ssh.run(
            plan.node_id,
            "prove key",
            ":",
            asked_by=asked.by,
            asked_from=asked.from_,
            fresh=True,
            via_key=proof_key,
        )
        attempts.append(proof.id)
        if proof.ok:
            sentence = "a fresh login with the hub's key worked"
            return await self._told(plan, asked, ok=True, sentence=sentence, backup=backup, attempts=attempts)
        symptoms: tuple[Symptom, ...] = ()
        if plan.via_key is not None:
            try:
                chart = await self.look(plan.node_id, asked, via_key=plan.via_key, via_user=plan.via_user)
                symptoms = chart.symptoms
            except NotLookedAt as error:
                log.warning("the doctor could not look", node=plan.node_id, error=str(error))
        return await self._told(
            plan,
            asked,
            ok=False,
            sentence=f"the login with the hub's key does not work: {proof.why}",
            backup=backup,
            attempts=attempts,
            symptoms=symptoms,
        )

    async def _told(
        self,
        plan: Plan,
        asked: Asked,
        *,
        ok: bool,
        sentence: str,
        backup: str = "",
        attempts: Sequence[str] = (),
        symptoms: tuple[Symptom, ...] = (),
    ) -> Installed:
        """The outcome, kept with the node: who did what, before and after."""
        write = plan.write
        what = "" if write is None else f" {write.path} from {write.sum_before[:12]} to {write.sum_after[:12]};"
        kept = f" {backup} is as it was;" if backup else ""
        await self.ssh.book.note(
            plan.node_id,
            "ssh.key_install",
            f"{asked}: by {plan.way.value};{what}{kept} {sentence}",
            "info" if ok else "warning",
        )
        return Installed(
            node_id=plan.node_id,
            ok=ok,
            way=plan.way,
            sentence=sentence,
            backup=backup,
            attempts=tuple(attempts),
            symptoms=symptoms,
        )

    # --- at many

    async def apply_all(self, plans: Sequence[Plan], asked: Asked) -> list[Installed]:
        """One canary first; its failure stops the rest. Then a few at the same time."""
        waiting = [plan for plan in plans if plan.way is not Way.CONSOLE]
        by_hand = [await self.apply(plan, asked) for plan in plans if plan.way is Way.CONSOLE]
        return [*await with_canary(waiting, lambda plan: self.apply(plan, asked)), *by_hand]


async def with_canary(plans: Sequence[Plan], do: Callable[[Plan], Awaitable[Installed]]) -> list[Installed]:
    """Do the first that changes something alone; if it fails, the rest is left as it is, and said so."""
    order = sorted(plans, key=lambda plan: plan.way is Way.NOTHING)
    if not order:
        return []
    canary, *rest = order
    first = await do(canary)
    if not first.ok:
        why = f"left alone: the canary, {canary.node_id}, failed"
        return [first, *(Installed(node_id=plan.node_id, ok=False, way=plan.way, sentence=why) for plan in rest)]
    places = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(plan: Plan) -> Installed:
        async with places:
            return await do(plan)

    return [first, *await asyncio.gather(*map(one, rest))]


def own_key(looked: identity.Identity) -> OwnKey:
    """A usable identity, with the comment that stands beside it."""
    comment = ""
    try:
        words = looked.path.with_name(looked.path.name + ".pub").read_text("ascii", "replace").split(None, 2)
        if " ".join(words[:2]) == looked.public and len(words) > 2 and words[2].strip().isprintable():  # noqa: PLR2004 - type, body, comment
            comment = words[2].strip()
    except OSError:
        comment = ""
    return OwnKey(looked.path, f"{looked.public} {comment or 'provewire-hub'}", looked.fingerprint)


def checked_key(path: Path) -> identity.Identity:
    """Another key of the operator's, if ssh will take it.

    Raises:
        KeyRefused: it will not; the sentence says why.
    """
    text = str(path)
    if not path.is_absolute() or len(text) > PATH_CHARS_MAX or not text.isprintable() or '"' in text:
        raise KeyRefused(f"--via-key {text!r} must be the whole path of a private key on the hub's machine")
    looked = identity.look(path)
    if not looked.usable:
        raise KeyRefused(f"--via-key: {looked.detail}")
    return looked


def _backup(record: Record) -> str:
    lines = shown(record.stdout).splitlines()
    return next((line for line in lines if "/authorized_keys.before-provewire-" in line), "")
