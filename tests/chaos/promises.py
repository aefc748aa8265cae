"""What must hold when a fleet is at rest again, checked against what its players say they emitted.

Each check returns how many things it looked at, and raises `Broken` with what it found.
"""

import contextlib
import json
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.traffic import number_of
from prover.formats.snarkjson import proof_from_json, vkey_from_json
from prover.formats.wtns import Witness
from prover.verify import verify
from tests.chaos.client import GOOD, Client
from tests.chaos.driven import KIND
from tests.chaos.faults import Chaos, Hit
from tests.chaos.fleet import Fleet, Machine
from tests.e2e.rig import CIRCUITS, Agent, Rig, until
from wire.codec import decode_event
from wire.frames import Gap, JobSucceeded, NodeEvent, Stream

BACK_S = 60.0
"""Within this everyone is online again and all is acknowledged."""
JOBS_S = 150.0
"""Leases run out, backoffs end, what waits is proved."""
CODE_REFUSED = 4
HUB_RSS_BYTES_MAX = 300 * 1024**2
AGENT_RSS_BYTES_MAX = 150 * 1024**2
AGENT_DESCRIPTORS_MAX = 100
FAULTS_LOGGED = ("Traceback", "a session failed", "a part of the hub failed", "did not stop in time")
SECRETS = ("pwj.", "pw1.")
METRIC = re.compile(r'^(\w+)\{(?:queue|part)="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE)


class Broken(AssertionError):
    """A promise that was not kept."""


def keep(kept: object, what: object) -> None:
    if not kept:
        raise Broken(what)


@contextlib.contextmanager
def store_of(fleet: Fleet) -> Iterator[sqlite3.Connection]:
    """The hub's store as it is at one moment: real agents go on to ship their own logs."""
    path = fleet.hub.folder / "hub.sqlite"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as store:
        store.execute("BEGIN")
        yield store


def nodes_of(fleet: Fleet) -> list[dict[str, Any]]:
    """Every node the hub knows; of more than a page the rest would be missing, and be found missing."""
    nodes: list[dict[str, Any]] = fleet.hub.call("GET", "nodes?limit=500")["nodes"]
    return nodes


# --- coming to rest ---


def everyone_back(fleet: Fleet) -> float:
    """Wait until every node is online and everything emitted is acknowledged; the seconds it took."""
    began_s = time.monotonic()
    for players in fleet.players:
        players.call(players.swarm.hush)
    for machine in fleet.agents:
        quiet(fleet, machine)

    def back() -> bool:
        # The hub is asked last: the answer is long where the swarm is large.
        if any(players.swarm.held or players.swarm.open < players.swarm.count for players in fleet.players):
            return False
        states = Counter(node["state"] for node in nodes_of(fleet))
        return states == {"online": len(fleet.names)}

    try:
        until(back, "every node to be online and acknowledged", BACK_S)
    except AssertionError as error:
        standing = [players.swarm.standing() for players in fleet.players]
        away = {node["name"]: node["state"] for node in nodes_of(fleet) if node["state"] != "online"}
        raise Broken(f"{error}; {standing}; not online: {away}") from None
    return time.monotonic() - began_s


def quiet(fleet: Fleet, machine: Machine, *, on: bool = True) -> None:
    """Tell the test engine of a real agent to say nothing new, or to go on."""
    still = fleet.ledger(machine.name).with_suffix(".quiet")
    still.touch() if on else still.unlink(missing_ok=True)


def at_rest(fleet: Fleet) -> bool:
    """Nothing is under way: no job, nothing in an outbox, one idle worker and one session of each real node."""
    nodes = {node["name"]: node for node in nodes_of(fleet)}
    for machine in fleet.agents:
        assert isinstance(machine.daemon, Agent)
        status = machine.daemon.status()
        if (
            status is None
            or status["hub"]["state"] != "open"
            or status["hub"]["session"] != nodes[machine.name]["session"]
            or nodes[machine.name]["state"] != "online"
            or status["jobs"]
            or any(status["streams"][stream]["events"] for stream in ("events", "jobs"))
            or [worker["state"] for worker in status["workers"]] != ["idle"]
            or machine.workers() != [status["workers"][0]["pid"]]
            or any((machine.daemon.folder / "workers" / "host" / "ended").iterdir())
        ):
            return False
    return True


def jobs_ended(fleet: Fleet, client: Client) -> int:
    """Wait until every job has ended and the fleet is at rest; how many jobs."""
    try:
        until(client.look, "every job to end", JOBS_S)
        until(lambda: at_rest(fleet), "the fleet to be at rest", JOBS_S)
    except AssertionError as error:
        open_jobs = [fleet.hub.job(job) for job in client.kinds if job not in client.ended]
        states = [machine.daemon.status() for machine in fleet.agents if isinstance(machine.daemon, Agent)]
        raise Broken(f"{error}; open: {open_jobs}; agents: {states}") from None
    return len(client.kinds)


# --- what was said ---


def streams_whole(fleet: Fleet) -> int:
    """Every (agent, epoch, stream) without a hole, a double or a change of order, up to what was emitted."""
    emitted = {key: last for players in fleet.players for key, last in players.emitted().items()}
    swarm = {agent for agent, _, _ in emitted}
    with store_of(fleet) as store:
        stored = store.execute("SELECT agent_id, epoch, stream, seq FROM stream_heads")
        heads = {(agent, epoch, stream): seq for agent, epoch, stream, seq in stored}
        wrong = {key: (heads.get(key, 0), last) for key, last in emitted.items() if heads.get(key, 0) != last}
        keep(not wrong, f"heads differ from what was emitted: {wrong}")
        invented = [key for key in heads if key[0] in swarm and key not in emitted]
        keep(not invented, f"streams that nobody spoke: {invented}")
        seen: dict[tuple[str, str, str], int] = {}
        rows = "SELECT agent_id, epoch, stream, seq, packed FROM events ORDER BY agent_id, epoch, stream, seq"
        count = 0
        for agent, epoch, stream, seq, packed in store.execute(rows):
            count += 1
            body = decode_event(packed).body
            first = body.first if isinstance(body, Gap) else seq
            keep(first == seen.get((agent, epoch, stream), 0) + 1, f"a hole before {(agent, epoch, stream, seq)}")
            seen[agent, epoch, stream] = seq
            keep(agent not in swarm or number_of(body) == seq, f"{(agent, epoch, stream, seq)} holds {body}")
        count += logs_whole(store, swarm, seen)
        apart = {key: seq for key, seq in heads.items() if seq and key[2] != Stream.READINGS}
        keep(seen == apart, f"rows and heads differ: {set(seen.items()) ^ set(apart.items())}")
        return count + samples_whole(store, emitted)


def logs_whole(store: sqlite3.Connection, swarm: set[str], seen: dict[tuple[str, str, str], int]) -> int:
    count = 0
    rows = "SELECT agent_id, epoch, seq, gap, fields FROM logs ORDER BY id"
    for agent, epoch, seq, gap, fields in store.execute(rows):
        count += 1
        key = (agent, epoch, Stream.LOGS.value)
        keep(seq - (gap or 1) + 1 == seen.get(key, 0) + 1, f"a hole before log record {(agent, epoch, seq)}")
        seen[key] = seq
        keep(agent not in swarm or json.loads(fields)["n"] == seq, f"log record {(agent, epoch, seq)} holds {fields}")
    return count


def samples_whole(store: sqlite3.Connection, emitted: dict[tuple[str, str, str], int]) -> int:
    """As many samples of each swarm agent as it emitted."""
    expected: Counter[str] = Counter()
    for (agent, _, stream), last in emitted.items():
        if stream == Stream.READINGS:
            expected[agent] += last
    found = dict(store.execute("SELECT agent_id, count(*) FROM samples GROUP BY agent_id"))
    wrong = {agent: (found.get(agent, 0), n) for agent, n in expected.items() if found.get(agent, 0) != n}
    keep(not wrong, f"samples stored and emitted: {wrong}")
    return sum(expected.values())


def told_once(fleet: Fleet) -> int:
    """What the real agents' test engines said: all that was taken by an outbox is there, once, in order."""
    ids = {node["name"]: node["id"] for node in nodes_of(fleet)}
    count = 0
    with store_of(fleet) as store:
        for machine in fleet.agents:
            lines: dict[str, set[int]] = defaultdict(set)
            for line in fleet.ledger(machine.name).read_text().splitlines():
                word, number = line.split()
                lines[word].add(int(number))
            spans: dict[str, list[int]] = defaultdict(list)
            for epoch, packed in store.execute(
                "SELECT epoch, packed FROM events WHERE agent_id = ? AND stream = 'events' ORDER BY epoch, seq",
                (ids[machine.name],),
            ):
                body = decode_event(packed).body
                if isinstance(body, NodeEvent) and body.kind == KIND:
                    spans[epoch].append(int(body.detail))
            # Epochs by what was said in them: their ids are of a clock that this test moves.
            numbers = [number for said in sorted(spans.values()) for number in said]
            keep(len(set(numbers)) == len(numbers), f"{machine.name}: told twice: {Counter(numbers).most_common(3)}")
            missing = lines["done"] - set(numbers)
            keep(not missing, f"{machine.name}: lost {sorted(missing)[:10]} of {len(lines['done'])}")
            keep(not set(numbers) & lines["refused"], f"{machine.name}: refused and still sent")
            keep(set(numbers) <= lines["begun"], f"{machine.name}: never said: {set(numbers) - lines['begun']}")
            keep(numbers == sorted(numbers), f"{machine.name}: out of order: {numbers}")
            count += len(numbers)
    return count


# --- jobs ---


def jobs_once(fleet: Fleet, client: Client) -> int:
    """Every good job done with one proof that verifies, every bad one refused; no result twice."""
    vkey = vkey_from_json((CIRCUITS / "merkle8_verification_key.json").read_text())
    publics: dict[str, list[int]] = {}
    for name in GOOD:
        with Witness.open(CIRCUITS / name) as opened:
            publics[name] = opened.public(len(vkey.ic) - 1)
    for job, kind in client.kinds.items():
        ended = fleet.hub.job(job)
        outcomes = [attempt["outcome"] for attempt in ended["attempts"]]
        keep(all(outcomes), f"an attempt is left under way: {ended}")
        if kind == "bad":
            keep(ended["state"] == "failed" and "done" not in outcomes, ended)
            keep(CODE_REFUSED in [attempt["code"] for attempt in ended["attempts"]], ended)
            continue
        keep(ended["state"] == "done" and outcomes.count("done") == 1, ended)
        keep([int(value) for value in fleet.hub.call("GET", f"jobs/{job}/public")] == publics[kind], ended)
        proof = proof_from_json(json.dumps(fleet.hub.call("GET", f"jobs/{job}/proof")))
        keep(verify(vkey, publics[kind], proof), ended)
    with store_of(fleet) as store:
        results: Counter[tuple[str, int]] = Counter()
        for (packed,) in store.execute("SELECT packed FROM events WHERE stream = 'jobs'"):
            body = decode_event(packed).body
            if isinstance(body, JobSucceeded):
                results[body.job, body.attempt] += 1
        twice = {key: count for key, count in results.items() if count > 1}
        keep(not twice, f"results stored twice: {twice}")
        jobs = {job for (job,) in store.execute("SELECT id FROM jobs")}
        keep(jobs == client.kinds.keys(), f"jobs that differ from those handed in: {jobs ^ client.kinds.keys()}")
    return len(client.kinds)


# --- nodes ---


def no_duplicate_node(fleet: Fleet) -> int:
    names = Counter(node["name"] for node in nodes_of(fleet))
    keep(names == Counter(dict.fromkeys(fleet.names, 1)), f"nodes: {names - Counter(dict.fromkeys(fleet.names, 1))}")
    with store_of(fleet) as store:
        doubles = store.execute(
            "SELECT agent_id, count(*) FROM sessions WHERE closed_at_ms IS NULL GROUP BY agent_id HAVING count(*) > 1"
        ).fetchall()
        keep(not doubles, f"more than one open session: {doubles}")
    return len(names)


def nobody_lost_wrongly(fleet: Fleet, hits: list[Hit]) -> int:
    """Each node that was called lost had been out of reach for a reason of its own."""
    fleet.losses.look()
    for at_s, name in fleet.losses.found:
        own = any(
            name.startswith(hit.nodes) and hit.from_s < at_s and hit.to_s > at_s - fleet.lost_after_s - BACK_S
            for hit in hits
            if hit.nodes
        )
        keep(own, f"{name} was called lost at {at_s - fleet.began_s:.2f} s, and nothing had happened to it")
    return len(fleet.names)


def workers_unharmed(chaos: Chaos) -> int:
    """Every worker outlived the kills of its agent and of the hub, but those that something was done to themselves."""
    keep(not chaos.harmed, chaos.harmed)
    return chaos.survived


# --- bounds ---


def within_bounds(fleet: Fleet, rig: Rig) -> int:
    """Queues, memory, descriptors; no fault of our own, no secret in a log."""
    text = fleet.hub.request("GET", "/metrics", headers=fleet.hub.admin).body.decode()
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name, label, value in METRIC.findall(text):
        found[name][label] = float(value)
    depth, bound = found["provewire_queue_depth"], found["provewire_queue_bound"]
    keep(depth, "the hub shows no queue")
    over = {name: (depth[name], bound[name]) for name in depth if depth[name] > bound[name]}
    keep(not over, f"over their bounds: {over}")
    faults = {part: count for part, count in found["provewire_internal_faults_total"].items() if count}
    keep(not faults, f"internal faults: {faults}")
    for machine in (fleet.hub_machine, *fleet.agents):
        rss_bytes_max = HUB_RSS_BYTES_MAX if machine is fleet.hub_machine else AGENT_RSS_BYTES_MAX
        rss_bytes = psutil.Process(machine.pid).memory_info().rss
        keep(rss_bytes < rss_bytes_max, f"{machine.name} has {rss_bytes / 1024**2:.0f} MiB")
    for machine in fleet.agents:
        descriptors = psutil.Process(machine.pid).num_fds()
        keep(descriptors < AGENT_DESCRIPTORS_MAX, f"{machine.name} has {descriptors} descriptors")
    return len(depth) + logs_clean(rig, fleet)


def logs_clean(rig: Rig, fleet: Fleet) -> int:
    paths = [path for path in rig.folder.rglob("*.log") if "nginx" not in path.parts]
    for path in paths:
        check_log(path, (*FAULTS_LOGGED, *SECRETS, fleet.hub.token))
    return len(paths)


def check_log(path: Path, forbidden: tuple[str, ...]) -> None:
    text = path.read_text(errors="replace")
    for words in forbidden:
        at = text.find(words)
        keep(at < 0, f"{path.name} says {words!r}: {text[max(0, at - 1500) : at + 2500]}")


def integrity(fleet: Fleet) -> int:
    with store_of(fleet) as store:
        verdict: list[Any] = store.execute("PRAGMA integrity_check").fetchall()
        keep(verdict == [("ok",)], verdict)
    return 1
