"""A driver without a card: it writes down every call, and runs kernels by their host build.

What is put into a stream runs when it must, or when ``order`` says: late, early, or in an order drawn at random that
only streams and events bind. So a missing event, or memory that is used again too soon, shows as a wrong result.
"""

import ctypes
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from prover.backends.base import Launch
from prover.backends.device import DeviceBackend
from prover.backends.driver import CardFacts, DriverFailure, Handle
from prover.backends.host import HostBackend

Order = Literal["early", "late"] | int
"""When streams run: at once, as late as can be, or by a random seed."""
H200 = CardFacts("Simulated H200", "GPU-00000000-0000-0000-0000-000000000000", (9, 0), (13, 0), 132, 227 << 10)
ALIGNMENT = 256


@dataclass(frozen=True)
class Call:
    """One call of the driver."""

    name: str
    detail: str = ""
    nbytes: int = 0
    stream: int = -1


@dataclass
class Stream:
    number: int
    waiting: deque[Callable[[], bool]] = field(default_factory=deque)
    """Each step says whether it could be taken: a wait for an event cannot before the event has been passed."""


@dataclass
class Event:
    recorded: int = 0
    passed: int = 0


class SimulatedDriver:
    """A card of ``memory_bytes``, whose every call is kept in ``calls``."""

    def __init__(
        self,
        *,
        card: CardFacts = H200,
        memory_bytes: int = 1 << 34,
        order: Order = "early",
        runs: bool = True,
        fail_at: int | None = None,
        host: HostBackend | None = None,
    ) -> None:
        self.calls: list[Call] = []
        self.card = card
        self.memory_bytes = memory_bytes
        self.fail_at = fail_at
        self.peak_bytes = 0
        self._order = order
        self._random = Random(order) if isinstance(order, int) else None
        self._runs = runs
        self._host = host or HostBackend()
        self._late: DriverFailure | None = None
        self._streams: list[Stream] = []
        self.held: dict[int, tuple[int, ctypes.Array[ctypes.c_char]]] = {}
        self.pinned: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.registered: dict[int, int] = {}
        self.events: list[Event] = []
        self.modules: list[str] = []
        self.is_open = False

    @property
    def launches(self) -> list[str]:
        """The kernels launched, in order."""
        return [call.detail for call in self.calls if call.name == "launch"]

    @property
    def in_use_bytes(self) -> int:
        return sum(nbytes for nbytes, _ in self.held.values())

    def leaks(self) -> dict[str, int]:
        """What is still held, by kind."""
        held = {
            "memory": len(self.held),
            "pinned": len(self.pinned),
            "registered": len(self.registered),
            "events": len(self.events),
            "streams": len(self._streams),
            "modules": len(self.modules),
            "context": int(self.is_open),
        }
        return {kind: count for kind, count in held.items() if count}

    def _say(self, name: str, detail: str = "", nbytes: int = 0, stream: Handle = None) -> None:
        """Write a call down; fail where that was asked for, though never while things are given back."""
        number = stream.number if isinstance(stream, Stream) else -1
        self.calls.append(Call(name, detail, nbytes, number))
        giving_back = name.startswith(("free", "un", "close"))
        if self.fail_at is not None and not giving_back and len(self.calls) - 1 >= self.fail_at:
            self.fail_at = None
            raise DriverFailure(name, "an injected failure")
        if self._random is not None:
            for _ in range(self._random.randrange(4)):
                self._advance(self._random.choice(self._streams)) if self._streams else None

    # Streams.

    def _put(self, stream: Handle, step: Callable[[], bool]) -> None:
        assert isinstance(stream, Stream)
        assert stream in self._streams
        stream.waiting.append(step)
        if self._order == "early":
            self._drain(stream)

    def _advance(self, stream: Stream) -> bool:
        """Take the next step of a stream, if it can be taken."""
        if stream.waiting and stream.waiting[0]():
            stream.waiting.popleft()
            return True
        return False

    def _drain(self, stream: Stream) -> None:
        """Run a stream to its end; others only as far as it waits for them."""
        while stream.waiting:
            if not self._advance(stream):
                others = [other for other in self._streams if other is not stream]
                assert any(self._advance(other) for other in others), "the streams wait for each other"

    def _check(self, address: int, nbytes: int) -> None:
        inside = any(base <= address and address + nbytes <= base + size for base, (size, _) in self.held.items())
        assert inside, f"{nbytes} bytes at {address:#x} are nobody's"

    # The driver's interface.

    def open(self, index: int) -> CardFacts:
        self._say("open", str(index))
        self.is_open = True
        return self.card

    def close(self) -> None:
        self._say("close")
        self.is_open = False

    def memory(self) -> tuple[int, int]:
        return self.memory_bytes - self.in_use_bytes, self.memory_bytes

    def allocate(self, nbytes: int) -> int:
        self._say("allocate", "", nbytes)
        if nbytes > self.memory_bytes - self.in_use_bytes:
            raise DriverFailure("allocate", "out of memory", out_of_memory=True)
        held = ctypes.create_string_buffer(nbytes + ALIGNMENT)
        address = -(-ctypes.addressof(held) // ALIGNMENT) * ALIGNMENT
        ctypes.memset(address, 0xA5, nbytes)
        self.held[address] = (nbytes, held)
        self.peak_bytes = max(self.peak_bytes, self.in_use_bytes)
        return address

    def free(self, address: int) -> None:
        self._say("free")
        for stream in self._streams:
            self._drain(stream)
        del self.held[address]

    def allocate_pinned(self, nbytes: int) -> int:
        self._say("allocate_pinned", "", nbytes)
        held = ctypes.create_string_buffer(nbytes)
        self.pinned[ctypes.addressof(held)] = held
        return ctypes.addressof(held)

    def free_pinned(self, address: int) -> None:
        self._say("free_pinned")
        del self.pinned[address]

    def register(self, address: int, nbytes: int) -> None:
        assert address % 4096 == nbytes % 4096 == 0
        self._say("register", "", nbytes)
        self.registered[address] = nbytes

    def unregister(self, address: int) -> None:
        self._say("unregister")
        del self.registered[address]

    def make_stream(self) -> Handle:
        self._say("make_stream")
        self._streams.append(Stream(len(self._streams)))
        return self._streams[-1]

    def free_stream(self, stream: Handle) -> None:
        self._say("free_stream")
        self._streams = [other for other in self._streams if other is not stream]

    def make_event(self) -> Handle:
        self._say("make_event")
        self.events.append(Event())
        return self.events[-1]

    def free_event(self, event: Handle) -> None:
        self._say("free_event")
        self.events = [other for other in self.events if other is not event]

    def record(self, event: Handle, stream: Handle) -> None:
        assert isinstance(event, Event)
        self._say("record", "", 0, stream)
        event.recorded += 1
        number = event.recorded

        def step() -> bool:
            event.passed = max(event.passed, number)
            return True

        self._put(stream, step)

    def wait(self, stream: Handle, event: Handle) -> None:
        assert isinstance(event, Event)
        self._say("wait", "", 0, stream)
        number = event.recorded
        self._put(stream, lambda: event.passed >= number)

    def synchronize_event(self, event: Handle) -> None:
        assert isinstance(event, Event)
        self._say("synchronize_event")
        while event.passed < event.recorded:
            assert any(self._advance(stream) for stream in self._streams), "nobody passes the event"
        self._fail_late()

    def synchronize(self, stream: Handle) -> None:
        assert isinstance(stream, Stream)
        self._say("synchronize", "", 0, stream)
        self._drain(stream)
        self._fail_late()

    def _fail_late(self) -> None:
        if self._late is not None:
            late, self._late = self._late, None
            raise late

    def copy_in(self, address: int, host: int, nbytes: int, stream: Handle) -> None:
        assert self._is_locked(host, nbytes)
        self._say("copy_in", "", nbytes, stream)
        self._put(stream, lambda: self._copy(address, host, nbytes, address))

    def copy_out(self, host: int, address: int, nbytes: int, stream: Handle) -> None:
        assert self._is_locked(host, nbytes)
        self._say("copy_out", "", nbytes, stream)
        self._put(stream, lambda: self._copy(host, address, nbytes, address))

    def _copy(self, to: int, start: int, nbytes: int, address: int) -> bool:
        self._check(address, nbytes)
        ctypes.memmove(to, start, nbytes)
        return True

    def _is_locked(self, host: int, nbytes: int) -> bool:
        places = [(base, len(held)) for base, held in self.pinned.items()] + [*self.registered.items()]
        return any(base <= host and host + nbytes <= base + size for base, size in places)

    def fill(self, address: int, byte: int, nbytes: int, stream: Handle) -> None:
        self._say("fill", "", nbytes, stream)

        def step() -> bool:
            self._check(address, nbytes)
            ctypes.memset(address, byte, nbytes)
            return True

        self._put(stream, step)

    def load(self, image: bytes) -> Handle:
        self._say("load", image.decode())
        self.modules.append(image.decode())
        return self.modules[-1]

    def unload(self, module: Handle) -> None:
        self._say("unload")
        self.modules.remove(str(module))

    def function(self, module: Handle, name: str, shared_bytes_max: int) -> Handle:
        assert module in self.modules
        assert shared_bytes_max <= self.card.shared_bytes_max
        self._say("function", name)
        return name

    def launch(
        self,
        function: Handle,
        grid: tuple[int, int],
        threads: int,
        shared_bytes: int,
        stream: Handle,
        arguments: tuple[int, ...],
    ) -> None:
        assert 1 <= grid[0] < 1 << 31
        assert 1 <= grid[1] < 1 << 16
        assert 1 <= threads <= 1024
        assert shared_bytes <= self.card.shared_bytes_max
        self._say("launch", str(function), 0, stream)

        def step() -> bool:
            if self._runs:
                self._host.launch(str(function), Launch(*grid, threads, shared_bytes), arguments)
            return True

        self._put(stream, step)

    def fail_late(self, reason: str) -> None:
        """Let the next synchronisation report an error of something before it."""
        self._late = DriverFailure("synchronize", reason)


class NamedImages:
    """An image is its file's name."""

    def check(self, card: CardFacts) -> None:
        assert card.capability >= (7, 0)

    def image(self, file: str, card: CardFacts) -> bytes:
        assert card.capability
        return file.encode()


@contextmanager
def simulated(driver: SimulatedDriver, **options: object) -> Iterator[DeviceBackend]:
    """An open device over a simulated driver; nothing may be left when it is closed."""
    with DeviceBackend(0, driver, NamedImages(), **options) as backend:  # type: ignore[arg-type]
        yield backend
    assert not driver.leaks()
