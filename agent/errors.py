"""What stops the agent. Everything else heals: it is logged, shown in the local view, and tried again."""

import errno

PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Of a disk that is full or fails: with room made, the same start goes well."""


class AgentError(Exception):
    """Base; ``str()`` is the one sentence the operator reads. ``exit_code`` is what the command ends with."""

    exit_code = 6


class ConfigFault(AgentError):
    """Settings or files that only an operator can mend. systemd does not restart on it."""

    exit_code = 64


class DiskFault(AgentError):
    """The disk is full or fails. Started again, it may go well."""


def of_disk(error: OSError, sentence: str) -> AgentError:
    """``sentence`` with the reason, as what it is: a disk's trouble, which may pass, or an operator's."""
    kind = DiskFault if error.errno in PASSING else ConfigFault
    return kind(f"{sentence}: {error.strerror or error}")


class StatusUnreachable(AgentError):
    """No agent answers on the local socket."""

    exit_code = 69
