"""How the hub's key gets to a node: the ways in and their order, what would be written, and what came of it; pure."""

import base64
import difflib
import hashlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from hub.ssh import authorized
from hub.ssh.doctor import Chart
from hub.ssh.scripts import console_line, write_keys
from hub.ssh.symptoms import Symptom


class Way(StrEnum):
    """How the file is reached."""

    NOTHING = "nothing"
    """The key gets in already."""
    OWN = "own"
    """By the hub's own key: to mend the file, or to add a new key beside the old."""
    SESSION = "session"
    """Over the live session: the agent appends the key, since its node's operator allows it."""
    VIA_KEY = "via_key"
    """By another key of the operator's."""
    CONSOLE = "console"
    """By hand: one line for the provider's console."""


class Write(Struct, frozen=True, kw_only=True):
    """A file to be written, if it still is what was read."""

    path: str
    user: str
    """Whose, where it is not the user that logs in."""
    sum_before: str
    text: str

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.text.encode("utf-8", "surrogateescape")

    @property
    def sum_after(self) -> str:
        """Of the file as it will be."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def script(self) -> str:
        """What the remote shell is given."""
        return write_keys(self.sum_before, self.sum_after, self.path, self.user)

    @property
    def stdin(self) -> bytes:
        """What the script reads."""
        return base64.b64encode(self.data)


class Plan(Struct, frozen=True, kw_only=True):
    """What an installation would do at one node: shown, then done exactly so."""

    node_id: str
    way: Way
    public: str
    """The key that is to get in, ``type body comment``."""
    passed_over: tuple[str, ...] = ()
    """The ways that come before this one in the order, and why they are not gone; a sentence each."""
    user: str = ""
    """Who is to log in with the key."""
    via_key: Path | None = None
    via_user: str = ""
    """Who logs in with ``via_key``, where it is another."""
    write: Write | None = None
    diff: str = ""
    symptoms: tuple[Symptom, ...] = ()
    """What the doctor saw."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Exactly what is done, for the preview."""
        match self.way:
            case Way.NOTHING:
                return ()
            case Way.SESSION:
                return (f"over the live session: the agent appends to authorized_keys of {self.user}: {self.public}",)
            case Way.CONSOLE:
                return (console_line(self.public),)
        return () if self.write is None else (self.write.script,)

    @property
    def left(self) -> tuple[Symptom, ...]:
        """What keeps the hub out and no installer mends."""
        return tuple(symptom for symptom in self.symptoms if symptom.blocks and not symptom.installer)


class Installed(Struct, frozen=True, kw_only=True):
    """What came of it at one node."""

    node_id: str
    ok: bool
    """A fresh login with the key worked."""
    way: Way
    sentence: str
    backup: str = ""
    """The file as it was, at the node."""
    attempts: tuple[str, ...] = ()
    """Ids of the records, in their order."""
    symptoms: tuple[Symptom, ...] = ()
    """Where the login failed: what the doctor sees now."""


def next_text(text: str, public: str, *, mend: bool) -> str:
    """The file with the key in it.

    A fused or wrapped line is put right where the hub's own key is hidden in it; other lines only with ``mend``, since
    a key that was swallowed as a comment works again afterwards.
    """
    better = authorized.mended(text)
    hidden = authorized.read(better).entry(public) is not None and authorized.read(text).entry(public) is None
    return authorized.with_key(better if mend or hidden else text, public)


def diff(path: str, before: str, after: str) -> str:
    """What would change, a line at a time; a file that stays as it is has none."""
    lines = difflib.unified_diff(
        _lines(before), _lines(after), fromfile=path, tofile=f"{path} (as it will be)", lineterm="", n=2
    )
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    """Lines, with what a diff would not show made visible."""
    lines = text.replace("\r", "\\r").split("\n")
    if lines[-1]:
        return [*lines[:-1], f"{lines[-1]}\\ (no end of line)"]
    return lines[:-1]


def write_of(chart: Chart, public: str, *, user: str, mend: bool) -> Write:
    """What would be written into the file that was looked at."""
    text = next_text(chart.text, public, mend=mend)
    return Write(path=chart.place.path, user=user, sum_before=chart.digest, text=text)


def mendable(symptoms: Sequence[Symptom]) -> bool:
    """Whether an installer has anything to do about these."""
    return any(symptom.installer for symptom in symptoms)
