"""Small files that must be whole or absent whatever happens: written aside, fsynced, renamed."""

import os
import tempfile
from pathlib import Path


def write_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace ``path`` with ``data``; after a crash either the old or the new content is there, never a part.

    Raises:
        OSError: the disk refused it; ``path`` is as before.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename or unlink in ``path`` survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
