"""What nodes say of their own sshd: taken from their pictures, checked, and put before the operator.

A node is untrusted: its words become a target only after the same checks as everybody's, and its address is accepted
by itself, if the operator's policy wants that at all, only where its own session comes from.
"""

import asyncio
import contextlib

import structlog
from msgspec import UNSET

from hub.clock import Clock
from hub.faults import FAULTS
from hub.registry import Node, Registry
from hub.ssh.desk import SshDesk
from hub.ssh.pins import KeyRefused, host_key
from hub.ssh.reach import Suggestion
from hub.ssh.targets import TargetRefused, target
from hub.store.base import StoreError
from wire.frames import Capability
from wire.status import SshHint

log = structlog.get_logger(__name__)

CHANGE_EVERY_S = 60.0
"""A node may say something new so often: each change is written down with the node."""
AGAIN_S = 5.0
"""Until one that was too soon is looked at again."""


class Hints:
    """Takes them over, one by one, in a task of its own."""

    def __init__(self, registry: Registry, desk: SshDesk, clock: Clock) -> None:
        self._registry = registry
        self._desk = desk
        self._clock = clock
        self._waiting: dict[str, None] = {}
        self._early: set[str] = set()
        """Nodes that say something new again too soon; looked at later."""
        self._changed_s: dict[str, float] = {}
        self._wake = asyncio.Event()

    def told(self, node_id: str) -> None:
        """A node's picture has a hint, perhaps the same as ever."""
        self._waiting[node_id] = None
        self._wake.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S if self._early else None):
                    await self._wake.wait()
            self._wake.clear()
            self._waiting |= dict.fromkeys(self._early)
            self._early.clear()
            while self._waiting:
                node_id = next(iter(self._waiting))
                del self._waiting[node_id]
                await self._take(node_id)
                await asyncio.sleep(0)

    async def _take(self, node_id: str) -> None:
        node = self._registry.node(node_id)
        if node is None or not node.connected:
            return
        said = node.status.ssh
        if said is UNSET:
            return
        now_s = self._clock.monotonic()
        self._changed_s = {one: at_s for one, at_s in self._changed_s.items() if now_s - at_s < CHANGE_EVERY_S}
        if node_id in self._changed_s:
            self._early.add(node_id)
            return
        try:
            suggestion = suggestion_of(said, node)
        except TargetRefused as error:
            log.warning("what a node suggests for its sshd is no target", node=node_id, error=str(error))
            return
        before = self._desk.readiness(node_id)
        try:
            await self._desk.suggested(node_id, suggestion, own_address=said.address in {"", node.remote})
        except StoreError as error:
            log.warning("what a node suggests for its sshd could not be kept", node=node_id, error=str(error))
        except Exception:  # one node's words never take the hub with them
            FAULTS.count("ssh")
            log.exception("what a node suggests for its sshd could not be taken over", node=node_id)
        if self._desk.readiness(node_id) != before:
            self._changed_s[node_id] = now_s


def suggestion_of(said: SshHint, node: Node) -> Suggestion:
    """The hint as a checked suggestion; host keys that are none are left out.

    Raises:
        TargetRefused: address, port or user cannot be what they are said to be.
    """
    keys = []
    for text in said.host_keys:
        try:
            keys.append(host_key(text))
        except KeyRefused as error:
            log.warning("a node says a host key that is none", node=node.id, error=str(error))
    return Suggestion(
        target=target(said.address or node.remote, said.port, said.user),
        host_keys=tuple(dict.fromkeys(keys)),
        key_install=Capability.KEY_INSTALL in node.capabilities,
    )
