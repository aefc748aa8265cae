"""Inputs of jobs: fetched by SHA-256 over HTTP, kept on disk for later jobs, checked before use.

A broken download goes on where it stopped. What is here is dropped, least recently used first, when it exceeds its
bound; what a job uses is never dropped under it.
"""

import asyncio
import errno
import hashlib
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import structlog

from agent.backoff import Backoff, Fault, Kind
from agent.clock import Clock
from agent.durable import sync_directory
from agent.errors import AgentError
from agent.hub_http import HttpClient
from wire.jobs import Input
from wire.worker import InputFile

if TYPE_CHECKING:
    import aiohttp

log = structlog.get_logger(__name__)

CHUNK_BYTES = 1024 * 1024
GIVE_UP_S = 600.0
"""A fetch that brings nothing for this long fails the job: another node may have a better way to the hub."""
FILES_KEPT_MAX = 4096
"""Witnesses are small and each is used once: a folder of a million of them would be slow long before it is full."""
DIGEST_ATTEMPTS = 2
CODE_MALFORMED = 2
CODE_INTERNAL = 6
HTTP_OK = 200
HTTP_PARTIAL = 206
HTTP_RANGE = 416
HTTP_CLIENT_ERRORS = range(400, 500)
HTTP_RETRIED = frozenset({408, 425, 429})
NAME = re.compile(r"[0-9a-f]{64}(\.part)?")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

Progress = Callable[[int, int], None]


class FetchFault(AgentError):
    """The inputs cannot be had; ``code`` is the job's."""

    def __init__(self, code: int, sentence: str) -> None:
        self.code = code
        super().__init__(sentence)


class _TryAgain(Exception):
    """This request brought not everything; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.detail)


class _Turn:
    """Who fetches one digest, and how many want to."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Artifacts:
    """The folder of inputs of one agent."""

    def __init__(self, folder: Path, client: HttpClient, *, keep_bytes: int, clock: Clock, rng: random.Random) -> None:
        self._folder = folder
        self._client = client
        self._keep_bytes = keep_bytes
        self._clock = clock
        self._rng = rng
        self._checked: set[str] = set()
        """Digests verified in this run: a file of an earlier run is read once before it is trusted."""
        self._in_use: dict[str, int] = {}
        self._fetching: dict[str, _Turn] = {}
        """By digest: jobs of two devices may want the same input at once, and there is one file to write."""
        folder.mkdir(exist_ok=True, mode=0o700)

    def path(self, sha256: str) -> Path:
        """Where an input lies once it is whole."""
        return self._folder / sha256

    async def fetch(self, inputs: Sequence[Input], *, base: str, token: str, progress: Progress) -> list[InputFile]:
        """Have all inputs on disk, checked. Keeps them from being dropped until `release`.

        Args:
            inputs: what to fetch, by digest and size.
            base: the hub's address.
            token: bearer for these artifacts.
            progress: called with bytes here and bytes in all.

        Raises:
            FetchFault: one of them cannot be had.
        """
        total = sum(each.bytes_ for each in inputs)
        before = 0
        files = []
        for each in inputs:
            self._in_use[each.sha256] = self._in_use.get(each.sha256, 0) + 1
        try:
            for each in inputs:
                offset = before

                def report(done: int, offset: int = offset) -> None:
                    progress(offset + done, total)

                async with self._turn(each.sha256):
                    await self._have(each, base=base, token=token, report=report)
                before += each.bytes_
                progress(before, total)
                files.append(InputFile(role=each.role, path=str(self.path(each.sha256))))
        except BaseException:
            self.release(inputs)
            raise
        return files

    def release(self, inputs: Sequence[Input]) -> None:
        """A job no longer uses these."""
        for each in inputs:
            left = self._in_use.get(each.sha256, 0) - 1
            if left > 0:
                self._in_use[each.sha256] = left
            else:
                self._in_use.pop(each.sha256, None)

    @asynccontextmanager
    async def _turn(self, sha256: str) -> AsyncIterator[None]:
        """One fetch of a digest at a time; whoever waited finds the file in place, or goes on where it stopped."""
        turn = self._fetching.setdefault(sha256, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._fetching[sha256]

    async def _have(self, wanted: Input, *, base: str, token: str, report: Callable[[int], None]) -> None:
        path = self.path(wanted.sha256)
        if await asyncio.to_thread(self._is_here, wanted):
            await asyncio.to_thread(os.utime, path)
            return
        await asyncio.to_thread(self._make_room, wanted.bytes_)
        url = f"{base}/api/v1/artifacts/{wanted.sha256}"
        backoff = Backoff(self._rng)
        part = path.with_suffix(".part")
        last_size, last_moved_s, wrong_digests = 0, self._clock.monotonic(), 0
        while True:
            try:
                await self._download(wanted, url=url, token=token, part=part, report=report)
            except _TryAgain as again:
                size = await asyncio.to_thread(_size, part)
                now_s = self._clock.monotonic()
                if size != last_size:
                    last_size, last_moved_s = size, now_s
                    backoff.reset()
                if now_s - last_moved_s > GIVE_UP_S:
                    raise FetchFault(CODE_INTERNAL, f"input {wanted.role} could not be fetched: {again}") from None
                wait_s = backoff.after(again.fault, session_s=None)
                log.warning("artifact.retry", sha256=wanted.sha256, error=str(again), wait_s=round(wait_s, 1))
                await self._clock.sleep(wait_s)
                continue
            if await asyncio.to_thread(self._accept, wanted, part):
                return
            wrong_digests += 1
            log.error("artifact.wrong_digest", sha256=wanted.sha256, role=wanted.role, attempt=wrong_digests)
            if wrong_digests >= DIGEST_ATTEMPTS:
                raise FetchFault(
                    CODE_MALFORMED, f"input {wanted.role} from the hub does not have the SHA-256 {wanted.sha256}"
                )

    # --- the network ----------------------------------------------------------------------------------------------

    async def _download(
        self, wanted: Input, *, url: str, token: str, part: Path, report: Callable[[int], None]
    ) -> None:
        """Fetch what is missing of one input into ``part``."""
        have = await asyncio.to_thread(_size, part)
        if have > wanted.bytes_:
            await asyncio.to_thread(_remove, part)
            have = 0
        if have == wanted.bytes_ and have:
            return
        try:
            async with self._client.download(url, token=token, first_byte=have) as response:
                await self._receive(response, wanted, part=part, have=have, report=report)
        except TimeoutError as error:
            raise _TryAgain(Fault(Kind.UNREACHABLE, "network", "the download stalled")) from error
        except OSError as error:
            if error.errno in FULL:
                raise FetchFault(
                    CODE_INTERNAL, f"the disk is full: input {wanted.role} needs {wanted.bytes_} bytes"
                ) from None
            raise _TryAgain(Fault(Kind.UNREACHABLE, "network", str(error))) from error

    async def _receive(
        self, response: "aiohttp.ClientResponse", wanted: Input, *, part: Path, have: int, report: Callable[[int], None]
    ) -> None:
        status = response.status
        if status == HTTP_RANGE:
            await asyncio.to_thread(_remove, part)
            raise _TryAgain(Fault(Kind.UNREACHABLE, "range", "the hub cannot go on where the download stopped"))
        if status in HTTP_CLIENT_ERRORS and status not in HTTP_RETRIED:
            raise FetchFault(CODE_INTERNAL, f"the hub refused input {wanted.role} with HTTP {status}")
        if status not in (HTTP_OK, HTTP_PARTIAL):
            raise _TryAgain(Fault(Kind.UNREACHABLE, f"http_{status}", f"the hub answered HTTP {status}"))
        resumed = status == HTTP_PARTIAL
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            await asyncio.to_thread(_remove, part)
            raise _TryAgain(Fault(Kind.UNREACHABLE, "range", "the hub sent another range than was asked for"))
        done = have if resumed else 0
        with await asyncio.to_thread(part.open, "ab" if resumed else "wb") as file:
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                done += len(chunk)
                if done > wanted.bytes_:
                    await asyncio.to_thread(_remove, part)
                    raise FetchFault(
                        CODE_MALFORMED,
                        f"input {wanted.role} is longer than the {wanted.bytes_} bytes the job announced",
                    )
                await asyncio.to_thread(file.write, chunk)
                report(done)
        if done < wanted.bytes_:
            raise _TryAgain(Fault(Kind.UNREACHABLE, "short", f"only {done} of {wanted.bytes_} bytes came"))

    # --- the disk, in threads -------------------------------------------------------------------------------------

    def _is_here(self, wanted: Input) -> bool:
        path = self.path(wanted.sha256)
        try:
            if path.stat().st_size != wanted.bytes_:
                path.unlink()
                return False
            if wanted.sha256 not in self._checked:
                with path.open("rb") as file:
                    if _digest(file) != wanted.sha256:
                        path.unlink()
                        return False
        except OSError:
            return False
        self._checked.add(wanted.sha256)
        return True

    def _accept(self, wanted: Input, part: Path) -> bool:
        """Check a finished download and put it in place; False, and it is gone, if it is not what it should be."""
        with part.open("r+b") as file:
            good = _digest(file) == wanted.sha256
            if good:
                os.fsync(file.fileno())
        if not good:
            part.unlink()
            return False
        part.rename(self.path(wanted.sha256))
        sync_directory(self._folder)
        self._checked.add(wanted.sha256)
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Drop least recently used inputs until one more, of ``size_bytes``, is within the bounds."""
        files = []
        with os.scandir(self._folder) as scan:
            for entry in scan:
                if NAME.fullmatch(entry.name):
                    stat = entry.stat()
                    files.append((stat.st_mtime_ns, stat.st_size, entry.name))
        kept_bytes, kept = sum(size for _, size, _ in files), len(files)
        for _, size, name in sorted(files):
            if kept_bytes + size_bytes <= self._keep_bytes and kept < FILES_KEPT_MAX:
                return
            if name.removesuffix(".part") in self._in_use:
                continue
            (self._folder / name).unlink(missing_ok=True)
            self._checked.discard(name)
            kept_bytes, kept = kept_bytes - size, kept - 1
            log.info("artifact.dropped", sha256=name, bytes=size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _digest(file: IO[bytes]) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
