"""Follows one file by name: rotation by rename, truncation, copies, a file that comes later. Synchronous; for a thread.

A `Place` says where the next line begins, and is kept with the records, so that a restart neither repeats nor misses
one. It knows the file by device, inode and the digest of its first bytes: inodes are used again, and files are cut off
and grow anew. When the file was rotated while nobody looked, the rest of the old one is looked for beside it.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

CHUNK_BYTES = 32 * 1024
"""Read at once; the records of one read are one batch."""
LINE_BYTES_MAX = 24 * 1024
"""Of a line that is kept whole until it is parsed; of a longer one the beginning."""
HEAD_BYTES = 256
"""By these first bytes a file is known again."""
LINGER_S = 5.0
"""A renamed file may be written on until its program opens the new one."""
SIBLINGS_MAX = 1000
ROTATED = re.compile(r"[.-](\d{1,3}|\d{4}-?\d{2}-?\d{2}[\w.-]{0,32})")
"""What rotation appends to a name."""
PACKED = (".gz", ".xz", ".bz2", ".zst", ".lz4")
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Place(Struct, frozen=True):
    """Where the next line begins."""

    device: int
    inode: int
    offset: int
    head_bytes: int = 0
    head_sha256: str = ""
    skipping: bool = False
    """Within a line whose beginning was shipped, or was there before us."""


class RawLine(Struct, frozen=True):
    """One line, and the place after it."""

    data: bytes
    place: Place


class Chunk(Struct, frozen=True):
    """What one look at the file gave."""

    lines: list[RawLine] = []
    place: Place | None = None
    """After it; None while there never was a file."""
    problem: str = ""
    """Why it cannot be read now."""
    missing: bool = False
    """The problem is that there is no such file."""
    missed: bool = False
    """Lines were lost: the file was replaced and the rest of the old one is gone."""
    more: bool = False
    """There is more to read at once."""


class FileTail:
    """One followed name. ``place`` None means that it was never read: its present lines are not shipped."""

    def __init__(self, path: Path, place: Place | None, *, from_end: bool) -> None:
        self._path = path
        self._place = place
        self._from_end = from_end
        self._fd: int | None = None
        self._old = False
        """It is no longer the file of that name."""
        self._read_to = 0
        """What was read, the partial line included."""
        self._partial = bytearray()
        self._quiet_since_s: float | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def read(self, now_s: float) -> Chunk:
        """The next lines, if any."""
        missed = False
        try:
            if self._fd is None:
                try:
                    missed = self._open()
                except OSError:
                    self.close()
                    raise
            missed = self._watch_truncation() or missed
            before = self._read_to
            lines = self._lines()
            more = self._read_to != before
            if not more:
                more = self._rotate(now_s, lines)
        except FileNotFoundError:
            self._from_end = False  # what comes later is read from its beginning
            return Chunk(place=self._place, problem=f"{self._path} does not exist (yet)", missing=True)
        except OSError as error:
            self.close()
            return Chunk(place=self._place, problem=f"{self._path} cannot be read: {error.strerror or error}")
        return Chunk(lines, self._place, missed=missed, more=more)

    # --- opening ------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Open where we left off; whether lines were lost."""
        place = self._place
        fd = self._fd = _regular(self._path)
        if place is None:
            self._begin(fd, at_end=self._from_end)
            return False
        if _is_at(fd, place):
            self._take(fd, place, old=False)
            return False
        predecessor = self._predecessor(place)
        if predecessor is not None:
            self._take(*predecessor, old=True)
            return False
        self._begin(fd, at_end=False)
        return place.offset > 0

    def _begin(self, fd: int, *, at_end: bool) -> None:
        facts = os.fstat(fd)
        size = facts.st_size if at_end else 0
        skipping = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        place = Place(facts.st_dev, facts.st_ino, size, *_head(fd, size), skipping=skipping)
        self._take(fd, place, old=False)

    def _take(self, fd: int, place: Place, *, old: bool) -> None:
        if fd != self._fd:
            self.close()
        self._fd, self._place, self._old = fd, place, old
        self._read_to = place.offset
        self._partial.clear()
        self._quiet_since_s = None

    # --- reading ------------------------------------------------------------------------------------------------

    def _watch_truncation(self) -> bool:
        """Find out whether what was read has been cut off; whether lines were lost by it."""
        fd, place = self._held()
        size = os.fstat(fd).st_size
        if self._old or (size >= self._read_to and _head(fd, place.head_bytes)[1] == place.head_sha256):
            return False
        predecessor = self._predecessor(place)  # a copy that was made before
        if predecessor is not None:
            self._take(*predecessor, old=True)
            return False
        lost = bool(self._partial)
        facts = os.fstat(fd)
        self._place = Place(facts.st_dev, facts.st_ino, 0)
        self._read_to = 0
        self._partial.clear()
        return lost

    def _lines(self) -> list[RawLine]:
        fd, place = self._held()
        data = os.pread(fd, CHUNK_BYTES, self._read_to)
        if data and not data.strip(b"\0"):
            self._pass_hole(fd, len(data))
            return []
        lines = []
        skipping, start = place.skipping, 0
        while (end := data.find(b"\n", start)) >= 0:
            content = bytes(self._partial) + data[start:end].replace(b"\0", b"")
            self._partial.clear()
            start = end + 1
            place = self._place_at(self._read_to + start, skipping=False)
            if not skipping:
                lines.append(RawLine(content.rstrip(b"\r"), place))
            skipping = False
        if not skipping:
            self._partial += data[start:].replace(b"\0", b"")
        self._read_to += len(data)
        if data:
            self._quiet_since_s = None
        if skipping:
            place = self._place_at(self._read_to, skipping=True)
        elif len(self._partial) > LINE_BYTES_MAX:
            place = self._place_at(self._read_to, skipping=True)
            lines.append(RawLine(bytes(self._partial[:LINE_BYTES_MAX]) + b" [... a longer line]", place))
            self._partial.clear()
        self._place = place
        return lines

    def _pass_hole(self, fd: int, size_bytes: int) -> None:
        """Zeros: a writer that did not notice the truncation leaves gibibytes of them, which the disk does not hold."""
        beyond = self._read_to + size_bytes
        try:
            self._read_to = os.lseek(fd, beyond, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            self._read_to = max(beyond, os.fstat(fd).st_size)
        if not self._partial:
            self._place = self._place_at(self._read_to, skipping=self._held()[1].skipping)

    def _place_at(self, offset: int, *, skipping: bool) -> Place:
        fd, place = self._held()
        head = (place.head_bytes, place.head_sha256)
        if place.head_bytes < HEAD_BYTES:
            head = _head(fd, offset)
        return Place(place.device, place.inode, offset, *head, skipping=skipping)

    def _held(self) -> tuple[int, Place]:
        assert self._fd is not None  # noqa: S101 - opened above
        assert self._place is not None  # noqa: S101 - opened above
        return self._fd, self._place

    # --- rotation -----------------------------------------------------------------------------------------------

    def _rotate(self, now_s: float, lines: list[RawLine]) -> bool:
        """At the end of a file: go on to the next one if it is not the one of its name any more; whether it was so."""
        fd, _ = self._held()
        facts = os.fstat(fd)
        if not self._old:
            try:
                there = self._path.stat()
            except FileNotFoundError:
                return False  # renamed or deleted, and nothing new yet
            if (there.st_dev, there.st_ino) == (facts.st_dev, facts.st_ino):
                return False
        if self._quiet_since_s is None:
            self._quiet_since_s = now_s
        if now_s - self._quiet_since_s < LINGER_S:
            return False
        following = self._following(facts)
        old = following is not None
        new_fd = following if following is not None else _regular(self._path)
        if self._partial:  # nobody ends this line any more
            place = self._place_at(self._read_to, skipping=False)
            lines.append(RawLine(bytes(self._partial), place))
        begun = os.fstat(new_fd)
        self._take(new_fd, Place(begun.st_dev, begun.st_ino, 0), old=old)
        return True

    def _predecessor(self, place: Place) -> tuple[int, Place] | None:
        """The file of a place under another name, or a copy of it, opened."""
        for path, facts in self._siblings():
            same = (facts.st_dev, facts.st_ino) == (place.device, place.inode)
            if facts.st_size < place.offset or not (same or place.head_bytes):
                continue
            fd = _opened(path)
            if fd is not None:
                if _head(fd, place.head_bytes)[1] == place.head_sha256:
                    held = msgspec.structs.replace(place, device=facts.st_dev, inode=facts.st_ino)
                    return fd, held
                os.close(fd)
        return None

    def _following(self, old: os.stat_result) -> int | None:
        """The file that was rotated next after ``old``, opened: several rotations may have passed."""
        later = [
            (facts.st_mtime_ns, path)
            for path, facts in self._siblings()
            if facts.st_mtime_ns > old.st_mtime_ns and facts.st_ino != old.st_ino
        ]
        return _opened(min(later)[1]) if later else None

    def _siblings(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The rotated files beside ours, the newest first."""
        found: list[tuple[int, str, os.stat_result]] = []
        name = self._path.name
        with os.scandir(self._path.parent) as entries:
            for entry in entries:
                tail = entry.name.removeprefix(name)
                if entry.name.startswith(name) and ROTATED.fullmatch(tail) and not entry.name.endswith(PACKED):
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(facts.st_mode) and len(found) < SIBLINGS_MAX:
                        found.append((facts.st_mtime_ns, entry.path, facts))
        for _, path, facts in sorted(found, key=lambda one: one[:2], reverse=True):
            yield Path(path), facts


def _regular(path: Path) -> int:
    """The file, opened. Devices and pipes are refused: reading one may take what is another's, or never end.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    mode = path.stat().st_mode  # before it is opened: opening alone does something to some devices
    if stat.S_ISREG(mode):
        fd = os.open(path, FLAGS)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
    raise OSError(errno.EINVAL, "it is no regular file, and only those can be followed")


def _opened(path: Path) -> int | None:
    try:
        return _regular(path)
    except OSError:
        return None  # gone again, or not ours to read: as if it were not there


def _head(fd: int, offset: int) -> tuple[int, str]:
    """How many first bytes, up to a place, a file is known by; and their digest."""
    head = os.pread(fd, min(HEAD_BYTES, offset), 0)
    return len(head), hashlib.sha256(head).hexdigest() if head else ""


def _is_at(fd: int, place: Place) -> bool:
    """Whether an open file is the one of a place, and still has what was read of it."""
    facts = os.fstat(fd)
    same = (facts.st_dev, facts.st_ino) == (place.device, place.inode)
    return same and facts.st_size >= place.offset and _head(fd, place.head_bytes)[1] == place.head_sha256
