"""From the daemon's gRPC status to a reading: less than HTTP says, and only the part of it that is true.

Left out: card names and memory (asked of nvidia-smi, which the agent reads itself), the keys (only preloaded ones,
without sizes), pinned memory (always 0), and the queues' pending (the front queue, which empties at once).
"""

from agent.sensors.cuzk.mend import ENGINE, name
from agent.sensors.cuzk.protobuf import StatusMessage
from agent.sensors.cuzk.steady import Beginnings, Moment
from wire.engines import EngineReading, EngineState, EngineWorker
from wire.limits import ENGINE_WORKERS_MAX, INTEGER_MAX

UNTOLD = ("jobs", "keys", "memory", "queue")
"""What gRPC cannot tell."""


class GrpcMender:
    """Keeps the beginning of the daemon's run."""

    def __init__(self) -> None:
        self._beginnings = Beginnings()

    def take(self, message: StatusMessage, now: Moment) -> EngineReading:
        """The reading ``message`` stands for. Its counters include the jobs HTTP never lists."""
        started_at_ms = self._beginnings.of("start", now, float(message.uptime_s))
        self._beginnings.answer_ends()
        return EngineReading(
            engine=ENGINE,
            state=EngineState.STATUS_DISABLED,
            source="grpc",
            answered_at_ms=now.unix_ms,
            started_at_ms=started_at_ms,
            completed=_count(message.completed),
            failed=_count(message.failed),
            workers=tuple(
                EngineWorker(
                    id=row, gpu_ordinal=gpu.ordinal, proving=bool(gpu.job), job=name(gpu.job) if gpu.job else None
                )
                for row, gpu in enumerate(message.gpus[:ENGINE_WORKERS_MAX])
                if _count(gpu.ordinal) is not None
            ),
            in_flight={"jobs": min(sum(queue.in_progress for queue in message.queues), INTEGER_MAX)},
            limits=UNTOLD,
        )


def _count(number: int) -> int | None:
    return number if number <= INTEGER_MAX else None
