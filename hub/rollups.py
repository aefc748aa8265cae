"""Pure: samples and rollups as the store keeps them, and how one tier is made from the one below.

A row holds all of a node at one time. Packed, it lists for each source its number, which fields it has (a bit for each)
and their values in that order: no names, so that a row of a node with one card takes some hundred bytes. Rollups are
compressed as well, since they are kept for years and made off the way of ingest.

Each tier's row is a function of the rows below it, taken in the order of their time, and of nothing else. So it may be
made again at any time, by anyone, after any interruption, with the same result.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from hub.series import Number, Values

Sample = dict[int, Values]
"""By the source's number."""

COMPRESSION = 6
PACKED_BYTES_MAX = 8 * 1024 * 1024
"""Of a decompressed row. The largest that can arise, 256 sources of 63 fields with four floats each, is below 1 MiB."""


class Tier(IntEnum):
    """How wide the rows of a kind are, in seconds. 0: what nodes sent, as they sent it."""

    RAW = 0
    MINUTE = 60
    TEN_MINUTES = 600
    HOUR = 3600

    @property
    def width_ms(self) -> int:
        """Milliseconds of one row's time."""
        return self.value * 1000

    @property
    def below(self) -> "Tier":
        """What its rows are made from."""
        return TIERS[TIERS.index(self) - 1]

    @property
    def above(self) -> "Tier | None":
        """What is made from its rows."""
        position = TIERS.index(self) + 1
        return TIERS[position] if position < len(TIERS) else None

    def start_of(self, time_ms: int) -> int:
        """The beginning of the row that holds a moment."""
        return time_ms if self is Tier.RAW else time_ms - time_ms % self.width_ms


TIERS = tuple(Tier)


class Rollup(NamedTuple):
    """One series over some time."""

    samples: int
    """Samples that had it; fewer than the others' show a gap."""
    low: Number
    mean: float
    high: Number
    last: Number


Rolled = dict[int, dict[int, Rollup]]
"""By the source's number and the field's."""


def of_sample(sample: Sample) -> Rolled:
    """One sample as a rollup of itself."""
    return {
        source: {field: Rollup(1, value, float(value), value, value) for field, value in values.items()}
        for source, values in sample.items()
    }


def of_samples(samples: Iterable[Sample]) -> Rolled:
    """Samples, oldest first, as one: `combined` of each by itself, without making so many values in between."""
    gathered: dict[int, dict[int, list[Number]]] = {}
    for sample in samples:
        for source, values in sample.items():
            mine = gathered.setdefault(source, {})
            for field, value in values.items():
                if field in mine:
                    mine[field].append(value)
                else:
                    mine[field] = [value]
    return {
        source: {field: _of_values(values) for field, values in fields.items()} for source, fields in gathered.items()
    }


def _of_values(values: Sequence[Number]) -> Rollup:
    low, high = min(values), max(values)
    mean = float(low) if low == high else min(max(sum(values) / len(values), low), high)
    return Rollup(len(values), low, mean, high, values[-1])


def combined(rows: Iterable[Rolled]) -> Rolled:
    """Rows of one tier, oldest first, as one."""
    gathered: dict[int, dict[int, list[Rollup]]] = {}
    for row in rows:
        for source, fields in row.items():
            mine = gathered.setdefault(source, {})
            for field, rollup in fields.items():
                mine.setdefault(field, []).append(rollup)
    return {source: {field: merged(parts) for field, parts in fields.items()} for source, fields in gathered.items()}


def merged(parts: Sequence[Rollup]) -> Rollup:
    """Parts of one series, oldest first, as one."""
    if len(parts) == 1:
        return parts[0]
    samples = sum(part.samples for part in parts)
    low = min(part.low for part in parts)
    high = max(part.high for part in parts)
    mean = float(low) if low == high else sum(part.mean * (part.samples / samples) for part in parts)
    return Rollup(samples, low, min(max(mean, low), high), high, parts[-1].last)


# --- as bytes


def pack_sample(sample: Sample) -> bytes:
    """A sample for its row."""
    return msgspec.msgpack.encode([_packed_source(number, values) for number, values in sorted(sample.items())])


def _packed_source(number: int, values: Values) -> list[Any]:
    fields = sorted(values)
    return [number, mask_of(fields), *(values[field] for field in fields)]


def unpack_sample(packed: bytes) -> Sample:
    """The sample of a row."""
    return {
        number: dict(zip(fields_in(mask), values, strict=True))
        for number, mask, *values in msgspec.msgpack.decode(packed)
    }


def pack_rolled(rolled: Rolled) -> bytes:
    """A rollup for its row. What is equal to its neighbour is left as null: most series stand still for a minute."""
    sources = []
    for number, rollups in sorted(rolled.items()):
        fields = sorted(rollups)
        mine = [rollups[field] for field in fields]
        sources.append(
            [
                number,
                mask_of(fields),
                [item.samples for item in mine],
                [item.high for item in mine],
                [None if item.low == item.high else item.low for item in mine],
                [None if item.low == item.high else item.mean for item in mine],
                [None if item.last == item.high else item.last for item in mine],
            ]
        )
    return zlib.compress(msgspec.msgpack.encode(sources), COMPRESSION)


def unpack_rolled(packed: bytes) -> Rolled:
    """The rollup of a row."""
    data = zlib.decompressobj().decompress(packed, PACKED_BYTES_MAX)
    return {
        number: {
            field: Rollup(
                samples,
                high if low is None else low,
                float(high) if mean is None else mean,
                high,
                high if last is None else last,
            )
            for field, samples, high, low, mean, last in zip(fields_in(mask), *columns, strict=True)
        }
        for number, mask, *columns in msgspec.msgpack.decode(data)
    }


def mask_of(fields: Iterable[int]) -> int:
    """A bit for each field."""
    mask = 0
    for field in fields:
        mask |= 1 << field
    return mask


def fields_in(mask: int) -> Iterator[int]:
    """The fields whose bits are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
