"""``provewire``: argv to one subcommand, and every failure to one sentence and an exit code.

Each subcommand is a module of this package with ``HELP``, ``add_arguments(parser)`` and ``run(args) -> int``;
it imports its side inside ``run``, so that ``provewire verify`` loads no web server and a node loads no hub.
"""

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

from cli.errors import (
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
)
from cli.options import Command, read

if TYPE_CHECKING:
    import argparse

COMMANDS = {
    "hub": "cli.hub",
    "agent": "cli.agent",
    "worker": "cli.worker",
    "supervise": "cli.supervise",
    "enroll": "cli.enroll",
    "login": "cli.login",
    "nodes": "cli.nodes",
    "node": "cli.node",
    "jobs": "cli.jobs",
    "job": "cli.job",
    "circuits": "cli.circuits",
    "logs": "cli.node_logs",
    "ssh": "cli.ssh_run",
    "ssh-target": "cli.ssh_target",
    "ssh-key": "cli.ssh_key",
    "recover": "cli.recover",
    "incidents": "cli.incidents",
    "tokens": "cli.tokens",
    "users": "cli.users",
    "audit": "cli.audit",
    "alerts": "cli.alerts",
    "probe": "cli.probe",
    "status": "cli.status",
    "prove": "cli.prove",
    "verify": "cli.verify",
    "zkey": "cli.zkey",
    "setup": "cli.setup",
    "bench": "cli.bench",
    "gpu-setup": "cli.gpu_setup",
    "demo": "cli.demo",
}
"""Subcommand to module, in the order of ``--help``."""


STARVED = (
    "this process has no file descriptor left, or the machine has none; raise the limit (`ulimit -n`, LimitNOFILE= of "
    "the unit) or end what holds so many"
)


def load(name: str) -> Command:
    """The module of one subcommand."""
    return cast(Command, importlib.import_module(COMMANDS[name]))


def parse(known: Sequence[str], arguments: Sequence[str]) -> "argparse.Namespace":
    """Read a command line for one of the ``known`` commands.

    Raises:
        SystemExit: help was asked for, or the line is wrong; what there is to say has been said.
    """
    commands = {name: load(name) for name in known}
    if len(commands) == 1 and (args := read(commands[known[0]], arguments)) is not None:
        return args
    from cli.parser import parser_for  # noqa: PLC0415 - what it loads takes as long as a part of a small proof

    return parser_for(commands).parse_args(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named in ``argv``; the exit code. Without ``argv``, this is the program.

    Never raises for a user's mistake. An internal fault is printed with its traceback: there it is the evidence.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    known = arguments[:1] if arguments and arguments[0] in COMMANDS else list(COMMANDS)
    try:
        args = parse(known, arguments)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else EXIT_USAGE
    except (OSError, ImportError) as error:
        return report(error)
    logs: ModuleType | None = None
    try:
        command = load(args.command)
        if getattr(command, "LOGS", True):
            logs = importlib.import_module("cli.logs")  # structlog takes as long to load as a small proof
            logs.configure(daemon=getattr(command, "DAEMON", False))
        code = command.run(args)
        if argv is None and getattr(command, "ENDS_AT_ONCE", False):
            leave(code)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`provewire ... | head`): nothing more to say to anyone.
        sys.stderr.close()
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - the outermost line of the process: each class becomes its exit code
        if logs is not None:
            logs.flush()
        return report(error)
    return code


def leave(code: int) -> NoReturn:
    """End the process without taking the interpreter apart, which takes a tenth of a small proof.

    Only for commands that have closed what they opened, and have no threads.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def report(error: Exception) -> int:
    """Say ``error`` in one sentence on stderr; its exit code.

    Every error of ours that is the user's to mend carries ``exit_code``; anything else is an internal fault.
    """
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        print(f"provewire: {error}", file=sys.stderr)
        return code
    if starved(error):
        print(f"provewire: {STARVED}", file=sys.stderr)
        return EXIT_INTERNAL
    import traceback  # noqa: PLC0415 - only for internal faults

    traceback.print_exception(error)
    print(f"provewire: internal fault: {type(error).__name__}: {error}", file=sys.stderr)
    return EXIT_INTERNAL


def starved(error: BaseException) -> bool:
    """Whether it comes of having no file descriptor left, which shows in whatever was being opened just then."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in {errno.EMFILE, errno.ENFILE}:
            return True
        # A library that cannot be opened is an import that failed, and says why in words only.
        if isinstance(found, ImportError) and os.strerror(errno.EMFILE) in str(found):
            return True
        found = found.__cause__ or found.__context__
    return False


if __name__ == "__main__":
    sys.exit(main())
