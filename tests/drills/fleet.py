"""The fleet of the drills: one hub and six real agents; and the watching that finds a wrong word wherever it stands.

While a drill goes on every sentence and every line of the banner is read again and again: what is called certain and is
not what was broken fails the drill, whether it stands there at the end or for a moment.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from tests.agent.sensors.fake_nvml.library import FakeNvml
from tests.drills.node import DrillNode
from tests.drills.page import DrillPage
from tests.e2e.rig import PROVEWIRE, ROOT, Hub, Process, Rig, catch_in_mid_proof, until
from tests.hub.ssh.sshd import make_key

CUZK_PORT = 9821
CARDS = 8
RIGHT_S = 60.0
"""From when the trouble is known to when its cause is named right: what is promised."""
KNOWN_S = 30.0
"""For the trouble to be known at all: an agent's rounds, the hub's own tries of its ways."""
GREEN_S = 180.0
"""For a fleet to be well again; an agent that was refused knocks again within 90 s."""
COMMAND_S = 60
ASLEEP = frozenset({"worker_silent"})
"""What the prover's stopped worker is rightly called while a proof is held in the middle."""
RECORDS = ROOT / "build" / "drills.jsonl"

Sentence = dict[str, Any]


class DrillHub(Hub):
    """A hub on the drills' network."""

    def start(self) -> "DrillHub":
        (self.folder / "hub.json").unlink(missing_ok=True)
        argv = [*PROVEWIRE, "hub", "--listen", f"0.0.0.0:{self.port}", "--insecure", "--data-dir", str(self.folder)]
        self.process = process = Process(self._rig, "hub", argv, self._log, self._env)

        def listening() -> bool:
            process.check()
            return (self.folder / "hub.json").exists()

        until(listening, "the hub to listen")
        self.port = int(json.loads((self.folder / "hub.json").read_text())["url"].rsplit(":", 1)[1])
        return self

    def command(self, *words: str, code: int = 0) -> str:
        """A command at the hub, as an operator types it; what it prints."""
        name, *rest = words
        where = ["--data-dir", str(self.folder)]
        if name in {"ssh-target", "ssh-key"}:
            action, *rest = rest
            where = [action, *where]
        argv = [sys.executable, *PROVEWIRE, name, *where, *rest]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, timeout=COMMAND_S, env=env)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout


@dataclass
class Told:
    """What a drill showed, for the table in docs/drills.md."""

    drill: str
    where: str
    text: str = ""
    cause: str = ""
    certain: bool = False
    right_after_s: float = 0.0
    remedy: str = ""
    green_after_s: float = 0.0


@dataclass
class Drill:
    """One drill under way."""

    fleet: "Fleet"
    name: str
    node: str
    """Whose sentence is read; empty for the banner's first line."""
    certain: Mapping[str, frozenset[str]]
    """By node what may be called certain; ``""``: in the banner, and of every node."""
    known_s: float | None = None
    told: Told = field(init=False)

    def __post_init__(self) -> None:
        self.told = Told(self.name, f"sentence of {self.node}" if self.node else "banner")

    def look(self) -> tuple[dict[str, Sentence], list[Sentence]]:
        """Every sentence and the banner now; neither says anything wrong as certain."""
        sentences = {name: node["sentence"] for name, node in self.fleet.hub.nodes().items()}
        banner: list[Sentence] = self.fleet.hub.call("GET", "incidents")["banner"]
        everywhere = self.certain.get("", frozenset()) | ASLEEP
        for name, said in sentences.items():
            may = everywhere | self.certain.get(name, frozenset())
            wrong = said["certain"] and said["severity"] in {"warn", "bad"} and said["state"] not in may
            assert not wrong, (self.name, name, said)
        anywhere = everywhere.union(*self.certain.values())
        for line in banner:
            assert not line["certain"] or line["state"] in anywhere, (self.name, line)
        return sentences, banner

    def read(self) -> Sentence:
        """The node's sentence, or the banner's first line; nothing yet: an empty one."""
        sentences, banner = self.look()
        said = sentences.get(self.node, {}) if self.node else next(iter(banner), {})
        if self.known_s is None and said.get("severity") in {"warn", "bad"}:
            self.known_s = time.monotonic()
        return said

    def right(self, is_right: Callable[[Sentence], bool], what: str) -> Sentence:
        """Until the right cause is named, which is within a minute of the trouble being known."""
        last: Sentence = {}

        def named() -> bool:
            last.clear()
            last.update(self.read())
            return bool(last) and is_right(last)

        try:
            until(named, f"{self.name}: {what}", RIGHT_S + KNOWN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; the last word was {last}") from None
        assert self.known_s is not None
        after_s = time.monotonic() - self.known_s
        assert after_s <= RIGHT_S, (self.name, after_s, last)
        text = _words(last)
        self.told.text, self.told.cause, self.told.certain = text, last["cause"], last["certain"]
        self.told.remedy, self.told.right_after_s = last["remedy"], round(after_s, 1)
        if self.node:
            assert self.fleet.by_command(self.node)["state"] == last["state"]
        if self.fleet.page is not None:
            # Asked again and again: while more nodes follow, the count in the banner grows.
            self.fleet.page.shows(lambda: _words(self.read()), self.node)
        return dict(last)

    def green(self) -> None:
        """Until the whole fleet is well again, after what was proposed was done."""
        begun_s = time.monotonic()

        def well() -> bool:
            self.look()
            return not self.fleet.unwell()

        try:
            until(well, f"{self.name}: the fleet to be well again", GREEN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.fleet.unwell()}") from None
        self.told.green_after_s = round(time.monotonic() - begun_s, 1)


def _words(said: Sentence) -> str:
    """Of a sentence, or of a line of the banner."""
    return str(said.get("text") or said.get("headline", ""))


class Fleet:
    """Hub and nodes; ``only``: those of them."""

    def __init__(self, rig: Rig, only: Collection[str] = ()) -> None:
        self.rig = rig
        self.operators_key = make_key(rig.folder / "operators_key")
        env = {
            "PROVEWIRE_SSH_RUNTIME_DIR": str(rig.folder / "r"),
            "PROVEWIRE_SSH_DOCTOR_KEY": str(self.operators_key),
            "PROVEWIRE_HEARTBEAT_S": "1",
            "PROVEWIRE_STALE_AFTER_S": "3",
            "PROVEWIRE_LOST_AFTER_S": "5",
            "PROVEWIRE_SSH_PROBE_AFTER_S": "1",
            "PROVEWIRE_SSH_REHEARSE_S": "8",
            "PROVEWIRE_SSH_EXAMINE_S": "2",
            "PROVEWIRE_LEASE_S": "3600",
        }
        self.hub = DrillHub(rig, env, "hub").start()
        self.hub_key = self.hub.folder / "ssh" / "id_ed25519"
        self.nvml = FakeNvml(rig.folder / "scenario")
        cards = {key: self.nvml.environ[key] for key in ("LD_LIBRARY_PATH", "FAKE_NVML_SCENARIO")}
        observe = ("--observe", "--cuzk", "off")
        self.prover = DrillNode(rig, "prover", 11, "--cuzk", "off")
        self.fused = DrillNode(rig, "fused", 12, *observe)
        self.keyless = DrillNode(rig, "keyless", 13, *observe, own_disk=True)
        self.roamer = DrillNode(rig, "roamer", 14, *observe)
        self.cards = DrillNode(rig, "cards", 15, *observe, environ=cards)
        cuzk = ("--observe", "--cuzk", f"127.0.0.1:{CUZK_PORT}", "--cuzk-grpc", "off")
        self.cuzk = DrillNode(rig, "cuzk", 16, *cuzk)
        all_ = (self.prover, self.fused, self.keyless, self.roamer, self.cards, self.cuzk)
        self.nodes = tuple(node for node in all_ if not only or node.name in only)
        self.page: DrillPage | None = None
        """Read beside the interface and the command, where there is a browser."""
        self._failed = ""
        """The drill under way, or the one that failed."""
        self._daemon: subprocess.Popen[bytes] | None = None

    def begin(self) -> Self:
        """Everything up, every way in proved."""
        self.hub.register()
        for node in self.nodes:
            node.authorized_keys.write_text(f"{public_of(self.operators_key)}\n{public_of(self.hub_key)}\n")
            node.start(self.hub, "--token-file", str(self.hub.enroll_token(node.world)))
        if self.cuzk in self.nodes:
            self.start_daemon()
        for node in self.nodes:
            node.has_target(self.hub, self.hub.wait_node(node.name)["id"])
        self.prover.wait_worker()
        until(lambda: not self.unwell(), "the fleet to be well", GREEN_S)
        return self

    def start_daemon(self) -> None:
        """The cuzk-daemon of the node that has one."""
        self._daemon = self.cuzk.runs("-m", "tests.drills.cuzk_daemon", str(CUZK_PORT))

    def kill_daemon(self) -> None:
        assert self._daemon is not None
        os.killpg(self._daemon.pid, signal.SIGKILL)
        self._daemon.wait()

    def id(self, node: DrillNode) -> str:
        return str(self.hub.nodes()[node.name]["id"])

    def unwell(self) -> list[str]:
        """What is not as it should be, anywhere."""
        found = []
        for name, node in self.hub.nodes().items():
            said = node["sentence"]
            if said["severity"] in {"warn", "bad"} or node["lights"]["heard"]["state"] != "live":
                found.append(f"{name}: {said['text']}")
            elif name in {one.name for one in self.nodes} and node["fallback"]["state"] != "proved":
                found.append(f"{name}: {node['fallback']['sentence']}")
        return found + [line["headline"] for line in self.hub.call("GET", "incidents")["banner"]]

    def by_command(self, name: str) -> Sentence:
        """A node's sentence as ``provewire nodes --json`` has it."""
        told = json.loads(self.hub.command("nodes", "--json"))
        said: Sentence = next(node["sentence"] for node in told["nodes"] if node["name"] == name)
        return said

    @contextlib.contextmanager
    def drill(self, name: str, node: DrillNode | None, **certain: set[str]) -> Iterator[Drill]:
        """One drill, from a fleet that is well to one that is well again, with a proof held in the middle all along.

        Args:
            name: what is broken.
            node: whose sentence is to name it; None: the banner.
            certain: by node what may be called certain; ``everywhere``: of all.
        """
        assert not self._failed, f"not begun: the drill before it ({self._failed}) has left the fleet as it is"
        self._failed = name
        until(lambda: not self.unwell(), f"the fleet to be well before {name}", GREEN_S)
        may = {who if who != "everywhere" else "": frozenset(states) for who, states in certain.items()}
        drill = Drill(self, name, "" if node is None else node.name, may)
        job, worker = catch_in_mid_proof(self.hub, self.prover)
        try:
            yield drill
            assert psutil.Process(worker).status() == psutil.STATUS_STOPPED, "the worker was touched"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
        ended = self.hub.wait_job(job)
        assert ended["state"] == "done", ended
        assert len(ended["attempts"]) == 1, ended
        assert self.prover.wait_worker() == worker
        drill.green()
        RECORDS.parent.mkdir(exist_ok=True)
        with RECORDS.open("a") as out:
            out.write(json.dumps(asdict(drill.told), ensure_ascii=False) + "\n")
        self._failed = ""

    def does(self, said: Sentence, typed: str, *, asked: str = "") -> str:
        """Exactly the command that the remedy proposes; ``asked``: as it stands there, with words to be filled in."""
        assert f"`provewire {asked or typed}`" in said["remedy"], said
        return self.hub.command(*typed.split())

    def installs(self, node: DrillNode, said: Sentence) -> None:
        """The hub's key, as the remedy proposes it."""
        proposed = f"ssh-key install {node.name} --via-key KEY --yes"
        done = self.does(said, proposed.replace("KEY", str(self.operators_key)), asked=proposed)
        assert ": done: " in done, done
        assert public_of(self.hub_key) in node.authorized_keys.read_text().splitlines()

    # --- the hub's data

    def back_up(self) -> Path:
        """A copy of the store as it is now, made while the hub runs."""
        copy = self.rig.folder / "backup.sqlite"
        live = sqlite3.connect(self.hub.folder / "hub.sqlite")
        with contextlib.closing(live), contextlib.closing(sqlite3.connect(copy)) as kept:
            live.backup(kept)
        return copy

    def put_in_place(self, copy: Path, aside: str) -> None:
        """The store's files moved aside, a copy in their place; the hub does not run."""
        folder = self.rig.folder / aside
        folder.mkdir()
        for path in self.hub.folder.glob("hub.sqlite*"):
            path.rename(folder / path.name)
        (self.hub.folder / "hub.sqlite").write_bytes(copy.read_bytes())
        (self.hub.folder / "hub.sqlite").chmod(0o600)

    def put_back(self, aside: str) -> None:
        """The newest data again."""
        for path in self.hub.folder.glob("hub.sqlite*"):
            path.unlink()
        for path in (self.rig.folder / aside).iterdir():
            path.rename(self.hub.folder / path.name)


def public_of(path: Path) -> str:
    return path.with_name(f"{path.name}.pub").read_text("ascii").strip()
