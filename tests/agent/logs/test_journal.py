"""Units: recorded answers of journalctl by a stand-in, and the real one where a journald can be started."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.logs.journal import JournalFault, JournalPlace, argv_for, entry_of
from agent.logs.limits import Reason
from agent.logs.records import Line
from agent.logs.settings import UNIT
from agent.logs.sources import RESTART_S, SETTLED_S, Shipping, SourceState, Taken, UnitSource
from tests.agent.virtual_time import VirtualClock, eventually
from wire.frames import Level

FAKE = Path(__file__).with_name("fake_journalctl.py")
CURSOR = "s=570a6322b90e4b319e28ab9f66186506;i={};b=258b4bf6ac814646ac948fe2bd7dd9f2;m=2d1c938fa;t=6617dc4c24736"
NO_PERMISSION = "No journal files were opened due to insufficient permissions.\n"


def entry(number: int, message: object, **more: str) -> str:
    recorded = {
        "_PID": "27624",
        "__REALTIME_TIMESTAMP": "1796042660136758",
        "__MONOTONIC_TIMESTAMP": "12109560058",
        "__CURSOR": CURSOR.format(number),
        "_BOOT_ID": "258b4bf6ac814646ac948fe2bd7dd9f2",
        "MESSAGE": message,
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "app",
    }
    return json.dumps(recorded | more, separators=(",", ":")) + "\n"


class Harbour:
    """Takes what a source ships, and remembers the marks as the outbox would."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.marks: dict[str, bytes] = {}
        self.said: list[tuple[str, str]] = []
        self.lost: list[tuple[Reason, int]] = []

    async def ship(
        self, source: str, taken: Sequence[Taken], *, mark_name: str = "", mark: bytes | None = None, waits: bool
    ) -> None:
        assert (source, waits) == ("unit:app", True)
        self.lines += [one.line for one in taken]
        if mark is not None:
            self.marks[mark_name] = mark

    def left_out(self, source: str, reason: Reason, count: int, size_bytes: int) -> None:  # noqa: ARG002 - as the shipper's
        self.lost.append((reason, count))

    async def say(self, kind: str, detail: str, level: Level, **fields: str) -> None:  # noqa: ARG002 - as the shipper's
        self.said.append((kind, detail))

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]


class Journal:
    """The stand-in's folder, and the environment in which it is found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        program = self.bin / "journalctl"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} {folder} "$@"\n')
        program.chmod(0o755)
        (folder / "journal").write_text("")
        self.environ = {"PATH": str(self.bin)}
        self.clock = VirtualClock()
        self.harbour = Harbour()

    def add(self, *entries: str) -> None:
        with (self.folder / "journal").open("a") as file:
            file.write("".join(entries))

    def argv(self) -> list[list[str]]:
        path = self.folder / "argv"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[UnitSource]:
        shipping: Shipping = self.harbour
        kept = self.harbour.marks.get("log:unit:app")
        source = UnitSource("unit:app", "app", kept=kept, environ=self.environ, clock=self.clock)
        task = asyncio.create_task(source.run(shipping))
        try:
            yield source
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


async def test_what_a_unit_says_is_shipped_and_a_restart_goes_on_behind_it(journal: Journal) -> None:
    harbour = journal.harbour
    journal.add(entry(1, "one", PRIORITY="4"), entry(2, '{"event": "two", "level": "error", "n": 1}'))
    async with journal.followed():
        await eventually(lambda: len(harbour.lines) == 2, "two records")
        journal.add(entry(3, "three"))
        await eventually(lambda: len(harbour.lines) == 3, "the third")
    journal.add(entry(4, "four"))
    async with journal.followed():
        await eventually(lambda: len(harbour.lines) == 4, "the fourth")
    assert harbour.texts == ["one", "two", "three", "four"]
    assert [line.level for line in harbour.lines] == [Level.WARNING, Level.ERROR, Level.INFO, Level.INFO]
    assert harbour.lines[0].time_ms == 1796042660136
    assert harbour.lines[1].fields == {"n": 1, "pid": 27624, "identifier": "app"}
    first, second = journal.argv()
    assert f"--since=@{journal.clock.unix_ms() // 1000}" in first
    assert f"--after-cursor={CURSOR.format(3)}" in second


async def test_a_child_that_ends_is_started_again_with_a_growing_wait(journal: Journal) -> None:
    (journal.folder / "fault").write_text(NO_PERMISSION)
    harbour = journal.harbour
    async with journal.followed() as source:
        await eventually(lambda: harbour.said, "the trouble to be told")
        assert [kind for kind, _ in harbour.said] == ["log.unreadable"]
        assert "systemd-journal" in harbour.said[0][1]
        assert source.reading().state is SourceState.UNREADABLE
        assert "systemd-journal" in source.reading().detail
        for number, wait_s in enumerate((RESTART_S, 2 * RESTART_S, 4 * RESTART_S), 1):
            await eventually(lambda number=number: len(journal.argv()) == number, "the next start")  # type: ignore[misc]
            wakes = journal.clock.now_s + wait_s
            await eventually(lambda wakes=wakes: wakes in journal.clock.sleeping, "its wait")  # type: ignore[misc]
            await journal.clock.advance(wait_s)
        (journal.folder / "fault").unlink()
        journal.add(entry(1, "at last"))
        await eventually(lambda: harbour.texts == ["at last"], "a record", clock=journal.clock)
        await eventually(lambda: len(harbour.said) == 2, "the trouble's end", clock=journal.clock, step_s=SETTLED_S)
        assert harbour.said[1][0] == "log.readable"
        assert source.reading().state is SourceState.READING


async def test_without_journalctl_it_is_said_once(journal: Journal) -> None:
    (journal.bin / "journalctl").unlink()
    async with journal.followed() as source:
        await eventually(lambda: journal.harbour.said, "the trouble")
        await journal.clock.advance(600.0)
        ((kind, detail),) = journal.harbour.said
        assert kind == "log.unreadable"
        assert "--log-file" in detail
        assert source.reading().state is SourceState.UNREADABLE


async def test_entries_that_are_none_are_counted_and_passed_over(journal: Journal) -> None:
    journal.add("no json\n", entry(1, None), entry(2, "x" * 300_000), entry(3, [104, 105, 255]), entry(4, "last"))
    async with journal.followed():
        await eventually(lambda: "last" in journal.harbour.texts, "the last one")
    assert journal.harbour.texts == ["hi\\xff", "last"]
    assert journal.harbour.lost == [(Reason.UNREADABLE, 1)] * 3


def test_hostile_entries_are_entries_of_a_text_or_none() -> None:
    for raw in (b"", b"[]", b"{" * 9000, b'{"MESSAGE": [256]}', b'{"MESSAGE": {"a": 1}}', b'{"__CURSOR": "a b"}'):
        found = entry_of(raw)
        assert found.line is None
        assert found.cursor == ""
    strange = entry(1, "m", PRIORITY="9", _PID="x", __REALTIME_TIMESTAMP="soon")
    assert entry_of(strange.encode()).line == Line("m", fields={"identifier": "app"})


@pytest.mark.parametrize("unit", ["-x", "--file=/etc/passwd", "a b", "", "a*", "a/b", "x" * 300, "a\nb", "@x"])
def test_a_unit_is_never_an_option(unit: str) -> None:
    assert UNIT.fullmatch(unit) is None


def test_a_cursor_that_is_none_is_not_passed_on(journal: Journal) -> None:
    argv = argv_for("provewire-worker@host.service", JournalPlace(7, "a b"), journal.environ)
    assert argv[-1] == "--since=@7"
    assert UNIT.fullmatch("provewire-worker@host.service")
    with pytest.raises(JournalFault):
        argv_for("x", JournalPlace(7), {"PATH": ""})


# --- the real one

JOURNALD = Path("/lib/systemd/systemd-journald")
SCRIPT = """
mount -t tmpfs none /run && mount -t tmpfs none /var/log && mkdir -p /run/systemd/journal || exit 77
{journald} >/dev/null 2>&1 & child=$!
while [ ! -S /run/systemd/journal/socket ]; do kill -0 $child || exit 77; done
"$@"; code=$?
kill $child; exit $code
"""
PLAYER = """
import asyncio, sys
from tests.agent.logs.test_journal import real_play
sys.exit(asyncio.run(real_play()))
"""


def send(message: bytes) -> None:
    """One entry by journald's own protocol, attributed to the unit as root may."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect("/run/systemd/journal/socket")
        datagrams.send(b"OBJECT_SYSTEMD_UNIT=app.service\nPRIORITY=4\n" + message)


async def real_play() -> int:
    """In a namespace with a journald of its own: follow, be killed, go on."""
    harbour, clock = Harbour(), VirtualClock(now_s=0.0)
    clock.unix_ms = lambda: 0  # type: ignore[method-assign]  # the journal's time is the real one
    for first in (0, 3, 6):
        kept = harbour.marks.get("log:unit:app")
        source = UnitSource("unit:app", "app", kept=kept, environ=dict(os.environ), clock=clock)
        task = asyncio.create_task(source.run(harbour))
        for number in range(first, first + 3):
            send(b"MESSAGE=line %d\n" % number)
        await eventually(lambda first=first: len(harbour.lines) >= first + 3, "three records")  # type: ignore[misc]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert harbour.texts == [f"line {number}" for number in range(9)]
    assert {line.level for line in harbour.lines} == {Level.WARNING}
    left = subprocess.run(["pgrep", "-x", "journalctl"], capture_output=True, text=True, check=False).stdout  # noqa: ASYNC221
    assert not left, left
    return 0


@pytest.mark.skipif(
    not (JOURNALD.exists() and shutil.which("journalctl") and os.geteuid() == 0),
    reason="a journald of one's own wants root and systemd",
)
def test_the_real_journalctl_is_followed_across_restarts(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(SCRIPT.format(journald=JOURNALD))
    argv = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", str(script), sys.executable, "-c", PLAYER]
    root = Path(__file__).parents[3]
    environ = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(argv, cwd=root, env=environ, capture_output=True, text=True, check=False, timeout=90)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no namespace of one's own can be made here")
    assert done.returncode == 0, done.stdout + done.stderr
