"""The kernels of one card: images asked for, modules loaded and functions looked up when they are first launched."""

from typing import Final

from kernels.entries import entries
from prover.backends.asking import Asking
from prover.backends.driver import CardFacts, Handle, Images
from prover.errors import DeviceError

PLAIN_SHARED_BYTES: Final = 48 << 10
"""A block's shared memory up to here needs no permission."""


class Kernels:
    """The kernels of some entry files."""

    def __init__(self, asking: Asking, images: Images, files: tuple[str, ...]) -> None:
        self._asking = asking
        self._images = images
        self._entries = entries(files)
        self._modules: dict[str, Handle] = {}
        self._functions: dict[str, Handle] = {}

    def parameters(self, entry: str) -> int:
        """Return how many arguments a kernel takes."""
        return len(self._entries[entry].parameters)

    def function(self, entry: str, card: CardFacts) -> Handle:
        """Return a kernel's function.

        Raises:
            DeviceError: there is no such entry, or it cannot be loaded.
        """
        function = self._functions.get(entry)
        if function is not None:
            return function
        known = self._entries.get(entry)
        if known is None:
            raise DeviceError(f"{self._asking.name} was opened without the kernel {entry}")
        driver = self._asking.driver
        if known.file not in self._modules:
            image = self._images.image(known.file, card)
            what = f"loading the kernels {known.file}"
            self._modules[known.file] = self._asking.ask(what, driver.load, image)
        shared = max(PLAIN_SHARED_BYTES, card.shared_bytes_max)
        module = self._modules[known.file]
        function = self._asking.ask(f"the kernel {entry}", driver.function, module, entry, shared)
        self._functions[entry] = function
        return function

    def close(self) -> None:
        """Give the modules back."""
        for module in self._modules.values():
            self._asking.clean_up(self._asking.driver.unload, module)
        self._modules.clear()
        self._functions.clear()
