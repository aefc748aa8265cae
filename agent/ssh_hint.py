"""How this node thinks its sshd can be reached: a suggestion for the hub's operator, who has the last word.

What the operator of the node says counts first, then what the provider of a rented machine put into the environment,
then sshd's own configuration. The public host keys let the hub know the sshd again; where there are none, and nobody
said anything, there is no sshd to speak of.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import structlog

from agent.board import Board
from agent.clock import Clock
from agent.ssh_settings import SshSettings, ip_of, port_of
from wire.status import SshHint

log = structlog.get_logger(__name__)

READ_EVERY_S = 300.0
READ_DEADLINE_S = 10.0
CONFIG_BYTES_MAX = 64 * 1024
CONFIGS_MAX = 32
KEY_BYTES_MAX = 4096
KEY_CHARS_MAX = 1024
KEYS_MAX = 4
PORT_DEFAULT = 22
KEY_ORDER = ("ed25519", "ecdsa", "rsa")
"""Which public host keys are told, the best first."""
PROVIDERS = (("PUBLIC_IPADDR", "VAST_TCP_PORT_22"), ("RUNPOD_PUBLIC_IP", "RUNPOD_TCP_PORT_22"))
"""Variables of rented machines that say where their port 22 is mapped to: address and port, only both together."""
KEY = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa) ([A-Za-z0-9+/]+={0,2})(?:\s|$)")


def read_hint(told: SshSettings, environ: Mapping[str, str], root: Path = Path("/")) -> SshHint | None:
    """The suggestion now; None where there is no sshd, or nothing is to be said. Blocks; never raises."""
    if not told.suggest:
        return None
    folder = root / "etc/ssh"
    keys = _host_keys(folder)
    if not keys and not told.address and told.port is None:
        return None
    mapped_address, mapped_port = _mapped(environ)
    by_address = told.address or mapped_address
    port = told.port or (None if told.address else mapped_port) or _configured_port(folder) or PORT_DEFAULT
    return SshHint(port=port, user=told.user, host_keys=keys, address=by_address)


def _mapped(environ: Mapping[str, str]) -> tuple[str, int | None]:
    """What the provider says."""
    for address_variable, port_variable in PROVIDERS:
        address, port = ip_of(environ.get(address_variable, "")), port_of(environ.get(port_variable, ""))
        if address is not None and port is not None:
            return address, port
    return "", None


def _host_keys(folder: Path) -> tuple[str, ...]:
    found = []
    for kind in KEY_ORDER:
        text = _start_of(folder / f"ssh_host_{kind}_key.pub", KEY_BYTES_MAX)
        match = KEY.match(text)
        if match and len(match[0]) <= KEY_CHARS_MAX:
            found.append(f"{match[1]} {match[2]}")
    return tuple(found[:KEYS_MAX])


def _configured_port(folder: Path) -> int | None:
    """The first port of sshd's configuration. Its folder is read first, as the usual file includes it at its top."""
    try:
        parts = sorted((folder / "sshd_config.d").glob("*.conf"))[:CONFIGS_MAX]
    except OSError:
        parts = []
    for path in (*parts, folder / "sshd_config"):
        for line in _start_of(path, CONFIG_BYTES_MAX).splitlines():
            words = line.replace("=", " ").split()
            if words and words[0].lower() == "match":
                break
            if len(words) > 1 and words[0].lower() == "port" and (port := port_of(words[1])) is not None:
                return port
    return None


def _start_of(path: Path, bytes_max: int) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(bytes_max).decode("utf-8", "replace")
    except OSError:
        return ""


async def keep_hint(board: Board, told: SshSettings, environ: Mapping[str, str], *, clock: Clock) -> None:
    """Keep the suggestion in the node's picture; for ever. A file system that blocks holds nobody up."""
    pending: asyncio.Future[SshHint | None] | None = None
    while True:
        if pending is None:
            pending = asyncio.ensure_future(asyncio.to_thread(read_hint, told, environ))
        done, _ = await asyncio.wait({pending}, timeout=READ_DEADLINE_S)
        if done:
            hint, pending = pending.result(), None
            if hint != board.ssh:
                board.ssh = hint
                board.changed()
        else:
            log.warning("ssh_hint.blocked", deadline_s=READ_DEADLINE_S)
        await clock.sleep(READ_EVERY_S)
