"""The command line of one attempt: a pure function of validated parts, so that it can be shown, pasted and tested.

For every option OpenSSH keeps the first value it is given, so whatever must hold stands first: no agent, X11 or port
forwarding, no local command, no update of host keys. The operator's own file, where one is named, is read after them.
The remote command is framed: a line marks where its output begins, another where it ends and with which exit code, for
ssh's own 255 and a remote 255 look alike, and a login shell may print things of its own.
"""

import re
import shlex
from pathlib import Path

import msgspec
from msgspec import Struct

from hub.ssh.targets import Target

CONTROL_PATH_BYTES_MAX = 90
"""A longer one fails after the login: ssh adds a suffix of 17 characters and the kernel takes 107 (OpenSSH 9.2)."""
HASH_CHARS = 40
"""Of ``%C``."""
CONTROL_PERSIST_S = 60
MARK = "__provewire"
_END = re.compile(rf"\n?{MARK}_end_([0-9a-f]{{16,64}}) ([0-9]{{1,3}})\n")


class Way(Struct, frozen=True, kw_only=True):
    """By what means the hub goes to its nodes."""

    identities: tuple[Path, ...]
    known_hosts: Path
    runtime_dir: Path
    """Private to the hub's user; holds the control sockets."""
    ssh: str = "ssh"
    config_file: Path | None = None
    """The operator's own, read after what must hold; None for none at all."""
    agent_socket: Path | None = None
    connect_timeout_s: int = 10
    alive_interval_s: int = 5
    alive_count_max: int = 3
    multiplexed: bool = True
    host_key_alias: str = ""
    """By which known_hosts knows the target; empty: by its host and port, which one node may have after another."""


class RuntimeDirTooLong(ValueError):
    """No control socket fits into this folder."""


def check_runtime_dir(path: Path) -> None:
    """Refuse a folder whose control sockets the kernel could not hold.

    Raises:
        RuntimeDirTooLong: the sentence says by how much.
    """
    size_bytes = len(bytes(path)) + 1 + HASH_CHARS
    if size_bytes > CONTROL_PATH_BYTES_MAX:
        raise RuntimeDirTooLong(
            f"{path}: control sockets in it would have {size_bytes} bytes, ssh takes {CONTROL_PATH_BYTES_MAX}; "
            "give a shorter ssh_runtime_dir"
        )


def options(way: Way, target: Target) -> list[str]:
    """Everything before the destination."""
    forced = {
        "BatchMode": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "Tunnel": "no",
        "PermitLocalCommand": "no",
        "UpdateHostKeys": "no",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": _literal(way.known_hosts),
        "GlobalKnownHostsFile": "none",
        "CheckHostIP": "no",
        "VerifyHostKeyDNS": "no",
        "RequestTTY": "no",
        "EscapeChar": "none",
        "ConnectTimeout": str(way.connect_timeout_s),
        "ConnectionAttempts": "1",
        "ServerAliveInterval": str(way.alive_interval_s),
        "ServerAliveCountMax": str(way.alive_count_max),
        "IdentitiesOnly": "yes" if way.agent_socket is None else "no",
        "IdentityAgent": "none" if way.agent_socket is None else _literal(way.agent_socket),
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "ControlMaster": "auto" if way.multiplexed else "no",
        "ControlPath": f"{_literal(way.runtime_dir)}/%C" if way.multiplexed else "none",
        "ControlPersist": str(CONTROL_PERSIST_S) if way.multiplexed else "no",
    }
    if way.host_key_alias:
        forced["HostKeyAlias"] = way.host_key_alias
    if target.jumps:
        forced["ProxyCommand"] = proxy_command(way, target)
    words = ["-F", "none" if way.config_file is None else str(way.config_file)]
    for name, value in forced.items():
        words += ["-o", f"{name}={_quoted(name, value)}"]
    # Not by -i: a file that does not exist would be passed over, and the user's own keys offered in its place.
    for identity in map(_literal, way.identities):
        words += ["-o", f"IdentityFile={_quoted('IdentityFile', identity)}"]
    if not way.identities:
        words += ["-o", "IdentityFile=none"]
    return [*words, "-p", str(target.port), "-l", target.user]


def proxy_command(way: Way, target: Target) -> str:
    """The command that carries the connection over the last jump host.

    Not ProxyJump: its inner ssh would be given none of these options, and use the user's own keys and known hosts.
    """
    *nearer, last = target.jumps
    alone = msgspec.structs.replace(way, multiplexed=False, host_key_alias="")
    jump = Target(last.host, last.port, last.user, tuple(nearer))
    argv = [way.ssh, "-T", *options(alone, jump), "-W", target.endpoint, "--", jump.host]
    return shlex.join(argv).replace("%", "%%")


def ssh_argv(way: Way, target: Target, command: str | None = None, *, verbose: bool = False) -> list[str]:
    """The whole command line. ``command`` is text for the remote shell, framed already."""
    words = [way.ssh, *(["-v"] if verbose else []), "-T", *options(way, target), "--", target.host]
    return words if command is None else [*words, command]


def master_argv(way: Way, target: Target, order: str) -> list[str]:
    """Asks the master of this target, if there is one: ``check`` or ``exit``."""
    return [way.ssh, "-O", order, *options(way, target), "--", target.host]


def socket_argv(way: Way, socket: Path, order: str) -> list[str]:
    """The same by its socket, whatever target it is of."""
    path = _quoted("ControlPath", _literal(socket))
    return [way.ssh, "-F", "none", "-O", order, "-o", f"ControlPath={path}", "--", "any"]


def _quoted(name: str, value: str) -> str:
    """A value of ``-o``: ssh splits it at blanks like a line of its file, but takes a command as it stands."""
    return f'"{value}"' if name != "ProxyCommand" and re.search(r"\s", value) else value


def _literal(path: Path) -> str:
    """A path in which ssh expands nothing."""
    return str(path.absolute()).replace("%", "%%")


def pasteable(argv: list[str]) -> str:
    """The same, to paste into a shell."""
    return shlex.join(argv)


def framed(script: str, nonce: str) -> str:
    """``script``, for a POSIX shell, between marks that say where its output begins and how it ended."""
    inner = f"printf '%s\\n' {MARK}_begin_{nonce}\n(\n{script}\n)\nprintf '\\n%s %d\\n' {MARK}_end_{nonce} \"$?\""
    return f"exec sh -c {shlex.quote(inner)}"


class Unframed(Struct, frozen=True):
    """What the remote side did, from its standard output."""

    began: bool
    """The shell reached our first line."""
    ended: bool
    """It reached our last: ``exit_code`` is the script's own and the output is whole."""
    exit_code: int | None
    output: bytes
    before: bytes
    """What the login printed before: greetings, a broken profile."""


def unframed(stdout: bytes, nonce: str) -> Unframed:
    """Take ``stdout`` apart."""
    begin = f"{MARK}_begin_{nonce}\n".encode()
    head, found, rest = stdout.partition(begin)
    if not found:
        return Unframed(began=False, ended=False, exit_code=None, output=b"", before=stdout)
    text = rest.decode("latin-1")
    for match in reversed(list(_END.finditer(text))):
        if match[1] == nonce:
            output = rest[: match.start()]
            return Unframed(began=True, ended=True, exit_code=int(match[2]), output=output, before=head)
    return Unframed(began=True, ended=False, exit_code=None, output=rest, before=head)
