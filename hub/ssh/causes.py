"""Why an attempt failed: from what ssh said, how it ended and how far it came, to a named cause.

Pure. The first rule that fits wins. What fits none is ``unrecognised`` and shown whole. What the server knows
better than the client (all its reasons look alike from here) is said in the remedy, not guessed.
"""

from msgspec import Struct

from hub.ssh.cause import REMEDIES, Cause
from hub.ssh.rules import RULES

SSH_FAILED = 255
NOT_EXECUTABLE = 126
NOT_FOUND = 127
LINE_CHARS_MAX = 800
"""Of one line: no line of ssh's own is longer, and some rules take time by its square."""
TEXT_CHARS_MAX = 64 * 1024
"""Of the head and of the tail of what ssh said: where the rules look. It said what matters long before that."""

EVIDENCE_CHARS_MAX = 1000
"""Of the line that decided; a hostile server's may have no end."""
EARLY = ("Connection reset by ", "Connection closed by ")
"""ssh says no more of a reset that its own banner met, and the same of one in the middle of the login."""


class Ending(Struct, frozen=True, kw_only=True):
    """How one attempt ended."""

    stderr: str = ""
    """What ssh said, carriage returns taken out."""
    exit_code: int | None = None
    """Of the ssh process; None when it did not start, or was ended by a signal."""
    signal: int | None = None
    spawn_error: str = ""
    """Why it did not start, in the operating system's words."""
    timed_out: bool = False
    began: bool = False
    """The remote shell reached the first line of our command."""
    remote_exit_code: int | None = None
    """Of the remote command, if its end was seen; of a killed shell 128 + the signal."""
    master_alive: bool | None = None
    """Whether a control master answered afterwards. None: there was none, or there was no reason to ask."""
    through_master: bool = False
    """A control master was there when the attempt began."""


class Diagnosis(Struct, frozen=True):
    """The cause, the line that shows it, and what to do."""

    cause: Cause
    evidence: str
    """The line of stderr that decided, empty if none did."""
    remedy: str


def diagnose(ending: Ending, *, identities: int = 1) -> Diagnosis:
    """The cause of how an attempt ended.

    Args:
        ending: what happened.
        identities: how many keys the hub had to offer.
    """
    cause, evidence = _cause(ending, identities)
    return Diagnosis(cause, evidence, REMEDIES[cause])


def _cause(ending: Ending, identities: int) -> tuple[Cause, str]:  # noqa: PLR0911 - one return for each way of ending
    if ending.spawn_error:
        descriptors = "Too many open files" in ending.spawn_error
        return (Cause.OUT_OF_DESCRIPTORS if descriptors else Cause.SSH_MISSING), ending.spawn_error
    if ending.timed_out:
        return (Cause.MASTER_HUNG if ending.through_master and ending.master_alive is False else Cause.DEADLINE), ""
    if ending.remote_exit_code is not None:
        return _remote(ending.remote_exit_code), ""
    if ending.signal is not None:
        return Cause.SSH_KILLED, ""
    found = _said(ending.stderr)
    if found is not None:
        return _known_besides(*found, began=ending.began, identities=identities), found[1]
    if ending.exit_code == SSH_FAILED and not ending.stderr.strip():
        # In silence: a master that died under its client, else a remote shell that was ended by a signal.
        if ending.through_master and ending.master_alive is not True:
            return Cause.MASTER_DIED, ""
        return (Cause.REMOTE_KILLED if ending.began else Cause.UNRECOGNISED), ""
    if ending.began:
        return Cause.OUTPUT_CUT, ""
    return (Cause.UNRECOGNISED if ending.exit_code == SSH_FAILED else Cause.LOGIN_FORBIDDEN), _last_line(ending.stderr)


def _known_besides(cause: Cause, evidence: str, *, began: bool, identities: int) -> Cause:
    """What ssh said, with what it could not know."""
    if cause is Cause.IDENTITY_REFUSED and identities == 0:
        return Cause.NO_IDENTITY
    if cause is Cause.CONNECTION_LOST and not began and evidence.startswith(EARLY):
        return Cause.LOST_BEFORE_SHELL
    return cause


def _remote(code: int) -> Cause:
    if code > 128 and code != SSH_FAILED:  # noqa: PLR2004 - 128 + the signal, as shells say it
        return Cause.REMOTE_KILLED
    return {
        0: Cause.OK,
        NOT_EXECUTABLE: Cause.REMOTE_NOT_EXECUTABLE,
        NOT_FOUND: Cause.REMOTE_NOT_FOUND,
        SSH_FAILED: Cause.REMOTE_255,
    }.get(code, Cause.REMOTE_FAILED)


def _said(stderr: str) -> tuple[Cause, str] | None:
    """What the first rule that fits makes of it."""
    text = stderr if len(stderr) <= 2 * TEXT_CHARS_MAX else f"{stderr[:TEXT_CHARS_MAX]}\n{stderr[-TEXT_CHARS_MAX:]}"
    text = "\n".join(map(_short, text.split("\n")))
    for rule in RULES:
        if match := rule.pattern.search(text):
            begin = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.start())
            return rule.cause, text[begin : len(text) if end < 0 else end].strip()
    return None


def _short(line: str) -> str:
    """A line as the rules look at it: what a stranger makes endless costs no endless time."""
    return (
        line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX // 2]} [...] {line[-LINE_CHARS_MAX // 2 :]}"
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:EVIDENCE_CHARS_MAX] if lines else ""
