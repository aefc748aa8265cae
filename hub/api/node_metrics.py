"""The nodes' own series for Prometheus: what each said of its host, its cards and its engines, as text.

Only nodes that are heard have series, and unknown values none, so that no old value is taken for a present one. A large
fleet has some hundred thousand of them: they are written node by node, and the loop has its turn in between.

Labels are a node's id, a card's UUID, an engine's name. The last two are the node's own words: escaped, and so many of
one node at most. Prometheus keeps every label it ever saw, so a node that makes up new ones fills its disk.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from msgspec import UNSET

from hub.registry import Node, Registry
from wire.engines import EngineReading, EngineState
from wire.limits import ENGINES_MAX, GPUS_MAX
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import WorkerState

NODES_AT_ONCE = 4
"""Nodes written before others get their turn on the loop: about a millisecond, with eight cards each."""
PREFIX = "provewire_node_"
WORDS_MAX = 4 * (GPUS_MAX + ENGINES_MAX)
"""Of one node: every card exchanged three times."""


class Series(NamedTuple):
    """One family: how a reading gives its value."""

    name: str
    text: str
    value: Callable[[Any], float | None]
    counter: bool = False


def _is(name: str, text: str, field: str = "", *, per: float = 1.0, counter: bool = False) -> Series:
    """A family whose value is a field, divided by ``per``."""
    field = field or name

    def value(reading: Any) -> float | None:
        said = getattr(reading, field)
        return said if said is None or per == 1.0 else said / per  # type: ignore[no-any-return]

    return Series(name, text, value, counter)


HOST = (
    _is("cpu_used_ratio", "Used part of all cores."),
    _is("cpu_cores", "Cores.", "cpu_count"),
    _is("load_1min", "Load average of a minute."),
    _is("memory_used_bytes", "Host memory used."),
    _is("memory_total_bytes", "Host memory."),
    _is("memory_limit_bytes", "Limit of the cgroup."),
    _is("memory_limit_used_bytes", "What counts against the cgroup's limit."),
    _is("swap_used_bytes", "Swap used."),
    _is("disk_free_bytes", "Free on the data directory's file system."),
    _is("disk_total_bytes", "Size of the data directory's file system."),
    _is("root_disk_free_bytes", "Free on the root file system."),
    _is("disk_inodes_free", "Free inodes of the data directory's file system."),
    _is("network_receive_bytes_total", "Received since boot.", "network_rx_bytes", counter=True),
    _is("network_transmit_bytes_total", "Sent since boot.", "network_tx_bytes", counter=True),
    _is("network_errors_total", "Network errors since boot.", counter=True, field="network_errors"),
    _is("temperature_celsius", "The hottest sensor of processor or board.", "temperature_c"),
    _is("uptime_seconds", "Since boot.", "uptime_s"),
    _is("open_files", "Of the agent.", "open_files_used"),
)
GPU = (
    Series("gpu_ok", "Whether the card is ok: 0 for degraded, lost, hung and so on.", lambda g: g.state is GpuState.OK),
    Series("gpu_lost", "Whether the card fell off the bus.", lambda g: g.state is GpuState.LOST),
    _is("gpu_utilization_ratio", "Part of the time that a kernel ran.", "utilization_ratio"),
    _is("gpu_memory_utilization_ratio", "Part of the time that memory was accessed.", "memory_utilization_ratio"),
    _is("gpu_memory_used_bytes", "Card memory used.", "memory_used_bytes"),
    _is("gpu_memory_total_bytes", "Card memory.", "memory_total_bytes"),
    _is("gpu_sm_clock_hertz", "Clock of the processors.", "sm_clock_mhz", per=1e-6),
    _is("gpu_memory_clock_hertz", "Clock of the memory.", "memory_clock_mhz", per=1e-6),
    _is("gpu_temperature_celsius", "Temperature of the chip.", "temperature_c"),
    _is("gpu_memory_temperature_celsius", "Temperature of the memory.", "memory_temperature_c"),
    _is("gpu_power_watts", "Power drawn.", "power_draw_mw", per=1000.0),
    _is("gpu_power_limit_watts", "Power allowed.", "power_limit_mw", per=1000.0),
    _is("gpu_energy_joules_total", "Since the driver was loaded.", "energy_mj", per=1000.0, counter=True),
    _is("gpu_fan_ratio", "Speed of the fan.", "fan_ratio"),
    _is("gpu_pcie_generation", "Of the link now.", "pcie_generation"),
    _is("gpu_pcie_width", "Lanes of the link now.", "pcie_width"),
    _is("gpu_pcie_receive_bytes_per_second", "Received over PCIe.", "pcie_rx_bytes_per_s"),
    _is("gpu_pcie_transmit_bytes_per_second", "Sent over PCIe.", "pcie_tx_bytes_per_s"),
    _is("gpu_pcie_replays_total", "Repeated PCIe packets.", "pcie_replays", counter=True),
    _is("gpu_nvlinks_active", "NVLinks that are up.", "nvlinks_active"),
    _is("gpu_throttle_reason_bits", "NVML's bits for why clocks are not at their maximum.", "throttle_reasons"),
    _is("gpu_ecc_corrected_total", "In the card's life.", "ecc_corrected_aggregate", counter=True),
    _is("gpu_ecc_uncorrected_total", "In the card's life.", "ecc_uncorrected_aggregate", counter=True),
    _is("gpu_remapped_rows_corrected_total", "In the card's life.", "remapped_rows_corrected", counter=True),
    _is("gpu_remapped_rows_uncorrected_total", "In the card's life.", "remapped_rows_uncorrected", counter=True),
    _is("gpu_remapped_rows_pending", "Whether rows wait for a reset to be remapped.", "remapped_rows_pending"),
    _is("gpu_remapped_rows_failed", "Whether remapping failed.", "remapped_rows_failed"),
    _is("gpu_retired_pages_total", "In the card's life.", "retired_pages", counter=True),
    _is("gpu_xids_total", "XID errors since the agent began to watch.", "xid_count", counter=True),
    _is("gpu_xid_last", "The latest XID.", "xid_last"),
    _is("gpu_readings_age_seconds", "Age of readings that are not of now.", "age_s"),
)
ENGINE = (
    Series("engine_up", "Whether the engine's status can be read.", lambda e: e.state is EngineState.OK),
    _is("engine_queued", "Pending partitions of all jobs.", "queued"),
    Series("engine_jobs", "Jobs listed.", lambda e: len(e.jobs) + e.jobs_left_out),
    _is("engine_completed_total", "Proofs completed.", "completed", counter=True),
    _is("engine_failed_total", "Proofs failed.", "failed", counter=True),
    _is("engine_memory_used_bytes", "Of the engine's own budget.", "memory_used_bytes"),
    _is("engine_memory_total_bytes", "The engine's own budget.", "memory_total_bytes"),
    _is("engine_synthesis_active", "Syntheses under way.", "synthesis_active"),
    _is("engine_synthesis_max", "Syntheses at most.", "synthesis_max"),
    Series("engine_workers", "Workers.", lambda e: len(e.workers)),
    Series("engine_workers_proving", "Workers that prove.", lambda e: sum(item.proving for item in e.workers)),
)
NODE = (
    Series("last_frame_age_seconds", "Since the hub heard the node.", lambda pair: pair[1].frame_age_s(pair[0])),
    Series(
        "clock_skew_seconds",
        "The node's clock minus the hub's.",
        lambda pair: None if pair[0].clock_skew_ms is None else pair[0].clock_skew_ms / 1000,
    ),
)
OUTBOX = (
    _is("outbox_events", "What the node holds unacknowledged.", "events_held"),
    _is("outbox_bytes", "The same in bytes.", "bytes_held"),
    _is("outbox_dropped_total", "What the node gave up, since its outbox was made.", "dropped", counter=True),
)
WORKERS = (
    Series("workers", "Workers.", len),
    Series("workers_down", "Workers that are down.", lambda all_: sum(one.state is WorkerState.DOWN for one in all_)),
    Series(
        "workers_on_host",
        "Workers of cards that prove on the CPU instead.",
        lambda all_: sum(one.on_host != "" for one in all_),
    ),
)
FAMILIES = (*NODE, *HOST, *OUTBOX, *WORKERS, *GPU, *ENGINE)


class Words:
    """Which words of nodes became labels, in this run of the hub."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}
        self.refused = 0
        """Series left out because their node has used too many words, counted at each scrape."""

    def keep(self, node_ids: Collection[str]) -> None:
        """Forget nodes that are no more."""
        for node_id in self._known.keys() - set(node_ids):
            del self._known[node_id]

    def takes(self, node_id: str, word: str) -> bool:
        """Whether a node's word may be a label: those it used first may."""
        known = self._known.setdefault(node_id, set())
        if word not in known:
            if len(known) >= WORDS_MAX:
                self.refused += 1
                return False
            known.add(word)
        return True


async def text(nodes: Iterable[Node], registry: Registry, words: Words) -> list[bytes]:
    """The series of these nodes, a piece for each family."""
    words.keep({node.id for node in registry.nodes()})
    lines = {family.name: bytearray() for family in FAMILIES}
    for number, node in enumerate(nodes):
        _write(lines, node, registry, words)
        if number % NODES_AT_ONCE == NODES_AT_ONCE - 1:
            await asyncio.sleep(0)
    parts = []
    for family in FAMILIES:
        if samples := lines[family.name]:
            name = PREFIX + family.name
            head = f"# HELP {name} {family.text}\n# TYPE {name} {'counter' if family.counter else 'gauge'}\n"
            parts.append(head.encode() + samples)
            lines[family.name] = bytearray()
            await asyncio.sleep(0)
    return parts


def _write(lines: dict[str, bytearray], node: Node, registry: Registry, words: Words) -> None:
    status = node.status
    own = f'node="{node.id}"'
    _add(lines, NODE, own, (node, registry))
    if status.host is not UNSET:
        host: HostReading = status.host
        _add(lines, HOST, own, host)
    if status.outbox is not UNSET:
        _add(lines, OUTBOX, own, status.outbox)
    if status.workers is not UNSET:
        _add(lines, WORKERS, own, status.workers)
    gpus: Iterable[GpuReading] = () if status.gpus is UNSET else status.gpus
    for gpu in {gpu.uuid: gpu for gpu in gpus}.values():
        if words.takes(node.id, gpu.uuid):
            _add(lines, GPU, f'{own},gpu="{_escaped(gpu.uuid)}"', gpu)
    engines: Iterable[EngineReading] = () if status.engines is UNSET else status.engines
    for engine in {engine.engine: engine for engine in engines}.values():
        if words.takes(node.id, engine.engine):
            _add(lines, ENGINE, f'{own},engine="{_escaped(engine.engine)}"', engine)


def _add(lines: dict[str, bytearray], families: Iterable[Series], labels: str, reading: Any) -> None:
    for family in families:
        value = family.value(reading)
        if value is not None:
            lines[family.name] += f"{PREFIX}{family.name}{{{labels}}} {float(value)!r}\n".encode()


def _escaped(text: str) -> str:
    """A label's value as the text format has it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
