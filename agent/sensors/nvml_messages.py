"""What the sensor and its NVML child say to each other: one JSON message a packet, each with a bound on its size.

The child imports this and nothing else of the agent, so that it stays small.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from wire.limits import GPUS_MAX
from wire.readings import GpuReading

PACKET_BYTES_MAX = 64 * 1024
"""One message: a card with all of its processes takes about 3 KiB."""
SAID_CHARS_MAX = 300
"""An error text of NVML's."""
XIDS_PER_ROUND_MAX = 512
"""XIDs in one message; the driver keeps the rest for the next."""

ERROR_NOT_SUPPORTED = 3
ERROR_NO_PERMISSION = 4
ERROR_GPU_IS_LOST = 15
ERROR_RESET_REQUIRED = 16
ERROR_MISMATCH = 18
"""NVML's numbers, as far as whoever reads the child's answers has to know them."""


class Problem(StrEnum):
    """Why a node's cards cannot be read."""

    NONE = "none"
    MISSING = "missing"
    """No NVML library, or no driver: this node has no NVIDIA card."""
    MISMATCH = "mismatch"
    """Library and driver are of different versions: reboot after the upgrade."""
    HUNG = "hung"
    """The child did not answer in time."""
    FAILED = "failed"
    """It answered with an error, or died."""


Index = Annotated[int, Meta(ge=0, le=2**16)]


class Ask(Struct, frozen=True):
    """One round, please."""

    skip: list[Index] = []
    """Cards to leave alone: NVML hung or crashed on them."""
    last: list[Index] = []
    """Cards to read after all others: those that are tried again."""


class Begin(Struct, frozen=True, tag="begin"):
    """The child turns to a card. Whoever hears nothing after this knows which card it was."""

    index: Index
    uuid: str | None = None


class Card(Struct, frozen=True, tag="card", omit_defaults=True):
    """What was read of one card."""

    index: Index
    reading: GpuReading | None = None
    """Without state and XIDs; None where the card gave an error instead."""
    uuid: str | None = None
    error: int = 0
    """NVML's number, where the whole card cannot be read."""
    said: str = ""
    """NVML's words for it, or for a reading that every card should have and this one lacks."""
    asleep: bool = False
    """The card is suspended, and was not woken for this."""
    pages_pending: bool | None = None
    """Pages wait for a reboot to be retired."""


class XidSeen(Struct, frozen=True):
    """One XID that NVML told of."""

    xid: Annotated[int, Meta(ge=0, le=2**32)]
    uuid: str | None = None


class Xids(Struct, frozen=True, tag="xids"):
    """XIDs since the last message of this kind; before the cards, so that none is lost with a child that dies there."""

    seen: Annotated[list[XidSeen], Meta(max_length=XIDS_PER_ROUND_MAX)]


class End(Struct, frozen=True, tag="end", omit_defaults=True):
    """The round is over."""

    problem: Problem = Problem.NONE
    said: str = ""
    count: int = 0
    """Cards that NVML lists."""
    watches_xids: bool = False
    stale: bool = False
    """Cards came or went: a new child sees them right."""


Answer = Begin | Card | Xids | End

encode = msgspec.json.Encoder().encode
decode_ask = msgspec.json.Decoder(Ask).decode
decode_answer = msgspec.json.Decoder(Answer).decode

CARDS_MAX = GPUS_MAX
