"""One worker per folder: a lock that dies with its process, and that others can look at without touching it."""

import fcntl
import os
import struct
from pathlib import Path
from typing import IO

from prover.errors import ProverError

EXIT_USAGE = 64
SOCKET_PATH_BYTES_MAX = 107
"""What the kernel's ``sockaddr_un`` can hold, less its final zero byte."""
_FLOCK = "@hhqqi"
"""``struct flock`` of Linux on 64 bits: type, whence, start, length, pid."""


def take(directory: Path) -> IO[bytes]:
    """Make the folder, for its owner only, and take its lock; held while the returned file is open.

    Raises:
        ProverError: the folder cannot be used, its path is too long for a socket, or another worker has it (code 64).
    """
    socket_path = directory / "worker.sock"
    size_bytes = len(bytes(socket_path))
    if size_bytes > SOCKET_PATH_BYTES_MAX:
        raise ProverError(
            EXIT_USAGE,
            f"the socket path {socket_path} has {size_bytes} bytes and the kernel takes {SOCKET_PATH_BYTES_MAX}; "
            "use a folder with a shorter path",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
        file = (directory / "worker.lock").open("a+b")
    except OSError as error:
        raise ProverError(EXIT_USAGE, f"the worker's folder {directory} cannot be used: {error}") from None
    try:
        # A POSIX lock, unlike flock, tells others who holds it.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ProverError(EXIT_USAGE, f"another worker (pid {owner(directory)}) has {directory}") from None
    return file


def owner(directory: Path) -> int | None:
    """The pid of the worker that has the folder; None if nobody has."""
    try:
        descriptor = os.open(directory / "worker.lock", os.O_RDWR)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else int(pid)
