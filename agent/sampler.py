"""The history of a node's readings: every few seconds what the board shows goes into the outbox, connected or not.

What is stored is numbers, and the state of each card, which the hub counts as one. Names and versions are in the
status.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, structs

from agent.board import Board
from agent.clock import Clock
from agent.outbox import Outbox
from wire.events import Readings
from wire.readings import GpuReading, HostReading

HOST_LEFT_OUT = frozenset({"boot_id", "container", "kernel"})
GPU_LEFT_OUT = frozenset(
    {
        "name",
        "detail",
        "index",
        "pci_bus_id",
        "driver_version",
        "cuda_version",
        "vbios_version",
        "persistence_mode",
        "mig_mode",
        "mig_instances",
        "xid_last",
        "xid_last_time_ms",
        "processes",
    }
)
R = TypeVar("R", bound=Struct)


def sample(host: HostReading | None, gpus: list[GpuReading]) -> Readings | None:
    """The numbers of these readings; None if there is not one.

    Of a card whose readings are not of this round only the state is taken: an old value is no sample of the present.
    """
    numbers = _without(host, HOST_LEFT_OUT) if host is not None else HostReading()
    cards = tuple(card for gpu in gpus if (card := _card(gpu)) != GpuReading(uuid=gpu.uuid))
    if numbers == HostReading() and not cards:
        return None
    return Readings(host=None if numbers == HostReading() else numbers, gpus=cards)


def _card(gpu: GpuReading) -> GpuReading:
    return _without(gpu, GPU_LEFT_OUT) if gpu.age_s is None else GpuReading(uuid=gpu.uuid, state=gpu.state)


def _without(reading: R, names: frozenset[str]) -> R:
    """``reading`` with the fields of these names as if they could not be read."""
    defaults = {each.name: each.default for each in structs.fields(type(reading))}
    return structs.replace(reading, **{name: defaults[name] for name in names})


async def keep_samples(board: Board, outbox: Outbox, *, clock: Clock, every_s: Callable[[], float]) -> None:
    """Store one sample every ``every_s()``; for ever. A full disk costs the sample, which is counted."""
    due_s = clock.monotonic()
    while True:
        due_s = max(due_s + every_s(), clock.monotonic())
        await clock.sleep(due_s - clock.monotonic())
        body = sample(board.host, board.gpus)
        if body is not None:
            await outbox.keep([body])
