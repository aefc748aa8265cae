import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest

from cli.status import duration, gib

ROOT = Path(__file__).parents[2]
STATUS: dict[str, Any] = {
    "agent_id": "01890a5d-ac96-774b-bcce-b302099a0001",
    "name": "node-[red]a[/red]",
    "epoch": "01890a5d-ac96-774b-bcce-b302099a8057",
    "pid": 11,
    "version": "1.2.3",
    "uptime_s": 7325.0,
    "healthy": False,
    "hub": {
        "url": "https://hub.example.org",
        "state": "refused",
        "session": None,
        "hub_id": None,
        "last_ack_age_s": 75.2,
        "last_reason": {"code": 11, "name": "WRONG_HUB_KEY", "detail": "the hub's key is another one"},
        "attempts": 3,
        "next_attempt_in_s": 44.0,
        "clock_skew_ms": 0,
        "insecure": True,
    },
    "host": {
        "cpu_count": 8,
        "cpu_used_ratio": 0.25,
        "load_1min": 1.0,
        "memory_total_bytes": 2**35,
        "memory_used_bytes": 2**33,
        "disk_total_bytes": None,
        "disk_free_bytes": None,
        "uptime_s": 5,
    },
    "gpus": [
        {"uuid": "GPU-1", "name": None, "memory_total_bytes": 2**37, "memory_used_bytes": None, "state": "degraded"}
    ],
    "gpu_problem": "",
    "workers": [
        {"device": "host", "state": "proving", "pid": 77, "detail": ""},
        {"device": "cuda:0", "state": "down", "pid": None, "detail": "the worker died (signal 9, Killed)"},
    ],
    "jobs": [{"job": "01890a5d-aa", "attempt": 2, "phase": "msm_h", "done": 3, "total": 4, "elapsed_s": 61.0}],
    "outbox": {"events_held": 5, "bytes_held": 1234, "dropped": 2},
    "observe": False,
}


class AgentSocket(UnixStreamServer):
    """Answers like an agent's local socket."""

    answer = (200, STATUS)

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("local", 0)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, AgentSocket)
        status, body = self.server.answer
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentSocket]:
    with AgentSocket(str(tmp_path / "agent.sock"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "cli.main", "status", "--data-dir", str(folder), *options]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.usefixtures("agent")
def test_people_read_it(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    for words in (
        "node-[red]a[/red]  NOT HEALTHY",
        "refused  https://hub.example.org  last acknowledged 1 min 15 s ago",
        "last reason: WRONG_HUB_KEY (11): the hub's key is another one",
        "attempt 4 in 44 s",
        "--insecure",
        "proving  host, pid 77",
        "down  cuda:0  the worker died (signal 9, Killed)",
        "msm_h",
        "3/4",
        "degraded  GPU-1  ? of 128.0 GiB",
        "8 cpus 25% busy, memory 8.0 GiB of 32.0 GiB, disk ? free",
        "5 events held (1234 bytes), 2 dropped",
    ):
        assert words in " ".join(ended.stdout.split("\n")) or words in ended.stdout, words


@pytest.mark.usefixtures("agent")
def test_programs_read_json(tmp_path: Path) -> None:
    ended = run(tmp_path, "--json")
    assert json.loads(ended.stdout) == STATUS


def test_nobody_there_is_exit_69_and_one_sentence(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert (ended.returncode, ended.stdout) == (69, "")
    assert ended.stderr.count("\n") == 1
    assert "no agent answers at" in ended.stderr


def test_an_agent_that_fails_is_exit_69(tmp_path: Path, agent: AgentSocket) -> None:
    agent.answer = (500, {})
    ended = run(tmp_path)
    assert ended.returncode == 69
    assert "HTTP 500" in ended.stderr


def test_words() -> None:
    assert [duration(seconds) for seconds in (0.4, 59, 61, 3700)] == ["0 s", "59 s", "1 min 1 s", "1 h 1 min"]
    assert (gib(None), gib(2**30)) == ("?", "1.0 GiB")
