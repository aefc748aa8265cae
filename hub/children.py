"""Child processes, started and read without holding up the event loop.

uvloop starts one by a fork in the loop's own thread, and waits there until the new program runs: with 150 MB in memory
on a busy machine the loop woke 0.3 s late one time in twenty. Here a thread starts it by vfork, which copies nothing;
the same then was 2 ms. What a child reads is a file, so that nobody has to feed it; what it says goes where it is kept.
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

CHUNK_BYTES = 64 * 1024
"""Read at once: a child that floods leaves the loop to others in between."""
HEAD_SHARE = 2
"""Half of the bound is for the head."""
Sink = Callable[[bytes], object]


class Bounded:
    """Bytes of which only so many are kept: the first, and the last."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max // HEAD_SHARE
        self._tail_max = bytes_max - self._head_max
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """More came."""
        self.total_bytes += len(data)
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._tail_max:
                self._tail_bytes -= len(self._tail.popleft())

    @property
    def left_out_bytes(self) -> int:
        """How many are not kept."""
        return max(0, self.total_bytes - self._head_max - self._tail_max)

    def kept(self) -> bytes:
        """What is kept, with a line in place of what is not."""
        tail = b"".join(self._tail)[-self._tail_max :]
        if not self.left_out_bytes:
            return bytes(self._head) + tail
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % self.left_out_bytes + tail


class Child:
    """A running program, the leader of a session and of a group of its own."""

    def __init__(self, pid: int) -> None:
        loop = asyncio.get_running_loop()
        self.pid = pid
        self.exited: asyncio.Future[None] = loop.create_future()
        self.silent: list[asyncio.Future[None]] = []
        """One for each of its outputs: nobody holds that any more."""

    async def wait(self) -> int:
        """Its exit code, or minus the signal that ended it. It stays a zombie: its number is nobody else's yet."""
        await asyncio.shield(self.exited)
        told = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it has ended
        assert told is not None  # noqa: S101 - as above
        return told.si_status if told.si_code == os.CLD_EXITED else -told.si_status

    async def heard(self, within_s: float) -> None:
        """Until its outputs are read to their end, or for so long: others may hold them open for ever."""
        await asyncio.wait(self.silent, timeout=within_s)

    def signal(self, number: int) -> None:
        """Signal it and all of its group."""
        os.killpg(self.pid, number)


@asynccontextmanager
async def child(
    argv: Sequence[str],
    stdout: Sink,
    stderr: Sink,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cwd: str = "/",
) -> AsyncIterator[Child]:
    """A child until the block ends; then it and all of its group are killed.

    Args:
        argv: its command line.
        stdout: takes what it says, as it comes.
        stderr: the same.
        env: its whole environment; the hub's own if left out.
        stdin: what it can read.
        cwd: its working directory.

    Raises:
        OSError: it could not be started.
    """
    loop = asyncio.get_running_loop()
    process = await _start(argv, env=env, stdin=stdin, cwd=cwd)
    with ExitStack() as kept:
        kept.callback(process.wait)
        kept.callback(process.kill)
        found = Child(process.pid)
        for pipe, sink in ((process.stdout, stdout), (process.stderr, stderr)):
            assert pipe is not None  # noqa: S101 - a pipe was asked for
            kept.enter_context(pipe)
            os.set_blocking(pipe.fileno(), False)
            end: asyncio.Future[None] = loop.create_future()
            found.silent.append(end)
            loop.add_reader(pipe.fileno(), _read, pipe.fileno(), sink, end)
            kept.callback(loop.remove_reader, pipe.fileno())
        descriptor = os.pidfd_open(process.pid)
        kept.callback(os.close, descriptor)
        loop.add_reader(descriptor, _end, descriptor, found.exited)
        kept.callback(loop.remove_reader, descriptor)
        try:
            yield found
        finally:
            found.signal(signal.SIGKILL)
            await asyncio.shield(found.exited)


async def _start(
    argv: Sequence[str], *, env: Mapping[str, str] | None, stdin: bytes, cwd: str
) -> "subprocess.Popen[bytes]":
    def start() -> "subprocess.Popen[bytes]":
        with tempfile.TemporaryFile(buffering=0) if stdin else Path(os.devnull).open("rb") as source:
            if stdin:
                source.write(stdin)
                source.seek(0)
            return subprocess.Popen(  # noqa: S603 - no shell; the words are the caller's own
                argv,
                bufsize=0,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )

    starting = asyncio.get_running_loop().run_in_executor(None, start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_unwanted)
        raise


def _unwanted(starting: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """A child that runs when nobody wants it any more."""
    if not starting.cancelled() and starting.exception() is None:
        with starting.result() as process:
            process.kill()


def _read(descriptor: int, sink: Sink, end: "asyncio.Future[None]") -> None:
    try:
        data = os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return
    if data:
        sink(data)
    else:
        _end(descriptor, end)


def _end(descriptor: int, what: "asyncio.Future[None]") -> None:
    asyncio.get_running_loop().remove_reader(descriptor)
    if not what.done():
        what.set_result(None)
