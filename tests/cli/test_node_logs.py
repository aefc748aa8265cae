"""``provewire logs`` at a real hub: what is printed, what is refused, and what a following reader goes through."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UsageError
from cli.node_logs import add_arguments, painter, query_of, rendered, safe, time_of

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = {
    "kind": "log",
    "id": 7,
    "received_at_ms": 1_796_044_239_750,
    "node_time_ms": 1_796_044_239_645,
    "level": "warning",
    "source": "worker:host",
    "text": "job.failed",
    "fields": {"job": "x", "why": "no room", "n": None},
    "given_up": None,
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are shown as the operator's clock has them."""
    import time  # noqa: PLC0415 - its zone is changed here only

    monkeypatch.setenv("TZ", "UTC-1")
    time.tzset()


def query(*argv: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return query_of(parser.parse_args(["node", *argv]))


def test_a_record_is_a_line() -> None:
    line = rendered(RECORD, painter(on=False))
    assert line == '2026-11-30 14:10:39.750  warning  worker:host  job.failed  job=x why="no room" n=null'


def test_a_nodes_time_is_shown_when_it_differs() -> None:
    line = rendered({**RECORD, "node_time_ms": 1_796_044_000_000, "fields": {}}, painter(on=False))
    assert line.endswith("job.failed  (node's time 2026-11-30 14:06:40.000)")


def test_colours_are_for_terminals() -> None:
    assert "\x1b[33mwarning\x1b[0m" in rendered(RECORD, painter(on=True))
    assert "\x1b" not in rendered(RECORD, painter(on=False))


@pytest.mark.parametrize("evil", ["\x1b[2J", "\r", "\x07", "\x9b31m", "\u202e", "\x00", "\u2028"])
def test_nothing_that_a_node_says_is_obeyed_by_the_terminal(evil: str) -> None:
    hostile = {**RECORD, "text": f"a{evil}b", "source": f"file:{evil}", "fields": {evil: evil}, "level": evil}
    for told in (hostile, {**hostile, "given_up": 3}):
        assert evil not in rendered(told, painter(on=False))
    assert "a" in safe(evil + "a")


def test_more_lines_stay_below_their_record() -> None:
    assert "first\n    second" in rendered({**RECORD, "text": "first\nsecond\n", "fields": {}}, painter(on=False))


def test_a_time_no_calendar_has_is_shown_all_the_same() -> None:
    assert "9007199254740992 ms" in rendered({**RECORD, "node_time_ms": 2**53}, painter(on=False))


def test_options_become_the_hubs_query() -> None:
    assert query() == {"limit": "100"}
    assert query("-f") == {"tail": "100"}
    assert query("-f", "-n", "0") == {"tail": "0"}
    assert query("--since", "10m") == {"since": "10m"}
    assert query("--since", "1d", "-n", "5", "--level", "error", "--grep", "a&b", "--source", "worker") == {
        "since": "1d",
        "limit": "5",
        "level": "error",
        "contains": "a&b",
        "source": "worker",
    }
    assert query("--until", "2026-11-30 12:00")["until"] == "2026-11-30T12:00:00+01:00"
    assert time_of("since", "2026-11-30T12:00:00Z") == "2026-11-30T13:00:00+01:00"
    assert time_of("since", "9:30").endswith("T09:30:00+01:00")


@pytest.mark.parametrize(
    "argv", [["--since", "soon"], ["-f", "--until", "1h"], ["-n", "-1"], ["-n", "99999"], ["--since", "10 minutes"]]
)
def test_what_makes_no_sense_is_refused_before_the_hub_is_asked(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        query(*argv)


# --- at a real hub


@contextmanager
def hub(data_dir: Path, port: int = 0) -> Iterator[dict[str, Any]]:
    from tests.hub.test_app import process  # noqa: PLC0415 - a hub of a process's own

    with process(data_dir, "--listen", f"127.0.0.1:{port}") as (_, facts):
        yield facts


def command(data_dir: Path, *argv: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "logs", "--data-dir", str(data_dir), *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "NO_COLOR": ""},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_exit_codes(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with hub(data_dir):
        code, out, err = command(data_dir, "nobody")
        assert (code, out) == (EXIT_USAGE, "")
        assert "there is no node 'nobody'" in err
        assert command(data_dir, "nobody", "-f")[0] == EXIT_USAGE
        assert command(data_dir, "../../jobs")[0] == EXIT_USAGE
    assert command(data_dir, "nobody")[0] == EXIT_UNREACHABLE
    assert command(data_dir, "nobody", "-f")[0] == EXIT_UNREACHABLE
    assert command(tmp_path, "nobody")[0] == EXIT_USAGE
    assert EXIT_OK == 0
    assert json.loads(json.dumps(RECORD)) == RECORD
