"""What Prometheus reads."""

import asyncio
import socket
from contextlib import ExitStack

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hub import ports
from hub.api import metrics, scrapes
from hub.api.metrics import LoopLag
from hub.api.node_metrics import NODES_AT_ONCE, WORDS_MAX
from hub.api.scrapes import READERS_MAX, SCRAPES
from hub.faults import PARTS
from tests.hub.api.conftest import Web
from tests.hub.test_registry import a_hello, an_agent
from wire.engines import EngineReading, EngineState, EngineWorker
from wire.inputs import Heard
from wire.limits import GPUS_MAX
from wire.readings import GpuReading, GpuState, HostReading
from wire.reasons import Reason
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
    assert samples["provewire_loop_lag_last_seconds", ()] >= 0
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
            workers=[
                WorkerReading("cuda:1", WorkerState.DOWN),
                WorkerReading("cuda:0", WorkerState.IDLE, on_host="why"),
            ],
        )
        await connection.status(picture)
        await connection.until(Heard)
        samples = await scrape(web)
        assert samples["provewire_node_cpu_used_ratio", label] == 0.5
        assert ("provewire_node_memory_used_bytes", label) not in samples  # unknown is no 0
        assert samples["provewire_node_gpu_memory_used_bytes", (("gpu", "GPU-1"), ("node", peer.id))] == 7
        assert samples["provewire_node_workers_down", label] == 1
        assert samples["provewire_node_workers_on_host", label] == 1
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


async def test_every_reading_of_cards_and_engines_has_a_series_in_base_units(web: Web) -> None:
    peer = await web.hub.enroll()
    gpu = GpuReading("GPU-1", power_draw_mw=65_500, sm_clock_mhz=1980, xid_count=3, energy_mj=2_000, throttle_reasons=8)
    lost = GpuReading("GPU-2", state=GpuState.LOST)
    engine = EngineReading(engine="cuzk", state=EngineState.OK, queued=14, completed=7, workers=(EngineWorker(0, 0),))
    async with peer.connect() as connection:
        await connection.status(NodeStatus(gpus=[gpu, lost], engines=[engine]))
        await connection.until(Heard)
        samples = await scrape(web)
        one, two = (("gpu", "GPU-1"), ("node", peer.id)), (("gpu", "GPU-2"), ("node", peer.id))
        assert samples["provewire_node_gpu_power_watts", one] == 65.5
        assert samples["provewire_node_gpu_sm_clock_hertz", one] == pytest.approx(1.98e9)
        assert samples["provewire_node_gpu_xids_total", one] == 3
        assert samples["provewire_node_gpu_energy_joules_total", one] == 2.0
        assert (samples["provewire_node_gpu_ok", one], samples["provewire_node_gpu_ok", two]) == (1, 0)
        assert ("provewire_node_gpu_power_watts", two) not in samples
        cuzk = (("engine", "cuzk"), ("node", peer.id))
        assert (samples["provewire_node_engine_queued", cuzk], samples["provewire_node_engine_up", cuzk]) == (14, 1)
        await connection.status(NodeStatus(gpus=[gpu], engines=[]))
        await connection.until(Heard)
        later = await scrape(web)
        assert not [name for name, labels in later if two[0] in labels or cuzk[0] in labels]


async def test_a_nodes_own_words_in_a_label_cannot_forge_a_sample(web: Web) -> None:
    peer = await web.hub.enroll()
    evil = 'x"} 1\nprovewire_jobs{state="done"} 99\n\\'
    async with peer.connect() as connection:
        await connection.status(NodeStatus(gpus=[GpuReading(evil, xid_count=1)]))
        await connection.until(Heard)
        samples = await scrape(web)
    assert samples["provewire_node_gpu_xids_total", (("gpu", evil), ("node", peer.id))] == 1
    assert samples["provewire_jobs", (("state", "done"),)] == 0


async def test_a_node_that_makes_up_cards_fills_no_prometheus(web: Web) -> None:
    peer = await web.hub.enroll()
    seen = set()
    async with peer.connect() as connection:
        for turn in range(WORDS_MAX // GPUS_MAX + 3):
            await connection.status(NodeStatus(gpus=[GpuReading(f"{turn}-{n}", xid_count=1) for n in range(GPUS_MAX)]))
            await connection.until(Heard)
            samples = await scrape(web)
            seen |= {labels for name, labels in samples if name == "provewire_node_gpu_xids_total"}
        assert len(seen) == WORDS_MAX
        assert samples["provewire_node_series_refused_total", ()] > 0
    other = await web.hub.enroll()
    async with other.connect() as connection:
        await connection.status(NodeStatus(gpus=[GpuReading("a", xid_count=1)]))
        await connection.until(Heard)
        assert (("gpu", "a"), ("node", other.id)) in {labels for _, labels in await scrape(web)}


LABELS = {
    "provewire_alert_notices": {"outcome"},
    "provewire_alerts_firing": {"rule"},
    "provewire_alerts_told": {"kind"},
    "provewire_build": {"hub", "version"},
    "provewire_node_engine": {"engine", "node"},
    "provewire_node_gpu": {"gpu", "node"},
    "provewire_node_": {"node"},
}
"""The longest beginning of a family's name holds; of any other the labels are words of our own."""
OWN = {
    "state",
    "kind",
    "outcome",
    "reason",
    "queue",
    "where",
    "part",
    "cause",
    "code",
    "of",
    "tier",
    "volume",
    "le",
    "stream",
}


async def test_labels_are_fixed_sets(web: Web) -> None:
    peer = await web.hub.enroll("telling")
    engine = EngineReading(engine="cuzk", state=EngineState.OK)
    async with peer.connect(name="telling") as connection:
        await connection.status(NodeStatus(gpus=[GpuReading("GPU-1", xid_count=1)], engines=[engine]))
        await connection.until(Heard)
        while_heard = await scrape(web)
    for name, labels in while_heard:
        known = max((start for start in LABELS if name.startswith(start)), key=len, default="")
        assert {label for label, _ in labels} <= (LABELS[known] if known else OWN), name
    await web.ask("DELETE", f"/api/v1/nodes/{peer.id}")
    gone = await scrape(web)
    assert not [labels for _, labels in gone if any(value in {peer.id, "GPU-1", "cuzk"} for _, value in labels)]
    withdrawn = {name for name, _ in while_heard} - {name for name, _ in gone}
    assert withdrawn
    assert all(name.startswith("provewire_node_") for name in withdrawn), "only series of nodes come and go"


async def test_what_sessions_do_is_counted(web: Web) -> None:
    peer = await web.hub.enroll()
    async with peer.connect() as connection:
        await connection.status(NodeStatus(hostname="h"))
        await connection.until(Heard)
        connection.session.say_bye(Reason.GOODBYE, "maintenance")
        await connection.flush()
        await connection.closed()
    async with web.client.get("/agent") as answer:
        assert answer.status == 426
    samples = await scrape(web)
    assert samples["provewire_agent_frames_received_total", (("kind", "hello"),)] == 1
    assert samples["provewire_agent_frames_received_total", (("kind", "status"),)] == 1
    assert samples["provewire_agent_received_bytes_total", ()] > 100
    assert samples["provewire_agent_sent_bytes_total", ()] > 100
    assert samples["provewire_sessions_opened_total", ()] == 1
    assert samples["provewire_sessions_ended_total", (("of", "session"), ("reason", "GOODBYE"))] == 1
    assert samples["provewire_agents_turned_away_total", (("code", "upgrade_required"),)] == 1
    assert samples["provewire_mass_drop", ()] == 0
    assert samples["provewire_queue_depth", (("queue", "handshakes"),)] == 0


def plant(web: Web, count: int) -> None:
    """So many nodes that are heard, with eight cards each."""
    registry = web.app[ports.REGISTRY]
    gpu = GpuReading("GPU-", power_draw_mw=65_500, sm_clock_mhz=1980, xid_count=3, energy_mj=2_000, throttle_reasons=8)
    gpu = msgspec.structs.replace(gpu, temperature_c=60, memory_used_bytes=2**34, fan_ratio=0.4, utilization_ratio=0.9)
    gpus = [msgspec.structs.replace(gpu, uuid=f"GPU-{number}" + 32 * "0") for number in range(8)]
    status = NodeStatus(host=HostReading(cpu_used_ratio=0.5), gpus=gpus)
    for number in range(count):
        agent_id = f"{number:08}"
        registry.add(an_agent(id=agent_id))
        registry.opened(agent_id, f"s{number}", a_hello(), "r")
        registry.reported(agent_id, status, web.clock.time_ms())


async def test_the_loop_has_its_turns_while_a_scrape_of_a_large_fleet_is_made(web: Web) -> None:
    plant(web, 2000)
    turns = 0
    making = asyncio.create_task(metrics.make(web.app))
    while not making.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 2000 / NODES_AT_ONCE
    assert NODES_AT_ONCE <= 4, "eight cards and more for each, at a microsecond a line"
    assert sum(piece.count(b'node="00000000"') for piece in making.result()) > 8


async def test_scrapes_do_not_pile_up(web: Web) -> None:
    plant(web, 200)
    replies = await asyncio.gather(*(web.ask("GET", "/metrics") for _ in range(3 * READERS_MAX)))
    answered = [reply for reply in replies if reply.status == 200]
    assert len(answered) >= READERS_MAX
    assert {reply.code for reply in replies if reply.status != 200} <= {"busy"}
    assert all(reply.body.count(b"provewire_node_gpu_ok{") == 8 * 200 for reply in answered)
    assert web.app[SCRAPES].made < len(answered), "each was made for itself"
    assert web.app[SCRAPES].readers == 0


async def test_readers_that_take_nothing_hold_up_nobody_and_are_few(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrapes, "SEND_DEADLINE_S", 1e6)
    plant(web, 2000)
    headers = "".join(f"{name}: {value}\r\n" for name, value in web.admin.items())
    count = web.app[SCRAPES]
    with ExitStack() as stack:
        for _ in range(READERS_MAX - 1):
            reader = stack.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", web.hub.port))
            reader.sendall(f"GET /metrics HTTP/1.1\r\nHost: hub\r\n{headers}\r\n".encode())
        async with asyncio.timeout(60.0):
            while count.readers < READERS_MAX - 1:
                await web.ask("GET", "/healthz")
        assert (await web.ask("GET", "/metrics")).status == 200
        assert count.readers == READERS_MAX - 1
        blocked = socket.create_connection(("127.0.0.1", web.hub.port))
        stack.enter_context(blocked).sendall(f"GET /metrics HTTP/1.1\r\nHost: hub\r\n{headers}\r\n".encode())
        async with asyncio.timeout(60.0):
            while count.readers < READERS_MAX:
                await web.ask("GET", "/healthz")
        assert (await web.ask("GET", "/metrics")).code == "busy"


def test_the_lag_of_the_loop_is_a_histogram() -> None:
    lag = LoopLag()
    for late_s in (0.001, 0.005, 0.03, 99.0):
        lag.woke(late_s)
    buckets = dict(lag.buckets())
    assert (buckets["0.005"], buckets["0.025"], buckets["0.05"], buckets["5.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert (lag.last_s, lag.max_s) == (99.0, 99.0)
