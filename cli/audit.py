"""``provewire audit``: who did what from where, and who was refused; newest first."""

import argparse
from typing import Any

from cli import client

HELP = "show who did what from where, and who was refused, newest first"
SHOWN_DEFAULT = 50
SHOWN_MAX = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--who", metavar="NAME", help="only of this user or token")
    parser.add_argument("--action", metavar="TEXT", help="only with this in the action or its address: /nodes/")
    parser.add_argument("--refused", action="store_true", help="only refusals")
    parser.add_argument("-n", "--count", type=int, default=SHOWN_DEFAULT, metavar="N", help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    from cli import tables  # noqa: PLC0415 - same
    from cli.errors import UsageError  # noqa: PLC0415 - same

    if not 1 <= args.count <= SHOWN_MAX:
        raise UsageError(f"--count must be 1 to {SHOWN_MAX}, not {args.count}")
    entries = client.hub_of(args).pages(
        "/api/v1/audit",
        "entries",
        args.count,
        who=args.who or "",
        action=args.action or "",
        refused="1" if args.refused else "",
    )
    if args.json:
        print(json.dumps({"entries": entries}, ensure_ascii=False))
        return 0
    tables.show(("when", "who", "from", "did", "of", "came of it"), map(_row, entries), "there is no such entry")
    return 0


def _row(entry: dict[str, Any]) -> tuple[object, ...]:
    from cli.tables import moment  # noqa: PLC0415 - see run

    who = f"{entry['who'] or 'somebody'} ({entry['kind']})"
    outcome = f"refused: {entry['refused']}" if entry["refused"] else f"done ({entry['status']})"
    what = entry["what"] or entry["action"]
    return moment(entry["time_ms"]), who, entry["remote"], what, entry["target"], outcome
