"""A node of the drills: a network, processes and mounts of its own, an sshd on port 22, a supervised agent."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.drills.network import HUB, NET, plug_in
from tests.e2e.node_world import NodeWorld
from tests.e2e.rig import PROVEWIRE, ROOT, Hub, Process, Rig, until
from tests.hub.ssh.sshd import SSHD, make_key

SSH_PORT = 22
DATA_DISK = "32m"
"""Of a node whose data directory has a disk of its own."""


class DrillNode(NodeWorld):
    """One node.

    Args:
        rig: of the drills.
        name: of the node.
        number: the last part of its address.
        more: options of its agent.
        environ: of its processes, beside the usual.
        own_disk: its data directory has a small file system of its own.
        boot_id: what it takes for the machine's boot id; else it is this machine's.
    """

    def __init__(
        self,
        rig: Rig,
        name: str,
        number: int,
        *more: str,
        environ: Mapping[str, str] | None = None,
        own_disk: bool = False,
        boot_id: str = "",
    ) -> None:
        super().__init__(rig, name)
        self._env = {**self._env, **(environ or {})}
        self.port = SSH_PORT
        self.number = number
        self._more = more
        self._own_disk = own_disk
        self._boot_id = boot_id

    @property
    def address(self) -> str:
        return f"{NET}.{self.number}"

    @property
    def target(self) -> str:
        return f"root@{self.address}:{SSH_PORT}"

    def start(self, hub: Hub, *more: str) -> Self:
        """The whole world: network, sshd, and the supervisor with its agent."""
        agent = [
            "agent",
            "--hub",
            f"http://{HUB}:{hub.port}",
            "--insecure",
            "--data-dir",
            str(self.folder),
            "--name",
            self.name,
        ]
        agent += ["--device", "host", "--local", "off", "--ssh-address", self.address, *self._more, *more]
        return self.begin([f"{shlex.join([sys.executable, *PROVEWIRE, 'supervise', *agent])} &"])

    def begin(self, commands: list[str]) -> Self:
        """The world with its sshd and these commands in it."""
        world, data = shlex.quote(str(self.world)), shlex.quote(str(self.folder))
        passwd = Path("/etc/passwd").read_text().splitlines()
        mine = [f"root:x:0:0:root:{self.home}:/bin/sh" if line.startswith("root:") else line for line in passwd]
        (self.world / "passwd").write_text("\n".join(mine) + "\n")
        config = self.world / "drill_sshd_config"
        config.write_text(
            f"Port {SSH_PORT}\nHostKey {self.host_key}\nPidFile none\nLogLevel VERBOSE\nUsePAM no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        )
        lines = [
            "set -e",
            f"mount --bind {world}/passwd /etc/passwd",
            "mkdir -p /run/sshd",
            f"export HOME={world}/home",
            "until ip -4 addr show dev eth0 2>/dev/null | grep -q 'inet '; do sleep 0.05; done",
        ]
        if self._own_disk:
            lines += [f"mkdir -p {data}", f"mount -t tmpfs -o size={DATA_DISK},mode=700 none {data}"]
        if self._boot_id:
            (self.world / "boot_id").write_text(f"{self._boot_id}\n")
            lines.append(f"mount --bind {world}/boot_id /proc/sys/kernel/random/boot_id")
        lines += [f"{SSHD} -D -e -f {config} 2>>{world}/sshd.log &", *commands, "wait"]
        argv = ["unshare", "--net", *self._namespaces, "sh", "-c", "\n".join(lines)]
        self.process = Process(
            self._rig, self.name, ["-c", f"import os; os.execvp('unshare', {argv!r})"], self._log, self._env
        )
        plug_in(self.process.pid, self.address)
        return self

    def join(self, hub: Hub, *more: str) -> Self:
        """Start with a token, and wait until the hub hears it; its way in is set, its host key pinned."""
        self.start(hub, "--token-file", str(hub.enroll_token(self.world)), *more)
        hub.wait_node(self.name)
        self.has_target(hub, hub.nodes()[self.name]["id"])
        return self

    def has_target(self, hub: Hub, node: str) -> None:
        hub.call("PUT", f"nodes/{node}/ssh", {"target": self.target, "host_keys": [self.host_key_text]})

    def gone(self) -> None:
        """As if the machine were switched off: every process at once, and its network with them."""
        assert self.process is not None
        self.process.kill()
        until(lambda: not self.processes("agent"), f"{self.name} to be gone")

    def new_host_key(self) -> None:
        """The machine is made anew."""
        for path in (self.host_key, self.host_key.with_name(f"{self.host_key.name}.pub")):
            path.unlink()
        make_key(self.host_key)

    def kill_agent(self) -> None:
        """The supervisor too: nothing at the node starts an agent again."""
        for kind in ("supervise", "agent"):
            for pid in self.processes(kind):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.processes("agent"), f"{self.name}'s agent to be gone")

    def inside(self, path: Path) -> Path:
        """A path of the node's, as this machine sees it: its mounts are its own."""
        return Path(f"/proc/{self.processes('agent')[0]}/root{path}")

    def runs(self, *argv: str) -> "subprocess.Popen[bytes]":
        """Another process in the node's network."""
        assert self.process is not None
        child = subprocess.Popen(
            ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", sys.executable, *argv],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self._rig.children.append(child)
        return child
