"""What a worker asks of an engine: the shape of a call and of its answer. The engines are in `engines`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from wire.jobs import Output


class Work(Struct, frozen=True):
    """One call of an engine."""

    inputs: Mapping[str, Path]
    """Role to file."""
    report: Callable[[str, int, int], None]
    """Phase, done, total; may be called from the engine's thread, as often as it likes."""
    cancelled: Callable[[], bool]
    """Asked at phase boundaries: whether to raise `prover.errors.Cancelled`."""


class Proved(Struct, frozen=True):
    """What an engine returns: each output by role, small ones inline; milliseconds per phase."""

    outputs: list[Output]
    timings_ms: dict[str, float]


class Engine(Protocol):
    """Proves, on one device. All calls come on one thread, always the same: device contexts belong to threads.

    Attributes:
        on_host: since `open`, of an engine that was to look for a card: why it took the host instead; else empty.
    """

    on_host: str

    @property
    def is_open(self) -> bool:
        """Whether it has its device: a job can lose it."""
        ...

    def open(self) -> None:
        """Take the device; called again before each job if it failed, so it may heal.

        Raises:
            ProverError: the device cannot be used; the sentence says why.
        """
        ...

    def prove(self, work: Work) -> Proved:
        """Do one job.

        Raises:
            ProverError: it came to nothing; the sentence says why.
            Cancelled: ``work.cancelled`` said so.
        """
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


EngineMaker = Callable[[str], Engine]
"""Makes an engine for a device; touches the device only in `Engine.open`."""
