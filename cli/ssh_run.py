"""``provewire ssh``: at the hub, reach a node as the hub does, and read what came of it, whole."""

import argparse
from typing import Any

from cli import client

HELP = "reach a node by SSH as the hub does, or show its last attempt"
ANSWER_BYTES_MAX = 64 * 1024**2
DEADLINE_S_MAX = 600.0
TURN_S = 180.0
"""For a turn at the node and a second try, beyond the deadline itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "provewire ssh NODE [--last | --look] [--verbose] [--json] [--deadline S] [-- CMD...]"
    parser.description = (
        f"{HELP}. Without a command a login is tried. Ends with 0, with 69 if the node cannot be reached, "
        "or with the exit code of the command that ran there."
    )
    parser.add_argument("node", metavar="NODE", help="its name, its id, or a unique beginning of the id")
    _add_options(parser)
    rest = parser.add_argument(
        "rest", metavar="CMD", nargs=argparse.REMAINDER, help="after --: a command for its shell"
    )
    rest.required = False  # the message about a missing node names nothing else


def _add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--last", action="store_true", help="try nothing: show the last attempt, whoever made it")
    what.add_argument("--look", action="store_true", help="log in and print what the node can say of itself")
    parser.add_argument(
        "--verbose", action="store_true", help="also which keys were offered, and the whole command line"
    )
    parser.add_argument("--json", action="store_true", help="the record as the hub has it, with the raw bytes")
    parser.add_argument("--deadline", type=float, metavar="S", help="seconds for connection and command together")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print; the exit code."""
    args, command = _parted(args)
    hub = client.hub_of(args)
    told = _last(hub, args.node) if args.last else _try(hub, args, command)
    _print(hub, told, args)
    return 0 if args.last else exit_code_of(told)


def _parted(args: argparse.Namespace) -> tuple[argparse.Namespace, str]:
    """Options behind the node, and the command behind ``--``.

    Raises:
        UsageError: they contradict each other.
    """
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    rest = list(args.rest)
    if rest and not rest[0].startswith("-"):
        rest.insert(0, "--")  # argparse takes a first one away
    at = rest.index("--") if "--" in rest else len(rest)
    parser = argparse.ArgumentParser(prog="provewire ssh NODE", allow_abbrev=False, add_help=False, exit_on_error=False)
    _add_options(parser)
    given = {name: value for name, value in vars(args).items() if name != "rest"}
    try:
        found, unknown = parser.parse_known_args(rest[:at], argparse.Namespace(**given))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None
    if unknown:
        raise UsageError(f"{' '.join(unknown)} is no option of provewire ssh; a command goes behind --")
    words = rest[at + 1 :]
    if words and (found.last or found.look):
        raise UsageError("--last and --look take no command")
    if found.deadline is not None and not 0 < found.deadline <= DEADLINE_S_MAX:
        raise UsageError(f"--deadline must be more than 0 and at most {DEADLINE_S_MAX:g}, not {found.deadline:g}")
    return found, " ".join(words)


def _last(hub: client.Hub, node: str) -> dict[str, Any]:
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    path = path_of(node)
    listed = hub.ask("GET", f"{path}/attempts?limit=1", bytes_max=ANSWER_BYTES_MAX)["attempts"]
    if not listed:
        raise UsageError(f"nobody has tried to reach {node} by ssh yet")
    return hub.ask("GET", f"{path}/attempts/{listed[0]['id']}", bytes_max=ANSWER_BYTES_MAX)


def _try(hub: client.Hub, args: argparse.Namespace, command: str) -> dict[str, Any]:
    body: dict[str, Any] = {"asked_by": operator(), "probe": "look" if args.look else "login"}
    if command:
        body["command"] = command
    if args.deadline is not None:
        body["deadline_s"] = args.deadline
    wait_s = TURN_S + 2 * (args.deadline or DEADLINE_S_MAX)
    return hub.ask("POST", f"{path_of(args.node)}/attempts", body, deadline_s=wait_s, bytes_max=ANSWER_BYTES_MAX)


def _print(hub: client.Hub, told: dict[str, Any], args: argparse.Namespace) -> None:
    import json  # noqa: PLC0415 - see run

    from cli.ssh_record import rendered  # noqa: PLC0415 - same

    tries = [told]
    if told["retry_of"] and (args.verbose or args.json):
        tries.insert(
            0, hub.ask("GET", f"{path_of(told['node'])}/attempts/{told['retry_of']}", bytes_max=ANSWER_BYTES_MAX)
        )
    if args.json:
        for one in tries:
            print(json.dumps(one, ensure_ascii=False))
    else:
        print("\n\n".join(rendered(one, verbose=args.verbose) for one in tries))


def exit_code_of(told: dict[str, Any]) -> int:
    """0, the command's own, or 69."""
    from cli.errors import EXIT_OK, EXIT_UNREACHABLE  # noqa: PLC0415 - see run

    if told["ok"]:
        return EXIT_OK
    remote = told["remote_exit_code"]
    return remote if isinstance(remote, int) and remote else EXIT_UNREACHABLE


def path_of(node: str) -> str:
    """The address of a node's way in."""
    from urllib.parse import quote  # noqa: PLC0415 - see run

    return f"/api/v1/nodes/{quote(node, safe='')}/ssh"


def operator() -> str:
    """Who runs this command, for the hub's records: the one before ``sudo``, if there was one."""
    import os  # noqa: PLC0415 - see run
    import pwd  # noqa: PLC0415 - same

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    before = os.environ.get("SUDO_USER", "")
    return (f"{before} as {name}" if before and before != name else name)[:64]
