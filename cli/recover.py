"""``provewire recover``: at the hub, help a node back. What would be run is shown whole; ``--yes`` does it."""

import argparse
from pathlib import Path
from typing import Any

from cli import client
from cli.errors import EXIT_INTERNAL, EXIT_OK
from cli.ssh_key import NODE_HELP, VIA_HELP, VIA_USER_HELP, ask, say, say_json, whole_path

HELP = "help a node back by SSH: restart its agent, fetch logs, enrol anew, upgrade, install the key"
ACTIONS = ("restart-agent", "fetch-logs", "re-enrol", "upgrade", "install-key")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        f"{HELP}. Provers are left alone, listed before and after, and compared. Ends with 0 when it was done, with 6 "
        "when it was not, with 64 when it was asked wrongly or the hub refused, with 69 when there is no hub."
    )
    parser.add_argument("node", metavar="NODE", help=NODE_HELP)
    parser.add_argument("recovery", metavar="ACTION", choices=ACTIONS, help=f"one of {', '.join(ACTIONS)}")
    parser.add_argument("--yes", action="store_true", help="do it; else only what would be done is shown")
    parser.add_argument("--via-key", type=Path, metavar="FILE", help=VIA_HELP)
    parser.add_argument("--via-user", default="", metavar="U", help=VIA_USER_HELP)
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="for upgrade: a wheel on the hub's machine")
    parser.add_argument("--mend", action="store_true", help="for install-key: also put other lines right")
    parser.add_argument("--json", action="store_true", help="the hub's own object")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print; the exit code."""
    hub = client.hub_of(args)
    body = {
        "action": args.recovery,
        "via_key": whole_path(args.via_key),
        "via_user": args.via_user,
        "wheel": whole_path(args.wheel),
        "mend": args.mend,
    }
    told = ask(hub, _path(args.node), body)
    if args.json and not args.yes:
        say_json(told)
    if not args.json:
        _say_preview(told, args.node)
    if not args.yes:
        if not args.json:
            say("\nnothing was done; the same with --yes shows this once more and does it")
        return EXIT_OK
    return _confirm(hub, args, told["token"])


def _path(node: str) -> str:
    from cli.ssh_run import path_of  # noqa: PLC0415 - see run

    return f"{path_of(node).removesuffix('/ssh')}/recovery/preview"


def _say_preview(told: dict[str, Any], node: str) -> None:
    say(f"{told['action']} at {node}" + (f" ({told['node']})" if told["node"] != node else ""))
    for effect in told["effects"]:
        say(f"  {effect}")
    if told["diff"]:
        say(f"\n{told['diff']}")
    for command in told["commands"]:
        say(f"\nexactly this is run:\n{command}")
    if told["stdin"]:
        say(f"\nit reads: {told['stdin']}")


def _confirm(hub: client.Hub, args: argparse.Namespace, token: str) -> int:
    done = ask(hub, "/api/v1/recovery", {"token": token})
    if args.json:
        say_json(done)
    else:
        say(f"\n{'done' if done['ok'] else 'NOT DONE'}: {done['sentence']}")
        if done["output"]:
            say(done["output"])
        for moment in ("before", "after"):
            if done[moment]:
                say(f"\n{moment}:")
            for process in done[moment]:
                say(f"  {process['pid']:>8} {process['state']} {process['kind']:10} {process['command']}")
        if done["provers_lost"]:
            say(f"\nPROVERS LOST: {', '.join(str(process['pid']) for process in done['provers_lost'])}")
        elif done["before"]:
            say("\nevery prover that was there before is there still")
    return EXIT_OK if done["ok"] else EXIT_INTERNAL
