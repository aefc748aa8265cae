"""``provewire login``: at the hub, make a link that logs one browser in, once. The link alone goes to stdout."""

import argparse
from pathlib import Path

HELP = "at the hub, print a link that logs one browser in to its page, once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--data-dir", type=Path, metavar="D", help="the hub's data directory (PROVEWIRE_DATA_DIR)")


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    return print_link(
        args.data_dir, "login-links", "good for one browser until {until}; whoever opens it first is logged in"
    )


def print_link(data_dir: Path | None, kind: str, meaning: str) -> int:
    """Have the hub make a link; the link alone goes to stdout, what it means to stderr.

    Raises:
        CommandError: what answers is no hub of ours.
    """
    import sys  # noqa: PLC0415 - each side is imported in its own subcommand only
    from datetime import UTC, datetime  # noqa: PLC0415 - same

    from cli.at_hub import HubHere  # noqa: PLC0415 - same
    from cli.errors import CommandError  # noqa: PLC0415 - same
    from hub.config import operators_data_dir  # noqa: PLC0415 - same

    made = HubHere(operators_data_dir(data_dir)).post(f"/api/v1/{kind}", {})
    try:
        url, expires_at_ms = str(made["url"]), int(made["expires_at_ms"])
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"what answers is no hub of ours: it sent no link ({error})") from error
    print(url)
    until = datetime.fromtimestamp(expires_at_ms / 1000, UTC).strftime("%H:%M:%S UTC")
    print(meaning.format(until=until), file=sys.stderr)
    return 0
