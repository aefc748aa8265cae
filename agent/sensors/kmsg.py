"""The kernel's log, read for what the NVIDIA driver says there: XIDs, with the process they struck.

`/dev/kmsg` gives one record a read and never blocks when opened so. In containers it is mostly closed; under the unit
of this project the agent may not read it either (see docs/gpu.md): then NVML alone tells of XIDs.
"""

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple

RECORD_BYTES_MAX = 8192
RECORDS_PER_LOOK_MAX = 4096
"""A flood of the kernel's is read over several looks; what its ring drops meanwhile is lost, to all readers."""
SAID_CHARS_MAX = 300
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})[^)]*\): ([0-9]{1,9})\b")


class KernelXid(NamedTuple):
    """An XID in the kernel's log."""

    pci: str
    """As `pci_key` writes it."""
    xid: int
    said: str


def pci_key(address: str) -> str | None:
    """A PCI address without its function, in one form: NVML writes ``00000000:3B:00.0``, the kernel ``0000:3b:00``."""
    parts = address.partition(".")[0].split(":")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def xids_of(record: str) -> list[KernelXid]:
    """The XIDs in one record of the log, or in a few lines of it."""
    seen: list[KernelXid] = []
    for found in XID.finditer(record):
        domain, bus, device, xid = found.groups()
        pci = pci_key(f"{domain}:{bus}:{device}")
        if pci is not None:
            said = record[found.start() :].partition("\n")[0][:SAID_CHARS_MAX]
            seen.append(KernelXid(pci, int(xid), said))
    return seen


class KernelLog:
    """Follows the log from the moment it is opened. Never raises: `closed` says why it cannot be read."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self._descriptor: int | None = None
        self.closed = ""
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self._end(error)

    def xids(self) -> list[KernelXid]:
        """Those since the last look."""
        seen: list[KernelXid] = []
        for _ in range(RECORDS_PER_LOOK_MAX):
            if self._descriptor is None:
                break
            try:
                record = os.read(self._descriptor, RECORD_BYTES_MAX)
            except OSError as error:
                if error.errno == errno.EPIPE:  # the ring overtook us; the next read is its oldest record
                    continue
                if not isinstance(error, BlockingIOError):
                    self._end(error)  # some sandboxes let it be opened and not be read
                break
            if not record:
                break
            seen += xids_of(record.decode("utf-8", "replace"))
        return seen

    def _end(self, error: OSError) -> None:
        self.closed = error.strerror or str(error)
        self.close()

    def close(self) -> None:
        """Stop following."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
