"""The log streams: JSON lines or console, and levels the journal understands."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.logs import Prefixed
from tests.e2e.rig import until

SAY = """
import structlog
from cli import logs
logs.configure()
log = structlog.get_logger("here")
log.info("it is so", job="j-1")
log.warning("look")
try:
    raise ValueError("inside")
except ValueError:
    log.exception("it failed")
"""


def said(tmp_path: Path, *, journal: bool, **environ: str) -> list[str]:
    """What a process of ours writes to its standard error, a file."""
    path = tmp_path / "stderr"
    with path.open("wb") as file:
        status = os.fstat(file.fileno())
        stream = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"} if journal else {"JOURNAL_STREAM": "1:2"}
        subprocess.run([sys.executable, "-c", SAY], stderr=file, check=True, env={**os.environ, **stream, **environ})
    return path.read_text().splitlines()


def test_what_is_no_terminal_gets_json_lines(tmp_path: Path) -> None:
    first, second, third = map(json.loads, said(tmp_path, journal=False))
    assert (first["event"], first["level"], first["job"], first["logger"]) == ("it is so", "info", "j-1", "here")
    assert second["level"] == "warning"
    assert third["exception"][0]["exc_value"] == "inside"


def test_the_journal_gets_each_line_behind_its_level(tmp_path: Path) -> None:
    lines = said(tmp_path, journal=True)
    assert [line[:3] for line in lines] == ["<6>", "<4>", "<3>"]
    assert json.loads(lines[0][3:])["event"] == "it is so"
    console = said(tmp_path, journal=True, PROVEWIRE_LOG="console")
    assert len(console) > 3
    assert all(line[:3] in {"<6>", "<4>", "<3>"} for line in console)


@pytest.mark.parametrize(("level", "number"), [(50, 2), (40, 3), (35, 4), (30, 4), (20, 6), (10, 7)])
def test_levels_are_those_of_syslog(level: int, number: int) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Prefixed(logging.Formatter("%(message)s")))
    handler.handle(logging.LogRecord("n", level, "p", 1, "one\ntwo", None, None))
    assert stream.getvalue() == f"<{number}>one\n<{number}>two\n"


# --- a daemon's log, which nobody reads

DAEMON = """
import sys, time
import structlog
from cli import logs
logs.configure(daemon=True)
log = structlog.get_logger("here")
print("begun", flush=True)
slowest_s = 0.0
for number in range(int(sys.argv[1])):
    began_s = time.perf_counter()
    log.info("said", number=number, text="x" * 500)
    slowest_s = max(slowest_s, time.perf_counter() - began_s)
print(slowest_s, flush=True)
sys.stdin.readline()
log.info("after")
"""


def daemon_of(lines: int) -> "subprocess.Popen[str]":
    """A process whose standard error is a pipe that nobody reads, yet."""
    argv = [sys.executable, "-c", DAEMON, str(lines)]
    return subprocess.Popen(
        argv,
        text=True,
        env={**os.environ, "PROVEWIRE_LOG": "json", "JOURNAL_STREAM": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("lines", [1000, 20_000], ids=["all wait", "too many to wait"])
def test_who_logs_never_waits_for_who_reads_and_what_was_left_out_is_counted(lines: int) -> None:
    with daemon_of(lines) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        slowest_s = float(process.stdout.readline())  # comes although the pipe has long been full
        assert slowest_s < 2.0
        read: list[dict[str, Any]] = []
        begun = threading.Thread(target=lambda: read.extend(map(json.loads, process.stderr or ())))
        begun.start()
        until(lambda: len(read) >= 1000, "the lines")
        if lines > 1000:
            until(lambda: any(line["event"] == "log.left_out" for line in read), "the count")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(20) == 0
        begun.join(20)
    numbers = [line["number"] for line in read if line["event"] == "said"]
    assert numbers == list(range(len(numbers))), "the oldest, in their order"
    left_out = sum(line["lines"] for line in read if line["event"] == "log.left_out")
    assert len(numbers) + left_out == lines
    assert (left_out > 0) == (lines > 1000)
    assert read[-1]["event"] == "after", "written at the end of the process"


def test_a_process_whose_log_nobody_reads_ends() -> None:
    with daemon_of(20_000) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(20) == 0


def test_a_reader_that_is_gone_harms_nobody() -> None:
    with daemon_of(1000) as process:
        assert process.stderr is not None
        assert process.stdin is not None
        process.stderr.close()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(20) == 0
