"""Real hub, agent and worker processes on loopback, and the means to stop, kill and watch them.

Waiting is always for something seen (the hub's live stream, a process's end, a file), never for a length of time.
"""

import contextlib
import hashlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil

ROOT = Path(__file__).parents[2]
CIRCUITS = ROOT / "prover" / "circuits"
DEADLINE_S = 90.0
PROVEWIRE = ("-m", "cli.main")
ENDED = {"done", "failed", "cancelled"}

T = TypeVar("T")


def until(ready: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """The first true value of ``ready``, asked again and again because another process brings it about."""
    end_s = time.monotonic() + deadline_s
    while not (value := ready()):
        if time.monotonic() > end_s:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}")
        select.select([], [], [], 0.02)
    return value


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Answer:
    """What came back from one HTTP request."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Process:
    """One process of ours, started with ``provewire ...``; its output goes to a file."""

    def __init__(self, rig: "Rig", name: str, argv: list[str], log: Path, env: dict[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, *argv],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PROVEWIRE_LOG": "json", **env},
            )
        rig.children.append(self._child)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def check(self) -> None:
        assert self.running, f"{self.name} ended with {self._child.returncode}:\n{self.text()[-3000:]}"

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end; the exit code."""
        if self.running:
            self._child.send_signal(number)
        return self._child.wait(timeout=DEADLINE_S)


class Hub:
    """A hub process with its data directory; can be stopped and started again on the same port."""

    def __init__(self, rig: "Rig", env: dict[str, str], name: str) -> None:
        self._rig = rig
        self.folder = rig.folder / name
        self._env = env
        self._log = rig.folder / f"{name}.log"
        self.port = 0
        self.process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        (self.folder / "hub.json").unlink(missing_ok=True)
        listen = f"127.0.0.1:{self.port}"
        argv = [*PROVEWIRE, "hub", "--listen", listen, "--data-dir", str(self.folder)]
        self.process = process = Process(self._rig, "hub", argv, self._log, self._env)

        def listening() -> bool:
            process.check()
            return (self.folder / "hub.json").exists()

        until(listening, "the hub to listen")
        self.port = int(json.loads((self.folder / "hub.json").read_text())["url"].rsplit(":", 1)[1])
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        return self.process.kill(number)

    @property
    def token(self) -> str:
        return (self.folder / "admin-token").read_text().strip()

    @property
    def admin(self) -> dict[str, str]:
        """The header that lets the admin in."""
        return {"Authorization": f"Bearer {self.token}"}

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request with exactly these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def call(self, method: str, path: str, value: Any = None, *, raw: bytes | None = None) -> Any:
        """One REST call as the admin; its JSON, or its bytes where it is none."""
        body = raw if value is None else json.dumps(value).encode()
        headers = self.admin
        if value is not None:
            headers["Content-Type"] = "application/json"
        answer = self.request(method, f"/api/v1/{path}", body, headers)
        assert answer.status < 400, f"{method} {path}: {answer.status} {answer.body.decode(errors='replace')}"
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.body

    # --- what operators do ---

    def enroll_token(
        self, folder: Path, *, uses: int = 1, ttl_s: int = 600, labels: dict[str, str] | None = None
    ) -> Path:
        """A file with a fresh enrolment token; who enrols with it gets the labels."""
        made = self.call("POST", "enroll-tokens", {"uses": uses, "ttl_s": ttl_s, "labels": labels or {}})
        path = folder / f"token-{made['id']}"
        path.write_text(made["token"])
        path.chmod(0o600)
        return path

    def wait_expired(self, token_file: Path) -> None:
        """Until the time of an enrolment token is over."""
        name = token_file.name.removeprefix("token-")
        (expires_at_ms,) = (
            made["expires_at_ms"] for made in self.call("GET", "enroll-tokens")["tokens"] if made["id"] == name
        )
        until(lambda: time.time() * 1000 > expires_at_ms, "the token to expire")

    def upload(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.call("PUT", f"artifacts/{digest}", raw=data)
        return digest

    def register(self, name: str = "merkle8", zkey: Path = CIRCUITS / "merkle8.zkey") -> str:
        return str(self.call("POST", "circuits", {"name": name, "zkey": self.upload(zkey.read_bytes())})["id"])

    def submit(self, circuit: str = "merkle8", wtns: bytes | None = None) -> str:
        data = (CIRCUITS / "merkle8.wtns").read_bytes() if wtns is None else wtns
        return str(self.call("POST", "jobs", {"circuit": circuit, "witness": self.upload(data)})["id"])

    def job(self, job: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("GET", f"jobs/{job}")
        return answer

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.call("GET", "nodes?limit=500")["nodes"]}

    def wait_node(self, name: str, state: str = "online") -> dict[str, Any]:
        def there() -> dict[str, Any]:
            node = self.nodes().get(name, {})
            return node if node.get("state") == state else {}

        return until(there, f"{name} to be {state}")

    def wait_job(self, job: str, states: set[str] | None = None, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """The job once the live stream has shown it in one of ``states``, or ended; it may have gone on since."""
        for seen in self.watch(job, deadline_s):
            if seen["state"] in ENDED | (states or set()):
                break
        return self.job(job)

    def watch_to_end(self, job: str) -> Iterator[dict[str, Any]]:
        """Every state of one job up to its end."""
        for seen in self.watch(job):
            yield seen
            if seen["state"] in ENDED:
                return

    def watch(self, job: str, deadline_s: float = DEADLINE_S) -> Iterator[dict[str, Any]]:
        """Every state of one job that the live stream shows."""
        end_s = time.monotonic() + deadline_s
        for event, data in self.live(deadline_s):
            assert time.monotonic() < end_s, f"job {job} did not end in {deadline_s:g} s: {self.job(job)}"
            seen = data["jobs"] if event == "snapshot" else [data["job"]] if event == "job" else []
            yield from (one for one in seen if one["id"] == job)

    def live(self, deadline_s: float = DEADLINE_S) -> Iterator[tuple[str, dict[str, Any]]]:
        """(event, data) of the live stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=deadline_s)
        try:
            connection.request("GET", "/api/v1/live", headers=self.admin)
            answer = connection.getresponse()
            assert answer.status == 200
            event = ""
            while line := answer.readline():
                if line.startswith(b"event:"):
                    event = line[6:].strip().decode()
                elif line.startswith(b"data:"):
                    yield event, json.loads(line[5:])
        finally:
            connection.close()


class Agent:
    """An agent process with its data directory."""

    program = PROVEWIRE

    def __init__(self, rig: "Rig", env: dict[str, str], name: str) -> None:
        self._rig = rig
        self.name = name
        self.folder = rig.folder / name
        self._env = env
        self._log = rig.folder / f"{name}.log"
        self.process: Process | None = None

    def start(self, hub: Hub, *more: str) -> Self:
        argv = [*self.program, "agent", "--hub", hub.url, "--data-dir", str(self.folder), "--name", self.name]
        argv += ["--device", "host", "--local", "off", *more]
        self.process = Process(self._rig, self.name, argv, self._log, self._env)
        return self

    def join(self, hub: Hub) -> Self:
        """Start with a fresh enrolment token, and wait until the hub hears it and its worker is there."""
        self.start(hub, "--token-file", str(hub.enroll_token(hub.folder)))
        hub.wait_node(self.name)
        self.wait_worker()
        return self

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        return self.process.kill(number)

    def wait_log(self, words: str) -> None:
        """Until the agent's log says ``words``."""
        assert self.process is not None
        process = self.process
        until(lambda: words in process.text(), f"{self.name} to log {words!r}")

    def status(self) -> dict[str, Any] | None:
        """The agent's local view over its unix socket; None while nobody answers."""
        connection = UnixConnection(self.folder / "agent.sock")
        try:
            connection.request("GET", "/status")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            return None
        else:
            return answer
        finally:
            connection.close()

    def wait_worker(self, states: tuple[str, ...] = ("idle", "proving")) -> int:
        """The worker's pid, once it is in one of ``states``."""

        def pid() -> int | None:
            workers = (self.status() or {}).get("workers", [])
            return next((worker["pid"] for worker in workers if worker["state"] in states), None)

        return until(pid, f"a worker of {self.name} to be {' or '.join(states)}") or 0


class Rig:
    """Everything one test started, in one folder; stopped, workers included, when the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[subprocess.Popen[bytes]] = []
        self.at_end: list[Callable[[], None]] = []
        """What is left to do when every process is gone."""

    def hub(self, name: str = "hub", *, port: int = 0, **env: str) -> Hub:
        """A started hub."""
        hub = Hub(self, env, name)
        hub.port = port
        return hub.start()

    def agent(self, name: str = "node-a", **env: str) -> Agent:
        """An agent, not yet started."""
        return Agent(self, env, name)

    def stop(self) -> None:
        # Agents first, and only then what is left: a living one starts another worker in the place of a killed one.
        # Killed, not asked: a stopped (SIGSTOP) process takes nothing but SIGKILL.
        for child in self.children:
            child.kill()
            child.wait(timeout=30)
        left = [p for p in psutil.process_iter(["cmdline"]) if str(self.folder) in " ".join(p.info["cmdline"] or [])]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=30)
        for done in self.at_end:
            done()


def catch_in_mid_proof(hub: Hub, agent: Agent, submit: Callable[[], str] | None = None) -> tuple[str, int]:
    """Submit jobs until one is caught while its worker proves; (job, worker's pid), the worker stopped by SIGSTOP.

    Proofs are short, so that a job may end before the signal lands: then the next one is tried.
    """
    for _ in range(20):
        pid = agent.wait_worker()
        job = (submit or hub.submit)()
        if hub.wait_job(job, {"running"})["state"] != "running":
            continue
        os.kill(pid, signal.SIGSTOP)
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the worker to stop")  # noqa: B023
        # An ended one lies at the worker until the agent has taken it over, which then shows it no more.
        taken_over = all(one["job"] != job for one in (agent.status() or {}).get("jobs", ()))
        ended = any((agent.folder / "workers").glob(f"*/ended/{job}.*"))
        if not taken_over and not ended and hub.job(job)["state"] == "running":
            return job, pid
        os.kill(pid, signal.SIGCONT)
        hub.wait_job(job)
    raise AssertionError("no proof could be caught in the middle")
