"""The log streams: JSON lines or console, and levels the journal understands."""

import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.logs import Prefixed

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
