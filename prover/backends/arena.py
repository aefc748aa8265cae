"""Device memory in one piece, dealt out in parts: the driver is asked once, and what was planned is what is taken.

Parts are given back in the reverse of the order they were taken in, so that nothing is ever in pieces: the peak is the
sum of what was live at once, and a plan can say it to the byte.
"""

from collections.abc import Callable
from typing import Final

from prover.errors import DeviceError

ALIGNMENT: Final = 256
"""Every part begins at a multiple of this: wide loads, and whole sectors of memory."""


def rounded(nbytes: int) -> int:
    """Return what a part of ``nbytes`` takes."""
    return max(1, -(-nbytes // ALIGNMENT)) * ALIGNMENT


class Arena:
    """Memory from ``address`` on, dealt out; closing it gives it back to whom it came from.

    Attributes:
        what: what it is for, in messages.
        address: where it begins.
        nbytes: how much it is.
        peak_bytes: the most that was in use since `reset_peak`.
    """

    def __init__(self, what: str, address: int, nbytes: int, give_back: Callable[[int], None]) -> None:
        self.what = what
        self.address = address
        self.nbytes = nbytes
        self.peak_bytes = 0
        self._give_back = give_back
        self._parts: list[tuple[int, int]] = []
        self._is_open = True

    @property
    def used_bytes(self) -> int:
        """What is dealt out now."""
        if not self._parts:
            return 0
        address, taken = self._parts[-1]
        return address + taken - self.address

    def take(self, nbytes: int) -> int:
        """Return the address of ``nbytes`` bytes.

        Raises:
            DeviceError: there is not so much left; since memory is planned, that is a fault of the plan.
        """
        begin, taken = self.used_bytes, rounded(nbytes)
        if not self._is_open or begin + taken > self.nbytes:
            raise DeviceError(
                f"the memory planned for {self.what} is too little: {nbytes} bytes are wanted beside the {begin} of "
                f"{self.nbytes} in use; this is a fault of the plan"
            )
        self._parts.append((self.address + begin, taken))
        self.peak_bytes = max(self.peak_bytes, begin + taken)
        return self.address + begin

    def give(self, address: int) -> None:
        """Take a part back: the one that was dealt out last.

        Raises:
            ValueError: it is another one.
        """
        if not self._parts or self._parts[-1][0] != address:
            raise ValueError(f"of the memory for {self.what}, what was taken last has to be given back first")
        self._parts.pop()

    def holds(self, address: int) -> bool:
        """Whether a part that is dealt out begins at an address."""
        return any(begin == address for begin, _ in self._parts)

    def reset_peak(self) -> None:
        """Begin to watch anew."""
        self.peak_bytes = self.used_bytes

    def close(self) -> None:
        """Give everything back; once more does nothing."""
        if self._is_open:
            self._is_open = False
            self._parts.clear()
            self._give_back(self.address)
