"""``provewire circuits``: what can be proved: the registered keys."""

import argparse
from typing import Any

from cli import client

HELP = "list the circuits that jobs can be handed in for"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    from cli import tables  # noqa: PLC0415 - same

    circuits = client.hub_of(args).pages("/api/v1/circuits", "circuits")
    if args.json:
        print(json.dumps({"circuits": circuits}, ensure_ascii=False))
        return 0
    columns = ("name", "curve", "wires", "domain", "public", "bytes", "id")
    tables.show(columns, map(_row, circuits), "no circuit is registered yet: POST /api/v1/circuits registers one")
    return 0


def _row(circuit: dict[str, Any]) -> tuple[object, ...]:
    names = ("name", "curve", "n_vars", "domain_size", "n_public", "zkey_bytes", "id")
    return tuple(circuit[name] for name in names)
