"""What the options before a key in authorized_keys do to the hub: shut it out, or not; pure."""

import fnmatch
import ipaddress
import re
from datetime import UTC, datetime

from msgspec import Struct

from hub.ssh.symptoms import Kind, Symptom

_OPTION = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*")+')
_EXPIRY = re.compile(r"(\d{8})(\d{4})?(\d{2})?Z?")


class Seen(Struct, frozen=True):
    """From where, and when, the hub comes."""

    address: str
    """As the node sees it; empty if unknown."""
    now_s: float
    """Unix time."""


def limit(options: str, seen: Seen, where: str) -> Symptom | None:
    """What a key's options mean for the hub; None where they do not matter to it.

    ``blocks`` says that they surely shut it out. A certificate authority's line is no line for a key.
    """
    for option in map(str.strip, _OPTION.findall(options)):
        name, _, value = option.partition("=")
        value = value.strip('"')
        symptom = {
            "from": _from,
            "command": _command,
            "expiry-time": _expiry,
            "cert-authority": _certificates,
        }.get(name.lower(), _nothing)(option, value, seen, where)
        if symptom is not None:
            return symptom
    return None


def _nothing(option: str, value: str, seen: Seen, where: str) -> Symptom | None:  # noqa: ARG001 - one shape for all
    return None


def _from(option: str, value: str, seen: Seen, where: str) -> Symptom | None:
    allowed = _allows(value, seen.address)
    if allowed is True:
        return None
    address = seen.address or "the hub's address"
    sure = "" if allowed is False else "may "
    return Symptom(
        kind=Kind.FROM,
        what=f"the key is good from some addresses only, and {sure}not from {address}",
        where=where,
        repair=f"add {address} to {option}, or take the option away",
        blocks=allowed is False,
        evidence=option,
    )


def _allows(patterns: str, address: str) -> bool | None:
    """Whether ``from=`` lets an address in; None where names decide, or the address is unknown."""
    try:
        ours = ipaddress.ip_address(address)
    except ValueError:
        return None
    names = False
    positive = False
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        negated, bare = pattern.startswith("!"), pattern.removeprefix("!")
        try:
            matched = ours in ipaddress.ip_network(bare, strict=False)
        except ValueError:
            matched = fnmatch.fnmatchcase(address, bare)
            names |= not matched and any(char.isalpha() for char in bare) and ":" not in bare
        if matched and negated:
            return False
        positive |= matched
    return True if positive else None if names else False


def _command(option: str, value: str, seen: Seen, where: str) -> Symptom | None:  # noqa: ARG001 - as the others
    return Symptom(
        kind=Kind.COMMAND,
        what="the key runs one command only: the login works and nothing of the hub's is run",
        where=where,
        repair=f"take {option} away, or give the hub a line of its own",
        blocks=True,
        evidence=option,
    )


def _expiry(option: str, value: str, seen: Seen, where: str) -> Symptom | None:
    found = _EXPIRY.fullmatch(value)
    if found is None:
        return None
    text = found[1] + (found[2] or "0000") + (found[3] or "00")
    try:
        ends_s = datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    if ends_s > seen.now_s:
        return None
    return Symptom(
        kind=Kind.EXPIRED,
        what=f"the key expired on {text[:4]}-{text[4:6]}-{text[6:8]}",
        where=where,
        repair=f"take {option} away, or set a later day",
        blocks=True,
        evidence=option,
    )


def _certificates(option: str, value: str, seen: Seen, where: str) -> Symptom | None:  # noqa: ARG001 - as the others
    return Symptom(
        kind=Kind.CERTIFICATES_ONLY,
        what="the line takes certificates signed by this key, not the key itself",
        where=where,
        repair="give the key a line without cert-authority",
        blocks=True,
        evidence=option,
    )
