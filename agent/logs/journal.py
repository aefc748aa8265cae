"""One journald unit, through `journalctl --follow` as a child: started again when it ends, from the cursor last kept.

The journal says where each record stands, so nothing is repeated or missed across restarts of agent or child, as long
as the journal itself keeps it. A unit's first record is the first one after the unit was named.
"""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec import Struct

from agent.logs.records import Line, parsed
from wire.frames import Level

CURSOR = re.compile(r"[\x21-\x7e]{1,1024}")
CHUNK_BYTES = 32 * 1024
ENTRY_BYTES_MAX = 256 * 1024
"""Of one entry as JSON; a longer one is passed over, and counted."""
STDERR_BYTES_MAX = 4096
STOP_S = 2.0
PRIORITIES = (Level.ERROR, Level.ERROR, Level.ERROR, Level.ERROR, Level.WARNING, Level.INFO, Level.INFO, Level.DEBUG)
"""Of syslog's eight, by number."""
FIELDS = ("MESSAGE", "PRIORITY", "_PID", "SYSLOG_IDENTIFIER")
HINTS = (
    ("insufficient permissions", "the agent's user may not read the journal; add it to the group systemd-journal"),
    ("not seeing messages from other users", "the agent's user sees its own records only; add it to systemd-journal"),
)


class JournalPlace(Struct, frozen=True):
    """Behind which entry the next one stands; before the first one, since when."""

    since_s: int
    cursor: str = ""


class Entry(Struct, frozen=True):
    """One record, and its cursor. ``line`` None: it was too long, or was none."""

    line: Line | None
    cursor: str
    size_bytes: int


class JournalFault(Exception):
    """The child ended, or could not be started; the sentence says why and what to do."""


class JournalChild:
    """One run of the child, as an async context manager; iterating gives batches of entries until it ends."""

    def __init__(self, unit: str, place: JournalPlace, environ: Mapping[str, str], plain_level: Level) -> None:
        self._unit = unit
        self._place = place
        self._environ = environ
        self._plain_level = plain_level
        self._process: asyncio.subprocess.Process | None = None
        self._complaints: asyncio.Task[str] | None = None
        self._stderr = bytearray()

    async def __aenter__(self) -> Self:
        argv = argv_for(self._unit, self._place, self._environ)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**self._environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"},
            )
        except OSError as error:
            raise JournalFault(f"{argv[0]} cannot be started: {error.strerror or error}") from error
        self._complaints = asyncio.create_task(self._drain())
        return self

    async def __aexit__(self, *_: object) -> None:
        process, complaints = self._process, self._complaints
        assert process is not None  # noqa: S101 - entered
        assert complaints is not None  # noqa: S101 - same
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        complaints.cancel()
        await asyncio.gather(complaints, return_exceptions=True)

    @property
    def hint(self) -> str:
        """What it complains of while it runs; empty for nothing."""
        said = self._stderr.decode(errors="replace")
        return next((sentence for words, sentence in HINTS if words in said), "")

    async def batches(self) -> AsyncIterator[list[Entry]]:
        """Entries as they come, those of one read together.

        Raises:
            JournalFault: the child ended.
        """
        process = self._process
        assert process is not None  # noqa: S101 - entered
        assert process.stdout is not None  # noqa: S101 - piped
        waiting, too_long = bytearray(), 0
        while data := await process.stdout.read(CHUNK_BYTES):
            entries = []
            *whole, rest = data.split(b"\n")
            for end in whole:
                waiting += end
                if too_long or len(waiting) > ENTRY_BYTES_MAX:
                    entries.append(Entry(None, "", too_long + len(waiting)))
                elif waiting:
                    entries.append(entry_of(bytes(waiting), self._plain_level))
                waiting.clear()
                too_long = 0
            waiting += rest
            if len(waiting) > ENTRY_BYTES_MAX:
                too_long += len(waiting)
                waiting.clear()
            if entries:
                yield entries
        code = await process.wait()
        if self._complaints is not None:
            await asyncio.wait({self._complaints}, timeout=STOP_S)
        said = self._stderr.decode(errors="replace").strip().splitlines()
        raise JournalFault(self.hint or f"journalctl ended ({code}): {said[-1] if said else 'it said nothing'}")

    async def _drain(self) -> str:
        """Keep the end of what the child complains of, so that it never waits to be read."""
        assert self._process is not None  # noqa: S101 - entered
        assert self._process.stderr is not None  # noqa: S101 - piped
        while data := await self._process.stderr.read(STDERR_BYTES_MAX):
            self._stderr += data
            del self._stderr[:-STDERR_BYTES_MAX]
        return ""


def argv_for(unit: str, place: JournalPlace, environ: Mapping[str, str]) -> Sequence[str]:
    """The child's command line.

    Raises:
        JournalFault: there is no journalctl.
    """
    path = environ.get("PATH")
    journalctl = shutil.which("journalctl", path=path)
    if journalctl is None:
        raise JournalFault(
            "journalctl is not on this machine, so units cannot be read; name the program's log with --log-file"
        )
    # Ends with us, however we end: it would wait for the unit's next record else.
    setpriv = shutil.which("setpriv", path=path)
    tied = [] if setpriv is None else [setpriv, "--pdeathsig", "TERM", "--"]
    known = CURSOR.fullmatch(place.cursor)
    begin = f"--after-cursor={place.cursor}" if known else f"--since=@{place.since_s}"
    fields = f"--output-fields={','.join(FIELDS)}"
    return [*tied, journalctl, f"--unit={unit}", "--follow", "--no-tail", "--output=json", "--all", fields, begin]


def entry_of(raw: bytes, plain_level: Level = Level.INFO) -> Entry:
    """An entry of ``journalctl -o json``."""
    try:
        value = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return Entry(None, "", len(raw))
    cursor = value.get("__CURSOR")
    cursor = cursor if isinstance(cursor, str) and CURSOR.fullmatch(cursor) else ""
    text = _message(value.get("MESSAGE"))
    if text is None:
        return Entry(None, cursor, len(raw))
    line = parsed(text, plain_level=plain_level)
    fields = dict(line.fields)
    pid, name = value.get("_PID"), value.get("SYSLOG_IDENTIFIER")
    if isinstance(pid, str) and pid.isascii() and pid.isdigit() and len(pid) <= len(str(2**31)):
        fields.setdefault("pid", int(pid))
    if isinstance(name, str):
        fields.setdefault("identifier", name)
    told = line.text is text
    level = _priority(value.get("PRIORITY")) if told and plain_level is Level.INFO else None
    return Entry(
        Line(line.text, level or line.level, _time_ms(value.get("__REALTIME_TIMESTAMP")) or line.time_ms, fields),
        cursor,
        len(raw),
    )


def _message(value: object) -> str | None:
    """A message; its bytes as a list of numbers where it is no UTF-8; None for an entry without one."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, int) and 0 <= one <= 255 for one in value):  # noqa: PLR2004 - a byte
        return bytes(value).decode("utf-8", "backslashreplace")
    return None


def _priority(value: object) -> Level | None:
    if isinstance(value, str) and len(value) == 1 and value.isdigit() and int(value) < len(PRIORITIES):
        return PRIORITIES[int(value)]
    return None


def _time_ms(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(2**63)):
        return int(value) // 1000
    return None
