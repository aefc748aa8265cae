"""What a node measures while its hub is away is in its history once the hub is back, and its place is the true one."""

import time
from typing import Any

from tests.e2e.rig import Hub, Rig, until

SAMPLE_S = 0.2
AWAY_SAMPLES = 10


def sample_times(hub: Hub, node: str, from_ms: int) -> list[int]:
    """When the samples of a series were made, by the hub's clock."""
    told: dict[str, Any] = hub.call(
        "GET", f"nodes/{node}/metrics?series=host.memory_total_bytes&points_max=2000&from={from_ms}"
    )
    if not told["series"]:
        return []
    points = zip(told["times_ms"], told["series"][0]["samples"], strict=True)
    return [at_ms for at_ms, count in points if count]


def test_an_outage_of_the_hub_leaves_no_hole_in_the_history(rig: Rig) -> None:
    began_ms = time.time_ns() // 10**6
    hub = rig.hub(PROVEWIRE_SAMPLE_S=str(SAMPLE_S))
    agent = rig.agent().join(hub)
    node = hub.wait_node(agent.name)["id"]
    until(lambda: len(sample_times(hub, node, began_ms)) >= 3, "three samples")
    hub.stop()
    gone_ms = time.time_ns() // 10**6

    def held() -> int:
        status = agent.status()
        return 0 if status is None else int(status["outbox"]["events_held"])

    before = held()
    until(lambda: held() >= before + AWAY_SAMPLES, "samples to gather in the outbox")
    back_ms = time.time_ns() // 10**6
    hub.start()
    hub.wait_node(agent.name)
    until(lambda: sample_times(hub, node, began_ms)[-1] > back_ms, "a sample from after the outage")
    times = sample_times(hub, node, began_ms)
    assert times == sorted(set(times))
    assert sum(gone_ms <= at_ms <= back_ms for at_ms in times) >= AWAY_SAMPLES // 2
