"""Whatever is killed, frozen or cut, whenever: every job ends as it must, once, and nothing said is lost or doubled.

A seeded sequence of faults against a real hub, two real agents and their workers, under a steady supply of jobs. To see
a failure again: PROVEWIRE_CHAOS_SEED and, for longer runs, PROVEWIRE_CHAOS_S. What a failed run left is kept in
build/chaos-SEED.
"""

import contextlib
import functools
import http.client
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from prover.formats.snarkjson import proof_from_json, vkey_from_json
from prover.formats.wtns import Witness
from prover.verify import verify
from tests.e2e.rig import CIRCUITS, ENDED, ROOT, Agent, Hub, Rig, until
from tests.e2e.wire_fault import DOWN, UP, FaultyLine
from wire.codec import decode_event
from wire.frames import Gap, JobSucceeded

SEED = int(os.environ.get("PROVEWIRE_CHAOS_SEED") or time.time_ns() % 100_000)
DURATION_S = float(os.environ.get("PROVEWIRE_CHAOS_S") or 200)
HEAL_S = 150.0
"""From the last fault to a fleet at rest: leases run out, backoffs end, what waits is proved."""
OPEN_JOBS = 4
FAULTS_AT_ONCE = 3
BAD_EVERY = 10
PROOF_WAIT_S = 1.5
CODE_REFUSED = 4
HUB = {
    "PROVEWIRE_HEARTBEAT_S": "1",
    "PROVEWIRE_STALE_AFTER_S": "3",
    "PROVEWIRE_LOST_AFTER_S": "6",
    "PROVEWIRE_LEASE_S": "8",
    "PROVEWIRE_LEASE_GRACE_S": "2",
    "PROVEWIRE_DECLINE_BACKOFF_S": "1",
    "PROVEWIRE_RECONNECT_SPREAD_S": "0.5",
    # The poison limit counts what this test does to workers; it must not be what ends a good job.
    "PROVEWIRE_ATTEMPTS_MAX": "12",
}
HUB_RSS_BYTES_MAX = 250 * 1024**2
AGENT_RSS_BYTES_MAX = 150 * 1024**2
DESCRIPTORS_MAX = 100
LOGGED_FAULTS = ("Traceback", "a session failed", "a part of the hub failed", "did not stop in time")


def witness(name: str) -> bytes:
    return (CIRCUITS / name).read_bytes()


def bad_witness() -> bytes:
    data = bytearray(witness("merkle8.wtns"))
    data[-32] ^= 1  # the last wire is an internal one
    return bytes(data)


@dataclass
class Client:
    """Hands jobs in, as a program does that does not know what becomes of the hub: each one again until answered."""

    hub: Hub
    witnesses: dict[str, str]
    """Kind to the digest of the uploaded witness."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Job to the kind of its witness."""
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: BaseException | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more jobs; those handed in stand."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            number = 0
            while not self._over.is_set():
                self.look()
                if len(self.kinds) - len(self.ended) < OPEN_JOBS:
                    number += 1
                    self._submit(number)
                self._over.wait(0.1)
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            self.failure = error

    def _submit(self, number: int) -> None:
        kind = "bad" if number % BAD_EVERY == 0 else ("merkle8.wtns", "merkle8_other.wtns")[number % 2]
        body = json.dumps({"circuit": "merkle8", "witness": self.witnesses[kind]}).encode()
        headers = {**self.hub.admin, "Content-Type": "application/json", "Idempotency-Key": f"{SEED}-{number}"}
        answer = None
        while answer is None or answer.status == http.client.SERVICE_UNAVAILABLE:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.hub.request("POST", "/api/v1/jobs", body, headers)
            if self._over.wait(0.05) and answer is None:
                return
        assert answer.status in {200, 201, 202}, answer
        self.kinds[answer.json()["id"]] = kind

    def look(self) -> None:
        """See which have ended."""
        for job in [job for job in self.kinds if job not in self.ended]:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.hub.request("GET", f"/api/v1/jobs/{job}", headers=self.hub.admin)
                if answer.status == http.client.SERVICE_UNAVAILABLE:
                    continue
                assert answer.status == http.client.OK, answer
                if (seen := answer.json())["state"] in ENDED:
                    self.ended[job] = seen


Heal = Callable[[], object]


class Chaos:
    """Faults by chance, one at a time for each target, each healed when its time is over."""

    def __init__(self, rng: random.Random, hub: Hub, agents: list[Agent], lines: list[FaultyLine]) -> None:
        self.done: Counter[str] = Counter()
        self._rng = rng
        self._hub = hub
        self._lines = {agent.name: line for agent, line in zip(agents, lines, strict=True)}
        self._began_s = time.monotonic()
        self._heals: dict[str, tuple[float, Heal]] = {}
        self._faults: dict[str, list[tuple[str, Callable[[], Heal]]]] = {"hub": self._of_process(hub, hub.start)}
        for agent in agents:
            line = self._lines[agent.name]
            begin = functools.partial(self._await_proof, agent)
            self._faults[agent.name] = [
                (name, functools.partial(in_mid_proof, begin, fault))
                for name, fault in self._of_process(agent, functools.partial(self.start, agent))
            ]
            self._faults[f"{agent.name}'s worker"] = [
                (name, functools.partial(in_mid_proof, begin, fault)) for name, fault in self._of_worker(agent)
            ]
            self._faults[f"{agent.name}'s line"] = self._of_line(line)

    def start(self, agent: Agent) -> None:
        agent.start(self._hub, "--hub", self._lines[agent.name].url)

    def run(self, duration_s: float, check: Callable[[], None]) -> None:
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            next_s = time.monotonic() + self._rng.uniform(0.2, 2.5)
            until(lambda: self._heal_due() or time.monotonic() > next_s, "the next fault")  # noqa: B023
            check()
            free = [target for target in self._faults if target not in self._heals]
            if len(self._heals) < FAULTS_AT_ONCE and free:
                target = self._rng.choice(free)
                name, fault = self._rng.choice(self._faults[target])
                self._say(f"{target}: {name}")
                self.done[f"{target}: {name}"] += 1
                heal = fault()
                # Often at once; else long enough for leases, silences and backoffs to matter.
                lasts_s = self._rng.choice([0.0, self._rng.uniform(0, 3), self._rng.uniform(3, 13)])
                self._heals[target] = time.monotonic() + lasts_s, heal

    def heal(self) -> None:
        while self._heals:
            self._heal(next(iter(self._heals)))
        self._say("all healed")

    def _heal_due(self) -> bool:
        for target, (due_s, _) in list(self._heals.items()):
            if time.monotonic() >= due_s:
                self._heal(target)
        return False

    def _heal(self, target: str) -> None:
        self._say(f"{target}: healed")
        self._heals.pop(target)[1]()

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began_s:7.2f} s  {time.strftime('%H:%M:%S')}  {what}", flush=True)  # noqa: T201

    def _await_proof(self, agent: Agent) -> None:
        """Until the agent's worker proves, within a time: what is hit then has most to lose."""
        end_s = time.monotonic() + PROOF_WAIT_S

        def proves() -> bool:
            workers = (agent.status() or {}).get("workers", [])
            return any(worker["state"] == "proving" for worker in workers) or time.monotonic() > end_s

        if agent.name not in self._heals:
            until(proves, "a proof, or the end of the wait")

    # --- what can happen ---

    def _of_process(self, owner: Hub | Agent, start: Heal) -> list[tuple[str, Callable[[], Heal]]]:
        def killed(number: signal.Signals) -> Heal:
            assert owner.process is not None
            code = owner.process.kill(number)
            # An agent that has only just been started may not listen to SIGTERM yet.
            assert code in ({-number} if number is signal.SIGKILL else {0, -number}), owner.process.text()[-3000:]
            return start

        def frozen() -> Heal:
            assert owner.process is not None
            pid = owner.process.pid
            os.kill(pid, signal.SIGSTOP)
            return functools.partial(os.kill, pid, signal.SIGCONT)

        kill = ("killed", functools.partial(killed, signal.SIGKILL))
        return [kill, kill, ("stopped", functools.partial(killed, signal.SIGTERM)), ("frozen", frozen)]

    def _of_worker(self, agent: Agent) -> list[tuple[str, Callable[[], Heal]]]:
        def signalled(first: signal.Signals, then: signal.Signals | None = None) -> Heal:
            pids = workers_of(agent)
            send(first, pids)
            return functools.partial(send, then, pids)

        return [
            ("killed", functools.partial(signalled, signal.SIGKILL)),
            ("drained", functools.partial(signalled, signal.SIGTERM)),
            ("frozen", functools.partial(signalled, signal.SIGSTOP, signal.SIGCONT)),
            ("frozen, then killed", functools.partial(signalled, signal.SIGSTOP, signal.SIGKILL)),
        ]

    def _of_line(self, line: FaultyLine) -> list[tuple[str, Callable[[], Heal]]]:
        def faulty(fault: Callable[[], None], *, cut: bool = False) -> Heal:
            def heal() -> None:
                line.heal()
                if cut:
                    line.reset()

            fault()
            return heal

        return [
            ("reset", functools.partial(faulty, line.reset)),
            ("cut in mid-frame", functools.partial(faulty, line.cut_in_mid_frame)),
            ("drips", functools.partial(faulty, line.drip)),
            ("holds upwards", functools.partial(faulty, functools.partial(line.hold, UP))),
            ("holds downwards", functools.partial(faulty, functools.partial(line.hold, DOWN))),
            ("holds downwards, then cut", functools.partial(faulty, functools.partial(line.hold, DOWN), cut=True)),
            ("holds both ways, then cut", functools.partial(faulty, functools.partial(line.hold, UP, DOWN), cut=True)),
        ]


def in_mid_proof(begin: Callable[[], None], fault: Callable[[], Heal]) -> Heal:
    begin()
    return fault()


def workers_of(agent: Agent) -> list[int]:
    """The pids of the agent's worker processes."""
    return [pid for pid, words in processes_of(agent.folder) if "worker" in words]


def processes_of(folder: Path) -> list[tuple[int, list[str]]]:
    """(pid, argv) of every process that names the folder, or a file in it, in its command line."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(
            Path(word).is_relative_to(folder) for word in words if word.startswith("/")
        ):
            found.append((process.info["pid"], words))
    return found


def send(number: signal.Signals | None, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number or 0)


@pytest.fixture
def kept(rig: Rig, request: pytest.FixtureRequest) -> Iterator[None]:
    """What a failed run left is put where it can be looked at."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        rig.stop()
        shutil.copytree(
            rig.folder,
            ROOT / "build" / f"chaos-{SEED}",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("*.sock", "artifacts", "*.key", "admin-token", "hub.secret", "token-*"),
        )


@pytest.mark.long
@pytest.mark.timeout(DURATION_S + HEAL_S + 200)
@pytest.mark.usefixtures("kept")
def test_nothing_is_lost_or_doubled_whoever_is_killed_and_whenever(rig: Rig) -> None:
    print(f"PROVEWIRE_CHAOS_SEED={SEED} PROVEWIRE_CHAOS_S={DURATION_S:g}")  # noqa: T201 - shown on failure
    hub = rig.hub("hub", port=0, **HUB)
    hub.register()
    kinds = {name: hub.upload(witness(name)) for name in ("merkle8.wtns", "merkle8_other.wtns")}
    kinds["bad"] = hub.upload(bad_witness())
    agents = [rig.agent("node-a"), rig.agent("node-b")]
    with ExitStack() as stack:
        lines = [stack.enter_context(FaultyLine(hub.port)) for _ in agents]
        for agent, line in zip(agents, lines, strict=True):
            token = hub.enroll_token(hub.folder)
            agent.start(hub, "--hub", line.url, "--token-file", str(token))
        for agent in agents:
            hub.wait_node(agent.name)
            agent.wait_worker()
        chaos = Chaos(random.Random(SEED), hub, agents, lines)
        client = stack.enter_context(Client(hub, kinds))

        def check() -> None:
            assert client.failure is None, client.failure

        chaos.run(DURATION_S, check)
        chaos.heal()
        client.stop()
        check()
        for agent in agents:
            hub.wait_node(agent.name)
        until(lambda: client.look() or len(client.ended) == len(client.kinds), "every job to end", HEAL_S)  # type: ignore[func-returns-value]
        until(lambda: at_rest(hub, agents), "the fleet to be at rest", HEAL_S)
        print(f"{len(client.kinds)} jobs, {chaos.done.total()} faults: {dict(chaos.done)}")  # noqa: T201
        check_jobs(hub, client)
        check_store(hub, client)
        check_processes(hub, agents)
        check_logs(rig, hub)


def at_rest(hub: Hub, agents: list[Agent]) -> bool:
    """Nothing is under way: no job, nothing in an outbox, one idle worker and one session of each node."""
    nodes = hub.nodes()
    for agent in agents:
        status = agent.status()
        if (
            status is None
            or status["hub"]["state"] != "open"
            or status["hub"]["session"] != nodes[agent.name]["session"]
            or nodes[agent.name]["state"] != "online"
            or status["jobs"]
            or status["outbox"]["events_held"]
            or [worker["state"] for worker in status["workers"]] != ["idle"]
            or workers_of(agent) != [status["workers"][0]["pid"]]
            or any((agent.folder / "workers" / "host" / "ended").iterdir())
        ):
            return False
    assert hub.process is not None
    return not psutil.Process(hub.process.pid).children()


def check_jobs(hub: Hub, client: Client) -> None:
    vkey = vkey_from_json((CIRCUITS / "merkle8_verification_key.json").read_text())
    publics, outcomes_seen = {}, Counter[str]()
    for name in ("merkle8.wtns", "merkle8_other.wtns"):
        with Witness.open(CIRCUITS / name) as opened:
            publics[name] = opened.public(len(vkey.ic) - 1)
    for job, kind in client.kinds.items():
        ended = hub.job(job)
        outcomes = [attempt["outcome"] for attempt in ended["attempts"]]
        outcomes_seen.update(f"{one['outcome']}: {one['detail'][:60]}" for one in ended["attempts"])
        if kind == "bad":
            assert ended["state"] == "failed", ended
            assert CODE_REFUSED in [attempt["code"] for attempt in ended["attempts"]], ended
            assert "done" not in outcomes
            continue
        assert ended["state"] == "done", ended
        assert outcomes.count("done") == 1, ended
        assert all(outcomes), ended  # no attempt is left under way
        public = [int(value) for value in hub.call("GET", f"jobs/{job}/public")]
        assert public == publics[kind]
        proof = proof_from_json(json.dumps(hub.call("GET", f"jobs/{job}/proof")))
        assert verify(vkey, public, proof), ended
    print(f"attempts: {dict(outcomes_seen.most_common())}")  # noqa: T201


def check_store(hub: Hub, client: Client) -> None:
    """Every stream without holes or doubles; every attempt with one result at most; one open session of each node."""
    with contextlib.closing(sqlite3.connect(f"file:{hub.folder / 'hub.sqlite'}?mode=ro", uri=True)) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        heads = {
            (agent, epoch, stream): seq
            for agent, epoch, stream, seq in store.execute("SELECT agent_id, epoch, stream, seq FROM stream_heads")
        }
        seen: dict[tuple[str, str, str], int] = {}
        results: Counter[tuple[str, int]] = Counter()
        rows = "SELECT agent_id, epoch, stream, seq, packed FROM events ORDER BY agent_id, epoch, stream, seq"
        for agent, epoch, stream, seq, packed in store.execute(rows):
            body = decode_event(packed).body
            first = body.first if isinstance(body, Gap) else seq
            assert first == seen.get((agent, epoch, stream), 0) + 1, (agent, epoch, stream, seq)
            seen[agent, epoch, stream] = seq
            if isinstance(body, JobSucceeded):
                results[body.job, body.attempt] += 1
        assert seen == {key: seq for key, seq in heads.items() if seq}
        assert not {key: count for key, count in results.items() if count > 1}
        assert {job for (job,) in store.execute("SELECT id FROM jobs")} == client.kinds.keys()
        open_sessions = "SELECT count(*) FROM sessions WHERE closed_at_ms IS NULL GROUP BY agent_id"
        assert store.execute(open_sessions).fetchall() == [(1,), (1,)]


def check_processes(hub: Hub, agents: list[Agent]) -> None:
    bounds: list[tuple[Hub | Agent, int]] = [(hub, HUB_RSS_BYTES_MAX)]
    bounds += [(agent, AGENT_RSS_BYTES_MAX) for agent in agents]
    for owner, rss_bytes_max in bounds:
        assert owner.process is not None
        process = psutil.Process(owner.process.pid)
        rss_bytes, descriptors = process.memory_info().rss, process.num_fds()
        print(f"{owner.process.name}: {rss_bytes / 1024**2:.0f} MiB, {descriptors} descriptors")  # noqa: T201
        assert rss_bytes < rss_bytes_max
        assert descriptors < DESCRIPTORS_MAX
    for agent in agents:
        assert agent.process is not None
        pids = {pid for pid, _ in processes_of(agent.folder)}
        assert pids == {agent.process.pid, *workers_of(agent)}


def check_logs(rig: Rig, hub: Hub) -> None:
    """No fault of ours, and no secret, in any log."""
    for path in rig.folder.rglob("*.log"):
        text = path.read_text(errors="replace")
        for words in (*LOGGED_FAULTS, hub.token, "pwj.", "pw1."):
            assert words not in text, f"{path.name} says {words!r}: {text[max(0, text.index(words) - 1500) :][:4000]}"
