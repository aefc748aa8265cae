"""A node under a real systemd: booted by systemd-nspawn, installed as docs/operations.md says, with an sshd as a unit.

Its root is a folder with this machine's /usr, read-only; the network is this machine's, so that hub and node meet on
loopback. Each has control groups of its own: two systemds in one would end each other's processes.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import psutil

from tests.e2e import wheels
from tests.e2e.node_world import NodeWorld
from tests.e2e.rig import ROOT, Hub, Process, Rig, until
from tests.hub.ssh.sshd import SSHD

NSPAWN = shutil.which("systemd-nspawn")
MISSING = "systemd-nspawn is missing: apt-get install systemd-container"
PYTHON, LIBRARIES = "/opt/python", "/opt/libraries"
"""Where the node finds this interpreter and the libraries: the units see no home directories."""
DATA = "var/lib/provewire/agent"
GROUPS = Path("/sys/fs/cgroup")
UNIT = """[Service]
ExecStart={sshd} -D -e -f /etc/ssh/sshd_config
RuntimeDirectory=sshd
KillMode=process
[Install]
WantedBy=multi-user.target
"""
"""The sshd's. KillMode, as distributions have it: what a login started outlives the daemon."""
INSTALL = """set -e
ldconfig
{environment}
systemd-sysusers
chown -R provewire:provewire /var/cache/provewire /var/lib/provewire
chown root:provewire /etc/provewire/token
systemctl --quiet enable sshd provewire-agent provewire-worker@host
"""


def why_not(folder: Path) -> str:
    """Why no systemd can be booted here, in one sentence; empty where it can."""
    if NSPAWN is None:
        return MISSING
    if os.geteuid() != 0:
        return "a node with a systemd of its own needs root"
    groups = own_groups(folder.name)
    make_tree(folder)
    try:
        argv = ["sh", "-c", " && ".join([*entered(groups), f"exec {shlex.join([*nspawn(folder, {}), 'true'])}"])]
        tried = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    finally:
        remove(groups)
    words = tried.stderr.strip().splitlines()
    return f"systemd-nspawn does not run here: {words[-1] if words else tried.returncode}" if tried.returncode else ""


def own_groups(name: str) -> list[Path]:
    """Control groups of one node's own, in each hierarchy that systemd keeps its units in."""
    hierarchies = [GROUPS] if (GROUPS / "cgroup.controllers").exists() else [GROUPS / "systemd", GROUPS / "unified"]
    return [folder / f"provewire-test-{name}" for folder in hierarchies if folder.is_dir()]


def entered(groups: list[Path]) -> list[str]:
    """Commands that put a shell into them."""
    return [f"mkdir -p {group} && echo $$ > {group}/cgroup.procs" for group in groups]


def remove(groups: list[Path]) -> None:
    """The groups, and whatever still runs in them: a systemd outlives an nspawn that is killed."""

    def gone() -> bool:
        for folder in (Path(inner) for group in groups for inner, _, _ in os.walk(group, topdown=False)):
            with contextlib.suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                folder.rmdir()
        return not any(group.exists() for group in groups)

    until(gone, "the control groups to be empty")


def make_tree(root: Path) -> None:
    """The folders of a root whose /usr is this machine's."""
    for folder in ("etc", "usr", "run", "tmp", "proc", "sys", "dev", "opt", "wheels"):
        (root / folder).mkdir(exist_ok=True)
    for name in filter(lambda name: Path("/", name).is_symlink(), ("bin", "sbin", "lib", "lib64")):
        (root / name).symlink_to(f"usr/{name}")
    shutil.copyfile("/etc/os-release", root / "etc" / "os-release")


def nspawn(root: Path, binds: dict[str, str]) -> list[str]:
    """Runs what follows in this root, with these folders of this machine in it."""
    words = [str(NSPAWN), "--quiet", "--register=no", "--keep-unit", "-D", str(root), "--bind-ro=/usr"]
    return [*words, *(f"--bind-ro={outside}:{inside}" for outside, inside in binds.items())]


class SystemdNode(NodeWorld):
    """One node; its agent, its worker and its sshd are units."""

    wheel: Path
    dead_words = (  # what systemd learns first: that it ended, or that it has to stop
        "its unit is inactive (dead), result signal: restart it",
        "its unit is failed (failed), result signal: restart it",
    )
    again_words = "systemctl restart provewire-agent: done"

    def __init__(self, rig: Rig, wheel: Path, name: str = "node-a") -> None:
        self.root = rig.folder / name
        super().__init__(rig, name, home=self.root / "root", wheel=wheel)
        self.folder = self.root / DATA
        self._groups = own_groups(f"{rig.folder.name}-{name}")
        rig.at_end.append(lambda: remove(self._groups))

    def _make_root(self, hub: Hub, token: Path) -> None:
        root, etc = self.root, self.root / "etc"
        for folder in ("etc/ssh", "etc/systemd/system", "etc/sysusers.d", "etc/provewire", "var/cache/provewire", DATA):
            (root / folder).mkdir(parents=True, exist_ok=True)
        make_tree(root)
        (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nsshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n")
        (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
        (etc / "ld.so.conf").write_text(f"{PYTHON}/lib\ninclude /etc/ld.so.conf.d/*.conf\n")
        (etc / "machine-id").touch()
        for name in ("ld.so.conf.d", "alternatives"):
            shutil.copytree(Path("/etc", name), etc / name, symlinks=True)
        shutil.copyfile(self.host_key, etc / "ssh" / "host_key")
        (etc / "ssh" / "host_key").chmod(0o600)
        (etc / "ssh" / "sshd_config").write_text(self.sshd_config("/etc/ssh/host_key"))
        self._configure(hub, token)

    def _configure(self, hub: Hub, token: Path) -> None:
        """What docs/operations.md has whoever installs a node write and copy."""
        etc = self.root / "etc"
        units = etc / "systemd" / "system"
        (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
        (units / "sshd.service").write_text(UNIT.format(sshd=SSHD))
        for name in ("console-getty.service", "systemd-logind.service", "systemd-update-utmp.service"):
            (units / name).symlink_to("/dev/null")  # nobody sits at it
        for unit in (ROOT / "systemd").glob("*.service"):
            shutil.copyfile(unit, units / unit.name)
        shutil.copyfile(ROOT / "systemd" / "provewire.sysusers.conf", etc / "sysusers.d" / "provewire.conf")
        shutil.copyfile(token, etc / "provewire" / "token")
        (etc / "provewire" / "token").chmod(0o640)
        settings = {"HUB": hub.url, "TOKEN_FILE": "/etc/provewire/token", "NAME": self.name, "LOCAL": "off"}
        lines = [f"PROVEWIRE_{key}={value}\n" for key, value in settings.items()]
        (etc / "provewire" / "agent.env").write_text("".join(lines))
        # Kernels that this machine has built already are not built once more for every node.
        cache = Path(self._env["XDG_CACHE_HOME"]) / "provewire"
        if cache.is_dir():
            shutil.copytree(cache, self.root / "var" / "cache" / "provewire", dirs_exist_ok=True)

    def start(self, hub: Hub, *more: str) -> Self:
        """Install, and boot."""
        token = Path(more[more.index("--token-file") + 1])
        self._make_root(hub, token)
        program = Path("/opt/provewire")
        made = wheels.environment(Path("/wheels", self.wheel.name), program, f"{PYTHON}/bin/python3", LIBRARIES)
        install = INSTALL.format(environment=made)
        binds = {sys.base_prefix: PYTHON, wheels.LIBRARIES: LIBRARIES, str(self.wheel.parent): "/wheels"}
        run = nspawn(self.root, binds)
        steps = [
            *entered(self._groups),
            shlex.join([*run, "sh", "-c", install]),
            f"exec {shlex.join([*run, '--boot', '--kill-signal=SIGRTMIN+3'])}",
        ]
        argv = ["-c", f"import os; os.execvp('sh', {['sh', '-c', ' && '.join(steps)]!r})"]
        self.process = Process(self._rig, self.name, argv, self._log, self._env)
        return self

    # --- what runs in it

    def _inside(self) -> dict[int, list[str]]:
        """Its processes, by their numbers outside of it."""
        assert self.process is not None
        own = Path("/proc/self/ns/pid").readlink()
        found = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, OSError):
                    if Path(f"/proc/{process.pid}/ns/pid").readlink() != own:
                        found[process.pid] = process.cmdline()
        return found

    def processes(self, kind: str) -> list[int]:
        """The living processes of one kind."""
        return [pid for pid, words in self._inside().items() if words[1:3] == ["/opt/provewire/bin/provewire", kind]]

    def kill_agent(self) -> None:
        """And have systemd not start it again."""
        for pid in self.processes("agent"):
            os.kill(pid, signal.SIGKILL)
        self.systemctl("stop", "provewire-agent")

    def _mine(self) -> Iterable[int]:
        return self._inside()

    def group_of(self, pid: int) -> str:
        """The control group of a process, below the node's own."""
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        kept = [line for line in lines if ":name=systemd:" in line] or lines  # of two hierarchies, the one in use
        return kept[0].rpartition(":")[2].partition(self.name)[2]

    def systemctl(self, *words: str) -> str:
        """As an operator on the node would."""
        argv = ["nsenter", "--target", str(min(self._inside())), "--all", "systemctl", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout
