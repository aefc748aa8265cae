"""The record of one attempt: everything that was said and done, so that nobody has to guess afterwards."""

import shlex

from msgspec import Struct

from hub.ssh.cause import Cause
from hub.ssh.streams import shown

WHY_CHARS_MAX = 400
"""Of ssh's own words."""


class Origin(Struct, frozen=True, kw_only=True):
    """Where an attempt was made from, so that it can be repeated by hand."""

    host: str
    user: str
    pid: int
    version: str
    """Of the hub."""
    ssh_version: str
    fingerprints: tuple[str, ...]
    """Of the keys the hub had to offer, as ``SHA256:...``."""
    asked_by: str
    """Who wanted it: ``hub`` for the hub's own probes, else the operator."""
    asked_from: str = ""


class Record(Struct, frozen=True, kw_only=True):
    """One attempt, or one of the two tries of it."""

    id: str
    node_id: str
    target: str
    purpose: str
    started_at_ms: int
    duration_s: float
    argv: tuple[str, ...]
    exit_code: int | None
    signal: int | None
    stdout: bytes
    """Of the remote command; head and tail if it was much."""
    before: bytes
    """What the login printed before the command began."""
    stderr: bytes
    """Whole up to 1 MiB, beyond that head and tail; raw, as it came."""
    stdout_bytes: int
    stderr_bytes: int
    """As much as came, kept or not."""
    remote_exit_code: int | None
    cause: Cause
    evidence: str
    remedy: str
    origin: Origin
    retry_of: str = ""
    """The first try's id, for the second."""
    note: str = ""
    """What was done about it: a master ended, a stale socket replaced by ssh itself."""
    verbose: str = ""
    """After a failed authentication: which keys were offered and what became of each, from one more try with -v."""
    differs: tuple[str, ...] = ()
    """What differs from the last login that worked, a line each."""
    began: bool = False
    """The remote shell reached the command: the login worked, whatever became of it then."""
    fresh: bool = True
    """A login of its own; False: through a connection that stood already, which proves nothing about keys."""

    @property
    def ok(self) -> bool:
        """Whether the remote command ran to its end with code 0."""
        return self.cause is Cause.OK

    @property
    def way_works(self) -> bool:
        """Whether the login worked, whatever became of the command."""
        return self.began or self.remote_exit_code is not None

    @property
    def why(self) -> str:
        """Why it failed: the last of ssh's own words first, then what to do."""
        said = shown(self.stderr).strip()
        words = said.splitlines()[-1][:WHY_CHARS_MAX] if said else self.cause.value.replace("_", " ")
        return f"{words} ({self.remedy})" if self.remedy else words

    @property
    def pasteable(self) -> str:
        """The very command that was run, to paste into a shell."""
        return shlex.join(self.argv)

    @property
    def login_pasteable(self) -> str:
        """The same without what it ran at the node: it logs in, and no more."""
        destination = self.argv.index("--") + 2
        return shlex.join(self.argv[:destination])
