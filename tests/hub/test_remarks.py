"""What the hub remarks about a node: a wrong clock once, exchanged cards, and never more than may be kept."""

from hub.remarks import REMARKS_BURST, WAITING_MAX, WINDOW_S, Remarks
from tests.hub.rig import FakeClock


class Node:
    """A node that reports every ten seconds."""

    def __init__(self, name: str = "n", clock: FakeClock | None = None, remarks: Remarks | None = None) -> None:
        self.name = name
        self.clock = clock or FakeClock()
        self.remarks = remarks or Remarks(self.clock)
        self.shown_ms = 0

    def reports(self, skew_ms: int, *, for_s: float, connected: int = 10) -> list[str]:
        """The kinds of what was remarked meanwhile."""
        for _ in range(int(for_s / 10)):
            self.clock.move(10.0)
            self.shown_ms = self.remarks.time(self.name, skew_ms, connected=connected)
        return [remark.kind for remark in self.remarks.take()]


def test_a_wrong_clock_is_one_event_however_long_and_one_when_it_is_right_again() -> None:
    node = Node()
    assert node.reports(500, for_s=120) == []
    assert node.reports(31_000, for_s=3600) == ["clock.skewed"]
    assert (node.shown_ms, node.remarks.skewed) == (31_000, 1)
    assert node.reports(29_000, for_s=3600) == [], "a clock at the limit is one event"
    assert node.reports(31_000, for_s=3600) == []
    assert node.reports(1_000, for_s=3600) == ["clock.right"]
    assert node.remarks.skewed == 0


def test_a_slow_clock_is_said_to_be_behind() -> None:
    node = Node()
    for _ in range(10):
        node.clock.move(10.0)
        node.remarks.time("n", -45_000, connected=10)
    (remark,) = node.remarks.take()
    assert "45 s behind" in remark.detail


def test_a_frame_that_was_held_up_is_no_slow_clock() -> None:
    node = Node()
    node.reports(-200, for_s=60)
    assert node.reports(-50_000, for_s=WINDOW_S - 10) == []
    assert node.shown_ms == -200
    assert node.reports(-200, for_s=60) == []


def test_when_most_clocks_are_off_it_is_the_hubs() -> None:
    clock = FakeClock()
    remarks = Remarks(clock)
    nodes = [Node(str(number), clock, remarks) for number in range(10)]
    for _ in range(30):
        clock.move(5.0)
        for node in nodes:
            remarks.time(node.name, 3_600_000, connected=10)
    assert remarks.hub_clock_doubted
    assert len(remarks.take()) <= 5
    for _ in range(30):
        clock.move(5.0)
        for node in nodes:
            remarks.time(node.name, 0, connected=10)
    assert (remarks.hub_clock_doubted, remarks.skewed) == (False, 0)


def test_other_cards_are_remarked_and_none_listed_says_nothing() -> None:
    node = Node()
    node.remarks.knows_cards("n", ["GPU-1", "GPU-2"])
    node.reports(0, for_s=10)
    node.remarks.cards("n", ["GPU-2", "GPU-1"])
    node.remarks.cards("n", [])
    assert node.remarks.take() == []
    node.remarks.cards("n", ["GPU-1", "GPU-3"])
    (remark,) = node.remarks.take()
    assert remark.kind == "hardware.changed"
    assert "gone GPU-2; new GPU-3" in remark.detail


def test_a_node_that_exchanges_its_cards_for_ever_fills_nothing() -> None:
    node = Node()
    node.reports(0, for_s=10)
    for number in range(10 * WAITING_MAX):
        node.remarks.cards("n", [f"GPU-{number}"])
    assert len(node.remarks.take()) == REMARKS_BURST


def test_a_node_that_is_gone_is_forgotten() -> None:
    node = Node()
    node.reports(60_000, for_s=120)
    node.remarks.forget("n")
    assert (node.remarks.skewed, node.remarks._seen, node.remarks._cards) == (0, {}, {})
