"""The whole of every command line's rules: help, usage errors, abbreviations that are refused. Loads argparse."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from cli.errors import EXIT_CODES_HELP, EXIT_USAGE
from cli.options import Command


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's, told how wide the terminal is: it would load ``shutil`` to ask, which takes a while."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """How many columns the terminal has, as ``shutil.get_terminal_size`` finds out."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return int(named)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # no terminal
        return 80


class Parser(argparse.ArgumentParser):
    """argparse with the exit code of usage errors that systemd's units rely on."""

    def error(self, message: str) -> NoReturn:
        """Print usage and one sentence, exit 64."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"provewire: {message}\n")


class _Version(argparse.Action):
    """``--version``; what it prints takes a while to find out, so that is done when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> None:
        """Print it and end."""
        from importlib.metadata import version  # noqa: PLC0415 - see above

        print(f"provewire {version('provewire')}")
        parser.exit()


def parser_for(commands: Mapping[str, Command]) -> Parser:
    """The parser of the given subcommands, by their names."""
    parser = Parser(
        prog="provewire",
        description="Zero-knowledge proving on fleets of rented GPU nodes.",
        epilog=EXIT_CODES_HELP,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the program's version and exit")
    subparsers = parser.add_subparsers(
        prog=parser.prog, title="commands", dest="command", metavar="COMMAND", required=True
    )
    for name, module in commands.items():
        sub = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.HELP,
            epilog=EXIT_CODES_HELP,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        module.add_arguments(sub)
    return parser
