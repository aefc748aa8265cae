"""What stops the agent. Everything else heals: it is logged, shown in the local view, and tried again."""


class AgentError(Exception):
    """Base; ``str()`` is the one sentence the operator reads. ``exit_code`` is what the command ends with."""

    exit_code = 6


class ConfigFault(AgentError):
    """Settings or files that only an operator can mend. systemd does not restart on it."""

    exit_code = 64


class StatusUnreachable(AgentError):
    """No agent answers on the local socket."""

    exit_code = 69
