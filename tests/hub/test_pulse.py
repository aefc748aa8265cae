from pathlib import Path

from hub.bus import Bus, NodeChanged
from hub.config import Config
from hub.desk import Desk
from hub.keys import Keys
from hub.liveness import NodeState
from hub.pulse import Pulse
from hub.registry import Registry
from hub.store.sqlite import open_sqlite
from tests.hub.rig import FakeClock
from tests.hub.test_registry import ID, LIMITS, a_hello, an_agent


async def test_a_tick_publishes_what_changed_and_says_how_many_are_online(tmp_path: Path) -> None:
    clock, bus, said = FakeClock(), Bus(), list[str]()
    registry = Registry(clock, LIMITS)
    config = Config(data_dir=tmp_path)
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        desk = Desk(config=config, clock=clock, store=store, registry=registry, bus=bus, keys=Keys.load(tmp_path))
        pulse = Pulse(config=config, clock=clock, registry=registry, bus=bus, desk=desk, tell_systemd=said.append)
        registry.add(an_agent())
        registry.opened(ID, "s", a_hello(), "r")
        assert pulse.status() == "1 of 1 nodes online, 0 jobs open"
        with bus.subscribe() as changes:
            for _ in range(3):  # as the loop would tick, but slower: ten seconds apart, each within what is tolerated
                for _ in range(10):
                    clock.move(1.0)
                    pulse._due_s = clock.monotonic()
                    pulse.tick()
            bus.close()
            states = [change.node.state async for change in changes if isinstance(change, NodeChanged)]
        assert states == [NodeState.STALE]
        assert pulse.status() == "0 of 1 nodes online, 0 jobs open"
