"""An authorized_keys file: what is wrong with it, and how a key is put into it without harm; pure.

sshd passes over a line it cannot read without a word to anybody but its own log. The commonest way to break the file is
to append to one whose last line has no end: the new key becomes the comment of the last one (which goes on working),
or, where that had no comment, both become one unreadable word.
"""

import base64
import binascii
import re
from enum import StrEnum

from msgspec import Struct

KEY_TYPES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
)
OLD_TYPES = ("ssh-dss",)
"""Taken by no sshd of today."""
FILE_BYTES_MAX = 1024 * 1024
LINE_CHARS_MAX = 64 * 1024
"""A longer line is nobody's key, and left as it is: looking through it would take too long."""

_TYPE = "|".join(map(re.escape, (*KEY_TYPES, *OLD_TYPES)))
_BEGIN = re.compile(rf"(?:{_TYPE})(?=[ \t])")
_FUSED_COMMENT = re.compile(rf"(?<=\S)(?:{_TYPE})[ \t]+AAAA|(?<=[ \t])(?:{_TYPE})[ \t]+AAAA")
_CONTINUED = re.compile(r"[A-Za-z0-9+/=]+(?:[ \t].*)?")
"""The rest of a key that was broken over several lines."""
_BODY = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LIMITS = ("from=", "command=", "expiry-time=", "restrict", "no-pty", "environment=", "principals=", "cert-authority")


class Fault(StrEnum):
    """What may be wrong with a line, or with the file."""

    FUSED = "fused"
    """A second key stands on the same line: as the first one's comment, or glued to its body."""
    UNREADABLE = "unreadable"
    """A type, and no key behind it."""
    WRAPPED = "wrapped"
    """A key broken over several lines, as a terminal or a mail program does."""
    CRLF = "crlf"
    """Windows line ends: sshd takes the return character as part of the comment, or of the key."""
    OLD_TYPE = "old_type"
    LIMITED = "limited"
    """Options that may shut the hub out: ``from=``, ``command=``, an expiry."""
    NO_FINAL_NEWLINE = "no_final_newline"
    """Harmless now, and what fuses the next key that is appended."""


class Finding(Struct, frozen=True):
    """One fault."""

    fault: Fault
    line: int
    """From 1; 0 for the file."""
    detail: str


class Entry(Struct, frozen=True):
    """One key of a file."""

    line: int
    options: str
    kind: str
    body: str
    comment: str

    @property
    def key(self) -> str:
        """Type and body: what makes it this key."""
        return f"{self.kind} {self.body}"


class Reading(Struct, frozen=True):
    """A file as sshd reads it, and what is wrong with it."""

    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]

    def entry(self, key: str) -> Entry | None:
        """The line that lets this key (``type body``) in, if there is one."""
        wanted = " ".join(key.split()[:2])
        return next((entry for entry in self.entries if entry.key == wanted), None)


def read(text: str) -> Reading:
    """Every key sshd would take, and every fault."""
    entries: list[Entry] = []
    findings: list[Finding] = []
    if text and not text.endswith("\n"):
        findings.append(Finding(Fault.NO_FINAL_NEWLINE, 0, "the last line has no end; the next key appended joins it"))
    if "\r" in text:
        findings.append(Finding(Fault.CRLF, 0, "the file has Windows line ends"))
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        entry = _entry(number, bare)
        findings += _faults(number, bare, entry, lines[number] if number < len(lines) else "")
        if entry is not None:
            entries.append(entry)
    return Reading(tuple(entries), tuple(findings))


def _entry(number: int, line: str) -> Entry | None:
    """The key of a line, if sshd can read it."""
    begin = _unquoted(line)
    if begin is None:
        return None
    options, rest = line[:begin].strip(), line[begin:].split(None, 2)
    kind, body = rest[0], rest[1] if len(rest) > 1 else ""
    comment = rest[2] if len(rest) > 2 else ""  # noqa: PLR2004 - type, body, comment
    return Entry(number, options, kind, body, comment) if _is_key(kind, body) else None


def _unquoted(line: str) -> int | None:
    """Where the type of a line's key begins: at its start, or behind options, which may hold blanks in quotes."""
    if len(line) > LINE_CHARS_MAX:
        return None
    for match in _BEGIN.finditer(line):
        before = line[: match.start()]
        if before.count('"') % 2 == 0 and (not before or before[-1] in " \t"):
            return match.start()
    return None


def _is_key(kind: str, body: str) -> bool:
    try:
        inside = base64.b64decode(body, validate=True) if _BODY.fullmatch(body) else b""
    except binascii.Error:
        return False
    size = int.from_bytes(inside[:4], "big")
    return 0 < size <= len(inside) - 4 and inside[4 : 4 + size].decode("ascii", "replace") == kind


def _faults(number: int, line: str, entry: Entry | None, following: str) -> list[Finding]:
    found: list[Finding] = []
    begin = _unquoted(line)
    second = None if begin is None else _FUSED_COMMENT.search(line, begin + 1)
    if second is not None:
        first = "the first works, the second is taken as its comment" if entry is not None else "neither works"
        found.append(Finding(Fault.FUSED, number, f"two keys stand on this line; {first}"))
    elif entry is None:
        if begin is not None and _CONTINUED.fullmatch(following.strip()):
            found.append(Finding(Fault.WRAPPED, number, "the key is broken over several lines"))
        elif begin is not None or line.startswith("ssh-"):
            found.append(Finding(Fault.UNREADABLE, number, "no key can be read on this line"))
    if entry is not None and entry.kind in OLD_TYPES:
        found.append(Finding(Fault.OLD_TYPE, number, f"{entry.kind} is taken by no sshd of today"))
    if entry is not None and any(limit in entry.options for limit in _LIMITS):
        found.append(Finding(Fault.LIMITED, number, f"the key is limited by {entry.options}"))
    return found


def mended(text: str) -> str:
    """The same file with fused and wrapped keys on lines of their own, plain line ends, and a final newline.

    Options and comments stay; a line nobody can read stays as it is, since it may be a key of tomorrow.
    """
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        lines += _parted(line)
    joined = _unwrapped(lines)
    while joined and not joined[-1]:
        joined.pop()
    return "".join(f"{line}\n" for line in joined)


def _parted(line: str) -> list[str]:
    """A line, cut before every further key on it."""
    parts: list[str] = []
    while not line.lstrip().startswith("#") and (begin := _unquoted(line)) is not None:
        cut = _FUSED_COMMENT.search(line, begin + 1)
        if cut is None:
            break
        parts.append(line[: cut.start()].rstrip())
        line = line[cut.start() :]
    return [*parts, line]


def _unwrapped(lines: list[str]) -> list[str]:
    """Lines of bare base64 joined to the unfinished key before them, where that makes it a key."""
    done: list[str] = []
    for line in lines:
        bare = line.strip()
        if done and bare and _CONTINUED.fullmatch(bare) and _entry(1, done[-1]) is None:
            begin = _unquoted(done[-1])
            if begin is not None:
                done[-1] += bare
                continue
        done.append(line)
    return done


def without_key(text: str, public: str) -> str:
    """The file without the lines that hold ``public`` and nothing else that sshd reads; all else stays as it is."""
    gone = {entry.line for entry in read(text).entries if entry.key == " ".join(public.split()[:2])}
    fused = {finding.line for finding in read(text).findings if finding.fault is Fault.FUSED}
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, start=1) if number not in gone - fused)


def with_key(text: str, public: str) -> str:
    """The file with ``public`` on a line of its own at the end; unchanged where it lets this key in already.

    Raises:
        ValueError: ``public`` is no key.
    """
    words = public.split(None, 2)
    if len(words) < 2 or not _is_key(words[0], words[1]) or "\n" in public.strip():  # noqa: PLR2004 - type and body
        raise ValueError("no public key of the form `ssh-ed25519 AAAA... comment`")
    if read(text).entry(public) is not None:
        return text
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}{public.strip()}\n"
