import asyncio

from hub.bus import Bus, JobChanged, Message, NodeGone, Resync


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
