"""Sums of scalar times point on CPUs: scalars as digits, sorted by bucket once for all bases they are multiplied by."""

import struct
from typing import Final, Literal

from kernels.curves import Curve
from prover.backends.base import Backend, Scope
from prover.native import native
from prover.native_plan import COUNTER_BYTES, choose_native_window, native_windows

Group = Literal["g1", "g2"]

_LENGTHS: Final = 257
"""Numbers of bits that a scalar may have."""


class SortedDigits:
    """Scalars as digits, sorted by bucket; the memory belongs to a scope, and is secret.

    Attributes:
        window_bits: width of a digit's window.
        windows: digits of a long scalar; a short one, of fewer bits than a window, has one.
    """

    def __init__(
        self,
        backend: Backend,
        scope: Scope,
        curve: Curve,
        scalars: int,
        count: int,
        *,
        threads: int,
        window_bits: int | None = None,
    ) -> None:
        """Sort.

        Args:
            backend: whose memory is used.
            scope: takes the memory.
            curve: the curve.
            scalars: address of ``count`` plain scalars below r.
            count: their number.
            threads: CPU threads to use.
            window_bits: 4 to 16, to force a window.

        Raises:
            DeviceError: there is not enough memory, or the native functions cannot be built.
        """
        self._functions = native(curve)
        self._threads = threads
        self._count = count
        with Scope(backend) as own:
            lengths = own.allocate(_LENGTHS * 8, secret=True)
            self._functions.call("lengths", scalars, count, lengths.address, threads)
            found = struct.unpack(f"<{_LENGTHS}Q", backend.download(lengths, 0, _LENGTHS * 8))
            self.window_bits = window_bits or choose_native_window(found, curve.r.bit_length())
            self.windows, self._longs = native_windows(found, self.window_bits)
            entries = count + (self.windows - 1) * self._longs
            self._entries = scope.allocate(entries * COUNTER_BYTES, secret=True)
            self._ends = scope.allocate(self.windows * (1 << (self.window_bits - 1)) * COUNTER_BYTES, secret=True)
            scratch_bytes = self._functions.call("sort_scratch_bytes", count, self._longs)
            self._functions.call(
                "sort",
                scalars,
                count,
                self._longs,
                self.window_bits,
                self.windows,
                own.allocate(scratch_bytes, secret=True).address,
                self._entries.address,
                self._ends.address,
                threads,
            )

    def sum(self, group: Group, points: int, skip: int, count: int, out: int) -> int:
        """Write the sum of scalar times point.

        Args:
            group: the points' group.
            points: address of the points, as keys store them; it need not be aligned.
            skip: which scalar the first of them takes.
            count: number of points.
            out: address of the sum.

        Returns:
            How many additions of two points it took.
        """
        return self._functions.call(
            f"{group}_sum",
            points,
            skip,
            count,
            self._count,
            self._longs,
            self.window_bits,
            self.windows,
            self._entries.address,
            self._ends.address,
            out,
            self._threads,
        )
