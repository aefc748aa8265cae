"""Devices: one interface, one module for each kind."""

import os
import re
from collections.abc import Callable
from typing import Final

from prover.backends.base import Backend
from prover.backends.cards import card_count, find_cards
from prover.backends.host import HostBackend
from prover.errors import DeviceError

__all__ = ["Backend", "card_count", "open_backend", "parse_bytes"]

_CUDA: Final = re.compile(r"cuda:([0-9]{1,3})")
_BYTES: Final = re.compile(r"([0-9]{1,15})(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def open_backend(
    device: str = "auto", *, max_vram_bytes: int | None = None, on_host: Callable[[str], None] | None = None
) -> Backend:
    """Return a device, ready to run kernels once it is entered.

    Only ``auto`` takes another device than it looks for: the first card, and where there is none, or it cannot be used,
    the host; the latter is a warning in the log.

    Args:
        device: ``host``, ``cuda:N``, or ``auto`` for the best one there is.
        max_vram_bytes: the most memory of a card to use; by default PROVEWIRE_MAX_VRAM, or what is free.
        on_host: called with the reason, one sentence, where ``auto`` takes the host.

    Raises:
        DeviceError: there is no such device, or it cannot be made ready.
    """
    if device == "host":
        return HostBackend()
    if device == "auto":
        return _best(max_vram_bytes, on_host)
    card = _CUDA.fullmatch(device)
    if card is None:
        raise DeviceError(f"{device!r} is no device; use auto, host or cuda:N")
    return _card(int(card[1]), max_vram_bytes)


def parse_bytes(text: str) -> int:
    """Return the number of bytes that a text such as ``20G`` says.

    Raises:
        DeviceError: it says none.
    """
    found = _BYTES.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise DeviceError(f"{text!r} is no amount of memory; write it like 20G, 512M or 21474836480")
    return int(found[1]) * _UNITS[(found[2] or "").upper()]


def _best(max_vram_bytes: int | None, on_host: Callable[[str], None] | None) -> Backend:
    """Return the first card, opened, or the host."""
    cards, why = find_cards()
    if cards == 0:
        if on_host is not None:
            on_host(why)
        return HostBackend()
    try:
        return _card(0, max_vram_bytes).__enter__()
    except DeviceError as error:
        import logging  # noqa: PLC0415 - takes as long to load as a small proof does

        log = logging.getLogger(__name__)
        log.warning("the card cannot be used, so this machine proves on its CPU: %s", error)
        if on_host is not None:
            on_host(str(error))
        return HostBackend()


def _card(index: int, max_vram_bytes: int | None) -> Backend:
    """Return a card through PyCUDA."""
    from prover.backends.cubins import CompiledKernels  # noqa: PLC0415 - only where a card is used
    from prover.backends.cuda import PyCudaDriver  # noqa: PLC0415 - same
    from prover.backends.device import DeviceBackend  # noqa: PLC0415 - same

    named = os.environ.get("PROVEWIRE_MAX_VRAM")
    return DeviceBackend(
        index,
        PyCudaDriver(),
        CompiledKernels(),
        max_vram_bytes=max_vram_bytes or (parse_bytes(named) if named else None),
        check_each=os.environ.get("PROVEWIRE_CHECK_LAUNCHES", "").lower() in {"1", "true", "yes", "on"},
    )
