"""What a power cut would have left of a folder, told from the record that lossy_disk.c makes of every change in it.

The model, as strict as a journalling file system may be: bytes of a file are durable once that file was fsynced after
they were written; a name (made, renamed, removed) once its folder was fsynced. Of the rest a cut leaves what chance
wants: each write wholly, in part (whole sectors of it from its beginning), or not at all, in any order; of the changes
of names the first few, in their order. `Cut.LEAST` leaves none of the rest, `Cut.TORN` what its seed wants.
"""

import contextlib
import ctypes
import enum
import mmap
import os
import random
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

SOURCE = Path(__file__).with_name("lossy_disk.c")
HEADER = struct.Struct("<IIQQII")
SECTOR_BYTES = 512
READ_BYTES = 16 * 1024 * 1024


class Op(enum.IntEnum):
    """As in lossy_disk.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    UNLINK = 6
    MKDIR = 7
    RMDIR = 8
    LINK = 9


class Control(ctypes.Structure):
    """As in lossy_disk.c; shared memory with the processes that run on the disk."""

    _fields_ = (
        ("effects", ctypes.c_uint64),
        ("crash_at", ctypes.c_uint64),
        ("side", ctypes.c_uint32),
        ("full", ctypes.c_uint32),
        ("sync_us", ctypes.c_uint32),
        ("crashed", ctypes.c_uint32),
        ("lies", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("ahead_s", ctypes.c_int64),
    )


class Cut(enum.Enum):
    """How much of what was not fsynced a power cut leaves."""

    LEAST = "least"
    TORN = "torn"


class Side(enum.IntEnum):
    """Of a durable effect."""

    BEFORE = 0
    AFTER = 1


def build(folder: Path) -> Path:
    """Compile the interposer."""
    made = folder / "lossy_disk.so"
    if not made.exists():
        aside = made.with_suffix(f".{os.getpid()}")
        flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Wno-nonnull", "-Werror")
        subprocess.run(["gcc", *flags, "-o", aside, SOURCE, "-ldl", "-lpthread"], check=True, timeout=60)
        aside.replace(made)
    return made


class Write(NamedTuple):
    """Bytes at an offset; None: the file was cut or grown to ``offset``."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class Content:
    """A file's durable bytes and what was done to it since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    mode: int = 0o600

    def sync(self) -> None:
        for write in self.pending:
            apply(self.durable, write)
        self.pending.clear()

    def after(self, cut: Cut, rng: random.Random) -> bytes:
        """What a cut leaves."""
        left = bytearray(self.durable)
        if cut is Cut.TORN:
            for write in self.pending:
                fate = rng.random()
                if fate < 1 / 3:
                    continue
                if fate < 2 / 3 and write.data is not None and len(write.data) > SECTOR_BYTES:
                    sectors = rng.randrange(len(write.data) // SECTOR_BYTES + 1)
                    write = Write(write.offset, write.data[: sectors * SECTOR_BYTES])  # noqa: PLW2901
                apply(left, write)
        return bytes(left)


def apply(content: bytearray, write: Write) -> None:
    offset, data = write
    end = offset if data is None else offset + len(data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset:end] = data


class Folder(dict[str, "Content | Folder"]):
    """The names in one folder, as the processes see them (``self``) and as far as they are durable."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[str, Content | Folder] = {}
        self.mode = 0o700

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


class Named(NamedTuple):
    """One change of names: in each folder the name and what it means from then on (None: nothing)."""

    changes: tuple[tuple[Folder, str, "Content | Folder | None"], ...]

    def touches(self, folder: Folder) -> bool:
        return any(one is folder for one, _, _ in self.changes)


def carry_out(named: Named) -> None:
    for folder, name, node in named.changes:
        if node is None:
            folder.durable.pop(name, None)
        else:
            folder.durable[name] = node


class LossyDisk:
    """One watched folder. The processes that run on it get `env`; none may be running on it during `power_cut`."""

    def __init__(self, root: Path, beside: Path, library: Path) -> None:
        self.root = root
        self._beside = beside
        self._library = library
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside.mkdir(parents=True)
        (beside / "log").touch()
        control = beside / "control"
        control.write_bytes(bytes(ctypes.sizeof(Control)))
        with control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(Control))
        self.control = Control.from_buffer(self._map)
        self._seen_bytes = 0
        self._tree = Folder()
        self._inodes: dict[int, Content | Folder] = {}
        self._pending: list[Named] = []
        self._begin(root, self._tree)

    @property
    def env(self) -> dict[str, str]:
        """What makes a process run on this disk."""
        return {
            "LD_PRELOAD": str(self._library),
            "LOSSY_DISK_ROOT": str(self.root),
            "LOSSY_DISK_CONTROL": str(self._beside),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self.control
        # What a failed run still holds would hide why it failed.
        with contextlib.suppress(BufferError):
            self._map.close()

    # --- crash points ---

    def arm(self, number: int, side: Side) -> None:
        """Kill whoever makes the ``number``-th durable effect from now."""
        self.control.side = side
        self.control.crashed = 0
        self.control.crash_at = self.control.effects + number

    def disarm(self) -> None:
        self.control.crash_at = 0

    # --- the power ---

    def power_cut(self, cut: Cut, rng: random.Random) -> int:
        """Put the folder back to what a cut leaves; the number of changes that were not durable."""
        self.absorb()
        lost = len(self._pending) + sum(
            len(node.pending) for node in set(self._inodes.values()) if isinstance(node, Content)
        )
        if cut is Cut.TORN:
            for named in self._pending[: rng.randrange(len(self._pending) + 1)]:
                carry_out(named)
        for entry in self.root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        write_out(self._tree, self.root, cut, rng)
        self.begin_anew()
        return lost

    def trim(self) -> None:
        """Forget the record of what the model has taken in; for a long life, and only while nobody runs on the disk."""
        self.absorb()
        (self._beside / "log").write_bytes(b"")
        self._seen_bytes = 0

    def begin_anew(self) -> None:
        """Take the folder as it is for durable."""
        (self._beside / "log").write_bytes(b"")
        self._seen_bytes = 0
        self._tree, self._inodes, self._pending = Folder(), {}, []
        self._begin(self.root, self._tree)

    def _begin(self, path: Path, folder: Folder) -> None:
        self._inodes[path.stat().st_ino] = folder
        for entry in path.iterdir():
            about = entry.lstat()
            node: Content | Folder
            if stat.S_ISDIR(about.st_mode):
                node = Folder()
                self._begin(entry, node)
            elif stat.S_ISREG(about.st_mode) and not entry.name.endswith("-shm"):
                node = Content(bytearray(entry.read_bytes()))
                self._inodes[about.st_ino] = node
            else:
                continue
            node.mode = stat.S_IMODE(about.st_mode)
            folder[entry.name] = folder.durable[entry.name] = node

    # --- the record ---

    def absorb(self) -> None:
        """Take in what was recorded since the last time."""
        with (self._beside / "log").open("rb") as file:
            file.seek(self._seen_bytes)
            while head := file.read(HEADER.size):
                if len(head) < HEADER.size:
                    return
                size, op, ino, offset, path_bytes, target_bytes = HEADER.unpack(head)
                rest = file.read(size - HEADER.size)
                if len(rest) < size - HEADER.size:
                    return
                names = rest[:path_bytes].decode(), rest[path_bytes : path_bytes + target_bytes].decode()
                self._take(Op(op), ino, offset, names, rest[path_bytes + target_bytes :])
                self._seen_bytes += size

    def _take(self, op: Op, ino: int, offset: int, names: tuple[str, str], data: bytes) -> None:
        if op in {Op.WRITE, Op.TRUNCATE, Op.SYNC}:
            node = self._inodes.get(ino)
            if isinstance(node, Folder):
                self._sync_names(node)
            elif node is not None and op is Op.SYNC:
                node.sync()
            elif node is not None:
                node.pending.append(Write(offset, data if op is Op.WRITE else None))
            return
        folder, name = self._parent(names[0])
        if op in {Op.CREATE, Op.MKDIR}:
            made: Content | Folder = Content(mode=offset) if op is Op.CREATE else Folder()
            self._inodes[ino] = made
            self._name((folder, name, made))
        elif op in {Op.UNLINK, Op.RMDIR}:
            self._name((folder, name, None))
        elif (moved := folder.get(name)) is not None:  # a socket is no part of the model
            to_folder, to_name = self._parent(names[1])
            gone = () if op is Op.LINK else ((folder, name, None),)
            self._name(*gone, (to_folder, to_name, moved))

    def _parent(self, path: str) -> tuple[Folder, str]:
        *folders, name = Path(os.path.normpath(path)).relative_to(self.root).parts
        at = self._tree
        for each in folders:
            inner = at[each]
            assert isinstance(inner, Folder), path
            at = inner
        return at, name

    def _name(self, *changes: tuple[Folder, str, Content | Folder | None]) -> None:
        for folder, name, node in changes:
            if node is None:
                folder.pop(name, None)
            else:
                folder[name] = node
        self._pending.append(Named(changes))

    def _sync_names(self, folder: Folder) -> None:
        kept = []
        for named in self._pending:
            if named.touches(folder):
                carry_out(named)
            else:
                kept.append(named)
        self._pending = kept


def write_out(folder: Folder, path: Path, cut: Cut, rng: random.Random) -> None:
    """The durable side of a folder, with what a cut leaves of its files."""
    for name, node in sorted(folder.durable.items()):
        below = path / name
        if isinstance(node, Folder):
            below.mkdir(mode=node.mode)
            write_out(node, below, cut, rng)
        else:
            below.write_bytes(node.after(cut, rng))
            below.chmod(node.mode)


def files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """(relative path, bytes) of every file below ``path``."""
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(path)), file.read_bytes()
