"""What we ask of a GPU's driver: few calls, addresses and sizes, nothing hidden.

``cuda.py`` answers them through PyCUDA; NVIDIA's own ``cuda.bindings`` could. Tests answer them with the kernels' host
build. One thread uses a driver, the one that opened it. Every call raises `DriverFailure` where the driver's own
function returned an error. Copies, fills and launches are only put into their stream: what they read must stay as it
is until the stream has passed them, and an error of theirs may come out of any later call.
"""

from dataclasses import dataclass
from typing import Protocol

Handle = object
"""A stream, an event, a module or a function, as the driver knows it."""


class DriverFailure(Exception):
    """A driver's function returned an error.

    Attributes:
        call: what we asked for.
        reason: the driver's own words.
        out_of_memory: whether it wanted memory that is not there.
    """

    def __init__(self, call: str, reason: str, *, out_of_memory: bool = False) -> None:
        self.call = call
        self.reason = reason
        self.out_of_memory = out_of_memory
        super().__init__(call, reason)

    def __str__(self) -> str:
        return f"{self.call}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What does not change about a card and its driver.

    Attributes:
        name: the model.
        uuid: ``GPU-`` and 32 hexadecimal digits in groups, as nvidia-smi writes it; empty where the driver hides it.
        capability: compute capability, such as (9, 0).
        driver_cuda: the newest CUDA version that the driver knows, such as (13, 0).
        multiprocessors: how many of them.
        shared_bytes_max: shared memory that a block may ask for.
    """

    name: str
    uuid: str
    capability: tuple[int, int]
    driver_cuda: tuple[int, int]
    multiprocessors: int
    shared_bytes_max: int


class Images(Protocol):
    """Where compiled kernels come from."""

    def check(self, card: CardFacts) -> None:
        """Look whether there can be kernels for a card, before any is asked for.

        Raises:
            DeviceError: there cannot.
        """
        ...

    def image(self, file: str, card: CardFacts) -> bytes:
        """Return the cubin, fatbin or PTX of an entry file.

        Raises:
            DeviceError: there is none for that card.
        """
        ...


class Driver(Protocol):
    """One card, once it is open."""

    def open(self, index: int) -> CardFacts:
        """Make a context on a card.

        Raises:
            DeviceError: package, library or card is missing.
        """
        ...

    def close(self) -> None:
        """Give the context back, with everything that is left in it."""
        ...

    def memory(self) -> tuple[int, int]:
        """Return the free and the whole memory, in bytes."""
        ...

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes."""
        ...

    def free(self, address: int) -> None:
        """Give memory back."""
        ...

    def allocate_pinned(self, nbytes: int) -> int:
        """Return the host address of new page-locked memory."""
        ...

    def free_pinned(self, address: int) -> None:
        """Give page-locked memory back."""
        ...

    def register(self, address: int, nbytes: int) -> None:
        """Lock pages of the host that are there already; address and size are whole pages."""
        ...

    def unregister(self, address: int) -> None:
        """Unlock them."""
        ...

    def make_stream(self) -> Handle:
        """Return a stream that no other one waits for by itself."""
        ...

    def free_stream(self, stream: Handle) -> None:
        """Give a stream back."""
        ...

    def make_event(self) -> Handle:
        """Return an event that has not been recorded."""
        ...

    def free_event(self, event: Handle) -> None:
        """Give an event back."""
        ...

    def record(self, event: Handle, stream: Handle) -> None:
        """Let an event mark what the stream has been given so far."""
        ...

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let what a stream is given from now on wait for an event."""
        ...

    def synchronize_event(self, event: Handle) -> None:
        """Block until an event has been passed."""
        ...

    def synchronize(self, stream: Handle) -> None:
        """Block until a stream has done everything."""
        ...

    def copy_in(self, address: int, host: int, nbytes: int, stream: Handle) -> None:
        """Copy from page-locked host memory."""
        ...

    def copy_out(self, host: int, address: int, nbytes: int, stream: Handle) -> None:
        """Copy to page-locked host memory."""
        ...

    def fill(self, address: int, byte: int, nbytes: int, stream: Handle) -> None:
        """Set every byte."""
        ...

    def load(self, image: bytes) -> Handle:
        """Return the module of a cubin, a fatbin or PTX."""
        ...

    def unload(self, module: Handle) -> None:
        """Give a module back."""
        ...

    def function(self, module: Handle, name: str, shared_bytes_max: int) -> Handle:
        """Return a kernel of a module, which may then be launched with so much shared memory."""
        ...

    def launch(
        self,
        function: Handle,
        grid: tuple[int, int],
        threads: int,
        shared_bytes: int,
        stream: Handle,
        arguments: tuple[int, ...],
    ) -> None:
        """Put a launch into a stream; every argument takes 8 bytes."""
        ...
