"""Asking a driver: its every answer looked at, and its first error turned into a sentence with kernel and stage."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from prover.backends.driver import Driver, DriverFailure, Handle
from prover.errors import DeviceError

NAMED_LAUNCHES: Final = 3
"""Launches that a late error names."""

_T = TypeVar("_T")


class Asking:
    """What is said to one driver.

    Attributes:
        name: of the device.
        driver: the driver.
        stage: what is being done, for messages.
        broken: whether the driver returned an error; then nothing but `clean_up` is left.
        unchecked: kernels launched since each stream was last seen to be idle.
    """

    def __init__(self, name: str, driver: Driver) -> None:
        self.name = name
        self.driver = driver
        self.stage = ""
        self.broken = False
        self.unchecked: dict[int, list[str]] = {}

    def ask(self, what: str, call: Callable[..., _T], *arguments: object) -> _T:
        """Ask for something.

        Args:
            what: what it is for, in messages; what was asked for where empty.
            call: a method of the driver.
            arguments: its arguments.

        Raises:
            DeviceError: the driver returned an error, now or before.
        """
        if self.broken:
            raise DeviceError(f"{self.name} failed before and was not opened anew")
        try:
            return call(*arguments)
        except DriverFailure as failure:
            self.broken = True
            raise DeviceError(self._sentence(what or failure.call, failure)) from failure

    def allocate(self, nbytes: int, what: str) -> int:
        """Ask for device memory; that there is none breaks nothing.

        Raises:
            DeviceError: there is not so much.
        """
        if self.broken:
            raise DeviceError(f"{self.name} failed before and was not opened anew")
        try:
            return self.driver.allocate(nbytes)
        except DriverFailure as failure:
            if not failure.out_of_memory:
                self.broken = True
                raise DeviceError(self._sentence(f"memory for {what}", failure)) from failure
            raise DeviceError(
                f"{self.name} has no {nbytes} bytes of memory for {what} ({failure.reason}): another program may use "
                "the card; end it, or lower --max-vram"
            ) from failure

    def clean_up(self, call: Callable[..., object], *arguments: object) -> None:
        """Ask the driver to take something back; a card that failed may refuse, and its context ends all the same."""
        with suppress(DriverFailure):
            call(*arguments)

    def launched(self, queue: int, entry: str) -> None:
        """Remember a launch whose errors may come later."""
        self.unchecked.setdefault(queue, []).append(f"{entry} ({self.stage})" if self.stage else entry)

    def synchronize(self, queue: int, stream: Handle) -> None:
        """Wait for a stream.

        Raises:
            DeviceError: something that it was given failed.
        """
        self.ask("waiting for the card", self.driver.synchronize, stream)
        self.unchecked[queue] = []

    def _sentence(self, what: str, failure: DriverFailure) -> str:
        """Say what failed, where, and which launches may be the cause."""
        stage = f" in the stage {self.stage}" if self.stage else ""
        late = [name for names in self.unchecked.values() for name in names]
        if not late:
            return f"{self.name}: {what} failed{stage}: {failure}"
        shown = ", ".join(late[-NAMED_LAUNCHES:])
        more = f" and {len(late) - NAMED_LAUNCHES} before" if len(late) > NAMED_LAUNCHES else ""
        return (
            f"{self.name}: {what} failed{stage}: {failure}; not checked before: {shown}{more} "
            "(PROVEWIRE_CHECK_LAUNCHES=1 waits for each)"
        )
