"""What sshd itself said in its log about logins it refused; pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from hub.ssh.symptoms import Kind, Symptom

WHERE = "sshd's log"


class _Line(Struct, frozen=True):
    kind: Kind
    pattern: re.Pattern[str]
    what: str
    repair: str


def _lines(*rows: tuple[Kind, str, str, str]) -> Sequence[_Line]:
    return [_Line(kind, re.compile(pattern), what, repair) for kind, pattern, what, repair in rows]


_KNOWN = _lines(
    (
        Kind.NO_SUCH_USER,
        r"Invalid user (?P<user>\S+)",
        "it knows no such user",
        "useradd, or correct the user of the target",
    ),
    (
        Kind.LOCKED,
        r"User (?P<user>\S+) not allowed because account is locked",
        "the account is locked",
        "usermod -p '*' {user}",
    ),
    (
        Kind.NO_SHELL,
        r"User (?P<user>\S+) not allowed because shell .* (?:does not exist|is not executable)",
        "the user's shell is missing",
        "chsh -s /bin/sh {user}",
    ),
    (
        Kind.USER_NOT_ALLOWED,
        r"User (?P<user>\S+).* not allowed because (?:listed in DenyUsers|not listed in AllowUsers)",
        "the user is not allowed",
        "correct AllowUsers or DenyUsers in sshd's configuration",
    ),
    (
        Kind.GROUP_NOT_ALLOWED,
        r"User (?P<user>\S+).* not allowed because (?:.*DenyGroups|.*AllowGroups|not in any group)",
        "the user's groups are not allowed",
        "correct AllowGroups or DenyGroups in sshd's configuration",
    ),
    (
        Kind.NOLOGIN,
        r"User (?P<user>\S+) not allowed because \S*nologin exists",
        "nobody but root may log in",
        "rm /etc/nologin",
    ),
    (
        Kind.ACCOUNT_EXPIRED,
        r"Account (?P<user>\S+) has expired|account for (?P<other>\S+) expired",
        "the account has expired",
        "chage -E -1 {user}",
    ),
    (
        Kind.ROOT_NOT_ALLOWED,
        r"ROOT LOGIN REFUSED",
        "root may not log in",
        "PermitRootLogin prohibit-password in sshd's configuration",
    ),
    (
        Kind.MODES,
        r"Authentication refused: bad ownership or modes for (?:file|directory) (?P<path>.+)",
        "modes or owner are wrong",
        "chmod go-w {path}",
    ),
    (
        Kind.FROM,
        r"Authentication tried for (?P<user>\S+) with correct key but not from a permitted host",
        "the key is right and its from= does not allow the hub's address",
        "add the hub's address to from=, or take the option away",
    ),
    (
        Kind.EXPIRED,
        r"Refused by key options|[Kk]ey .*expired",
        "the key's own options refuse it",
        "look at the options before the key",
    ),
    (
        Kind.TOO_MANY_AT_ONCE,
        r"drop connection #\d+.* past MaxStartups|beginning MaxStartups throttling",
        "it drops connections while many others have not logged in",
        "raise MaxStartups in sshd's configuration, or keep strangers away from the port",
    ),
    (
        Kind.SAID_BY_SSHD,
        r"Failed publickey for (?:invalid user )?(?P<user>\S+)",
        "it refused a key and does not say more",
        "compare the fingerprint in the line with the hub's",
    ),
)
"""The particular before the general."""


def symptoms(section: str, user: str, seen_from: str) -> list[Symptom]:
    """The last of each kind, if it concerns this user or the hub's address: the rest are other people's tries."""
    latest: dict[Kind, Symptom] = {}
    for line in map(str.strip, section.splitlines()):
        for known in _KNOWN:
            found = known.pattern.search(line)
            if found is None:
                continue
            groups = found.groupdict()
            who = groups.get("user") or groups.get("other")
            if who == user or (who is None and _ours(line, user, seen_from, known.kind)):
                latest[known.kind] = Symptom(
                    kind=known.kind,
                    what=f"sshd said: {known.what}",
                    where=WHERE,
                    repair=known.repair.format(user=user, path=groups.get("path") or ""),
                    evidence=line,
                )
            break
    return list(latest.values())


def _ours(line: str, user: str, seen_from: str, kind: Kind) -> bool:
    """Whether a line without a user concerns us."""
    if kind is Kind.ROOT_NOT_ALLOWED:
        return user == "root"
    return kind in {Kind.MODES, Kind.EXPIRED, Kind.TOO_MANY_AT_ONCE} or (bool(seen_from) and seen_from in line)
