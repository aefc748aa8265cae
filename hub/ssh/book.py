"""The ways in to all nodes, in memory as in the store; and the file of known host keys, which is written from them.

A change is committed, with who made it, before it holds; then known_hosts is written anew where host keys changed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from hub.clock import Clock
from hub.ids import uuid7
from hub.ssh import pins
from hub.ssh.reach import Basis, Reach, Source, Suggestion
from hub.ssh.record import Record
from hub.ssh.targets import Target, TargetRefused
from hub.ssh.targets import target as checked
from hub.store.base import Store
from hub.store.records import HubEvent

log = structlog.get_logger(__name__)

ALIAS_PREFIX = "provewire-"
"""Before a node's id, in known_hosts."""

Change = Callable[[Reach], Reach]


class Asked(Struct, frozen=True):
    """Who wants something."""

    by: str
    """``hub`` for the hub itself, else the operator."""
    from_: str = ""
    """The address they came from."""

    def __str__(self) -> str:
        return f"{self.by} from {self.from_}" if self.from_ else self.by


HUB = Asked("hub")


def alias(node_id: str) -> str:
    """By which known_hosts knows a node, whatever its address is now."""
    return f"{ALIAS_PREFIX}{node_id}"


class Book:
    """Every node's way in."""

    def __init__(self, *, clock: Clock, store: Store, known_hosts: Path, changed: Callable[[str], None]) -> None:
        self._clock = clock
        self._store = store
        self._known_hosts = known_hosts
        self._changed = changed
        """Told of a node whose way in changed."""
        self._reaches: dict[str, Reach] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._writing = asyncio.Lock()
        self._written: list[tuple[str, Sequence[str]]] = []
        """What known_hosts was last written from."""

    async def load(self) -> None:
        """Take over what the store holds."""
        self._reaches = {reach.node_id: _rechecked(reach) for reach in await self._store.ssh_targets()}

    def reach(self, node_id: str) -> Reach:
        """A node's way in; one without a target if nothing is known."""
        return self._reaches.get(node_id) or Reach(node_id=node_id)

    def reaches(self) -> list[Reach]:
        """All of which anything is known, revoked nodes' too."""
        return list(self._reaches.values())

    def pins(self) -> list[tuple[str, Sequence[str]]]:
        """Every pinned host key, by the name known_hosts has for it."""
        found: list[tuple[str, Sequence[str]]] = []
        for reach in self._reaches.values():
            if reach.host_keys:
                found.append((alias(reach.node_id), reach.host_keys))
            found += reach.jump_keys.items()
        return found

    # --- what operators change

    async def set_target(
        self, node_id: str, target: Target | None, asked: Asked, source: Source = Source.OPERATOR
    ) -> Reach:
        """Another target, or none: then there is no way in."""
        now_ms = self._clock.time_ms()

        def change(reach: Reach) -> Reach:
            return reach.with_target(target, source, now_ms)

        return await self._change(node_id, change, asked, "ssh.target", lambda r: str(r.target or "none"))

    async def pin(self, node_id: str, keys: Sequence[str], asked: Asked, source: Source = Source.OPERATOR) -> Reach:
        """Pin these host keys, in place of those before; none: no key is known, and no login possible."""
        wanted, now_ms = tuple(dict.fromkeys(keys)), self._clock.time_ms()

        def change(reach: Reach) -> Reach:
            return reach.with_host_keys(wanted, source, now_ms)

        return await self._change(node_id, change, asked, "ssh.host_keys", lambda r: ", ".join(r.host_keys) or "none")

    async def pin_jump(self, node_id: str, jump: Target, keys: Sequence[str], asked: Asked) -> Reach:
        """Pin the host keys of a host to jump over."""
        name, now_ms = jump.known_host, self._clock.time_ms()

        def change(reach: Reach) -> Reach:
            return reach.with_jump_keys(name, tuple(dict.fromkeys(keys)), now_ms)

        def shown(reach: Reach) -> str:
            return f"{name} {', '.join(reach.jump_keys.get(name, ())) or 'none'}"

        return await self._change(node_id, change, asked, "ssh.jump_keys", shown)

    async def forget(self, node_id: str, asked: Asked) -> Reach:
        """No target and no pinned host keys any more; what the node suggests stays."""
        now_ms = self._clock.time_ms()

        def change(reach: Reach) -> Reach:
            return Reach(node_id=node_id, suggested=reach.suggested, basis=reach.basis, changed_at_ms=now_ms)

        return await self._change(node_id, change, asked, "ssh.removed", _whole)

    async def accept(self, node_id: str, asked: Asked, *, target: bool = True, host_keys: bool = False) -> Reach:
        """Take over what the node suggests: its address, or also its host keys in place of those pinned.

        Raises:
            LookupError: it suggests nothing.
        """
        if self.reach(node_id).suggested is None:
            raise LookupError("the node suggests no way in")
        now_ms = self._clock.time_ms()

        def change(reach: Reach) -> Reach:
            said = reach.suggested
            if said is None:
                return reach
            if target:
                reach = reach.with_target(said.target, Source.NODE, now_ms)
            if said.host_keys and (host_keys or not reach.host_keys):
                reach = reach.with_host_keys(said.host_keys, Source.NODE, now_ms)
            return reach

        return await self._change(node_id, change, asked, "ssh.accepted", _whole)

    # --- what nodes and attempts say

    async def suggested(self, node_id: str, said: Suggestion, *, accept: bool) -> Reach:
        """What a node says of its sshd in its authenticated hello.

        Its host keys are pinned when there are none. Its address is taken over only with ``accept``, and never in place
        of an operator's.
        """
        now_ms = self._clock.time_ms()

        def change(reach: Reach) -> Reach:
            reach = msgspec.structs.replace(reach, suggested=said)
            if said.host_keys and not reach.host_keys:
                reach = reach.with_host_keys(said.host_keys, Source.NODE, now_ms)
            if accept and (reach.target is None or reach.source is Source.NODE):
                reach = reach.with_target(said.target, Source.NODE, now_ms)
            return reach

        if change(self.reach(node_id)) == self.reach(node_id):
            return self.reach(node_id)
        return await self._change(node_id, change, Asked("node"), "ssh.suggested", _whole)

    async def attempted(self, gone: Reach, records: Sequence[Record], basis: Basis | None) -> Reach:
        """Keep the tries of one attempt, which went the way ``gone``.

        Args:
            gone: the way as it was when the attempt began; what was changed since is left as it is.
            records: the tries.
            basis: what it was made with; None where it proves or breaks nothing: by another key than the hub's.
        """
        async with self._lock(gone.node_id):
            before = self.reach(gone.node_id)
            last = records[-1]
            after = before
            if basis is not None and (before.target, before.host_keys) == (gone.target, gone.host_keys):
                if not last.way_works:
                    after = before.broken(last.started_at_ms, last.cause, last.evidence)
                elif last.fresh:
                    after = before.proved(last.started_at_ms, basis)
            event = None
            if (after.state, after.cause) != (before.state, before.cause):
                level = "info" if last.way_works else "error"
                said = f"{after.sentence(last.started_at_ms)}; {last.purpose}, asked for by {last.origin.asked_by}"
                event = self._event(gone.node_id, f"ssh.{after.state.value}", said, level)
            await self._store.add_ssh_attempts(records, after if after is not before else None, event)
            self._reaches[gone.node_id] = after
        if event is not None:
            self._changed(gone.node_id)
        return after

    async def _change(
        self, node_id: str, change: Change, asked: Asked, kind: str, shown: Callable[[Reach], str]
    ) -> Reach:
        """Commit a change with who made it; a change that changes nothing is none."""
        async with self._lock(node_id):
            before = self.reach(node_id)
            after = change(before)
            if after == before:
                return before
            detail = f"{asked}: {shown(before)} before, {shown(after)} now"
            await self._store.save_ssh_target(after, self._event(node_id, kind, detail))
            self._reaches[node_id] = after
        log.info("a way in was changed", node=node_id, kind=kind, detail=detail)
        if (before.host_keys, before.jump_keys) != (after.host_keys, after.jump_keys):
            await self.write_known_hosts()
        self._changed(node_id)
        return after

    async def note(self, node_id: str, kind: str, detail: str, level: str = "info") -> None:
        """Keep with a node what was done there."""
        await self._store.add_hub_event(self._event(node_id, kind, detail, level))
        log.info("done at a node", node=node_id, kind=kind, detail=detail)

    def _lock(self, node_id: str) -> asyncio.Lock:
        return self._locks.setdefault(node_id, asyncio.Lock())

    def _event(self, node_id: str, kind: str, detail: str, level: str = "info") -> HubEvent:
        now_ms = self._clock.time_ms()
        return HubEvent(id=uuid7(now_ms), agent_id=node_id, time_ms=now_ms, kind=kind, level=level, detail=detail)

    async def write_known_hosts(self) -> None:
        """Write the file from what is pinned. If that fails, the hub's look at itself tells it and tries again."""
        async with self._writing:
            self._written = self.pins()
            try:
                await asyncio.to_thread(pins.write, self._known_hosts, self._written)
            except OSError as error:
                log.warning("known_hosts cannot be written", path=str(self._known_hosts), error=str(error))

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[list[tuple[str, Sequence[str]]]]:
        """While nobody writes known_hosts: what should be in it. A pin just made is no change by others."""
        async with self._writing:
            yield self._written


def _whole(reach: Reach) -> str:
    said = reach.suggested
    suggests = "" if said is None else f", suggests {said.target} with {len(said.host_keys)} host keys"
    keys = ", ".join(reach.host_keys) or "no host keys"
    return f"{reach.target or 'no target'} with {keys}{suggests}"


def _rechecked(reach: Reach) -> Reach:
    """A stored target becomes arguments again: it is held to the same rules as a new one."""
    try:
        good = reach.target is None or _target(reach.target) == reach.target
        good_said = reach.suggested is None or _target(reach.suggested.target) == reach.suggested.target
    except TargetRefused as error:
        log.error("a stored target is none and is not used", node=reach.node_id, error=str(error))  # noqa: TRY400 - no fault of ours
        good = good_said = False
    if not good:
        reach = msgspec.structs.replace(reach, target=None)
    return reach if good_said else msgspec.structs.replace(reach, suggested=None)


def _target(found: Target) -> Target:
    return checked(found.host, found.port, found.user, tuple(_target(jump) for jump in found.jumps))
