"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from hub.faults import PARTS
from tests.hub.api.conftest import Web
from wire.inputs import Heard
from wire.readings import GpuReading, HostReading
from wire.status import NodeStatus, WorkerReading, WorkerState

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(web: Web) -> Samples:
    reply = await web.ask("GET", "/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(reply.body.decode())
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


async def test_nodes_jobs_and_queues_are_counted(web: Web) -> None:
    await web.register()
    await web.submit()
    await web.hub.enroll()
    samples = await scrape(web)
    assert samples["provewire_jobs", (("state", "queued"),)] == 1
    assert samples["provewire_jobs", (("state", "done"),)] == 0
    assert samples["provewire_nodes", (("state", "never"),)] == 1
    assert samples["provewire_sessions", ()] == 0
    assert samples["provewire_checks_total", (("kind", "circuit"), ("outcome", "ok"))] == 1
    assert samples["provewire_store_commit_seconds_count", ()] > 0
    assert samples["provewire_loop_lag_seconds", ()] >= 0
    faults = {labels for name, labels in samples if name == "provewire_internal_faults_total"}
    assert faults == {(("part", part),) for part in PARTS}
    depths = {labels for name, labels in samples if name == "provewire_queue_depth"}
    bounds = {labels for name, labels in samples if name == "provewire_queue_bound"}
    assert depths == bounds
    assert samples["provewire_queue_depth", (("queue", "jobs_open"),)] == 1
    assert all(samples["provewire_queue_depth", one] <= samples["provewire_queue_bound", one] for one in depths)


async def test_a_nodes_series_are_there_while_it_is_heard_and_then_vanish(web: Web) -> None:
    peer = await web.hub.enroll()
    label = (("node", peer.id),)
    async with peer.connect() as connection:
        picture = NodeStatus(
            host=HostReading(cpu_used_ratio=0.5, memory_used_bytes=None),
            gpus=[GpuReading("GPU-1", memory_used_bytes=7)],
            workers=[WorkerReading("host", WorkerState.DOWN)],
        )
        await connection.status(picture)
        await connection.until(Heard)
        samples = await scrape(web)
        assert samples["provewire_node_cpu_used_ratio", label] == 0.5
        assert ("provewire_node_memory_used_bytes", label) not in samples  # unknown is no 0
        assert samples["provewire_node_gpu_memory_used_bytes", (("gpu", "GPU-1"), ("node", peer.id))] == 7
        assert samples["provewire_node_workers_down", label] == 1
        assert samples["provewire_sessions", ()] == 1
    await web.ask("DELETE", f"/api/v1/nodes/{peer.id}")
    assert not [name for name, labels in await scrape(web) if ("node", peer.id) in labels]


async def test_no_label_carries_a_nodes_text_or_a_job(web: Web) -> None:
    await web.register()
    job = (await web.submit())["id"]
    peer = await web.hub.enroll("a-telling-name")
    async with peer.connect(name="a-telling-name") as connection:
        await connection.status(NodeStatus(hostname="a-telling-name"))
        await connection.until(Heard)
        text = (await web.ask("GET", "/metrics")).body.decode()
    assert "a-telling-name" not in text
    assert job not in text
