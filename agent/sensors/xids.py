"""XIDs: the NVIDIA driver's numbered faults. What each means, what to do, and how often each came.

The meanings are from NVIDIA's XID catalogue (of October 2025), and for older cards from those before it. XIDs come from
NVML and from the kernel's log, which both miss some: each is counted once, however many of the two told of it.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

FORGET_S = 60.0
"""A source that tells of an XID this long after the other tells of another one."""
KEYS_MAX = 1024
"""Distinct (card, XID) pairs that are counted; a card knows some 170 XIDs."""


class Kind(StrEnum):
    """Whose fault it is, most probably."""

    APPLICATION = "application"
    HARDWARE = "hardware"
    """The card, its memory, its links or its firmware."""
    UNKNOWN = "unknown"
    """Not in the table."""


class Xid(NamedTuple):
    """One row of the table."""

    kind: Kind
    name: str
    action: str


RESTART = "restart the program; if it comes back on this card only, have the card tested"
RESET = "drain the node, then reset the card or reboot; if it comes back, replace the card"
REPLACE = "drain the node and have the card replaced"
REBOOT = "reboot the node; if it comes back, have the card, its power and its slot checked"
LINKS = "check the NVLink cables and bridges, then reset all cards of the link; if it comes back, replace the card"
TEST = "nothing at once; if it comes back, have the card tested"
UPDATE = "nothing at once; if it comes back, restart the program and update the driver"
WATCH = "nothing at once: the card has mended it; reset the card when it is idle"

XIDS: dict[int, Xid] = {
    8: Xid(Kind.APPLICATION, "GPU stopped processing", RESTART),
    11: Xid(Kind.APPLICATION, "invalid or corrupted push buffer stream", RESTART),
    13: Xid(Kind.APPLICATION, "graphics engine exception", RESTART),
    25: Xid(Kind.APPLICATION, "invalid or illegal push buffer stream", RESTART),
    31: Xid(Kind.APPLICATION, "GPU memory page fault", RESTART),
    32: Xid(Kind.APPLICATION, "invalid or corrupted push buffer stream", RESTART),
    37: Xid(Kind.APPLICATION, "driver firmware error", UPDATE),
    38: Xid(Kind.APPLICATION, "driver firmware error", UPDATE),
    39: Xid(Kind.APPLICATION, "copy engine exception", RESTART),
    40: Xid(Kind.APPLICATION, "copy engine exception", RESTART),
    41: Xid(Kind.APPLICATION, "copy engine exception", RESTART),
    43: Xid(Kind.APPLICATION, "GPU stopped processing", RESTART),
    44: Xid(Kind.APPLICATION, "graphics engine fault during context switch", RESTART),
    45: Xid(
        Kind.APPLICATION,
        "preemptive cleanup after an earlier error",
        "see the XID before it, or who killed the program",
    ),
    46: Xid(Kind.HARDWARE, "GPU stopped processing", RESET),
    48: Xid(Kind.HARDWARE, "double-bit ECC error", RESET),
    54: Xid(Kind.HARDWARE, "auxiliary power is not connected", "connect the card's power cables"),
    56: Xid(Kind.HARDWARE, "display engine error", RESET),
    57: Xid(Kind.HARDWARE, "error programming the video memory interface", RESET),
    58: Xid(Kind.HARDWARE, "unstable video memory interface", RESET),
    61: Xid(Kind.HARDWARE, "internal micro-controller breakpoint", RESET),
    62: Xid(Kind.HARDWARE, "internal micro-controller halt", RESET),
    63: Xid(Kind.HARDWARE, "row remapping or page retirement recorded", WATCH),
    64: Xid(Kind.HARDWARE, "row remapping or page retirement failed", RESET),
    66: Xid(Kind.APPLICATION, "illegal access by driver", RESTART),
    68: Xid(Kind.APPLICATION, "video decoder exception", RESTART),
    69: Xid(Kind.APPLICATION, "graphics engine class error", RESTART),
    74: Xid(Kind.HARDWARE, "NVLink error", LINKS),
    79: Xid(Kind.HARDWARE, "GPU has fallen off the bus", REBOOT),
    80: Xid(Kind.APPLICATION, "corrupted data sent to the GPU", RESTART),
    92: Xid(Kind.HARDWARE, "high rate of single-bit ECC errors", TEST),
    94: Xid(Kind.HARDWARE, "contained ECC error", "restart the program it struck; reset the card when it is idle"),
    95: Xid(Kind.HARDWARE, "uncontained ECC error", RESET),
    109: Xid(Kind.HARDWARE, "context switch timeout", RESET),
    110: Xid(Kind.HARDWARE, "security fault", RESET),
    119: Xid(Kind.HARDWARE, "GSP firmware did not answer", RESET),
    120: Xid(Kind.HARDWARE, "GSP firmware error", RESET),
    121: Xid(Kind.HARDWARE, "C2C link error", TEST),
    122: Xid(Kind.HARDWARE, "SPI flash read failure", REPLACE),
    123: Xid(Kind.HARDWARE, "SPI flash write failure", REPLACE),
    124: Xid(Kind.HARDWARE, "SPI flash erase failure", REPLACE),
    136: Xid(Kind.HARDWARE, "link training failed", RESET),
    137: Xid(Kind.APPLICATION, "NVLink remote memory access fault", RESTART),
    140: Xid(Kind.HARDWARE, "unrecovered ECC error", RESET),
    143: Xid(Kind.HARDWARE, "GPU initialisation failed", RESET),
    144: Xid(Kind.HARDWARE, "NVLink SAW error", LINKS),
    145: Xid(Kind.HARDWARE, "NVLink RLW error", LINKS),
    146: Xid(Kind.HARDWARE, "NVLink TLW error", LINKS),
    147: Xid(Kind.HARDWARE, "NVLink TREX error", LINKS),
    148: Xid(Kind.HARDWARE, "NVLink control error", LINKS),
    149: Xid(Kind.HARDWARE, "NVLink NETIR error", LINKS),
    150: Xid(Kind.HARDWARE, "NVLink MSE error", LINKS),
    154: Xid(
        Kind.HARDWARE,
        "the recovery the GPU asks for has changed",
        "do as `nvidia-smi -q` says under GPU Recovery Action",
    ),
    155: Xid(Kind.HARDWARE, "NVLink error found by software", LINKS),
    156: Xid(Kind.HARDWARE, "resource retired", RESET),
    157: Xid(Kind.HARDWARE, "resource retirement failed", TEST),
    158: Xid(Kind.HARDWARE, "fatal timeout", RESET),
    160: Xid(Kind.HARDWARE, "memory channel retired", WATCH),
    161: Xid(Kind.HARDWARE, "memory channel retirement failed", TEST),
    167: Xid(Kind.HARDWARE, "fatal PCIe timeout", REBOOT),
    168: Xid(Kind.HARDWARE, "memory capacity reduced by errors", REPLACE),
    171: Xid(Kind.HARDWARE, "uncorrectable error in the card's memory", RESET),
    172: Xid(Kind.HARDWARE, "uncorrectable error in the card's caches", RESET),
}

UNLISTED = Xid(Kind.UNKNOWN, "not in the table", "look it up in NVIDIA's XID catalogue")


def meaning(xid: int) -> Xid:
    """The row of an XID."""
    return XIDS.get(xid, UNLISTED)


class Source(StrEnum):
    """Who told of an XID."""

    NVML = "nvml"
    KERNEL = "kernel"


class Sighting(NamedTuple):
    """An XID on a card since the last look."""

    card: str
    xid: int
    new: int
    total: int
    """Of this XID on this card."""
    said: str
    """The kernel's line; empty where only NVML told."""


class _Tally:
    __slots__ = ("by_source", "heard_s", "said", "told", "total")

    def __init__(self) -> None:
        self.by_source = dict.fromkeys(Source, 0)
        self.total = 0
        self.told = 0
        self.heard_s = 0.0
        self.said = ""


class XidCounts:
    """Counts of each XID of each card. A card is named by its UUID, or by its PCI address where that is unknown."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, int], _Tally] = {}

    def add(self, card: str, xid: int, source: Source, now_s: float, said: str = "") -> None:
        """One more, told by ``source``."""
        if (card, xid) not in self._tallies and len(self._tallies) >= KEYS_MAX:
            del self._tallies[min(self._tallies, key=lambda key: self._tallies[key].heard_s)]
        tally = self._tallies.setdefault((card, xid), _Tally())
        if now_s - tally.heard_s > FORGET_S:
            tally.by_source = dict.fromkeys(Source, tally.total)
        tally.by_source[source] += 1
        tally.total = max(tally.by_source.values())
        tally.heard_s = now_s
        tally.said = said or tally.said

    def take(self) -> Iterator[Sighting]:
        """What is new since the last call."""
        for (card, xid), tally in self._tallies.items():
            if tally.total > tally.told:
                yield Sighting(card, xid, tally.total - tally.told, tally.total, tally.said)
                tally.told, tally.said = tally.total, ""

    def total(self, card: str) -> int:
        """All XIDs of one card."""
        return sum(tally.total for (owner, _), tally in self._tallies.items() if owner == card)
