"""Content-addressed files in one directory: keys, witnesses, verification keys, named by their SHA-256 alone.

A file is streamed into a temporary one, hashed on the way, fsynced and only then given its name, so that what has a
name is whole and is what the name says. Nothing a client sends ever becomes part of a path but 64 checked hex digits.
Knows nothing of HTTP and nothing of the store.
"""

import asyncio
import errno
import hashlib
import os
import re
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Self

from msgspec import Struct

DIGEST = re.compile("[0-9a-f]{64}")
WRITE_BYTES = 1024 * 1024
"""Collected before a thread is asked to hash and write: a thread switch for each network packet would cost more."""
TEMPORARY = "incoming"


class ArtifactError(Exception):
    """An artifact was refused; nothing was kept. The text is one sentence for the client."""


class InvalidDigest(ArtifactError):
    """The name is not a SHA-256 in lower-case hex."""

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 80 else f"{name[:80]}..."  # noqa: PLR2004 - what fits a line of a log
        super().__init__(f"an artifact is named by its SHA-256, 64 lower-case hex digits, not {shown!r}")


class DigestMismatch(ArtifactError):
    """The bytes are not those of the name."""

    def __init__(self, named: str, found: str) -> None:
        super().__init__(f"the body's SHA-256 is {found}, but it was sent as {named}; send it under its own digest")


class ArtifactTooLarge(ArtifactError):
    """One artifact exceeds the limit for one."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"an artifact may have at most {limit_bytes} bytes (PROVEWIRE_ARTIFACT_BYTES_MAX)")


class Incomplete(ArtifactError):
    """Fewer or more bytes came than were announced."""

    def __init__(self, announced: int, received: int) -> None:
        super().__init__(f"the body ended after {received} bytes, but {announced} were announced; send it again")


class StoreFull(ArtifactError):
    """No room is left for it, by quota or on the disk."""


class Stored(Struct, frozen=True):
    """One artifact, safely on the disk."""

    sha256: str
    bytes_: int
    created: bool
    """False when it was there before."""


class _Incoming:
    """One upload's temporary file. Its methods block, and are called one at a time, in threads."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None if path is None else path.open("xb", buffering=0)

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        if self._file is not None:
            self._file.write(data)

    def finish(self) -> str:
        """Make the bytes durable; their digest."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
        return self._digest.hexdigest()

    def discard(self) -> None:
        """Close and remove whatever is left. Harmless after the file got its name."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class Artifacts:
    """The files of one hub.

    Args:
        directory: created (0700) when missing; the sole owner of what is in it.
        artifact_bytes_max: of one artifact.
        total_bytes_max: of all together, uploads in progress included.
    """

    def __init__(self, directory: Path, *, artifact_bytes_max: int, total_bytes_max: int) -> None:
        self.directory = directory
        self.artifact_bytes_max = artifact_bytes_max
        self.total_bytes_max = total_bytes_max
        self.total_bytes = 0
        self._incoming = directory / TEMPORARY
        self._naming = threading.Lock()

    @classmethod
    def open(cls, directory: Path, *, artifact_bytes_max: int, total_bytes_max: int) -> Self:
        """Take the directory over: drop what broken uploads left, and count what is there. Blocks."""
        self = cls(directory, artifact_bytes_max=artifact_bytes_max, total_bytes_max=total_bytes_max)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._incoming.mkdir(mode=0o700, exist_ok=True)
        for leftover in self._incoming.iterdir():
            leftover.unlink()
        self.total_bytes = sum(
            file.stat().st_size for file in directory.glob("[0-9a-f][0-9a-f]/*") if DIGEST.fullmatch(file.name)
        )
        return self

    def path(self, sha256: str) -> Path:
        """Where the artifact lies, or would lie.

        Raises:
            InvalidDigest: the name is no digest.
        """
        if DIGEST.fullmatch(sha256) is None:
            raise InvalidDigest(sha256)
        return self.directory / sha256[:2] / sha256

    def size_bytes(self, sha256: str) -> int | None:
        """Its size, or None when it is not here.

        Raises:
            InvalidDigest: the name is no digest.
        """
        try:
            return self.path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    async def put(self, sha256: str, chunks: AsyncIterator[bytes], *, announced_bytes: int | None = None) -> Stored:
        """Take one artifact from a stream. Sending what is already here is harmless, and is checked all the same.

        Raises:
            InvalidDigest: the name is no digest.
            ArtifactTooLarge: announced or received more than `artifact_bytes_max`.
            StoreFull: the quota or the disk is used up.
            Incomplete: the stream's length is not the announced one.
            DigestMismatch: the bytes are not those of the name.
        """
        target = self.path(sha256)
        if announced_bytes is not None and announced_bytes > self.artifact_bytes_max:
            raise ArtifactTooLarge(self.artifact_bytes_max)
        present = target.exists()
        incoming = _Incoming(None if present else self._incoming / uuid.uuid4().hex)
        reserved = 0
        try:
            if not present and announced_bytes is not None:
                self._reserve(announced_bytes)
                reserved = announced_bytes
            received = 0
            async for chunk in _collected(chunks, self.artifact_bytes_max):
                received += len(chunk)
                if not present and received > reserved:
                    self._reserve(received - reserved)
                    reserved = received
                await asyncio.to_thread(incoming.write, chunk)
            found = await asyncio.to_thread(incoming.finish)
            if announced_bytes is not None and received != announced_bytes:
                raise Incomplete(announced_bytes, received)
            if found != sha256:
                raise DigestMismatch(sha256, found)
            created = not present and await asyncio.to_thread(self._name, incoming.path, target)
            if created:
                reserved = 0  # now counted for good
            return Stored(sha256, received, created)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise StoreFull(
                    f"the hub's disk is full ({error.strerror}); free some space and send it again"
                ) from error
            raise
        finally:
            self.total_bytes -= reserved
            await asyncio.shield(asyncio.to_thread(incoming.discard))

    async def put_bytes(self, data: bytes) -> Stored:
        """Keep something the hub made itself, a verification key for example. Raises as `put`."""

        async def once() -> AsyncIterator[bytes]:
            yield data

        return await self.put(hashlib.sha256(data).hexdigest(), once(), announced_bytes=len(data))

    def _reserve(self, bytes_: int) -> None:
        if self.total_bytes + bytes_ > self.total_bytes_max:
            raise StoreFull(
                f"the hub's artifacts may have {self.total_bytes_max} bytes together"
                f" (PROVEWIRE_ARTIFACTS_BYTES_MAX) and {self.total_bytes} are taken; remove some or raise it"
            )
        self.total_bytes += bytes_

    def _name(self, source: Path | None, target: Path) -> bool:
        """Give a finished file its name, durably. False when another upload of the same bytes was first."""
        assert source is not None  # noqa: S101 - only a present artifact has no file, and it is not named again
        with self._naming:
            if target.exists():
                return False
            target.parent.mkdir(mode=0o700, exist_ok=True)
            source.rename(target)
        for directory in (target.parent, self.directory):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return True


async def _collected(chunks: AsyncIterator[bytes], limit_bytes: int) -> AsyncIterator[bytes]:
    """The stream in pieces of about `WRITE_BYTES`, cut off as soon as it exceeds the limit."""
    pending = bytearray()
    total = 0
    async for chunk in chunks:
        total += len(chunk)
        if total > limit_bytes:
            raise ArtifactTooLarge(limit_bytes)
        pending += chunk
        if len(pending) >= WRITE_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)
