import random

from agent.board import Board
from wire.readings import HostReading
from wire.status import NodeStatus, OutboxReading


def test_the_picture_holds_everything() -> None:
    board = Board()
    assert isinstance(board.picture(), NodeStatus)
    board.host = HostReading(cpu_count=random.Random(0).randint(1, 9))
    board.outbox = lambda: OutboxReading(events_held=3, bytes_held=4)
    picture = board.picture()
    assert picture.host == board.host
    assert picture.outbox == OutboxReading(events_held=3, bytes_held=4)
    assert picture.draining is False
