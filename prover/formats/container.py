"""The sectioned binary container that `.zkey` and `.wtns` share.

``magic[4] | version u32 | sections u32 | { id u32, size u64, payload }*``, little-endian. Sections come in any
order and ids need not be contiguous, so the table is built first and payloads are looked up by id. Unknown ids
are allowed; a needed id must be there exactly once.

The file is mapped read-only and never copied. What is mapped must not be truncated by others meanwhile: the
kernel answers a read behind the new end with SIGBUS. Files handed to the prover are therefore written elsewhere
and renamed into place.
"""

import errno
import mmap
import os
import stat
import struct
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Final, NamedTuple, Self

from prover.errors import MalformedFile

SECTIONS_MAX: Final = 64
"""Sections of one file; snarkjs writes at most 17. Without a limit, a table of empty sections costs minutes."""

_FILE_HEADER: Final = struct.Struct("<4sII")
_SECTION_HEADER: Final = struct.Struct("<IQ")


class Section(NamedTuple):
    """Where one payload lies: both in bytes, from the start of the file."""

    offset: int
    size: int


class Container:
    """A mapped file and its table of sections; a context manager that owns the mapping."""

    def __init__(self, path: str, mapping: mmap.mmap, sections: dict[int, list[Section]]) -> None:
        self.path = path
        self._mapping = mapping
        self._view = memoryview(mapping)
        self._sections = sections

    @classmethod
    def open(cls, path: str | PathLike[str], *, magic: bytes, version_max: int) -> Self:
        """Map a file and read its table of sections.

        Args:
            path: the file; only a regular file is accepted.
            magic: its first four bytes.
            version_max: the highest version understood; versions start at 1.

        Raises:
            MalformedFile: it cannot be read, is of another kind, or its table leaves the file.
        """
        mapping = _map_file(path)
        try:
            sections = _read_table(path, mapping, magic, version_max)
        except BaseException:
            mapping.close()
            raise
        return cls(os.fspath(path), mapping, sections)

    def section(self, ident: int, name: str) -> memoryview:
        """Return the payload of a section that must be there exactly once.

        Args:
            ident: the section's id.
            name: what it holds, for messages.

        Raises:
            MalformedFile: it is missing or there are several.
        """
        found = self._sections.get(ident, [])
        if len(found) != 1:
            problem = (
                "is missing; the file is incomplete"
                if not found
                else f"is there {len(found)} times; which one is meant cannot be known"
            )
            raise MalformedFile(self.path, section_field(ident, name), problem)
        return self._view[found[0].offset : found[0].offset + found[0].size]

    def optional_section(self, ident: int) -> memoryview | None:
        """Return the payload of a section that nothing needs; None unless it is there exactly once."""
        found = self._sections.get(ident, [])
        return self._view[found[0].offset : found[0].offset + found[0].size] if len(found) == 1 else None

    def section_of_size(self, ident: int, name: str, size: int, why: str) -> memoryview:
        """Return a payload whose size the header determines.

        Args:
            ident: the section's id.
            name: what it holds, for messages.
            size: the bytes it must have.
            why: what they are, for the message: ``12 wires of 64 bytes``.

        Raises:
            MalformedFile: it is missing, there are several, or it has another size.
        """
        view = self.section(ident, name)
        if len(view) != size:
            raise MalformedFile(
                self.path,
                section_field(ident, name),
                f"has {len(view)} bytes, but {why} make {size}; the file is damaged or cut short",
            )
        return view

    def unload(self) -> None:
        """Let the system take back the memory of what was read; who reads it again waits for the file's cache."""
        self._mapping.madvise(mmap.MADV_DONTNEED)

    def sha256(self) -> str:
        """Return the SHA-256 of the whole file in hexadecimal."""
        from hashlib import sha256  # noqa: PLC0415 - takes a while to load, and a proof does without

        return sha256(self._view).hexdigest()

    def close(self) -> None:
        """End the mapping, or leave its end to the last view that somebody still holds."""
        # A BufferError says that views of sections are alive: the mapping goes when they go.
        with suppress(BufferError):
            self._view.release()
            self._mapping.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def section_field(ident: int, name: str) -> str:
    """Return how a section is named in messages."""
    return f"section {ident} ({name})"


def open_regular(path: str | PathLike[str]) -> int:
    """Return a read-only descriptor of a regular file; the caller closes it.

    Raises:
        MalformedFile: it cannot be opened or is something else: a folder, a device, a pipe.
    """
    try:
        # O_NONBLOCK: opening a FIFO that nobody writes to must not hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise MalformedFile(path, "", f"cannot be opened: {reason}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MalformedFile(path, "", "is not a regular file")
    return descriptor


def _map_file(path: str | PathLike[str]) -> mmap.mmap:
    """Map a regular file read-only."""
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        if size < _FILE_HEADER.size:
            raise MalformedFile(
                path, "header", f"the file has {size} bytes; the header alone takes {_FILE_HEADER.size}"
            )
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError from error  # ours, and no fault of the file
        raise MalformedFile(path, "", f"cannot be mapped: {error}") from error
    finally:
        os.close(descriptor)


def _read_table(
    path: str | PathLike[str], mapping: mmap.mmap, magic: bytes, version_max: int
) -> dict[int, list[Section]]:
    """Read the table of sections: id to every place where it stands."""
    found_magic, version, count = _FILE_HEADER.unpack_from(mapping, 0)
    if found_magic != magic:
        raise MalformedFile(
            path, "magic", f"the file starts with {found_magic!r}, a .{magic.decode()} file with {magic!r}"
        )
    if not 1 <= version <= version_max:
        raise MalformedFile(path, "version", f"is {version}; versions 1 to {version_max} are understood")
    if count > SECTIONS_MAX:
        raise MalformedFile(path, "number of sections", f"is {count}; at most {SECTIONS_MAX} are accepted")
    sections: dict[int, list[Section]] = {}
    position, end = _FILE_HEADER.size, len(mapping)
    for number in range(1, count + 1):
        field = f"section header {number} of {count}"
        if end - position < _SECTION_HEADER.size:
            raise MalformedFile(path, field, f"is cut off: the file ends at byte {end}")
        ident, size = _SECTION_HEADER.unpack_from(mapping, position)
        position += _SECTION_HEADER.size
        if size > end - position:
            raise MalformedFile(
                path,
                field,
                f"section {ident} claims {size} bytes from byte {position}, but the file ends at byte {end}; "
                "it is cut short or damaged",
            )
        sections.setdefault(ident, []).append(Section(position, size))
        position += size
    return sections
