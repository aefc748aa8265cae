"""What is wrong at every node and since when, kept up to date: for the banner, and for the words `since 14:02`.

Everything is made from memory by `hub.sentence`; here it is only done in time: at once where a node's state changed,
every few seconds for the nodes that said something new, and every minute for all: time alone may be trouble.
"""

import asyncio
import itertools

import structlog
from aiohttp import web

from hub import ports
from hub.api.node_facts import facts_of
from hub.api.sentences import LightsView, SentenceView, lights_view, sentence_view
from hub.banner import Ailing, Line, banner
from hub.bus import IncidentsChanged, NodeChanged, NodeGone, Resync, SshAttempted
from hub.facts import Facts, Severity, Trouble, slot
from hub.registry import Node
from hub.sentence import all_troubles, lights, sentence
from hub.ssh.answers import Answer, fingerprint_sent, who
from hub.ssh.cause import Cause
from hub.store.base import StoreError
from wire.picture import Picture

log = structlog.get_logger(__name__)

SWEEP_S = 5.0
"""Between two looks at all nodes that said something new."""
ALL_EVERY = 12
"""With so many of these looks one at all nodes: the mere passing of time is seen within a minute."""
GATHER_S = 0.3
"""Between two banners: what comes at once is one change."""
NODES_AT_ONCE = 20
"""Looked at before others get their turn on the loop."""

KINDS = (NodeChanged, NodeGone, SshAttempted, IncidentsChanged)


class Ailments:
    """Of the whole fleet."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._ailing: dict[str, Ailing] = {}
        self._since: dict[str, dict[str, int | None]] = {}
        """None of what was there when this hub first looked."""
        self._answers: dict[str, Answer] = {}
        """Who answers where another host key does than the pinned one."""
        self._seen: dict[str, tuple[object, int]] = {}
        """Each node's picture, and its changes, when it was last looked at in turn."""
        self._dirty = asyncio.Event()
        self.lines: list[Line] = []
        """The banner as last told."""

    def since(self, node_id: str) -> dict[str, int]:
        """Since when each of a node's troubles has lasted; without those that were there before this hub was."""
        return {name: at_ms for name, at_ms in self._since.get(node_id, {}).items() if at_ms is not None}

    async def run(self) -> None:
        """Follow the bus until it closes."""
        with self._app[ports.BUS].subscribe(kinds=KINDS) as subscription:
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(self._sweeps()), tasks.create_task(self._tell())]
                while messages := await subscription.take():
                    for message in messages:
                        match message:
                            case NodeChanged(node=node, of_state=True):
                                self.look(node)
                            case SshAttempted(agent_id=agent_id, attempt=attempt):
                                await self._attempted(agent_id, attempt)
                            case NodeGone(agent_id=agent_id):
                                self._forget(agent_id)
                            case IncidentsChanged() | Resync():
                                self._dirty.set()
                for helper in helpers:
                    helper.cancel()

    def facts(self, node: Node) -> Facts:
        """What is known of a node now."""
        return facts_of(self._app, node, since=self.since(node.id), answer=self._answers.get(node.id))

    def look(self, node: Node) -> None:
        """Look at one node anew; whoever looks on is told of what only the time, or this look, has changed."""
        facts = self.facts(node)
        found = all_troubles(facts)
        if self._remember(node.id, found, heard=facts.heard, now_ms=facts.now_ms):
            found = all_troubles(self.facts(node))
        ailing = tuple(trouble for trouble in found if trouble.severity > Severity.INFO)
        now = Ailing(node.name, ailing) if ailing else None
        if now == self._ailing.get(node.id):
            return
        if now is None:
            del self._ailing[node.id]
        else:
            self._ailing[node.id] = now
        self._dirty.set()
        self._app[ports.BUS].publish(NodeChanged(node, jobs=False))

    async def _attempted(self, node_id: str, attempt: str) -> None:
        """See who answered, where it was not the node."""
        if self._app[ports.SSH].readiness(node_id).cause is not Cause.HOST_KEY_CHANGED:
            self._answers.pop(node_id, None)
        else:
            try:
                record = await self._app[ports.STORE].ssh_attempt(attempt)
            except StoreError as error:
                log.warning("who answers in place of a node could not be read", node=node_id, error=str(error))
                return
            sent = "" if record is None else fingerprint_sent(record.stderr)
            if sent:
                self._answers[node_id] = who(sent, node_id, self._app[ports.SSH].book.reaches())
        if (node := self._app[ports.REGISTRY].node(node_id)) is not None:
            self.look(node)

    def _remember(self, node_id: str, found: list[Trouble], *, heard: bool, now_ms: int) -> bool:
        """Beginnings; whether there is a new one. While a node is not heard its own stay: not over, only not told."""
        before = self._since.get(node_id)
        if before is None:
            self._since[node_id] = {slot(one): None for one in found}
            return False
        now: dict[str, int | None] = {} if heard else dict(before)
        now.update({slot(one): before.get(slot(one), now_ms) for one in found})
        self._since[node_id] = now
        return not now.keys() <= before.keys()

    def _forget(self, node_id: str) -> None:
        self._since.pop(node_id, None)
        self._seen.pop(node_id, None)
        self._answers.pop(node_id, None)
        if self._ailing.pop(node_id, None) is not None:
            self._dirty.set()

    async def _sweeps(self) -> None:
        for turn in itertools.count():
            looked = 0
            for node in list(self._app[ports.REGISTRY].nodes()):
                if not self._news_of(node) and turn % ALL_EVERY:
                    continue
                self.look(node)
                looked += 1
                if looked % NODES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(SWEEP_S)

    def _news_of(self, node: Node) -> bool:
        """Whether a node's picture is another than at the last look in turn."""
        said = node.said
        now = (said, said.changes if isinstance(said, Picture) else 0)
        before = self._seen.get(node.id)
        self._seen[node.id] = now
        return before is None or before[0] is not said or before[1] != now[1]

    async def _tell(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            incidents, problems = self._app[ports.SSH_WATCH].told
            lines = banner(self._ailing, fleet=len(self._app[ports.REGISTRY]), incidents=incidents, problems=problems)
            if lines != self.lines:
                self.lines = lines
                self._app[ports.BUS].publish(IncidentsChanged())
            await asyncio.sleep(GATHER_S)


AILMENTS = web.AppKey("AILMENTS", Ailments)


def told_of(app: web.Application, node: Node) -> tuple[SentenceView, LightsView]:
    """Sentence and lights of one node."""
    facts = app[AILMENTS].facts(node)
    return sentence_view(sentence(facts)), lights_view(lights(facts))
