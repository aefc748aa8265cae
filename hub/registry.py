"""The fleet in memory, without I/O: what sessions and ingest say goes in, pictures of nodes come out.

It is rebuilt from the store at start, so that a restarted hub shows when a node was last heard.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from hub.clock import Clock
from hub.liveness import Drops, Limits, Listening, NodeState, judge
from hub.remarks import Remarks
from hub.store.records import Agent
from wire.frames import Capability, Hello
from wire.jobs import Name
from wire.picture import Picture
from wire.reasons import Reason
from wire.status import JobProgress, NodeStatus

DELIBERATE = frozenset({Reason.GOODBYE, Reason.REPLACED, Reason.REVOKED, Reason.DUPLICATE_IDENTITY})
"""Ends of sessions that say nothing about the network."""


NOTHING_SAID = NodeStatus()


class ViaSsh(Struct, frozen=True):
    """When a picture was taken by SSH: by the hub's clock, and by the node's own."""

    at_ms: int
    node_time_ms: int


class Node(Struct, kw_only=True):
    """A node now. Times ``_at_ms`` are Unix milliseconds of the hub's clock, ``_s`` monotonic seconds.

    Only the registry changes one; of one that it has given out it changes what a frame or a status changes, never its
    state or its session.
    """

    id: str
    name: str
    created_at_ms: int
    labels: dict[str, str] = field(default_factory=dict)
    state: NodeState = NodeState.NEVER
    session: str | None = None
    """The open session's id."""
    opened_s: float | None = None
    """When the last session of this run of the hub opened."""
    session_opened_at_ms: int | None = None
    remote: str = ""
    """The address its socket came from."""
    limits: Limits | None = None
    """Those of its last welcome; None before the first in this run of the hub."""
    dropped_s: float | None = None
    """When its socket closed or it fell silent, whichever was first; None while it is heard."""
    last_frame_s: float | None = None
    last_heard_at_ms: int | None = None
    said: NodeStatus | Picture = NOTHING_SAID
    """What it said of itself: the session's own picture, which goes on changing, or what the store had."""
    status_at_ms: int | None = None
    via_ssh: ViaSsh | None = None
    """Set while the picture came by SSH and not over a session."""
    clock_skew_ms: int | None = None
    """The node's wall clock minus the hub's: the best estimate of the last while."""
    last_reason_code: int | None = None
    last_reason_detail: str = ""
    last_reason_at_ms: int | None = None
    capabilities: tuple[Name, ...] = ()
    version: str = ""
    boot_id: str = ""
    epoch: str = ""

    @property
    def status(self) -> NodeStatus:
        """The merged full picture; fields never reported are unset. Made when asked for: not for every frame."""
        return self.said.status if isinstance(self.said, Picture) else self.said

    @property
    def connected(self) -> bool:
        """Whether a session is open."""
        return self.session is not None

    @property
    def proves(self) -> bool:
        """Whether it may be given jobs: it can prove, and neither drains nor only observes."""
        able = Capability.GROTH16_HOST in self.capabilities or Capability.GROTH16_CUDA in self.capabilities
        return able and Capability.OBSERVE not in self.capabilities and self.status.draining is not True

    @property
    def progress(self) -> tuple[JobProgress, ...]:
        """How far its jobs are."""
        return () if self.status.jobs is msgspec.UNSET else tuple(self.status.jobs)


class Registry:
    """Every enrolled, unrevoked node. Methods that change a node return its new picture, None if it is not there."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self.limits = limits
        """For nodes that were not welcomed in this run of the hub."""
        self._nodes: dict[str, Node] = {}
        self._connected = 0
        self._expected = 0
        self.listening = Listening(clock.monotonic())
        self.drops = Drops()
        self.remarks = Remarks(clock)

    def __len__(self) -> int:
        return len(self._nodes)

    def nodes(self) -> list[Node]:
        """All nodes, by id: in the order of their enrolment."""
        return [self._nodes[key] for key in sorted(self._nodes)]

    @property
    def expected(self) -> int:
        """How many agents there are, or soon are: all but the lost and those never seen."""
        return self._expected

    def node(self, agent_id: str) -> Node | None:
        """One node."""
        return self._nodes.get(agent_id)

    def frame_age_s(self, node: Node) -> float | None:
        """Seconds since the last frame; None if the node was never heard."""
        if node.last_frame_s is not None:
            return max(0.0, self._clock.monotonic() - node.last_frame_s)
        if node.last_heard_at_ms is not None:
            return max(0.0, (self._clock.time_ms() - node.last_heard_at_ms) / 1000)
        return None

    def progress(self, agent_id: str | None, job_id: str, attempt: int) -> JobProgress | None:
        """How far an attempt is, as its node last said."""
        node = self._nodes.get(agent_id or "")
        if node is None:
            return None
        return next((item for item in node.progress if item.job == job_id and item.attempt == attempt), None)

    def state(self, agent_id: str) -> NodeState | None:
        """How a node is."""
        node = self._nodes.get(agent_id)
        return None if node is None else node.state

    # --- what changes it

    def restore(self, agents: Iterable[tuple[Agent, NodeStatus]]) -> None:
        """Take over what the store knows, at start."""
        for agent, status in agents:
            self.add(agent, status)

    def add(self, agent: Agent, status: NodeStatus | None = None) -> Node | None:
        """A node, as enrolled; a known one stays as it is."""
        if agent.revoked_at_ms is not None:
            return None
        if agent.id not in self._nodes:
            node = Node(
                id=agent.id,
                name=agent.name,
                created_at_ms=agent.created_at_ms,
                labels=agent.labels,
                last_heard_at_ms=agent.last_heard_at_ms,
                said=status or NOTHING_SAID,
                status_at_ms=agent.last_heard_at_ms if status else None,
                last_reason_code=agent.last_reason_code,
                last_reason_detail=agent.last_reason_detail,
                last_reason_at_ms=agent.last_reason_at_ms,
                capabilities=agent.capabilities,
                version=agent.version,
                boot_id=agent.boot_id,
                epoch=agent.epoch,
            )
            node = self._nodes[agent.id] = self._judged(node)
            if status is not None and status.gpus is not msgspec.UNSET:
                self.remarks.knows_cards(agent.id, [gpu.uuid for gpu in status.gpus])
            self._expected += node.state is not NodeState.NEVER
        return self._nodes[agent.id]

    def remove(self, agent_id: str) -> bool:
        """Forget a revoked node; whether it was there."""
        self.remarks.forget(agent_id)
        node = self._nodes.pop(agent_id, None)
        self._connected -= node is not None and node.connected
        return node is not None

    def opened(
        self, agent_id: str, session: str, hello: Hello, remote: str, limits: Limits | None = None
    ) -> Node | None:
        """A session is open, with limits it was told. The last status stays until the new one arrives."""
        before = self._nodes.get(agent_id)
        if before is None:
            return None
        self._connected += not before.connected
        self._expected += before.state in {NodeState.NEVER, NodeState.LOST}
        return self._change(
            agent_id,
            limits=limits,
            dropped_s=None,
            session=session,
            opened_s=self._clock.monotonic(),
            session_opened_at_ms=self._clock.time_ms(),
            remote=remote,
            last_frame_s=self._clock.monotonic(),
            last_heard_at_ms=self._clock.time_ms(),
            name=hello.name,
            capabilities=tuple(hello.capabilities),
            version=hello.version,
            boot_id=hello.boot_id,
            epoch=hello.epoch,
        )

    def heard(self, agent_id: str) -> None:
        """Any frame came. Quiet: only a change of state is worth telling, and the next tick finds it."""
        node = self._nodes.get(agent_id)
        if node is not None:
            node.last_frame_s = self._clock.monotonic()
            node.last_heard_at_ms = self._clock.time_ms()
            node.dropped_s = None

    def reported(
        self, agent_id: str, said: NodeStatus | Picture, node_time_ms: int | None, now_ms: int | None = None
    ) -> Node | None:
        """A status came; ``said`` is the merged picture. The hub's most frequent change: done in place.

        ``node_time_ms``: the node's wall clock, None where it need not be looked at. ``now_ms``: the hub's, if known.
        """
        node = self._nodes.get(agent_id)
        if node is None:
            return None
        if now_ms is None:
            now_ms = self._clock.time_ms()
        node.said = said
        node.status_at_ms = node.last_heard_at_ms = now_ms
        node.via_ssh = None
        if node_time_ms is not None:
            node.clock_skew_ms = self.remarks.time(agent_id, node_time_ms - now_ms, connected=self._connected)
        node.last_frame_s = self._clock.monotonic()
        node.dropped_s = None
        if node.state is not NodeState.ONLINE:
            node = self._nodes[agent_id] = self._judged(node)
        return node

    def told_via_ssh(self, agent_id: str, said: NodeStatus, node_time_ms: int) -> Node | None:
        """The node's own signed word came by SSH: its picture, and no sign of life of its session."""
        node = self._nodes.get(agent_id)
        if node is None or node.connected:
            return None  # what a session says is newer
        now_ms = self._clock.time_ms()
        return self._change(agent_id, said=said, status_at_ms=now_ms, via_ssh=ViaSsh(now_ms, node_time_ms))

    def closed(self, agent_id: str, session: str, reason_code: int, detail: str) -> Node | None:
        """A session ended; a newer one of the same agent is left alone."""
        node = self._nodes.get(agent_id)
        if node is None or node.session != session:
            return None
        connected_before, self._connected = self._connected, self._connected - 1
        if reason_code not in DELIBERATE and node.dropped_s is None:
            node = self._dropped(node, connected_before)
        return self._change(
            agent_id,
            session=None,
            session_opened_at_ms=None,
            last_reason_code=reason_code,
            last_reason_detail=detail,
            last_reason_at_ms=self._clock.time_ms(),
        )

    def _dropped(self, node: Node, connected_before: int) -> Node:
        """A node's socket closed, or it fell silent."""
        now_s = self._clock.monotonic()
        self.drops.dropped(node.id, now_s, connected_before=connected_before)
        node = self._nodes[node.id] = msgspec.structs.replace(node, dropped_s=now_s)
        return node

    def refused(self, agent_id: str, reason_code: int, detail: str) -> Node | None:
        """A newcomer with this identity was refused; the node's state is not touched."""
        return self._change(
            agent_id,
            last_reason_code=reason_code,
            last_reason_detail=detail,
            last_reason_at_ms=self._clock.time_ms(),
        )

    def tick(self, due_s: float) -> list[Node]:
        """Judge everyone anew; the nodes whose state changed. ``due_s``: when this tick should have run."""
        now_s = self._clock.monotonic()
        self.listening = self.listening.after_tick(due_s=due_s, now_s=now_s, limits=self.limits)
        suspects = [node for node in self._nodes.values() if not self._plainly_online(node, now_s)]
        for node in suspects:  # all of them first: one verdict over those that fell silent together
            if node.connected and node.dropped_s is None and self._judged(node).state is not NodeState.ONLINE:
                self._dropped(node, self._connected)
        changed = []
        for before in suspects:
            node = self._judged(self._nodes[before.id])
            self._nodes[before.id] = node
            if node.state is not before.state:
                changed.append(node)
        self._expected = sum(node.state not in {NodeState.NEVER, NodeState.LOST} for node in self._nodes.values())
        return changed

    def _plainly_online(self, node: Node, now_s: float) -> bool:
        return (
            node.state is NodeState.ONLINE
            and node.last_frame_s is not None
            and now_s - node.last_frame_s < (node.limits or self.limits).stale_after_s
        )

    def _change(self, agent_id: str, **fields: object) -> Node | None:
        node = self._nodes.get(agent_id)
        if node is None:
            return None
        node = self._judged(msgspec.structs.replace(node, **fields))
        self._nodes[agent_id] = node
        return node

    def _judged(self, node: Node) -> Node:
        dropped_s, limits = node.dropped_s, node.limits or self.limits
        state = judge(
            ever_seen=node.last_heard_at_ms is not None,
            connected=node.connected,
            last_frame_s=node.last_frame_s,
            now_s=self._clock.monotonic(),
            listening=self.listening,
            limits=limits,
            return_s=max(limits.return_s, self.limits.return_s),
            opened_s=node.opened_s,
            mass_drop_s=dropped_s if dropped_s is not None and self.drops.spares(dropped_s) else None,
        )
        return node if state is node.state else msgspec.structs.replace(node, state=state)
