"""What a command ends with. Only `cli.main` turns these into an exit status."""

EXIT_OK = 0
EXIT_MALFORMED = 2
EXIT_MISMATCH = 3
EXIT_REJECTED = 4
EXIT_DEVICE = 5
EXIT_INTERNAL = 6
EXIT_USAGE = 64
EXIT_UNREACHABLE = 69
EXIT_INTERRUPTED = 130

EXIT_CODES_HELP = """exit codes:
  0 ok   2 unreadable or malformed file   3 files that do not belong together
  4 the proof does not verify (bad witness or damaged key)   5 device   6 internal
  64 usage or configuration   69 hub or service not reachable
  75 an agent that got stuck: to be started anew, which its supervisor does"""


class CommandError(Exception):
    """A command cannot do what it was asked; ``str()`` is the one sentence the user reads."""

    exit_code = EXIT_INTERNAL


class UsageError(CommandError):
    """A wrong option, value or setting: exit 64, and systemd does not restart on it."""

    exit_code = EXIT_USAGE


class Unreachable(CommandError):
    """The hub or service does not answer: exit 69."""

    exit_code = EXIT_UNREACHABLE
