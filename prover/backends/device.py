"""A card as a device: two queues, memory in arenas, page-locked staging, kernels from compiled images.

Everything is put into a queue and comes back later. Memory is dealt out on queue 0; what runs on queue 1 uses memory
that is dealt out already, and marks order the two. The driver's every answer is looked at: the first error closes the
device to all but its clean-up, and names the kernel and the stage.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from kernels.entries import ENTRY_FILES
from prover.backends.arena import Arena, rounded
from prover.backends.asking import Asking
from prover.backends.base import Buffer, Data, Launch, Reserve, Traits
from prover.backends.driver import CardFacts, Driver, DriverFailure, Handle, Images
from prover.backends.loading import Kernels
from prover.backends.staging import Staging
from prover.errors import DeviceError, InternalError

log = logging.getLogger(__name__)

QUEUES: Final = 2
SPARED_PERCENT: Final = 5
"""Free memory that is left to the driver and its other users."""


class Mark:
    """A point in a queue; waited for once."""

    def __init__(self, event: Handle) -> None:
        self.event = event


@dataclass(slots=True)
class DeviceBuffer:
    """Memory of a card; address 0 once it has been released."""

    address: int
    nbytes: int


class DeviceBackend:
    """A card behind a `Driver`; a context manager.

    Attributes:
        name: ``cuda:N``.
        description: what it is, for people; known once it is entered.
        keeps_keys: always: loading one takes longer than a proof.
        asking: what is said to the driver.
    """

    keeps_keys = True

    def __init__(
        self,
        index: int,
        driver: Driver,
        images: Images,
        *,
        files: tuple[str, ...] = ENTRY_FILES,
        max_vram_bytes: int | None = None,
        check_each: bool = False,
    ) -> None:
        """Name a card; entering opens it.

        Args:
            index: its number at the driver.
            driver: the driver.
            images: where kernels come from.
            files: the entry files to take in.
            max_vram_bytes: the most memory to use.
            check_each: wait for every launch, so that an error names the very one.
        """
        self.name = f"cuda:{index}"
        self.description = self.name
        self.asking = Asking(self.name, driver)
        self._index = index
        self._driver = driver
        self._images = images
        self._files = files
        self._max_vram_bytes = max_vram_bytes
        self._check_each = check_each
        self._card: CardFacts | None = None
        self._staging = Staging(self.asking)
        self._streams: list[Handle] = []
        self._current = 0
        self._events: list[Handle] = []
        self._idle_events: list[Handle] = []
        self._kernels = Kernels(self.asking, images, files)
        self._reserved: dict[int, Arena] = {}
        self._within: list[Arena] = []
        self._loose: dict[int, int] = {}
        self._zeroed = 0
        self._registered: set[int] = set()
        self._closers: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        """Take the card; once more does nothing.

        Raises:
            DeviceError: it is not there, or cannot be used.
        """
        if self._card is not None:
            return self
        card = self._card = self._driver.open(self._index)
        major, minor = card.capability
        self.description = f"{card.name} (sm_{major}{minor}, {card.multiprocessors} multiprocessors)"
        try:
            self._images.check(card)
            for _ in range(QUEUES):
                self._streams.append(self.asking.ask("", self._driver.make_stream))
            self._staging.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def stage(self) -> str:
        """What is being done, for messages; set by whoever does it."""
        return self.asking.stage

    @stage.setter
    def stage(self, stage: str) -> None:
        self.asking.stage = stage

    @property
    def broken(self) -> bool:
        """Whether the driver returned an error; then nothing but closing is left."""
        return self.asking.broken

    def traits(self) -> Traits:
        """Return what plans depend on, as it is now."""
        card = self.card
        free, _ = self.asking.ask("", self._driver.memory)
        room = free * (100 - SPARED_PERCENT) // 100
        if self._max_vram_bytes is not None:
            room = min(room, self._max_vram_bytes - self.held_bytes)
        return Traits("gpu", card.multiprocessors, card.shared_bytes_max, max(0, room))

    @property
    def card(self) -> CardFacts:
        """The card's facts, once it is open."""
        if self._card is None:
            raise InternalError(f"{self.name} was used before it was opened")
        return self._card

    @property
    def held_bytes(self) -> int:
        """Device memory that we have from the driver."""
        return sum(arena.nbytes for arena in self._reserved.values()) + sum(self._loose.values())

    # Memory.

    def reserve(self, nbytes: int, what: str) -> Arena:
        """Return zeroed memory to deal out parts of; it lives until it is closed.

        Raises:
            DeviceError: there is not so much.
        """
        size = rounded(nbytes)
        address = self.asking.allocate(size, what)
        arena = Arena(what, address, size, self._give_back)
        self._reserved[address] = arena
        try:
            self.asking.ask("zeroing", self._driver.fill, address, 0, size, self._streams[0])
        except DeviceError:
            arena.close()
            raise
        return arena

    def _give_back(self, address: int) -> None:
        del self._reserved[address]
        self.asking.clean_up(self._driver.free, address)

    @contextmanager
    def within(self, reserve: Reserve) -> Iterator[None]:
        """Let what the body allocates come from memory that `reserve` returned."""
        if not isinstance(reserve, Arena):
            raise TypeError(f"{type(reserve).__name__} is not memory of a card")
        self._within.append(reserve)
        try:
            yield
        finally:
            self._within.pop()

    def allocate(self, nbytes: int) -> Buffer:
        """Return zeroed memory, aligned to 256 bytes.

        Raises:
            DeviceError: there is not so much.
        """
        if self._current != 0:
            raise InternalError("memory is dealt out on queue 0: what another queue left in it may still be in use")
        if self._within:
            # What is not dealt out is zero: so it was when the arena came, and so it is left by `release`.
            return DeviceBuffer(self._within[-1].take(nbytes), nbytes)
        size = rounded(nbytes)
        address = self.asking.allocate(size, "a buffer")
        self._loose[address] = size
        self.asking.ask("zeroing", self._driver.fill, address, 0, size, self.stream)
        return DeviceBuffer(address, nbytes)

    def release(self, buffer: Buffer) -> None:
        """Give a buffer back; releasing one twice does nothing."""
        address = buffer.address
        if not address or not isinstance(buffer, DeviceBuffer):
            return
        buffer.address = 0
        if address in self._loose:
            del self._loose[address]
            self.asking.clean_up(self._driver.synchronize, self.stream)
            self.asking.clean_up(self._driver.free, address)
            return
        arena = next(arena for arena in reversed(self._reserved.values()) if arena.holds(address))
        try:
            if not self.broken and self._zeroed != address:
                size = rounded(buffer.nbytes)
                self.asking.ask("zeroing", self._driver.fill, address, 0, size, self._streams[0])
        finally:
            arena.give(address)

    def upload(self, buffer: Buffer, data: Data, offset: int = 0) -> None:
        """Copy ``data`` to ``offset`` in a buffer, by way of page-locked memory; ``data`` may change afterwards.

        Raises:
            ValueError: it does not fit.
        """
        source = memoryview(data).cast("B")
        self._check_part(buffer, offset, source.nbytes)
        self._zeroed = 0
        self._staging.upload(buffer.address + offset, source, self.stream)

    def upload_locked(self, address: int, host: int, nbytes: int) -> None:
        """Copy from host memory that was registered and stays as it is until this queue has passed."""
        self._zeroed = 0
        self.asking.ask("a copy to the card", self._driver.copy_in, address, host, nbytes, self.stream)

    def download(self, buffer: Buffer, offset: int, nbytes: int) -> bytes:
        """Return a copy of a part of a buffer, after everything in this queue.

        Raises:
            ValueError: the part does not lie in it.
        """
        self._check_part(buffer, offset, nbytes)
        self._zeroed = 0
        return self._staging.download(buffer.address + offset, nbytes, self._current, self.stream)

    def zero(self, buffer: Buffer) -> None:
        """Set every byte of a buffer to zero; a broken device does nothing more before it is closed, and wiped."""
        if self.broken:
            return
        self._check_part(buffer, 0, buffer.nbytes)
        size = rounded(buffer.nbytes)
        self.asking.ask("zeroing", self._driver.fill, buffer.address, 0, size, self.stream)
        self._zeroed = buffer.address

    def register(self, host: int, nbytes: int) -> bool:
        """Lock pages of the host for `upload_locked`; false where the driver will not."""
        try:
            self._driver.register(host, nbytes)
        except DriverFailure as failure:
            log.warning("%s cannot lock the host's copy of a key: %s", self.name, failure)
            return False
        self._registered.add(host)
        return True

    def unregister(self, host: int) -> None:
        """Unlock them."""
        if host in self._registered:
            self._registered.remove(host)
            self.asking.clean_up(self._driver.unregister, host)

    # Queues.

    @contextmanager
    def on(self, queue: int) -> Iterator[None]:
        """Put what the body asks for into a queue."""
        before, self._current = self._current, queue
        try:
            yield
        finally:
            self._current = before

    def mark(self) -> Mark:
        """Mark what the current queue has been given so far."""
        if not self._idle_events:
            self._idle_events.append(self.asking.ask("", self._driver.make_event))
            self._events.append(self._idle_events[-1])
        event = self._idle_events.pop()
        self.asking.ask("", self._driver.record, event, self.stream)
        return Mark(event)

    def wait(self, mark: object) -> None:
        """Let what the current queue is given from now on wait for a mark."""
        if not isinstance(mark, Mark):
            raise TypeError(f"{type(mark).__name__} is not a mark of a card")
        self.asking.ask("", self._driver.wait, self.stream, mark.event)
        # A wait is for the record before it; a later record of the same event does not move it.
        self._idle_events.append(mark.event)

    def finish(self) -> None:
        """Block until all queues have done everything.

        Raises:
            DeviceError: something of it failed.
        """
        for queue, stream in enumerate(self._streams):
            self.asking.synchronize(queue, stream)
        self._staging.wipe()

    def launch(self, entry: str, launch: Launch, arguments: Sequence[int]) -> None:
        """Put a kernel into the current queue.

        Raises:
            DeviceError: there is no such entry, or the launch failed.
            ValueError: the number of arguments is not the entry's.
        """
        function = self.prepare(entry)
        expected = self._kernels.parameters(entry)
        if len(arguments) != expected:
            raise ValueError(f"{entry} takes {expected} arguments, not {len(arguments)}")
        self._zeroed = 0
        shape = ((launch.blocks_x, launch.blocks_y), launch.threads, launch.shared_bytes)
        what = f"the kernel {entry}"
        self.asking.ask(what, self._driver.launch, function, *shape, self.stream, tuple(arguments))
        self.asking.launched(self._current, entry)
        if self._check_each:
            self.asking.synchronize(self._current, self.stream)

    def prepare(self, entry: str) -> Handle:
        """Return a kernel's function; it, and its module, are loaded on first use.

        Raises:
            DeviceError: there is no such entry, or it cannot be loaded.
        """
        return self._kernels.function(entry, self.card)

    def closes_first(self, close: Callable[[], None]) -> None:
        """Have something that lives on this device closed before the device is."""
        self._closers.append(close)

    def close(self) -> None:
        """Wipe and give back everything; what the driver refuses by now is passed over."""
        if self._card is None:
            return
        for close in reversed(self._closers):
            close()
        self._closers.clear()
        self._wipe()
        clean_up, driver = self.asking.clean_up, self._driver
        for arena in [*self._reserved.values()]:
            arena.close()
        for host in [*self._registered]:
            self.unregister(host)
        self._staging.close()
        self._kernels.close()
        for free, owned in (
            (driver.free, self._loose),
            (driver.free_event, self._events),
            (driver.free_stream, self._streams),
        ):
            for each in owned:
                clean_up(free, each)
        for listed in (self._streams, self._events, self._idle_events, self._loose):
            listed.clear()
        # Last, and after their objects: what a driver's package holds by them needs the context to go.
        clean_up(driver.close)
        self._card = None
        self.asking = Asking(self.name, self._driver)
        self._staging = Staging(self.asking)
        self._kernels = Kernels(self.asking, self._images, self._files)

    def _wipe(self) -> None:
        """Leave nothing of a witness on the card or on the way to it."""
        clean_up, driver = self.asking.clean_up, self._driver
        for stream in self._streams:
            clean_up(driver.synchronize, stream)
        for stream in self._streams[:1]:
            for arena in self._reserved.values():
                clean_up(driver.fill, arena.address, 0, arena.nbytes, stream)
            clean_up(driver.synchronize, stream)
        self._staging.wipe()

    @property
    def stream(self) -> Handle:
        """The current queue's stream."""
        return self._streams[self._current]

    def _check_part(self, buffer: Buffer, offset: int, nbytes: int) -> None:
        """Refuse a part that does not lie in a live buffer."""
        if not buffer.address:
            raise ValueError("the buffer has been released, or is another device's")
        if offset < 0 or nbytes < 0 or offset + nbytes > buffer.nbytes:
            raise ValueError(f"bytes {offset} to {offset + nbytes} do not lie in a buffer of {buffer.nbytes}")
