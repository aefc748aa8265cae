"""``provewire users``: who may log in. Passwords are asked for, or read from stdin; never in the command line."""

import argparse
from typing import Any
from urllib.parse import quote

from cli import client

HELP = "list, add, change and remove those who may log in"
ROLES = ("viewer", "operator", "admin")
PASSWORD_CHARS_MAX = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(common)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", parents=[common], help="everybody")
    told = {
        "add": "let somebody in; the password is asked for, or read from stdin",
        "role": "another role",
        "password": "another password, asked for or read from stdin; logs out everywhere",
        "disable": "out at once, until enabled again",
        "enable": "in again",
        "logout": "end every session",
        "remove": "forget somebody; what they did stays in the audit",
    }
    for name, help_ in told.items():
        action = actions.add_parser(name, parents=[common], help=help_)
        action.add_argument("user", metavar="USER", help="name" if name == "add" else "name, or id")
        if name == "role":
            action.add_argument("role", choices=ROLES)
    actions.choices["add"].add_argument("--role", required=True, choices=ROLES, help="what they may do")


def run(args: argparse.Namespace) -> int:
    """Do what is asked, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    from cli import tables  # noqa: PLC0415 - same

    hub = client.hub_of(args)
    if args.action == "list":
        users = hub.pages("/api/v1/users", "users")
        if args.json:
            print(json.dumps({"users": users}, ensure_ascii=False))
        else:
            columns = ("name", "role", "state", "sessions", "last login", "id")
            tables.show(columns, map(_row, users), "nobody yet: `provewire hub setup-link` sets up the first admin")
        return 0
    told = _change(hub, args)
    print(json.dumps(told, ensure_ascii=False) if args.json else f"{args.user}: done")
    return 0


def _change(hub: client.Hub, args: argparse.Namespace) -> dict[str, Any]:
    path = f"/api/v1/users/{quote(args.user, safe='')}"
    match args.action:
        case "add":
            return hub.post("/api/v1/users", {"name": args.user, "role": args.role, "password": read_password()})
        case "role":
            return hub.ask("PATCH", path, {"role": args.role})
        case "password":
            return hub.ask("PATCH", path, {"password": read_password()})
        case "logout":
            return hub.post(f"{path}/logout", {})
        case "remove":
            return hub.ask("DELETE", path)
    return hub.ask("PATCH", path, {"disabled": args.action == "disable"})


def read_password() -> str:
    """Ask for a password twice; where nobody is to be asked, the first line of stdin is it.

    Raises:
        UsageError: there is none, or the two differ.
    """
    import sys  # noqa: PLC0415 - see run
    from getpass import getpass  # noqa: PLC0415 - same

    from cli.errors import UsageError  # noqa: PLC0415 - same

    if not sys.stdin.isatty():
        password = sys.stdin.readline(PASSWORD_CHARS_MAX + 2).rstrip("\n")
    else:
        password = getpass("password: ")
        if getpass("once more: ") != password:
            raise UsageError("the two passwords differ; nothing was changed")
    if not password:
        raise UsageError("no password was given; nothing was changed")
    return password


def _row(user: dict[str, Any]) -> tuple[object, ...]:
    from cli.tables import moment  # noqa: PLC0415 - see run

    state = "in" if user["disabled_at_ms"] is None else f"out since {moment(user['disabled_at_ms'])}"
    return user["name"], user["role"], state, user["sessions"], moment(user["last_login_at_ms"]), user["id"]
