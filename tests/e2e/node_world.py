"""A node of its own on this machine: its own processes, its own /etc/passwd and home, an sshd, a supervised agent.

Made of namespaces, for which root is needed. The network is this machine's, so that hub and node meet on loopback.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import psutil
import pytest

from tests.e2e.rig import PROVEWIRE, Agent, Hub, Process, Rig, until
from tests.e2e.wheels import environment
from tests.hub.ssh.sshd import MISSING, SSHD, free_port, make_key


def _may() -> bool:
    if os.geteuid() != 0 or SSHD is None:
        return False
    tried = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "mount", "--bind", "/etc/passwd", "/etc/passwd"],
        capture_output=True,
        check=False,
        timeout=20,
    )
    return tried.returncode == 0


needs_node_world = pytest.mark.skipif(
    not _may(), reason=MISSING if SSHD is None else "a node of its own needs root and namespaces"
)


class NodeWorld(Agent):
    """One node.

    Args:
        rig: of the test.
        name: of the node.
        home: of its root, where that is not a folder of its own.
        wheel: what it has installed, in a virtual environment of its own; else it runs this tree.
    """

    dead_words: tuple[str, ...] = ("it does not run, and nothing supervises it",)
    """What the hub says of its killed agent."""
    again_words = "neither agent nor supervisor runs; started again by "
    """What the hub says when it has started it again."""

    def __init__(self, rig: Rig, name: str = "node-a", home: Path | None = None, wheel: Path | None = None) -> None:
        # Kernels that this machine has built already are not built once more for every node.
        super().__init__(rig, {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}, name)
        self.world = rig.folder / f"{name}-world"
        self.home = home or self.world / "home"
        self.wheel = wheel
        self.port = free_port()
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self.authorized_keys = self.home / ".ssh" / "authorized_keys"
        self.authorized_keys.touch(mode=0o600)
        self.world.mkdir(exist_ok=True)
        self.host_key = make_key(self.world / "host_key")
        passwd = Path("/etc/passwd").read_text().splitlines()
        mine = [f"root:x:0:0:root:{self.home}:/bin/sh" if line.startswith("root:") else line for line in passwd]
        (self.world / "passwd").write_text("\n".join(mine) + "\n")
        (self.world / "sshd_config").write_text(self.sshd_config(str(self.host_key)))

    def sshd_config(self, host_key: str) -> str:
        """Its sshd's, whose host key lies there."""
        settings = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "HostKey": host_key,
            "PidFile": "none",
            "LogLevel": "VERBOSE",
            "UsePAM": "no",
            "PermitRootLogin": "prohibit-password",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items())

    def has_environment(self, more: dict[str, str]) -> None:
        """For its processes, before they start."""
        self._env.update(more)

    def configure_sshd(self, *lines: str) -> None:
        """More lines for its sshd, before it starts."""
        with (self.world / "sshd_config").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    @property
    def host_key_text(self) -> str:
        return " ".join(self.host_key.with_suffix(".pub").read_text().split()[:2])

    def start(self, hub: Hub, *more: str) -> Self:
        """The whole world: sshd, and the supervisor with its agent."""
        agent = ["agent", "--hub", hub.url, "--data-dir", str(self.folder), "--name", self.name]
        agent += ["--device", "host", "--local", "off", *more]
        python, installed = sys.executable, "true"
        if self.wheel is not None:
            own = self.world / "venv"
            python, installed = f"{own}/bin/python", f"cd / && unset PYTHONPATH && {environment(self.wheel, own)}"
        supervise = shlex.join([python, *PROVEWIRE, "supervise", *agent])
        world = shlex.quote(str(self.world))
        sshd = f"{SSHD} -D -e -f {world}/sshd_config 2>>{world}/sshd.log"
        prepared = f"mount --bind {world}/passwd /etc/passwd && mkdir -p /run/sshd && export HOME={world}/home"
        script = f"{prepared} && {installed} && {{ {sshd} & }} && {{ {supervise} & }} && wait"
        argv = ["-c", f"import os; os.execvp('unshare', {['unshare', *self._namespaces, 'sh', '-c', script]!r})"]
        self.process = Process(self._rig, self.name, argv, self._log, self._env)
        return self

    _namespaces = ("--pid", "--fork", "--kill-child", "--mount-proc")

    def join(self, hub: Hub, *more: str) -> Self:
        """Start with a token, and wait until the hub hears it; its way in is set, its host key pinned."""
        self.start(hub, "--token-file", str(hub.enroll_token(self.world)), *more)
        hub.wait_node(self.name)
        self.wait_worker()
        self.has_target(hub, hub.nodes()[self.name]["id"])
        return self

    def has_target(self, hub: Hub, node: str) -> None:
        body = {"target": f"root@127.0.0.1:{self.port}", "host_keys": [self.host_key_text]}
        hub.call("PUT", f"nodes/{node}/ssh", body)

    def processes(self, kind: str) -> list[int]:
        """The living processes of one kind in this world, by their numbers outside of it."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            ours = str(self.folder) in " ".join(words) and words[3:4] == [kind] and words[1:2] == ["-m"]
            if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        return found

    def kill_agent(self) -> None:
        """With the supervisor: nothing here starts an agent again."""
        for kind in ("supervise", "agent"):
            for pid in self.processes(kind):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.processes("agent"), "the agent to be gone")

    def _mine(self) -> Iterable[int]:
        """Processes that may be of this world."""
        return [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if str(self.folder) in " ".join(process.info["cmdline"] or [])
        ]

    def wait_worker(self, states: tuple[str, ...] = ("idle", "proving")) -> int:
        """The worker's pid as this machine has it."""
        inside = super().wait_worker(states)

        def outside() -> int | None:
            for pid in self._mine():
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
                if line.split()[-1:] == [str(inside)]:
                    return pid
            return None

        return until(outside, "the worker's number outside") or 0

    def wait_agent(self, other_than: int) -> int:
        """The agent's process, once it is another one."""
        return until(lambda: next((pid for pid in self.processes("agent") if pid != other_than), 0), "a new agent")
