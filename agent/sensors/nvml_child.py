"""The program of the NVML child: answers each `Ask` on its standard input, a socket, with cards and an end.

It may hang or die inside NVML at any call; see `gpu`. It ends when the agent closes the socket, or is no more.
"""

import ctypes
import errno
import faulthandler
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml

from agent.sensors import nvml_fields
from agent.sensors.nvml_fields import Often, Seen
from agent.sensors.nvml_messages import (
    CARDS_MAX,
    PACKET_BYTES_MAX,
    SAID_CHARS_MAX,
    XIDS_PER_ROUND_MAX,
    Answer,
    Ask,
    Begin,
    Card,
    End,
    Problem,
    Xids,
    XidSeen,
    decode_ask,
    encode,
)
from wire.limits import NAME_CHARS_MAX
from wire.readings import GpuReading

SLOW_S = 60.0
XID_WAIT_MS = 1
HARMLESS = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_NOT_READY,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_INVALID_STATE,
    }
)
"""Errors that only say that this card, driver or user has no such reading."""
EVERY_CARD_HAS = frozenset({"memory_total_bytes", "temperature_c", "power_draw_mw"})
"""Where one of these fails by another error, the card is not well."""
WHOLE_CARD = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
"""Errors after which no other reading of the card is worth a call."""


class Attached:
    """A card that NVML gave a handle for."""

    def __init__(self, index: int) -> None:
        self.handle: Any = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.uuid = _or_none(lambda: nvml_fields.text(pynvml.nvmlDeviceGetUUID(self.handle)))
        self.pci: str | None = None
        self.memo: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}
        """Readings that are not taken each round."""
        self.slow_s: float | None = None

    @property
    def address(self) -> int | None:
        """What NVML's events name the card by."""
        return ctypes.cast(self.handle, ctypes.c_void_p).value


class Nvml:
    """One initialised NVML, and the cards it lists."""

    def __init__(self, proc: Path, sysfs: Path) -> None:
        self._proc = proc
        self._sysfs = sysfs
        self._count: int | None = None
        self._cards: dict[int, Attached] = {}
        self._events: Any = None
        self._watched: set[int] = set()
        self._look_s = time.monotonic() + SLOW_S

    def round(self, ask: Ask) -> Iterator[Answer]:
        """All of one round's answers, `End` last."""
        try:
            if self._count is None:
                pynvml.nvmlInit()
            count = min(pynvml.nvmlDeviceGetCount(), CARDS_MAX)
        except pynvml.NVMLError as error:
            yield from self._unreadable(error)
            return
        moved = self._count not in (None, count)
        stale = moved or self._replaced()
        self._count = count
        yield from self._xids()
        if moved:
            self._detach()
        order = [index for index in range(count) if index not in ask.skip and index not in ask.last]
        order += [index for index in range(count) if index in ask.last and index not in ask.skip]
        for index in order:
            attached = self._cards.get(index)
            yield Begin(index, attached.uuid if attached is not None else None)
            yield self._card(index)
        yield from self._xids()
        yield End(count=count, watches_xids=bool(self._watched), stale=stale)

    def _replaced(self) -> bool:
        """Whether the library was upgraded under us: we would go on with the old one, and not see the mismatch."""
        now_s = time.monotonic()
        if now_s < self._look_s:
            return False
        self._look_s = now_s + SLOW_S
        return library_replaced(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))

    def _unreadable(self, error: Any) -> Iterator[Answer]:
        problem, said = _problem(error), _said(error)
        cards: list[str] = []
        if problem is Problem.MISMATCH:
            cards = _known_to_the_kernel(self._proc)
            library = _or_none(pynvml.nvmlSystemGetNVMLVersion) or "unknown"
            said = f"{said} (library {library}, kernel module {kernel_module(self._proc) or 'unknown'})"[
                :SAID_CHARS_MAX
            ]
        for index, uuid in enumerate(cards):
            yield Card(index, uuid=uuid, error=error.value, said=said)
        yield End(problem, said, count=len(cards))

    def _card(self, index: int) -> Card:
        try:
            attached = self._cards.get(index)
            if attached is None:
                attached = self._cards[index] = Attached(index)
                self._watch(index, attached)
        except pynvml.NVMLError as error:
            return Card(index, error=error.value, said=_said(error))
        if attached.pci is not None and _suspended(self._sysfs, attached.pci):
            once = {reading.fields for reading in nvml_fields.READINGS if reading.often is Often.ONCE}
            kept = {name: attached.kept.get(name) for fields in once for name in fields}
            return Card(index, _reading(index, attached, kept), attached.uuid, asleep=True)
        return self._read(index, attached)

    def _read(self, index: int, attached: Attached) -> Card:
        now_s = time.monotonic()
        seen = Seen(now_s, attached.memo)
        first = attached.slow_s is None
        slow = attached.slow_s is None or now_s - attached.slow_s >= SLOW_S
        values: dict[str, Any] = {}
        said = ""
        for reading in nvml_fields.READINGS:
            if (reading.often is Often.ONCE and not first) or (reading.often is Often.SLOW and not slow):
                continue
            taken = values if reading.often is Often.ROUND else attached.kept
            try:
                taken.update(reading.read(attached.handle, seen))
            except pynvml.NVMLError as error:
                if error.value in WHOLE_CARD:
                    return Card(index, uuid=attached.uuid, error=error.value, said=_said(error))
                if error.value not in HARMLESS and EVERY_CARD_HAS.intersection(reading.fields):
                    said = said or f"{reading.functions.split(',')[0]}: {_said(error)}"
                taken.update(dict.fromkeys(reading.fields))
            except (ValueError, ArithmeticError, AttributeError, TypeError):
                # A library of another age, or an answer that is no text or number at all.
                taken.update(dict.fromkeys(reading.fields))
        attached.slow_s = now_s if slow else attached.slow_s
        attached.pci = attached.kept.get("pci_bus_id")
        pending = _or_none(lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(attached.handle) == 1)
        card = _reading(index, attached, attached.kept | values)
        return Card(index, card, attached.uuid, said=said, pages_pending=pending)

    # --- XIDs -----------------------------------------------------------------------------------------------------

    def _watch(self, index: int, attached: Attached) -> None:
        try:
            if self._events is None:
                self._events = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(attached.handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
            self._watched.add(index)
        except pynvml.NVMLError:
            self._watched.discard(index)

    def _detach(self) -> None:
        """Forget all handles: they stand for other indices now."""
        if self._events is not None:
            _or_none(lambda: pynvml.nvmlEventSetFree(self._events))
        self._events = None
        self._watched.clear()
        self._cards.clear()

    def _xids(self) -> Iterator[Xids]:
        xids: list[XidSeen] = []
        if not self._watched:
            return
        uuids = {attached.address: attached.uuid for attached in self._cards.values()}
        while len(xids) < XIDS_PER_ROUND_MAX:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, XID_WAIT_MS)
            except pynvml.NVMLError:  # mostly: none within the time
                break
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError and event.eventData < 2**32:
                address = ctypes.cast(event.device, ctypes.c_void_p).value
                xids.append(XidSeen(event.eventData, uuids.get(address)))
        if xids:
            yield Xids(xids)


def _reading(index: int, attached: Attached, values: dict[str, Any]) -> GpuReading:
    values["mig_instances"] = values.get("mig_instances") or ()
    return GpuReading(uuid=attached.uuid or f"index-{index}", index=index, **values)


def _problem(error: Any) -> Problem:
    if error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
        return Problem.MISSING
    if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH or "version mismatch" in _said(error).lower():
        return Problem.MISMATCH
    return Problem.FAILED


def _said(error: Any) -> str:
    return str(error)[:SAID_CHARS_MAX]


def _or_none(read: Any) -> Any:
    try:
        return read()
    except (pynvml.NVMLError, ValueError):
        return None


def library_replaced(maps: str) -> bool:
    """Whether the NVML library that is loaded is not on the disk any more, by ``/proc/self/maps``."""
    return any("libnvidia-ml.so" in line and line.endswith("(deleted)") for line in maps.splitlines())


def kernel_module(proc: Path) -> str | None:
    """The version of the kernel module that is loaded."""
    try:
        head = (proc / "driver/nvidia/version").read_text(encoding="ascii", errors="replace")[:512]
    except OSError:
        return None
    found = re.search(r"Module\s.*?([0-9]+(?:\.[0-9]+)+)", head)
    return found.group(1) if found else None


def _known_to_the_kernel(proc: Path) -> list[str]:
    """UUIDs of the cards that the kernel module lists, in NVML's order: by PCI address."""
    uuids: list[str] = []
    for folder in sorted((proc / "driver/nvidia/gpus").glob("*"))[:CARDS_MAX]:
        try:
            lines = (folder / "information").read_text(encoding="utf-8", errors="replace")[:4096].splitlines()
        except OSError:
            continue
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("GPU UUID")]
        if named and named[0].startswith("GPU-") and "?" not in named[0]:
            uuids.append(named[0][:NAME_CHARS_MAX])
    return uuids


def _suspended(sysfs: Path, pci: str) -> bool:
    """Whether the kernel has put a card to sleep; a call of NVML's would wake it, as on laptops."""
    path = sysfs / "bus/pci/devices" / pci.lower()[-12:] / "power/runtime_status"
    try:
        return path.read_text(encoding="ascii").strip() == "suspended"
    except (OSError, ValueError):
        return False


def serve(talk: socket.socket, nvml: Nvml) -> None:
    """Answer until the other side is gone."""
    while True:
        try:
            asked = talk.recv(PACKET_BYTES_MAX)
            if not asked:
                return
            for answer in nvml.round(decode_ask(asked)):
                talk.send(encode(answer))
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.ECONNRESET):
                return
            raise


def main() -> None:
    """Serve on standard input; the roots of proc and sysfs are the arguments."""
    faulthandler.enable()  # a crash inside NVML then says which call it was
    proc, sysfs = (sys.argv[1:] + ["/proc", "/sys"][len(sys.argv) - 1 :])[:2]
    with socket.socket(fileno=0) as talk:
        serve(talk, Nvml(Path(proc), Path(sysfs)))


if __name__ == "__main__":
    main()
