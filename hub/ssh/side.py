"""The hub's own side of the way in: from its settings to identity, files and folders; and who it is."""

import asyncio
import hashlib
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from hub.config import Config, ConfigError
from hub.ssh import identity
from hub.ssh.argv import RuntimeDirTooLong, Way, check_runtime_dir

log = structlog.get_logger(__name__)

FOLDER = "ssh"
"""In the data directory: identity and known hosts."""
IDENTITY_FILE = "id_ed25519"
KNOWN_HOSTS_FILE = "known_hosts"
OWN_CHARS = 8
"""Of a folder's name within a shared one."""
SYSTEM_RUNTIME_DIR = Path("/run/provewire-hub")
"""What systemd makes for the hub's unit (``RuntimeDirectory=``)."""


class Whoami(Struct, frozen=True):
    """Who makes the attempts."""

    host: str
    user: str
    pid: int


def whoami() -> Whoami:
    """This process: fixed as long as it lives."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user without a name, in a container
        user = str(os.geteuid())
    return Whoami(socket.gethostname(), user, os.getpid())


def way_of(config: Config, environ: Mapping[str, str]) -> Way:
    """By what means the hub goes to its nodes, as its settings say.

    Raises:
        ConfigError: ``ssh_runtime_dir`` is too long for a control socket.
    """
    folder = config.data_dir.absolute() / FOLDER
    own = folder / IDENTITY_FILE
    named = tuple(Path(text.strip()).expanduser() for text in config.ssh_identities.split(",") if text.strip())
    return Way(
        ssh=config.ssh_program,
        identities=named or (own,),
        known_hosts=folder / KNOWN_HOSTS_FILE,
        runtime_dir=_runtime_dir(config, environ, folder),
        config_file=config.ssh_config_file,
        agent_socket=config.ssh_agent_socket,
        connect_timeout_s=config.ssh_connect_timeout_s,
    )


def _runtime_dir(config: Config, environ: Mapping[str, str], folder: Path) -> Path:
    """Where the control sockets lie: as told, else the first of the usual places that can be used."""
    if config.ssh_runtime_dir is not None:
        try:
            check_runtime_dir(config.ssh_runtime_dir)
        except RuntimeDirTooLong as error:
            raise ConfigError(f"ssh_runtime_dir: {error}") from error
        return config.ssh_runtime_dir
    usual = [SYSTEM_RUNTIME_DIR]
    if session := environ.get("XDG_RUNTIME_DIR"):
        usual.append(Path(session) / "provewire")
    # Two hubs of one user must not share a connection: each was let in by a key of its own.
    own = hashlib.sha256(bytes(folder)).hexdigest()[:OWN_CHARS]
    return next((base / own for base in usual if _usable(base, own)), folder / "run")


def _usable(base: Path, own: str) -> bool:
    """Whether the folder is short enough, and ours or to be made by us. Nothing is made yet."""
    try:
        check_runtime_dir(base / own)
        if base.exists():
            return base.stat().st_uid == os.geteuid() and os.access(base, os.W_OK | os.X_OK)
        return os.access(base.parent, os.W_OK | os.X_OK)
    except (OSError, RuntimeDirTooLong):
        return False


def prepare(way: Way, config: Config, *, proved_before: bool) -> identity.Identity | None:
    """Make what the hub can make for itself: its folders and, at its very first start, its key; the key if it was made.

    A key that is gone later is not replaced silently: the nodes know the old one, and the loss is what has to be told.
    """
    for path in (way.known_hosts.parent, way.runtime_dir):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            log.warning("a folder for ssh cannot be made", path=str(path), error=error.strerror)
    own = way.known_hosts.parent / IDENTITY_FILE
    if config.ssh_identities or own not in way.identities or own.exists() or proved_before:
        return None
    if own.with_name(own.name + ".pub").exists():
        return None  # there was one: its public half is still here
    try:
        made = identity.make(own, f"provewire-hub@{socket.gethostname()}")
    except OSError as error:
        log.warning("the hub's ssh key cannot be made", path=str(own), error=error.strerror)
        return None
    log.info("the hub has made its ssh key", path=str(own), fingerprint=made.fingerprint)
    return made


async def fingerprints(paths: Sequence[Path]) -> tuple[str, ...]:
    """Of those of these keys that can be used now."""

    def read() -> tuple[str, ...]:
        looked = [identity.look(path) for path in paths]
        return tuple(each.fingerprint for each in looked if each.usable)

    return await asyncio.to_thread(read)
