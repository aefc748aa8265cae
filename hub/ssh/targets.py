"""Where a node's sshd is: host, port, user, and the hosts to jump over; pure, and strict about every character.

A target becomes arguments of a command. What is allowed here is what names and addresses consist of, so that nothing an
operator pasted or a node suggested can be an option, a second argument, or a word of a shell.
"""

import ipaddress
import re
import shlex
from urllib.parse import unquote, urlsplit

from msgspec import Struct

PORT_DEFAULT = 22
PORT_MAX = 65_535
USER_DEFAULT = "root"
HOST_CHARS_MAX = 253
"""Of a name in the domain name system."""
USER_CHARS_MAX = 64
JUMPS_MAX = 4
TEXT_CHARS_MAX = 1024

_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?")
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")


class TargetRefused(ValueError):
    """No target; the sentence names the part and says what is allowed."""


class Target(Struct, frozen=True, order=True):
    """One sshd and the user to be there. Made by `target`, which checks every part."""

    host: str
    port: int = PORT_DEFAULT
    user: str = USER_DEFAULT
    jumps: tuple["Target", ...] = ()
    """Hosts to go through, the nearest to the hub first; they have no jumps of their own."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        through = "".join(f" via {jump}" for jump in self.jumps)
        return f"{self.user}@{host}:{self.port}{through}"

    @property
    def known_host(self) -> str:
        """How a known_hosts file names this sshd."""
        return self.host if self.port == PORT_DEFAULT else f"[{self.host}]:{self.port}"

    @property
    def endpoint(self) -> str:
        """Host and port, as ``-W`` takes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def target(
    host: str, port: int | str = PORT_DEFAULT, user: str = USER_DEFAULT, jumps: tuple[Target, ...] = ()
) -> Target:
    """A target of these parts.

    Raises:
        TargetRefused: one of them cannot be what it is said to be.
    """
    if len(jumps) > JUMPS_MAX:
        raise TargetRefused(f"{len(jumps)} hosts to jump over; at most {JUMPS_MAX}")
    return Target(_checked_host(host), _checked_port(port), _checked_user(user), jumps)


def as_user(found: Target, user: str) -> Target:
    """The same sshd, for another user; an empty name is the target's own.

    Raises:
        TargetRefused: it is no name of one.
    """
    return target(found.host, found.port, user or found.user, found.jumps)


def parse(text: str) -> Target:
    """A target as people write it: ``ssh -p PORT user@host``, ``user@host:port``, ``ssh://user@host:port``.

    Of the command only ``-p``, ``-l``, ``-J`` and the destination are taken; any other option is refused rather than
    passed over, since it might be what makes the way work.

    Raises:
        TargetRefused: it is none of these.
    """
    text = text.strip()
    if not text or len(text) > TEXT_CHARS_MAX or not text.isprintable():
        raise TargetRefused(f"a target is 1 to {TEXT_CHARS_MAX} printable characters, as in root@203.0.113.5:22022")
    if text.startswith("ssh://"):
        return _from_url(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetRefused(f"{text!r}: {error}") from None
    if words[0] == "ssh":
        return _from_command(words[1:])
    if len(words) != 1:
        raise TargetRefused(f"{text!r} is more than one word; write user@host:port, or the whole ssh command")
    return _from_destination(words[0])


def _from_url(text: str) -> Target:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise TargetRefused(f"{text!r}: {error}") from None
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.password:
        raise TargetRefused(f"{text!r} has more than user, host and port")
    user = unquote(parts.username) if parts.username else USER_DEFAULT
    return target(parts.hostname or "", PORT_DEFAULT if port is None else port, user)


def _from_command(words: list[str]) -> Target:
    options: dict[str, str] = {}
    rest: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        flag, value = word[:2], word[2:]
        if not word.startswith("-"):
            rest.append(word)
        elif flag in {"-p", "-l", "-J"}:
            if not value and not waiting:
                raise TargetRefused(f"{flag} has no value")
            options[flag] = value or waiting.pop(0)
        else:
            raise TargetRefused(f"{word!r} is not taken over from an ssh command; only -p, -l and -J are")
    if len(rest) != 1:
        raise TargetRefused("an ssh command for a target ends with one user@host and has no remote command")
    found = _from_destination(rest[0], port=options.get("-p"), user=options.get("-l"))
    jumps = tuple(_from_destination(jump) for jump in options["-J"].split(",")) if "-J" in options else ()
    return target(found.host, found.port, found.user, jumps)


def _from_destination(text: str, *, port: str | None = None, user: str | None = None) -> Target:
    """``[user@]host[:port]``; ``port`` and ``user`` hold where the text names none, and may not contradict it."""
    said_user, at, rest = text.rpartition("@")
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", rest)
    if bracketed:
        host, said_port = bracketed[1], bracketed[2]
    elif rest.count(":") == 1:
        host, _, said_port = rest.partition(":")
    else:
        host, said_port = rest, None
    if said_port is not None and port is not None and said_port != port:
        raise TargetRefused(f"{text!r} names port {said_port}, and -p names {port}")
    if at and user is not None and said_user != user:
        raise TargetRefused(f"{text!r} names user {said_user}, and -l names {user}")
    wanted_port = said_port if said_port is not None else port
    return target(host, PORT_DEFAULT if wanted_port is None else wanted_port, said_user if at else user or USER_DEFAULT)


def _checked_host(host: str) -> str:
    address, percent, zone = host.partition("%")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        pass
    else:
        if percent and not (found.version == 6 and _ZONE.fullmatch(zone)):  # noqa: PLR2004 - IPv6
            raise TargetRefused(f"host {host!r} has a zone that is none")
        return f"{found}%{zone}" if percent else str(found)
    name = host.removesuffix(".")
    if not name or len(name) > HOST_CHARS_MAX or not all(map(_LABEL.fullmatch, name.split("."))):
        raise TargetRefused(
            f"host {_shown(host)} is neither an address nor a name; names have letters, digits, '-', '_' and dots"
        )
    if re.fullmatch(r"[0-9.]+|0[xX][0-9A-Fa-f.xX]+", name):
        raise TargetRefused(f"host {_shown(host)} looks like an address and is none")
    return name


def _checked_port(port: int | str) -> int:
    number = int(port) if isinstance(port, int) or (port.isascii() and port.isdigit() and len(port) <= 5) else -1  # noqa: PLR2004 - digits of 65535
    if not 1 <= number <= PORT_MAX:
        raise TargetRefused(f"port {_shown(str(port))} is none; it is a number from 1 to {PORT_MAX}")
    return number


def _checked_user(user: str) -> str:
    if len(user) > USER_CHARS_MAX or not _USER.fullmatch(user):
        raise TargetRefused(
            f"user {_shown(user)} is no name of one; at most {USER_CHARS_MAX} letters, digits, '.', '_', '-' and '@'"
        )
    return user


def _shown(text: str) -> str:
    return repr(text if len(text) <= USER_CHARS_MAX else f"{text[:USER_CHARS_MAX]}...")
