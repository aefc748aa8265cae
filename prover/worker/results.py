"""Ended jobs on disk: written whole and fsynced before they are said, kept until the agent has them safe.

One file per job and attempt in the worker's folder. The worker writes and removes; the agent only reads, so that the
result of a worker that died after finishing is not lost.
"""

import os
import re
import tempfile
from pathlib import Path

from wire import codec
from wire.errors import WireError
from wire.worker import Ended

FILE_BYTES_MAX = 256 * 1024
TEMPORARY = ".new-"
"""How files begin that are not whole yet."""
NAME = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([1-9][0-9]{0,6})\.msgpack")


def ended_dir(worker_dir: Path) -> Path:
    """Where a worker keeps what has ended."""
    return worker_dir / "ended"


def read_all(worker_dir: Path) -> list[Ended]:
    """Every ended job kept below ``worker_dir``, oldest first. Damaged files are passed over."""
    entries = []
    try:
        with os.scandir(ended_dir(worker_dir)) as scan:
            entries = [(entry.stat().st_mtime_ns, entry.path) for entry in scan if NAME.fullmatch(entry.name)]
    except OSError:
        return []
    found = []
    for _, path in sorted(entries):
        ended = _read(Path(path))
        if ended is not None:
            found.append(ended)
    return found


def _read(path: Path) -> Ended | None:
    try:
        with path.open("rb") as file:
            frame = codec.decode_from_worker(file.read(FILE_BYTES_MAX + 1))
    except (OSError, WireError):
        return None
    return frame if isinstance(frame, Ended) else None


class Results:
    """The ended jobs of one worker, in memory and on disk alike."""

    def __init__(self, worker_dir: Path) -> None:
        self._dir = ended_dir(worker_dir)
        self._dir.mkdir(mode=0o700, exist_ok=True)
        for left in self._dir.glob(f"{TEMPORARY}*"):
            left.unlink()  # of a worker that was killed while it wrote
        self._ended = {(ended.job, ended.attempt): ended for ended in read_all(worker_dir)}

    def __len__(self) -> int:
        return len(self._ended)

    def get(self, job: str, attempt: int) -> Ended | None:
        """How it ended, if it is kept."""
        return self._ended.get((job, attempt))

    def all(self) -> list[Ended]:
        """Everything kept, oldest first."""
        return list(self._ended.values())

    def save(self, ended: Ended) -> None:
        """Keep ``ended``; durable when this returns.

        Raises:
            OSError: the disk refused it; nothing is kept.
        """
        descriptor, temporary = tempfile.mkstemp(dir=self._dir, prefix=TEMPORARY)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(codec.encode(ended))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._path(ended.job, ended.attempt))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._sync_dir()
        self._ended[ended.job, ended.attempt] = ended

    def release(self, job: str, attempt: int) -> None:
        """Forget one; unknown ones are forgotten already.

        Raises:
            OSError: the file could not be removed; it will be said again after a restart, which is harmless.
        """
        if self._ended.pop((job, attempt), None) is not None:
            self._path(job, attempt).unlink(missing_ok=True)

    def _path(self, job: str, attempt: int) -> Path:
        return self._dir / f"{job}.{attempt}.msgpack"

    def _sync_dir(self) -> None:
        descriptor = os.open(self._dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
