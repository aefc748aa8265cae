"""Devices: one interface, one module for each kind."""

import re
from typing import Final

from prover.backends.base import Backend
from prover.backends.host import HostBackend
from prover.errors import DeviceError

__all__ = ["Backend", "open_backend"]

_CUDA: Final = re.compile(r"cuda:[0-9]{1,3}")


def open_backend(device: str = "auto") -> Backend:
    """Return a device, ready to run kernels once it is entered.

    Args:
        device: ``host``, ``cuda:N``, or ``auto`` for the best one there is.

    Raises:
        DeviceError: there is no such device, or it cannot be made ready.
    """
    if device in {"auto", "host"}:
        return HostBackend()
    if _CUDA.fullmatch(device):
        raise DeviceError(f"{device}: this version cannot prove on CUDA devices yet; use --device host")
    raise DeviceError(f"{device!r} is no device; use auto, host or cuda:N")
