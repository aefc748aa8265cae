import asyncio

from hub.bus import Bus, JobChanged, LogsStored, Message, NodeChanged, NodeGone, Resync
from hub.registry import Node


def message(number: int) -> NodeGone:
    return NodeGone(str(number))


async def test_every_subscriber_gets_every_message_in_order() -> None:
    bus = Bus()
    with bus.subscribe() as one, bus.subscribe() as two:
        assert bus.subscribers == 2
        for number in range(3):
            bus.publish(message(number))
        bus.close()
        assert [item async for item in one] == [item async for item in two] == [message(n) for n in range(3)]
    assert bus.subscribers == 0


async def test_a_slow_subscriber_is_told_to_read_anew_and_holds_up_nobody() -> None:
    bus = Bus()
    with bus.subscribe(queue_max=3) as slow, bus.subscribe() as quick:
        for number in range(10):
            bus.publish(message(number))
        assert len(slow) <= 4
        assert slow.dropped > 0
        bus.close()
        got = [item async for item in slow]
        assert got[0] == Resync()
        assert got[-1] == message(9)
        assert len([item async for item in quick]) == 10


async def test_of_one_subject_only_the_latest_waits_and_nothing_that_changed_is_forgotten() -> None:
    bus = Bus()

    def changed(version: str, *, of_state: bool) -> NodeChanged:
        return NodeChanged(Node(id="n", name="n", created_at_ms=1, version=version), of_state=of_state, jobs=False)

    with bus.subscribe() as subscription:
        bus.publish(changed("1", of_state=True))
        bus.publish(message(7))
        for number in range(1000):
            bus.publish(changed(str(number), of_state=False))
        assert bus.waiting == len(subscription) == 2
        latest, other = await subscription.take()
        assert isinstance(latest, NodeChanged)
        assert (latest.node.version, latest.of_state, latest.jobs) == ("999", True, False)
        assert other == message(7)
        bus.publish(changed("1", of_state=False))
        bus.publish(NodeGone("n"))
        assert await subscription.take() == [NodeGone("n")]
        bus.close()
        assert await subscription.take() == []
    assert bus.dropped == 0


async def test_a_waiting_subscriber_wakes_with_the_next_message() -> None:
    bus = Bus()
    with bus.subscribe() as subscription:
        waiting: asyncio.Task[Message] = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        bus.publish(message(1))
        assert await waiting == message(1)


async def test_a_closed_bus_ends_those_that_come_late_too() -> None:
    bus = Bus()
    bus.close()
    with bus.subscribe() as late:
        assert [item async for item in late] == []


def test_messages_are_values() -> None:
    assert JobChanged.__struct_config__.frozen


async def test_a_subscriber_hears_only_of_the_kinds_it_asked_for() -> None:
    bus = Bus()
    with bus.subscribe(kinds=(LogsStored,)) as logs, bus.subscribe() as everything:
        bus.publish(NodeGone("a"))
        bus.publish(LogsStored("a", 1))
        bus.publish(LogsStored("a", 2))
        bus.close()
        assert [message async for message in logs] == [LogsStored("a", 2)]
        assert [message async for message in everything] == [NodeGone("a"), LogsStored("a", 2)]
