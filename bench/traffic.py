"""What a made-up node of a bench says: pictures of eight busy cards, events, log records and history samples. Seeded.

A full picture has about 1.5 KB, what changes from one second to the next about 300 bytes, as on a real node of eight
cards. Every event says its own number (``fields["n"]``, or ``uptime_s`` of a history sample), so that whoever reads
the hub's store can tell whether each arrived once and whole.

Two things a picture carries let a watcher measure how old what it sees is, with nothing but the machine's monotonic
clock: a worker's ``detail`` holds the nanoseconds at which its state last changed, and the first card's ``energy_mj``
grows by exactly `WATTS` millijoules a millisecond since the clock's beginning.
"""

import random
import uuid

from wire.frames import EventBody, Level, LogRecord, NodeEvent, Readings, Stream
from wire.readings import GpuReading, HostReading
from wire.status import NodeStatus, OutboxReading, WorkerReading, WorkerState

GIB = 1024**3
MIB = 1024**2
WATTS = 300
"""Millijoules a millisecond: what `energy_mj` of the first card grows by."""
CARD = "NVIDIA H100 80GB HBM3"
CARD_BYTES = 80 * GIB
HOST_BYTES = 512 * GIB
DISK_BYTES = 2048 * GIB


def sensed_ms(energy_mj: int) -> float:
    """Monotonic milliseconds at which the first card's counter was read."""
    return energy_mj / WATTS


class Scene:
    """One node's cards and host, which change a little with every look."""

    def __init__(self, rng: random.Random, *, name: str, gpus: int = 8) -> None:
        self._rng = rng
        self._name = name
        self._uuids = [f"GPU-{uuid.UUID(int=rng.getrandbits(128))}" for _ in range(gpus)]
        self._used_bytes = [rng.randrange(CARD_BYTES // MIB) * MIB for _ in range(gpus)]
        self._celsius = [rng.randrange(45, 75) for _ in range(gpus)]
        self._clock_mhz = [1980] * gpus
        self._proving = True
        self._changed_ns = 0
        self.host = HostReading()
        self.gpus: list[GpuReading] = []
        self.look(0)

    def look(self, monotonic_ns: int) -> None:
        """Read everything again: load and power of every card have moved, its memory and temperature now and then."""
        rng, cards = self._rng, range(len(self._uuids))
        for at in cards:
            if rng.random() < 0.1:  # noqa: PLR2004 - one look in ten
                self._used_bytes[at] = rng.randrange(CARD_BYTES // MIB) * MIB
                self._celsius[at] = rng.randrange(45, 75)
        self.gpus = [
            GpuReading(
                uuid=self._uuids[at],
                name=CARD,
                index=at,
                memory_total_bytes=CARD_BYTES,
                memory_used_bytes=self._used_bytes[at],
                utilization_ratio=rng.randrange(101) / 100,
                temperature_c=self._celsius[at],
                power_draw_mw=rng.randrange(100, 700) * 1000,
                power_limit_mw=700_000,
                sm_clock_mhz=self._clock_mhz[at],
                memory_clock_mhz=2619,
                throttle_reasons=0,
                ecc_uncorrected_volatile=0,
                energy_mj=monotonic_ns // 1_000_000 * WATTS if at == 0 else None,
            )
            for at in cards
        ]
        self.host = HostReading(
            cpu_count=128,
            cpu_used_ratio=rng.randrange(101) / 100,
            load_1min=rng.randrange(12_800) / 100,
            memory_total_bytes=HOST_BYTES,
            memory_used_bytes=rng.randrange(HOST_BYTES // MIB) * MIB,
            disk_total_bytes=DISK_BYTES,
            disk_free_bytes=DISK_BYTES // 2,
        )

    def sweep(self) -> None:
        """What changes rarely has changed on every card, as when one job ends and another begins."""
        for at in range(len(self._uuids)):
            self._used_bytes[at] = self._rng.randrange(CARD_BYTES // MIB) * MIB
            self._celsius[at] = self._rng.randrange(45, 75)
            self._clock_mhz[at] = self._rng.randrange(1200, 1981, 15)

    def change_state(self, monotonic_ns: int) -> None:
        """The worker begins or ends a proof: what an operator wants to see at once."""
        self._proving = not self._proving
        self._changed_ns = monotonic_ns

    def picture(self, outbox: OutboxReading) -> NodeStatus:
        """The node as it is now."""
        state = WorkerState.PROVING if self._proving else WorkerState.IDLE
        worker = WorkerReading(device="cuda:0", state=state, pid=4711, detail=str(self._changed_ns))
        return NodeStatus(
            hostname=self._name,
            host=self.host,
            gpus=self.gpus,
            workers=[worker],
            jobs=[],
            outbox=outbox,
            draining=False,
            engines=[],
        )

    def body(self, stream: Stream, seq: int) -> EventBody:
        """The event of this number."""
        if stream is Stream.EVENTS:
            detail = f"card {seq % 8} of {self._name} throttled for 2.4 s at 83 C: software thermal slowdown"
            fields: dict[str, str | int | float | bool | None] = {
                "n": seq,
                "gpu": self._uuids[seq % len(self._uuids)] if self._uuids else "",
                "celsius": 83,
            }
            return NodeEvent(kind="gpu.throttled", detail=detail, level=Level.WARNING, fields=fields)
        if stream is Stream.LOGS:
            text = f"proof {seq} on {self._name}: phase msm_b2 took 412.7 ms, 3 of 5 partitions done, queue depth 2"
            return LogRecord(source="worker", text=text, fields={"n": seq, "phase": "msm_b2"})
        if stream is Stream.READINGS:
            return Readings(host=HostReading(cpu_used_ratio=0.5, uptime_s=seq), gpus=tuple(map(_sample, self.gpus)))
        raise ValueError(f"stream {stream} belongs to jobs, which a made-up node does not have")


def _sample(gpu: GpuReading) -> GpuReading:
    """A card's numbers, as the history keeps them."""
    return GpuReading(
        uuid=gpu.uuid,
        memory_used_bytes=gpu.memory_used_bytes,
        utilization_ratio=gpu.utilization_ratio,
        temperature_c=gpu.temperature_c,
        power_draw_mw=gpu.power_draw_mw,
        sm_clock_mhz=gpu.sm_clock_mhz,
    )


def number_of(body: EventBody) -> int | None:
    """The number an event of `Scene.body` carries; None for another's event."""
    if isinstance(body, NodeEvent | LogRecord):
        n = body.fields.get("n")
        return n if isinstance(n, int) else None
    if isinstance(body, Readings) and body.host is not None:
        return body.host.uptime_s
    return None
