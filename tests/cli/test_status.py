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

from cli.status_lines import columns, duration, lines, of, size

ROOT = Path(__file__).parents[2]
NOW_MS = 1_800_000_000_000
ENGINE: dict[str, Any] = {
    "engine": "cuzk",
    "state": "ok",
    "detail": "",
    "answered_at_ms": NOW_MS - 1_000,
    "queued": 14,
    "completed": 123,
    "failed": None,
    "jobs": [
        {
            "id": f"job-{number}",
            "kind": "winning_post",
            "state": "running" if number else "failed",
            "started_at_ms": NOW_MS - 60_000 * number if number else None,
            "partitions_total": 10,
            "partitions_done": number,
            "detail": "" if number else "it has not moved for 10 min",
        }
        for number in range(5)
    ],
    "jobs_left_out": 2,
}
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
        "clock_skew_ms": -65_000,
        "insecure": True,
        "reasons": [
            {
                "at_ms": NOW_MS - 30_000,
                "name": "WRONG_HUB_KEY",
                "detail": "the hub's key is another one",
                "code": 11,
                "times": 3,
                "open_s": None,
            },
            {
                "at_ms": NOW_MS - 7_200_000,
                "name": "network",
                "detail": "nobody there",
                "code": None,
                "times": 1,
                "open_s": 90_000.0,
            },
        ],
    },
    "host": {
        "cpu_count": 8,
        "cpu_used_ratio": 0.25,
        "cpu_limit_cores": 6.5,
        "load_1min": 1.0,
        "memory_total_bytes": 2**35,
        "memory_used_bytes": 2**33,
        "memory_limit_bytes": 2**34,
        "memory_limit_used_bytes": 2**32,
        "disk_total_bytes": None,
        "disk_free_bytes": None,
        "temperature_c": 51,
        "container": "docker",
        "uptime_s": 5,
    },
    "gpus": [
        {
            "uuid": "GPU-1",
            "index": 0,
            "name": "NVIDIA H200",
            "state": "ok",
            "detail": "",
            "utilization_ratio": 0.97,
            "memory_total_bytes": 2**37,
            "memory_used_bytes": 2**36,
            "temperature_c": 54,
            "power_draw_mw": 412_000,
            "power_limit_mw": 700_000,
            "throttle_reasons": 0x4,
            "age_s": None,
        },
        {
            "uuid": "GPU-2",
            "index": 1,
            "name": None,
            "state": "degraded",
            "detail": "rows could not be remapped",
            "memory_total_bytes": 2**37,
            "memory_used_bytes": None,
            "xid_count": 2,
            "xid_last": 79,
            "xid_last_time_ms": NOW_MS - 120_000,
            "ecc_uncorrected_volatile": 1,
            "throttle_reasons": 0x40 | 0x4,
            "age_s": 12.0,
        },
    ],
    "gpu_problem": "",
    "engines": [ENGINE, {**ENGINE, "engine": "other", "state": "down", "detail": "it does not run", "jobs": []}],
    "workers": [
        {"device": "host", "state": "proving", "pid": 77, "detail": ""},
        {"device": "cuda:0", "state": "down", "pid": None, "detail": "the worker died (signal 9, Killed)"},
        {"device": "cuda:1", "state": "idle", "pid": 78, "detail": "", "on_host": "the package pycuda is missing"},
    ],
    "jobs": [{"job": "01890a5d-aa", "attempt": 2, "phase": "msm_h", "done": 3, "total": 4, "elapsed_s": 61.0}],
    "outbox": {"events_held": 1007, "bytes_held": 123_400, "dropped": 7},
    "streams": {
        "jobs": {"events": 0, "bytes": 0, "dropped": {}, "refused": 0},
        "events": {"events": 7, "bytes": 400, "dropped": {}, "refused": 0},
        "readings": {"events": 1000, "bytes": 123_000, "dropped": {"age": 4}, "refused": 5},
        "logs": {"events": 0, "bytes": 0, "dropped": {"size": 3, "age": 1}, "refused": 0},
    },
    "observe": False,
    "logs": [
        {"source": "agent", "state": "reading", "detail": ""},
        {"source": "file:/a", "state": "waiting", "detail": "/a does not exist (yet)"},
    ],
}
PEOPLE = """\
node-[red]a[/red]  NOT HEALTHY  agent 1.2.3, pid 11, up 2 h 2 min
id 01890a5d-ac96-774b-bcce-b302099a0001, epoch 01890a5d-ac96-774b-bcce-b302099a8057
hub      refused  https://hub.example.org  last acknowledged 1 min 15 s ago  the clocks differ by 1 min 5 s
         --insecure: a hub without TLS is allowed
         attempt 4 in 44 s
reasons  30 s ago, 3 times: WRONG_HUB_KEY (11): the hub's key is another one
         2 h 0 min ago: network after 1 d 1 h open: nobody there
host     8 cpus 25% busy, limited to 6.5, memory 8.0 of 32.0 GiB (limit: 4.0 of 16.0 GiB), disk ? free, 51 °C, in docker
gpu 0    ok        NVIDIA H200  97% busy  64.0 of 128.0 GiB  54 °C  412 of 700 W
gpu 1    degraded  GPU-2        ? busy    ? of 128.0 GiB     ? °C   ? of ? W
         rows could not be remapped; these readings are 12 s old; 2 XIDs, last 79 2 min 0 s ago; \
1 uncorrected ECC error; held back: hardware thermal slowdown
cuzk     ok  4 jobs running, 14 partitions queued, 123 done, ? failed, answered 1 s ago
         winning_post 0/10  job-0  failed: it has not moved for 10 min
         winning_post 1/10, since 1 min 0 s  job-1  running
         winning_post 2/10, since 2 min 0 s  job-2  running
         winning_post 3/10, since 3 min 0 s  job-3  running
         and 3 more jobs
other    down  answered 1 s ago
         it does not run
worker   proving  host    pid 77
worker   down     cuda:0  the worker died (signal 9, Killed)
worker   idle     cuda:1  pid 78
         proves on the CPU instead of its card: the package pycuda is missing
job      01890a5d-aa  attempt 2  msm_h  3/4  1 min 1 s
outbox   1007 events held, 120.5 KiB: 7 events, 1000 readings
         dropped: 4 readings (age), 3 logs (size), 1 logs (age)
         lost, because the disk took nothing: 5 readings
log      waiting  file:/a  /a does not exist (yet)
"""
QUIET = """\
node-b  healthy  agent 1.2.3, pid 11, up 5 s  observes only
id (not enrolled yet), epoch 01890a5d-ac96-774b-bcce-b302099a8057
hub      open  https://hub.example.org  last acknowledged 0 s ago
gpu      no NVIDIA driver
outbox   nothing held: the hub has everything
"""


def shown(status: dict[str, Any]) -> str:
    return "".join("".join(words for words, _ in line) + "\n" for line in lines(status, now_ms=NOW_MS))


def test_everything_an_operator_wants_to_know() -> None:
    assert shown(STATUS) == PEOPLE


def test_a_quiet_node_of_an_older_agent_takes_five_lines() -> None:
    hub = {**STATUS["hub"], "state": "open", "last_ack_age_s": 0.2, "next_attempt_in_s": None, "clock_skew_ms": 5}
    del hub["reasons"]
    quiet = {
        **STATUS,
        "name": "node-b",
        "agent_id": None,
        "uptime_s": 5.0,
        "healthy": True,
        "observe": True,
        "hub": {**hub, "insecure": False},
        "host": None,
        "gpus": [],
        "gpu_problem": "no NVIDIA driver",
        "workers": [],
        "jobs": [],
        "outbox": {"events_held": 0, "bytes_held": 0, "dropped": 0},
    }
    del quiet["engines"], quiet["streams"], quiet["logs"]
    assert shown(quiet) == QUIET


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
    said, meant = ended.stdout.splitlines(), PEOPLE.splitlines()
    # What tells an age depends on the hour of the test; names are no markup, and no line is broken.
    assert [line[:30] for line in said if "ago" not in line] == [line[:30] for line in meant if "ago" not in line]
    assert said[0] == meant[0]
    assert len(said) == len(meant)


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


def test_a_signed_status_of_nobody_is_exit_69_and_one_sentence(tmp_path: Path) -> None:
    ended = run(tmp_path, "--frame", "--nonce", "0f" * 16)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (69, "", 1)
    assert "no agent answers at" in ended.stderr


@pytest.mark.parametrize("options", [("--frame",), ("--nonce", "0f" * 16), ("--frame", "--nonce", "0f")])
def test_a_signed_status_without_a_true_nonce_is_a_mistake_of_usage(tmp_path: Path, options: tuple[str, ...]) -> None:
    ended = run(tmp_path, *options)
    assert (ended.returncode, ended.stdout) == (64, "")
    assert "--nonce" in ended.stderr


def test_words() -> None:
    times_s = (0.4, 59, 61, 3700, 100_000)
    assert [duration(seconds) for seconds in times_s] == ["0 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 3 h"]
    assert [size(each) for each in (None, 5, 2048, 3 << 20, 1 << 30)] == ["?", "5 B", "2.0 KiB", "3.0 MiB", "1.0 GiB"]
    assert of(None, 1 << 30) == "? of 1.0 GiB"
    assert columns([]) == []
