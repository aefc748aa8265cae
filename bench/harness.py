"""What the benches share: a hub process of their own, pinning, what the kernel says of a process, and the verdict.

A bench runs unprivileged and on loopback only. Its hub has a data directory of its own, which is removed afterwards.
"""

import atexit
import contextlib
import http.client
import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[1]
START_S = 60.0
ASK_EVERY_S = 0.05
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")

T = TypeVar("T")


# --- waiting and processes --------------------------------------------------------------------------------------------


def until(ready: Callable[[], T], what: str, *, deadline_s: float, every_s: float = ASK_EVERY_S) -> T:
    """The first true value of ``ready``, asked again and again because another process brings it about.

    Raises:
        TimeoutError: not within ``deadline_s``.
    """
    end_s = time.monotonic() + deadline_s
    while not (value := ready()):
        if time.monotonic() > end_s:
            raise TimeoutError(f"waited {deadline_s:g} s in vain for {what}")
        select.select([], [], [], every_s)
    return value


def leave_on_sigterm() -> None:
    """Let SIGTERM end this process like Ctrl-C does: through every ``with`` block, so that no child is left behind.

    One that comes while a child is being started, which no block knows yet, waits until it is known.
    """

    def leave(number: int, _frame: object) -> None:
        Process.told_to_leave = 128 + number
        if not Process.starting:
            sys.exit(Process.told_to_leave)

    signal.signal(signal.SIGTERM, leave)
    atexit.register(_end_all)


def _end_all() -> None:
    """End what a signal came too early for: between its start and its block's beginning."""
    for process in list(Process.alive):
        process.end(deadline_s=10.0)


class Process:
    """A child of ours with its output in a file; killed at the end of a ``with`` block."""

    alive: ClassVar[set["Process"]] = set()
    starting: ClassVar[bool] = False
    told_to_leave: ClassVar[int | None] = None

    def __init__(
        self,
        argv: list[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cores: set[int] | None = None,
        orders: bool = False,
    ) -> None:
        """Start ``python *argv`` from the project's root, on ``cores`` if given; ``orders``: it reads our `tell`."""
        self.log = log
        self.name = " ".join(argv[:3])
        Process.starting = True
        try:
            with log.open("ab") as output:
                self._child = subprocess.Popen(  # noqa: S603 - our own programs
                    [sys.executable, *argv],
                    cwd=ROOT,
                    stdin=subprocess.PIPE if orders else subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
                )
            Process.alive.add(self)
        finally:
            Process.starting = False
        if Process.told_to_leave is not None:
            sys.exit(Process.told_to_leave)
        if cores is not None:
            os.sched_setaffinity(self._child.pid, cores)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.pid

    def check(self) -> None:
        """See that it runs.

        Raises:
            RuntimeError: it has ended; with the last lines it wrote.
        """
        if self._child.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self._child.returncode}:\n{self.text()[-2000:]}")

    def text(self) -> str:
        """What it wrote so far."""
        return self.log.read_text(errors="replace")

    def tell(self, order: str) -> None:
        """One line to its stdin."""
        assert self._child.stdin is not None  # noqa: S101 - started with orders=True
        self._child.stdin.write(order.encode() + b"\n")
        self._child.stdin.flush()

    def wait(self, deadline_s: float) -> int:
        """Wait for its end; the exit code."""
        return self._child.wait(timeout=deadline_s)

    def end(self, number: int = signal.SIGTERM, deadline_s: float = 30.0) -> None:
        """Ask it to end, and insist."""
        if self._child.poll() is None:
            self._child.send_signal(number)
            try:
                self._child.wait(timeout=deadline_s)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()
        Process.alive.discard(self)
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(deadline_s=10.0)


class HubProcess:
    """A hub with its own data directory, on a free port that it keeps when it is started again."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, float | str] | None = None,
        *,
        cores: set[int] | None = None,
        profile: Path | None = None,
    ) -> None:
        """Prepare; ``settings`` are those of `hub.config` by name. ``profile``: where it leaves one when it stops."""
        self.folder = folder / "hub"
        self.log = folder / "hub.log"
        self._cores = cores
        self._program = ["cli.main"] if profile is None else ["bench.profiled_hub", str(profile)]
        self._env = {f"PROVEWIRE_{name.upper()}": str(value) for name, value in (settings or {}).items()}
        self._process: Process | None = None
        self.port = 0
        """Where it listens; kept from one start to the next."""

    def start(self) -> Self:
        """Start it and wait until it listens."""
        facts = self.folder / "hub.json"
        facts.unlink(missing_ok=True)
        argv = ["-m", *self._program, "hub", "--listen", f"127.0.0.1:{self.port}", "--data-dir", str(self.folder)]
        env = {"PROVEWIRE_LOG": "json", "PROVEWIRE_LOG_LEVEL": "warning", **self._env}
        self._process = process = Process(argv, self.log, env=env, cores=self._cores)

        def listening() -> bool:
            process.check()
            return facts.exists()

        until(listening, "the hub to listen", deadline_s=START_S)
        self.port = urlsplit(json.loads(facts.read_text())["local_url"]).port or 0
        return self

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        assert self._process is not None  # noqa: S101 - started
        return self._process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it: as an operator does, or by another signal."""
        if self._process is not None:
            self._process.end(number)

    def call(self, method: str, path: str, value: object = None) -> bytes:
        """One request as the admin; the answer's body.

        Raises:
            RuntimeError: the hub refused it.
        """
        headers = {"Authorization": f"Bearer {(self.folder / 'admin-token').read_text().strip()}"}
        if value is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, None if value is None else json.dumps(value), headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:  # noqa: PLR2004 - HTTP's border of errors
            raise RuntimeError(f"{method} {path}: HTTP {answer.status}: {body[:500].decode(errors='replace')}")
        return body

    def admin_token(self) -> str:
        """The bearer of the hub's operator."""
        return (self.folder / "admin-token").read_text().strip()

    def login_link(self) -> str:
        """An address that logs a browser in, once."""
        return str(json.loads(self.call("POST", "/api/v1/login-links", {}))["url"])

    def token(self, uses: int) -> str:
        """A fresh enrolment token."""
        made = json.loads(self.call("POST", "/api/v1/enroll-tokens", {"uses": uses, "ttl_s": 86_400}))
        return str(made["token"])

    def metrics(self) -> dict[str, float]:
        """Every sample of ``/metrics`` but the nodes' own; one with labels is called ``name{key="value"}``."""
        lines = self.call("GET", "/metrics").splitlines()
        text = b"\n".join(line for line in lines if b"provewire_node_" not in line).decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found

    def sessions(self) -> int:
        """Open sessions of agents."""
        return int(self.metrics()["provewire_sessions"])

    def nodes(self) -> list[dict[str, Any]]:
        """Every node, page by page."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = json.loads(self.call("GET", f"/api/v1/nodes?limit=200{after}"))
            found += page["nodes"]
            if not page.get("next"):
                return found
            after = f"&after={page['next']}"


@contextmanager
def hub_process(
    settings: Mapping[str, float | str] | None = None, *, cores: set[int] | None = None, profile: Path | None = None
) -> Iterator[HubProcess]:
    """A started hub, stopped and forgotten at the end, also when that comes as SIGTERM."""
    leave_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="pw-bench-") as folder:
        hub = HubProcess(Path(folder), settings, cores=cores, profile=profile)
        try:
            yield hub.start()
        finally:
            hub.stop()


# --- what the kernel says ---------------------------------------------------------------------------------------------


def two_cores() -> tuple[set[int], set[int]]:
    """A core for what is measured and one for what makes the load; the same one where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[0]}, {cores[-1]}


def cpu_s(pid: int) -> float:
    """User and system seconds of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def thread_cpu_s(pid: int) -> dict[str, float]:
    """The same of each thread: the main one is called ``main``, the others by what they call themselves, and number."""
    found: dict[str, float] = {}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        label = "main" if int(folder.name) == pid else f"{name} {folder.name}"
        found[label] = (int(fields[11]) + int(fields[12])) * TICK_S
    return found


def rss_bytes(pid: int) -> int:
    """Resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_rss_bytes(pid: int) -> int:
    """The most it ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def machine() -> str:
    """The machine in a few words, for the report."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}"


def load_1min() -> float:
    """The machine's load: more than what the bench itself makes, and its figures are worth less."""
    return os.getloadavg()[0]


# --- the verdict ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """One figure beside what is wanted of it."""

    name: str
    value: float
    required: float | None = None
    """Missing it fails the bench."""
    aim: float | None = None
    """Missing it is only said."""
    at_least: bool = False
    """More is better; else less is."""
    unit: str = ""

    def meets(self, limit: float) -> bool:
        """Whether the figure is on the right side."""
        return self.value >= limit if self.at_least else self.value <= limit

    @property
    def failed(self) -> bool:
        """Whether what is required is missed."""
        return self.required is not None and not self.meets(self.required)


@dataclass
class Verdict:
    """What a bench has to say: figures, targets, and the exit code."""

    bench: str
    figures: dict[str, object] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    load_before: float = field(default_factory=load_1min)

    def finish(self) -> int:
        """Print the targets for people, then everything as one JSON line; 1 when a required target is missed."""
        for target in self.targets:
            self._say(target)
        line = {
            "bench": self.bench,
            **self.figures,
            "targets": {
                target.name: {
                    "value": round(target.value, 4),
                    "required": target.required,
                    "aim": target.aim,
                    "sense": ">=" if target.at_least else "<=",
                    "met": None if target.required is None else not target.failed,
                }
                for target in self.targets
            },
            "machine": machine(),
            "load_before": round(self.load_before, 2),
        }
        print(json.dumps(line), flush=True)
        return int(any(target.failed for target in self.targets))

    @staticmethod
    def _say(target: Target) -> None:
        sense = "at least" if target.at_least else "at most"
        words = [f"{target.name}: {target.value:.4g} {target.unit}".rstrip()]
        for kind, limit in (("required", target.required), ("aim", target.aim)):
            if limit is not None:
                words.append(f"{kind} {sense} {limit:g}: {'met' if target.meets(limit) else 'MISSED'}")
        print("; ".join(words), flush=True)
