"""CUDA's driver through PyCUDA: the one module that imports it, when a card is opened and not before.

PyCUDA looks at every return value and raises; here that becomes `DriverFailure`. Handles are its objects, addresses are
numbers. What an object of its holds ends with the object, so each is kept until it is given back.
"""

import ctypes
import sys
from types import ModuleType
from typing import Any, Final

from prover.backends.cards import LIBRARY
from prover.backends.driver import CardFacts, DriverFailure, Handle
from prover.errors import DeviceError

_UUID_BYTES: Final = 16
_SETUP: Final = f"run: {sys.executable} -m cli.main gpu-setup"
_OUT_OF_MEMORY: Final = "MemoryError"


class PyCudaDriver:
    """One card through PyCUDA."""

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._drv: Any = None
        self._context: Any = None
        self._memory: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}

    def open(self, index: int) -> CardFacts:
        """Make a context on a card.

        Raises:
            DeviceError: package, library or card is missing.
        """
        drv = self._drv = import_driver()
        try:
            drv.init()
            count = drv.Device.count()
        except drv.Error as error:
            raise DeviceError(f"cuda:{index}: the NVIDIA driver finds no card it can use: {_words(error)}") from error
        if count == 0:
            raise DeviceError(f"cuda:{index}: the NVIDIA driver finds no card; use --device host")
        if index >= count:
            have = "cuda:0 is the only one" if count == 1 else f"there are cuda:0 to cuda:{count - 1}"
            raise DeviceError(f"cuda:{index}: there is no such card; {have}")
        try:
            device = drv.Device(index)
            self._context = device.make_context()
            return self._facts(device, index)
        except drv.Error as error:
            self.close()
            raise DeviceError(f"cuda:{index}: cannot be opened: {_words(error)}; another program may use it") from error

    def _facts(self, device: Any, index: int) -> CardFacts:
        attribute = self._drv.device_attribute
        major, minor = divmod(self._drv.get_driver_version(), 1000)
        return CardFacts(
            name=str(device.name()),
            uuid=_uuid_of(index),
            capability=tuple(device.compute_capability()),
            driver_cuda=(major, minor // 10),
            multiprocessors=device.get_attribute(attribute.MULTIPROCESSOR_COUNT),
            shared_bytes_max=device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        )

    def close(self) -> None:
        """Give the context back."""
        context, self._context = self._context, None
        if context is not None:
            for held in (self._memory, self._pinned):
                held.clear()
            self._call("close", context.pop)
            self._call("close", context.detach)

    def memory(self) -> tuple[int, int]:
        """Return the free and the whole memory, in bytes."""
        free, total = self._call("memory", self._drv.mem_get_info)
        return int(free), int(total)

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes."""
        allocation = self._call("allocate", self._drv.mem_alloc, nbytes)
        address = int(allocation)
        self._memory[address] = allocation
        return address

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("free", self._memory.pop(address).free)

    def allocate_pinned(self, nbytes: int) -> int:
        """Return the host address of new page-locked memory."""
        held = self._call("allocate_pinned", self._drv.pagelocked_empty, nbytes, "u1")
        address = int(held.ctypes.data)
        self._pinned[address] = held
        return address

    def free_pinned(self, address: int) -> None:
        """Give page-locked memory back."""
        self._call("free_pinned", self._pinned.pop(address).base.free)

    def register(self, address: int, nbytes: int) -> None:
        """Lock pages of the host that are there already; address and size are whole pages."""
        # PyCUDA's own function wants an array of numpy's and crashes with numpy 2.
        self._plain("register", "cuMemHostRegister_v2", ctypes.c_void_p(address), ctypes.c_size_t(nbytes), 0)

    def unregister(self, address: int) -> None:
        """Unlock them."""
        self._plain("unregister", "cuMemHostUnregister", ctypes.c_void_p(address))

    def make_stream(self) -> Handle:
        """Return a stream that no other one waits for by itself."""
        made: Handle = self._call("make_stream", self._drv.Stream, 1)  # CU_STREAM_NON_BLOCKING
        return made

    def free_stream(self, stream: Handle) -> None:
        """Do nothing: it ends with its object."""

    def make_event(self) -> Handle:
        """Return an event that has not been recorded."""
        made: Handle = self._call("make_event", self._drv.Event, self._drv.event_flags.DISABLE_TIMING)
        return made

    def free_event(self, event: Handle) -> None:
        """Do nothing: it ends with its object."""

    def record(self, event: Any, stream: Handle) -> None:
        """Let an event mark what the stream has been given so far."""
        self._call("record", event.record, stream)

    def wait(self, stream: Any, event: Handle) -> None:
        """Let what a stream is given from now on wait for an event."""
        self._call("wait", stream.wait_for_event, event)

    def synchronize_event(self, event: Any) -> None:
        """Block until an event has been passed."""
        self._call("synchronize_event", event.synchronize)

    def synchronize(self, stream: Any) -> None:
        """Block until a stream has done everything."""
        self._call("synchronize", stream.synchronize)

    def copy_in(self, address: int, host: int, nbytes: int, stream: Handle) -> None:
        """Copy from page-locked host memory."""
        source = (ctypes.c_char * nbytes).from_address(host)
        self._call("copy_in", self._drv.memcpy_htod_async, address, source, stream)

    def copy_out(self, host: int, address: int, nbytes: int, stream: Handle) -> None:
        """Copy to page-locked host memory."""
        target = (ctypes.c_char * nbytes).from_address(host)
        self._call("copy_out", self._drv.memcpy_dtoh_async, target, address, stream)

    def fill(self, address: int, byte: int, nbytes: int, stream: Handle) -> None:
        """Set every byte."""
        self._call("fill", self._drv.memset_d8_async, address, byte, nbytes, stream)

    def load(self, image: bytes) -> Handle:
        """Return the module of a cubin, a fatbin or PTX."""
        made: Handle = self._call("load", self._drv.module_from_buffer, image)
        return made

    def unload(self, module: Handle) -> None:
        """Do nothing: it ends with its object."""

    def function(self, module: Any, name: str, shared_bytes_max: int) -> Handle:
        """Return a kernel of a module, which may then be launched with so much shared memory."""
        function = self._call("function", module.get_function, name)
        attribute = self._drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("function", function.set_attribute, attribute, shared_bytes_max)
        made: Handle = function
        return made

    def launch(
        self,
        function: Any,
        grid: tuple[int, int],
        threads: int,
        shared_bytes: int,
        stream: Handle,
        arguments: tuple[int, ...],
    ) -> None:
        """Put a launch into a stream; every argument takes 8 bytes."""
        block = (threads, 1, 1)
        function.prepare("P" * len(arguments))
        self._call("launch", function.prepared_async_call, grid, block, stream, *arguments, shared_size=shared_bytes)

    def _plain(self, name: str, function: str, *arguments: object) -> None:
        """Call a function of the driver's library itself, in the context that is current."""
        code = getattr(ctypes.CDLL(LIBRARY), function)(*arguments)
        if code != 0:
            raise DriverFailure(name, f"{function} returned {code}")

    def _call(self, name: str, call: Any, *arguments: Any, **named: Any) -> Any:
        """Call PyCUDA and turn its errors into ours."""
        try:
            return call(*arguments, **named)
        except self._drv.Error as error:
            is_memory = type(error).__name__ == _OUT_OF_MEMORY
            raise DriverFailure(name, _words(error), out_of_memory=is_memory) from error


def import_driver() -> ModuleType:
    """Return ``pycuda.driver``.

    Raises:
        DeviceError: the driver's library or the package is missing, or they do not fit together.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        raise DeviceError(
            f"there is no NVIDIA driver on this machine ({LIBRARY} is missing): install it, or use --device host"
        ) from None
    try:
        import pycuda.driver as drv  # noqa: PLC0415 - only where a card is opened
    except ModuleNotFoundError as error:
        raise DeviceError(f"the package {error.name} is missing, by which cards are used; {_SETUP}") from error
    except ImportError as error:
        raise DeviceError(f"PyCUDA does not fit this machine's driver ({error}); {_SETUP} --again") from error
    module: ModuleType = drv
    return module


def _uuid_of(index: int) -> str:
    """Return a card's UUID, which PyCUDA does not know; empty where the driver does not say."""
    try:
        library = ctypes.CDLL(LIBRARY)
        found, device = (ctypes.c_ubyte * _UUID_BYTES)(), ctypes.c_int()
        if library.cuDeviceGet(ctypes.byref(device), index) or library.cuDeviceGetUuid(ctypes.byref(found), device):
            return ""
    except (OSError, AttributeError):
        return ""
    digits = bytes(found).hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _words(error: Exception) -> str:
    """Return what the driver said, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
