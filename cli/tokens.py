"""``provewire tokens``: tokens for programs, and those nodes enrol with: listed, made, revoked."""

import argparse
from typing import Any
from urllib.parse import quote

from cli import client

HELP = "list, make and revoke tokens for programs; list and revoke those nodes enrol with"
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(common)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", parents=[common], help="every token for programs, without its secret")
    add = actions.add_parser("add", parents=[common], help="make one; the token alone goes to stdout, this once")
    add.add_argument("name", metavar="NAME", help="what it is for")
    add.add_argument("--role", required=True, choices=["viewer", "operator", "admin"], help="what it may do")
    add.add_argument("--area", action="append", default=[], metavar="A", help="held to: jobs, nodes, ssh and so on")
    add.add_argument("--ttl", metavar="T", help="how long it is good: 12h, 30d; for ever if left out")
    revoke = actions.add_parser("revoke", parents=[common], help="it opens nothing from now on")
    revoke.add_argument("token", metavar="TOKEN", help="its id, a unique beginning of it, or a unique name")
    actions.add_parser("enrolment", parents=[common], help="every token that nodes enrol with")
    stop = actions.add_parser("revoke-enrolment", parents=[common], help="no further node enrols with it")
    stop.add_argument("token", metavar="ID", help="its id, or a unique beginning of it")


def run(args: argparse.Namespace) -> int:
    """Do what is asked, and print."""
    hub = client.hub_of(args)
    match args.action:
        case "add":
            return _add(hub, args)
        case "revoke":
            return _said(args, hub.ask("DELETE", f"/api/v1/tokens/{quote(args.token, safe='')}"), "revoked")
        case "revoke-enrolment":
            return _said(args, hub.ask("DELETE", f"/api/v1/enroll-tokens/{quote(args.token, safe='')}"), "revoked")
        case "enrolment":
            return _list(args, hub.pages("/api/v1/enroll-tokens", "tokens"), ENROLMENT, _enrolment_row)
    return _list(args, hub.pages("/api/v1/tokens", "tokens"), COLUMNS, _row)


COLUMNS = ("name", "role", "areas", "good", "expires", "last used", "from", "made by", "id")
ENROLMENT = ("id", "used", "of", "made", "expires", "revoked", "labels")


def _add(hub: client.Hub, args: argparse.Namespace) -> int:
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only
    import sys  # noqa: PLC0415 - same

    from cli.tables import moment  # noqa: PLC0415 - same

    wanted: dict[str, Any] = {"name": args.name, "role": args.role, "areas": args.area}
    if args.ttl:
        wanted["ttl_s"] = length_s(args.ttl)
    made = hub.post("/api/v1/tokens", wanted)
    if args.json:
        print(json.dumps(made))
        return 0
    print(made["token"])
    until = (
        "for ever, until it is revoked" if made["expires_at_ms"] is None else f"until {moment(made['expires_at_ms'])}"
    )
    print(f"good {until}; shown this once, so keep it in a file that only its program reads", file=sys.stderr)
    return 0


def length_s(text: str) -> int:
    """Seconds of 90s, 15m, 12h or 30d.

    Raises:
        UsageError: it is none.
    """
    from cli.errors import UsageError  # noqa: PLC0415 - see _add

    if not (text[-1:] in UNITS_S and text[:-1].isascii() and text[:-1].isdigit() and len(text) <= 9):  # noqa: PLR2004
        raise UsageError(f"--ttl {text!r} is no length of time; it looks like 90s, 15m, 12h or 30d")
    return int(text[:-1]) * UNITS_S[text[-1]]


def _said(args: argparse.Namespace, told: dict[str, Any], word: str) -> int:
    import json  # noqa: PLC0415 - see _add

    print(json.dumps(told, ensure_ascii=False) if args.json else f"{told.get('name', told['id'])}: {word}")
    return 0


def _list(args: argparse.Namespace, tokens: list[dict[str, Any]], columns: tuple[str, ...], row: Any) -> int:
    import json  # noqa: PLC0415 - see _add

    from cli import tables  # noqa: PLC0415 - same

    if args.json:
        print(json.dumps({"tokens": tokens}, ensure_ascii=False))
    else:
        tables.show(columns, map(row, tokens), "there is no token yet")
    return 0


def _row(token: dict[str, Any]) -> tuple[object, ...]:
    from cli.tables import moment  # noqa: PLC0415 - see _add

    return (
        token["name"],
        token["role"],
        token["areas"] or "all",
        token["good"],
        moment(token["expires_at_ms"]),
        moment(token["used_at_ms"]),
        token["used_from"],
        token["created_by"],
        token["id"],
    )


def _enrolment_row(token: dict[str, Any]) -> tuple[object, ...]:
    from cli.tables import moment  # noqa: PLC0415 - see _add

    return (
        token["id"],
        token["uses"],
        token["uses_max"],
        moment(token["created_at_ms"]),
        moment(token["expires_at_ms"]),
        moment(token["revoked_at_ms"]),
        [f"{name}={value}" for name, value in sorted(token["labels"].items())],
    )
