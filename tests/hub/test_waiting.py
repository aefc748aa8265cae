"""Why a job waits: what keeps it is said, and nothing where nothing is known to."""

import pytest

from hub.dispatch import Candidate
from hub.liveness import NodeState
from hub.registry import Node
from hub.store.records import Job
from hub.waiting import why_waits
from wire.frames import Capability
from wire.jobs import JobState

OURS = {"owner": "us"}


def a_job(state: JobState = JobState.QUEUED, labels: dict[str, str] | None = None) -> Job:
    whole = {"id": "j", "circuit_id": "c", "engine": "groth16", "curve": "bn128", "inputs": (), "created_at_ms": 1}
    return Job(state=state, node_labels=labels or {}, **whole)  # type: ignore[arg-type]  # what none of this looks at


def a_node(
    number: int, state: NodeState = NodeState.ONLINE, *, slots: int = 1, labels: dict[str, str] | None = None
) -> Node:
    # The slots travel as a label of their own, so that the test's dispatcher needs no status.
    return Node(
        id=f"n-{number}",
        name=f"node-{number}",
        created_at_ms=1,
        state=state,
        capabilities=(Capability.GROTH16_HOST.value,),
        labels={"slots": str(slots), **(labels or {})},
    )


def candidate(node: Node) -> Candidate:
    return Candidate(agent_id=node.id, slots=int(node.labels["slots"]), labels=node.labels)


WATCHING = Node(id="w", name="w", created_at_ms=1, state=NodeState.ONLINE, capabilities=(Capability.OBSERVE.value,))


@pytest.mark.parametrize(
    ("job", "nodes", "held", "words"),
    [
        (a_job(), [], {}, "No node here takes jobs: those that are here only observe, drain, or never came."),
        (a_job(), [WATCHING], {}, "No node here takes jobs: those that are here only observe, drain, or never came."),
        (
            a_job(),
            [WATCHING, a_node(1, NodeState.LOST)],
            {},
            "No node that takes jobs is heard now; 1 node did and is silent.",
        ),
        (
            a_job(labels=OURS | {"rack": "7"}),
            [a_node(1, labels=OURS), a_node(2)],
            {},
            "It goes only to nodes labelled owner=us, rack=7; of 2 nodes that could take a job none is.",
        ),
        (
            a_job(labels=OURS),
            [a_node(1, slots=0, labels=OURS), a_node(2)],
            {},
            "Every worker of 1 node that may get it is down.",
        ),
        (
            a_job(),
            [a_node(1, slots=2), a_node(2), a_node(3, slots=0)],
            {"n-1": 2, "n-2": 1},
            "Every worker of 2 nodes that may get it is at another job.",
        ),
        (a_job(), [a_node(1, slots=2), a_node(2)], {"n-1": 1, "n-2": 1}, ""),
        (a_job(JobState.RUNNING), [], {}, ""),
    ],
    ids=["nobody", "only watched", "all lost", "labels", "workers down", "busy", "one is free", "it does not queue"],
)
def test_what_keeps_a_job_is_told(job: Job, nodes: list[Node], held: dict[str, int], words: str) -> None:
    assert why_waits(job, nodes, candidate, held) == words
