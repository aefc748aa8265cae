"""What is said of provers while no session tells."""

import msgspec
import pytest

from hub.liveness import NodeState
from hub.registry import Node, ViaSsh
from hub.ssh.looking import Ladder, ladder_of
from hub.ssh.reach import moment
from hub.ssh.told import provers
from tests.hub.ssh.test_looking import NODE, PROVING, printed, record

HEARD_MS = 1_763_999_000_000
LOOKED_MS = 1_764_000_001_500
NOW_MS = LOOKED_MS + 60_000
HEARD, LOOKED = moment(HEARD_MS, NOW_MS), moment(LOOKED_MS, NOW_MS)
ALIVE = "alive: 1 worker, 1 process on a card; leave them alone"
LADDER, _ = ladder_of(record(printed()))
SHUT = msgspec.structs.replace(LADDER, reached=False)


def lost(**changes: object) -> Node:
    node = Node(
        id=NODE,
        name="node-a",
        created_at_ms=1,
        state=NodeState.LOST,
        last_heard_at_ms=HEARD_MS,
        said=PROVING,
        status_at_ms=HEARD_MS,
    )
    return msgspec.structs.replace(node, **changes)


@pytest.mark.parametrize(
    ("node", "ladder", "said"),
    [
        (lost(), None, f"proving when last heard {HEARD}, unknown since"),
        (lost(), SHUT, f"proving when last heard {HEARD}, unknown since"),
        (
            lost(),
            LADDER,
            f"proving when last heard {HEARD}; at {LOOKED} by ssh: {ALIVE}",
        ),
        (lost(last_heard_at_ms=NOW_MS), LADDER, f"proving when last heard {moment(NOW_MS, NOW_MS)}, unknown since"),
        (lost(via_ssh=ViaSsh(LOOKED_MS, 1)), LADDER, f"proving at {LOOKED}, by its own word over ssh"),
        (lost(status_at_ms=None), None, "unknown"),
        (lost(state=NodeState.ONLINE), LADDER, ""),
        (lost(state=NodeState.NEVER), LADDER, ""),
        (lost(state=NodeState.RECONNECTING), None, f"proving when last heard {HEARD}, unknown since"),
    ],
)
def test_the_newest_word_counts_and_its_time_is_said(node: Node, ladder: Ladder | None, said: str) -> None:
    assert provers(node, ladder, NOW_MS) == said


def test_a_later_look_that_found_no_agent_counts_more_than_its_earlier_word() -> None:
    node = lost(via_ssh=ViaSsh(LOOKED_MS - 600_000, 1))
    assert provers(node, LADDER, NOW_MS).startswith(f"at {LOOKED} by ssh: alive")
