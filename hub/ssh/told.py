"""What is known of a node's provers while its session is not there to tell: one sentence, with when; pure."""

from hub.liveness import NodeState
from hub.registry import Node
from hub.ssh.ladder import Rung
from hub.ssh.looking import Ladder, doing
from hub.ssh.reach import moment

SILENT = frozenset({NodeState.STALE, NodeState.RECONNECTING, NodeState.LOST})


def provers(node: Node, ladder: Ladder | None, now_ms: int) -> str:
    """``proving when last heard 02:58, unknown since``; empty while the node is heard, or never was."""
    if node.state not in SILENT:
        return ""
    looked = ladder if ladder is not None and ladder.reached and ladder.at_ms > (node.last_heard_at_ms or 0) else None
    if node.via_ssh is not None and (looked is None or looked.at_ms - node.via_ssh.at_ms <= 0):
        return f"{doing(node.status)} at {moment(node.via_ssh.at_ms, now_ms)}, by its own word over ssh"
    last = ""
    if node.last_heard_at_ms is not None and node.status_at_ms is not None and node.via_ssh is None:
        last = f"{doing(node.status)} when last heard {moment(node.last_heard_at_ms, now_ms)}"
    if looked is None:
        return f"{last}, unknown since" if last else "unknown"
    seen = f"at {moment(looked.at_ms, now_ms)} by ssh: {looked.step(Rung.PROVERS).sentence}"
    return f"{last}; {seen}" if last else seen
