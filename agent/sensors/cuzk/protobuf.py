"""The few messages of the daemon's gRPC that are read, out of their bytes.

Three flat messages of numbers and strings are no reason for a protobuf run time of its own size in every agent; the
tests hold this against the real one.
"""

from collections.abc import Iterator

from msgspec import Struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
ROWS_MAX = 256
"""Workers and kinds in one answer."""
UINT64_MAX = 2**64 - 1


class Malformed(ValueError):
    """The bytes are no such message."""


class GpuRow(Struct, frozen=True):
    """One worker, in spite of its name in the schema."""

    ordinal: int
    job: str
    kind: int


class QueueRow(Struct, frozen=True):
    """One kind's queue."""

    kind: int
    in_progress: int


class StatusMessage(Struct, frozen=True):
    """What is used of ``cuzk.v1.GetStatusResponse``."""

    gpus: list[GpuRow]
    queues: list[QueueRow]
    completed: int
    failed: int
    uptime_s: int


def status_message(data: bytes) -> StatusMessage:
    """The message in ``data``.

    Raises:
        Malformed: it is none.
    """
    gpus, queues = [], []
    numbers = {4: 0, 5: 0, 6: 0}
    for number, value in fields(data):
        if number == 1:
            gpus.append(_gpu(_bytes(value)))
        elif number == 3:  # noqa: PLR2004 - numbers of the schema
            queues.append(_queue(_bytes(value)))
        elif number in numbers:
            numbers[number] = _number(value)
        if len(gpus) > ROWS_MAX or len(queues) > ROWS_MAX:
            raise Malformed(f"more than {ROWS_MAX} rows")
    return StatusMessage(gpus=gpus, queues=queues, completed=numbers[4], failed=numbers[5], uptime_s=numbers[6])


def _gpu(data: bytes) -> GpuRow:
    by_number = dict(fields(data))
    job = _bytes(by_number.get(5, b"")).decode("utf-8", "replace")
    return GpuRow(ordinal=_number(by_number.get(1, 0)), job=job, kind=_number(by_number.get(6, 0)))


def _queue(data: bytes) -> QueueRow:
    by_number = dict(fields(data))
    return QueueRow(kind=_number(by_number.get(1, 0)), in_progress=_number(by_number.get(3, 0)))


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field: varints as numbers, all else as bytes.

    Raises:
        Malformed: a field reaches beyond the end, or is of a type that no schema has any more.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise Malformed(f"wire type {kind} at byte {at}")
        if size > len(data) - at:
            raise Malformed(f"a field of {size} bytes at byte {at} of {len(data)}")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(VARINT_BYTES_MAX):
        if at + count >= len(data):
            raise Malformed("it ends within a number")
        byte = data[at + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:  # noqa: PLR2004 - the bit that says whether another byte follows
            return value & UINT64_MAX, at + count + 1
    raise Malformed(f"a number of more than {VARINT_BYTES_MAX} bytes at byte {at}")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Malformed("a number in the place of a message")
    return value


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise Malformed("a message in the place of a number")
    return value
