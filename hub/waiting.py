"""Why a queued job waits, in one sentence for people; pure. What is only likely is not said."""

from collections.abc import Callable, Iterable, Mapping

from hub.dispatch import Candidate
from hub.liveness import NodeState
from hub.registry import Node
from hub.store.records import Job
from wire.jobs import JobState
from wire.text import clipped

SENTENCE_CHARS_MAX = 500


def why_waits(job: Job, nodes: Iterable[Node], candidate: Callable[[Node], Candidate], held: Mapping[str, int]) -> str:
    """The sentence; empty for a job that does not queue, and where the next round may hand it out.

    Args:
        job: the job.
        nodes: every node there is.
        candidate: how the dispatcher sees a node.
        held: how many jobs each node is at, by id.
    """
    if job.state is not JobState.QUEUED:
        return ""
    proving = [node for node in nodes if node.proves]
    online = [candidate(node) for node in proving if node.state is NodeState.ONLINE]
    if not online:
        return _nobody(len(proving))
    allowed = [one for one in online if one.may_get(job)]
    if not allowed:
        wanted = ", ".join(f"{name}={value}" for name, value in sorted(job.node_labels.items()))
        return clipped(
            f"It goes only to nodes labelled {wanted}; of {_nodes(len(online))} that could take a job none is.",
            SENTENCE_CHARS_MAX,
        )
    able = [one for one in allowed if one.slots > 0]
    if not able:
        return f"Every worker of {_nodes(len(allowed))} that may get it is down."
    if all(held.get(one.agent_id, 0) >= one.slots for one in able):
        return f"Every worker of {_nodes(len(able))} that may get it is at another job."
    return ""


def _nobody(lost: int) -> str:
    if lost == 0:
        return "No node here takes jobs: those that are here only observe, drain, or never came."
    return f"No node that takes jobs is heard now; {_nodes(lost)} did and {'is' if lost == 1 else 'are'} silent."


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
