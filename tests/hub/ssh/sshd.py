"""A real sshd on loopback, with keys of its own, and a hub's client that goes to it."""

import asyncio
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hub.clock import SystemClock
from hub.ssh.argv import Way
from hub.ssh.client import Client, Spoken
from hub.ssh.targets import Target

SSHD = next((path for path in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if Path(path).exists()), None)
MISSING = "sshd is missing: apt-get install openssh-server openssh-client"
needs_sshd = pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason=MISSING)
START_S = 10.0
DEADLINE_S = 15.0


def make_key(path: Path, *options: str, passphrase: str = "") -> Path:
    """A fresh key pair; Ed25519 unless ``options`` say otherwise."""
    kind = options or ("-t", "ed25519")
    subprocess.run(
        ["ssh-keygen", "-q", *kind, "-N", passphrase, "-C", path.name, "-f", str(path)], check=True, capture_output=True
    )
    return path


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Sshd:
    """One sshd of the test's own user."""

    def __init__(
        self,
        folder: Path,
        extra: Iterable[str] = (),
        port: int | None = None,
        around: Iterable[str] = (),
        ending: Iterable[str] = (),
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.port = port or free_port()
        self.host_key = folder / "host_key"
        if not self.host_key.exists():
            make_key(self.host_key)
        self.authorized_keys = folder / "authorized_keys"
        self.authorized_keys.touch(mode=0o600)
        self.log = folder / "sshd.log"
        self._extra = list(extra)
        self._around = list(around)
        """Before its command: a namespace of its own."""
        self._ending = list(ending)
        """Match blocks, which end the configuration."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> Target:
        return Target("127.0.0.1", self.port, getpass.getuser())

    @property
    def known_hosts_line(self) -> str:
        kind, key, *_ = self.host_key.with_suffix(".pub").read_text("ascii").split()
        return f"{self.target.known_host} {kind} {key}\n"

    def authorize(self, key: Path) -> None:
        with self.authorized_keys.open("a", encoding="ascii") as file:
            file.write(key.with_suffix(".pub").read_text("ascii"))

    def start(self) -> None:
        Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
        own = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {self.authorized_keys}",
            f"PidFile {self.folder / 'sshd.pid'}",
            "LogLevel VERBOSE",
            "UsePAM no",
            "PermitRootLogin yes",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "Subsystem sftp internal-sftp",
            # A node has our programs. One level deep, bash leaves out the ~/.bashrc of whoever runs these tests, which
            # may take more time than all the rest of a login.
            f"SetEnv PATH={Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin SHLVL=1",
        ]
        named = {line.split()[0] for line in self._extra}
        text = [*self._extra, *(line for line in own if line.split()[0] not in named)]
        config = self.folder / "sshd_config"
        config.write_text("\n".join([*text, *self._ending]) + "\n", encoding="ascii")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._around, str(SSHD), "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    async def listening(self) -> None:
        """Until the port answers."""
        async with asyncio.timeout(START_S):
            while True:
                assert self.process is not None
                assert self.process.poll() is None, self.log.read_text("utf-8", "replace")
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.02)  # the step of a wait with a deadline
                    continue
                writer.close()
                return

    def stop(self) -> None:
        if self.process is not None:
            # Its children, one for each connection, sit in sessions of their own.
            children = subprocess.run(
                ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
            ).stdout.split()
            for pid in [str(self.process.pid), *children]:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.wait()
            self.process = None


@asynccontextmanager
async def running(
    folder: Path, *extra: str, around: Iterable[str] = (), ending: Iterable[str] = ()
) -> AsyncIterator[Sshd]:
    """An sshd with these lines in its configuration, until the end."""
    server = Sshd(folder, extra, around=around, ending=ending)
    server.start()
    try:
        await server.listening()
        yield server
    finally:
        server.stop()


class HubSide:
    """The hub's side: an identity, known hosts, a private folder for sockets."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.folder = folder
        self.identity = make_key(folder / "hub_key")
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.touch(mode=0o600)
        self.runtime = folder / "r"
        self.runtime.mkdir(mode=0o700)
        fields: dict[str, object] = {
            "identities": (self.identity,),
            "known_hosts": self.known_hosts,
            "runtime_dir": self.runtime,
            "connect_timeout_s": 3,
            "alive_interval_s": 1,
            "alive_count_max": 2,
        }
        self.way = Way(**{**fields, **changes})  # type: ignore[arg-type]  # a test's own fields
        self.client = Client(self.way, SystemClock(), os.environ)

    def with_way(self, **changes: object) -> Client:
        """A client with another way."""
        fields = {name: getattr(self.way, name) for name in Way.__struct_fields__}
        return Client(Way(**{**fields, **changes}), SystemClock(), os.environ)

    def knows(self, server: Sshd) -> None:
        with self.known_hosts.open("a", encoding="ascii") as file:
            file.write(server.known_hosts_line)

    async def run(self, server: Sshd | Target, script: str = "echo hello", deadline_s: float = DEADLINE_S) -> Spoken:
        """One run; the last of its tries."""
        target = server.target if isinstance(server, Sshd) else server
        return (await self.client.run(target, script, deadline_s=deadline_s))[-1]
