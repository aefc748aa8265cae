"""What an operator of a node says about the way to its sshd; every character is checked before it goes anywhere."""

import ipaddress
import re

from msgspec import Struct

from agent.errors import ConfigFault
from wire.limits import NAME_CHARS_MAX

PORT_MAX = 65_535
USER_DEFAULT = "root"
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?")


class SshSettings(Struct, frozen=True):
    """What the node's operator said."""

    suggest: bool = True
    address: str = ""
    """Empty: as the environment says, else whence the session comes."""
    port: int | None = None
    user: str = USER_DEFAULT


def ssh_settings(address: str, user: str) -> SshSettings:
    """From texts: ``HOST[:PORT]``, ``:PORT`` or ``off``, and a user's name; empty for not said.

    Raises:
        ConfigFault: one of them cannot be used.
    """
    if user and (len(user) > NAME_CHARS_MAX or not USER.fullmatch(user)):
        raise ConfigFault(f"--ssh-user {user!r} is no user's name")
    if address == "off":
        return SshSettings(suggest=False)
    host, port = _host_port(address)
    return SshSettings(address=host, port=port, user=user or USER_DEFAULT)


def _host_port(text: str) -> tuple[str, int | None]:
    """Host and port of ``HOST``, ``HOST:PORT``, ``[V6]:PORT`` or ``:PORT``."""
    wrong = ConfigFault(f"--ssh-address {text!r} must be HOST:PORT, HOST, :PORT or off, for example 203.0.113.5:22022")
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?", text)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not port:
            raise wrong
    else:
        host, port = text, None
    if port is not None and port_of(port) is None:
        raise wrong
    if len(host) > NAME_CHARS_MAX or (host and not HOST.fullmatch(host) and ip_of(host) is None):
        raise wrong
    return host, None if port is None else port_of(port)


def port_of(text: str) -> int | None:
    """A port's number; None if it is none."""
    good = text.isascii() and text.isdigit() and len(text) <= len(str(PORT_MAX)) and 1 <= int(text) <= PORT_MAX
    return int(text) if good else None


def ip_of(text: str) -> str | None:
    """An address by number, without a zone; None if it is none."""
    try:
        return None if "%" in text else str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return None
