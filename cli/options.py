"""A command's options, and the plain way to write them: ``--name value``, each at most once, nothing in between.

argparse says what a command line means. But it takes as long to load and to be told the options as a part of a small
proof, so what is written plainly is read here, with the same result; whatever is not, argparse reads.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import argparse


class Command(Protocol):
    """What a subcommand's module offers."""

    HELP: str

    def add_arguments(self, parser: "argparse.ArgumentParser") -> None:
        """Declare the command's options."""

    def run(self, args: "argparse.Namespace") -> int:
        """Do it; the exit code."""


class _NotPlain(Exception):
    """This is for argparse."""


class _Options:
    """Takes a command's declarations as a parser does."""

    def __init__(self) -> None:
        self.kinds: dict[str, Callable[[str], Any] | None] = {}
        """What makes a value of an option's text, by its name; None for one that takes none."""
        self.values: dict[str, Any] = {}
        self.required: set[str] = set()

    def add_argument(
        self,
        name: str,
        *,
        type: Callable[[str], Any] = str,  # noqa: A002 - argparse's own words
        default: Any = None,
        required: bool = False,
        action: str = "store",
        metavar: str | None = None,  # noqa: ARG002 - for the help only
        help: str | None = None,  # noqa: A002, ARG002 - same
    ) -> None:
        """One option; a TypeError where it is more than a name and a value."""
        if (
            not name.startswith("--")
            or action not in {"store", "store_true"}
            or (type is not str and default is not None)
        ):
            raise _NotPlain
        self.kinds[name] = None if action == "store_true" else type
        self.values[_attribute(name)] = False if action == "store_true" else default
        if required:
            self.required.add(name)


def read(command: Command, arguments: Sequence[str]) -> "argparse.Namespace | None":
    """Read a command line whose first word is the command's name; None where it is not plain, or wrong.

    Args:
        command: the command's module.
        arguments: the words after the program's name.
    """
    options = _Options()
    try:
        command.add_arguments(cast("argparse.ArgumentParser", options))
        _read(options, arguments[1:])
    except Exception:  # noqa: BLE001 - whatever it is: argparse finds it again, and knows how to say it
        return None
    return cast("argparse.Namespace", SimpleNamespace(command=arguments[0], **options.values))


def _read(options: _Options, words: Sequence[str]) -> None:
    """Put what the words say into the options' values."""
    seen = set()
    rest = iter(words)
    for name in rest:
        if name not in options.kinds or name in seen:
            raise _NotPlain
        seen.add(name)
        kind = options.kinds[name]
        if kind is None:
            options.values[_attribute(name)] = True
            continue
        text = next(rest, "-")
        if text.startswith("-"):
            raise _NotPlain
        options.values[_attribute(name)] = kind(text)
    if not options.required <= seen:
        raise _NotPlain


def _attribute(name: str) -> str:
    """Return the name that an option's value has, as argparse gives it."""
    return name.removeprefix("--").replace("-", "_")
