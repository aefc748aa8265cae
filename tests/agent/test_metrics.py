"""What Prometheus reads, parsed by its own parser."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.backoff import Fault, Kind
from agent.board import Board
from agent.faults import FAULTS, PARTS
from agent.logs.limits import Reason
from agent.logs.shipper import LogCounts
from agent.metrics import STALE_S, LoopLag, Parts, render
from agent.outbox import Outbox, open_outbox
from agent.outbox_bounds import Bounds
from agent.tally import NAMES_MAX, OTHER
from agent.uplink import State, UplinkView
from tests.agent.samples import EPOCHS
from tests.agent.virtual_time import VirtualClock
from wire.engines import EngineReading, EngineState
from wire.frames import LogRecord
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import WorkerReading, WorkerState

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
LOGS = LogCounts(
    shipped={"agent": 5},
    suppressed={("file", Reason.RATE): 7},
    bytes_today=1000,
    bytes_per_day=50_000,
    waiting_for_disk=False,
)


class Agent:
    """The parts of an agent that metrics look at, real ones."""

    def __init__(self, outbox: Outbox, clock: VirtualClock) -> None:
        self.clock = clock
        self.outbox = outbox
        self.view = UplinkView()
        self.board = Board()
        self.logs: LogCounts | None = LOGS
        self.started_s = clock.now_s

    def text(self) -> str:
        return render(
            Parts(
                version="1.2.3",
                started_s=self.started_s,
                clock=self.clock,
                view=self.view,
                board=self.board,
                outbox=self.outbox,
                outbox_bytes_max=1 << 20,
                lag=LoopLag(),
                logs=self.logs,
            )
        ).decode()

    def samples(self) -> Samples:
        found: Samples = {}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                key = (sample.name.removeprefix("provewire_agent_"), tuple(sorted(sample.labels.items())))
                assert key not in found, key
                found[key] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, tuple(sorted(labels.items()))))

    def read(self, sensor: str, *, good: bool = True, took_s: float = 0.5) -> None:
        self.board.sensors.read(sensor, self.clock.now_s - took_s, self.clock.now_s, good=good)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    clock = VirtualClock()
    outbox = await open_outbox(tmp_path / "outbox.sqlite", EPOCHS[0], clock, Bounds())
    yield Agent(outbox, clock)
    await outbox.close()


async def test_a_fresh_agent(agent: Agent) -> None:
    agent.logs = None
    agent.clock.now_s += 12
    assert agent.value("build", version="1.2.3") == 1
    assert agent.value("uptime_seconds") == 12
    assert agent.value("session_state", state="starting") == 1
    assert agent.value("healthy") == 0
    assert agent.value("last_acknowledged_age_seconds") is None
    assert agent.value("sessions_total") == 0
    assert agent.value("loop_lag_seconds") == 0
    assert agent.value("workers", state="idle") == 0


async def test_the_process_is_measured_too(agent: Agent) -> None:
    assert "process_resident_memory_bytes" in agent.text()
    assert "process_open_fds" in agent.text()


async def test_queues_stand_beside_their_bounds(agent: Agent) -> None:
    await agent.outbox.say("a.b", "something happened")
    held = agent.outbox.reading
    assert held.bytes_held > 0
    assert agent.value("queue_depth", queue="outbox_bytes") == held.bytes_held
    samples = agent.samples()
    depths = {labels for name, labels in samples if name == "queue_depth"}
    assert depths == {labels for name, labels in samples if name == "queue_bound"}
    assert agent.value("queue_bound", queue="log_bytes_today") == 50_000


async def test_the_outbox_by_stream(agent: Agent) -> None:
    await agent.outbox.say("a.b", "something happened")
    await agent.outbox.keep([LogRecord(source="agent", text="one"), LogRecord(source="agent", text="two")])
    assert agent.value("outbox_events", stream="events") == 1
    assert agent.value("outbox_events", stream="logs") == 2
    assert agent.value("outbox_events", stream="jobs") == 0
    assert (agent.value("outbox_bytes", stream="logs") or 0) > 0
    assert agent.value("outbox_commit_seconds_count") == 2


async def test_what_was_dropped_is_counted_by_stream_and_reason(tmp_path: Path) -> None:
    clock = VirtualClock()
    outbox = await open_outbox(tmp_path / "small.sqlite", EPOCHS[0], clock, Bounds(bytes_max=20_000))
    agent = Agent(outbox, clock)
    for _ in range(50):
        await outbox.keep([LogRecord("agent", "x" * 1000)])
    assert (agent.value("outbox_dropped_total", stream="logs", reason="size") or 0) > 0
    await outbox.close()


async def test_the_session_and_why_earlier_ones_ended(agent: Agent) -> None:
    view = agent.view
    view.tally.ended(Fault(Kind.UNREACHABLE, "network", "nobody there").name)
    view.tally.ended("network")
    view.tally.ended("http_502")
    view.tally.ended("http_503")
    view.tally.opened += 1
    view.tally.sent(300, 0.25)
    view.tally.sent(100, 0.5)
    view.state, view.last_ack_s, view.clock_skew_ms = State.OPEN, agent.clock.now_s - 3, -1500
    assert agent.value("session_state", state="open") == 1
    assert agent.value("session_state", state="starting") == 0
    assert agent.value("healthy") == 1
    assert agent.value("last_acknowledged_age_seconds") == 3
    assert agent.value("clock_skew_seconds") == -1.5
    assert agent.value("sessions_total") == 1
    assert agent.value("session_ends_total", reason="network") == 2
    assert agent.value("session_ends_total", reason="http_5xx") == 2
    assert (agent.value("frame_send_seconds_count"), agent.value("frame_send_seconds_sum")) == (2, 0.75)
    assert agent.value("sent_bytes_total") == 400


async def test_reasons_a_hub_invents_fill_no_memory(agent: Agent) -> None:
    for number in range(10 * NAMES_MAX):
        agent.view.tally.ended(f"invented-{number}")
    assert len(agent.view.tally.ends) == NAMES_MAX + 1
    assert agent.value("session_ends_total", reason=OTHER) == 9 * NAMES_MAX


async def test_log_records(agent: Agent) -> None:
    assert agent.value("log_records_shipped_total", source="agent") == 5
    assert agent.value("log_records_suppressed_total", source="file", reason="rate") == 7
    assert agent.value("logs_waiting_for_disk") == 0


async def test_sensors(agent: Agent) -> None:
    agent.read("gpu", took_s=2.0)
    agent.clock.now_s += 5
    agent.read("gpu", good=False, took_s=3.0)
    assert agent.value("sensor_read_seconds_count", sensor="gpu") == 2
    assert agent.value("sensor_read_seconds_sum", sensor="gpu") == 5.0
    assert agent.value("sensor_failures_total", sensor="gpu") == 1
    assert agent.value("sensor_last_good_age_seconds", sensor="gpu") == 5


async def test_the_host_is_withdrawn_when_it_is_stale(agent: Agent) -> None:
    agent.board.host = HostReading(cpu_used_ratio=0.25, network_rx_bytes=10)
    agent.read("host")
    assert agent.value("host_cpu_used_ratio") == 0.25
    assert agent.value("host_network_rx_bytes_total") == 10
    assert agent.value("host_memory_used_bytes") is None  # not readable
    agent.clock.now_s += STALE_S + 1
    assert not [name for name, _ in agent.samples() if name.startswith("host_")]


async def test_cards_by_uuid_and_only_what_is_read_now(agent: Agent) -> None:
    agent.read("gpu")
    agent.board.gpus = [
        GpuReading(uuid="GPU-1", temperature_c=60, power_draw_mw=700_000, xid_count=2),
        GpuReading(uuid="GPU-2", temperature_c=50, state=GpuState.DRIVER_HUNG, age_s=40.0),
    ]
    assert agent.value("gpu_temperature_c", gpu="GPU-1") == 60
    assert agent.value("gpu_xid_count_total", gpu="GPU-1") == 2
    assert agent.value("gpu_temperature_c", gpu="GPU-2") is None
    assert agent.value("gpu_state", gpu="GPU-2", state="driver_hung") == 1
    assert agent.value("gpu_state", gpu="GPU-2", state="ok") == 0
    agent.board.gpus = agent.board.gpus[:1]
    assert agent.value("gpu_state", gpu="GPU-2", state="ok") is None


async def test_an_engine_that_cannot_be_read_shows_its_state_alone(agent: Agent) -> None:
    reading = EngineReading(engine="cuzk", state=EngineState.OK, queued=9, failed=1)
    agent.board.engines = [reading]
    assert agent.value("engine_state", engine="cuzk", state="ok") == 1
    assert (agent.value("engine_queued", engine="cuzk"), agent.value("engine_failed", engine="cuzk")) == (9, 1)
    agent.board.engines = [msgspec.structs.replace(reading, state=EngineState.DOWN)]
    assert agent.value("engine_state", engine="cuzk", state="down") == 1
    assert agent.value("engine_queued", engine="cuzk") is None


async def test_faults_of_ours_are_counted_by_part(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, "local", 3)
    assert agent.value("internal_faults_total", part="local") == 3
    assert {dict(labels)["part"] for name, labels in agent.samples() if name == "internal_faults_total"} == set(PARTS)


async def test_workers_by_state(agent: Agent) -> None:
    agent.board.workers = lambda: [WorkerReading(device="host", state=WorkerState.DOWN)]
    assert (agent.value("workers", state="down"), agent.value("workers", state="idle")) == (1, 0)


def test_an_agent_that_nobody_scrapes_does_not_load_the_library() -> None:
    probe = "import sys, agent.agent; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
