"""``provewire ssh-key``: at the hub, its SSH key: shown, looked after at nodes, installed there, and rotated.

Everything that changes a node is shown first, whole, and done only with ``--yes``.
"""

import argparse
from pathlib import Path
from typing import Any

from cli import client
from cli.errors import EXIT_INTERNAL, EXIT_OK
from cli.ssh_run import operator, path_of

HELP = "show its SSH key, install it at nodes, find out why it is refused, or rotate it"
NODE_HELP = "its name, its id, or a unique beginning of the id"
VIA_HELP = "another private key that gets in, a file on the hub's machine; read only for this"
VIA_USER_HELP = "who logs in with --via-key, where the target's own user may not: root, most often"
ANSWER_BYTES_MAX = 64 * 1024**2
ANSWER_S = 3600.0
"""Many nodes take their time; the hub has deadlines of its own for each."""
WAYS = {
    "nothing": "the hub's key gets in already: there is nothing to do",
    "own": "by the hub's own key",
    "session": "over the live session",
    "via_key": "by the other key",
    "console": "by hand, at the provider's console",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = (
        f"{HELP}. Ends with 0 when all is well, with 6 when something was found or could not be done, "
        "with 64 when it was asked wrongly or the hub refused, with 69 when there is no hub."
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="the hub's own objects, one a line")
    client.add_arguments(common)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    def action(name: str, help_: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=help_, description=help_, parents=[common], allow_abbrev=False)

    action("show", "the hub's key, the line that lets it in by hand, and how far a rotation is")
    install = action("install", "let the hub's key in at a node, or at all: shown, and with --yes done and proved")
    which = install.add_mutually_exclusive_group(required=True)
    which.add_argument("node", nargs="?", metavar="NODE", help=NODE_HELP)
    which.add_argument("--all", action="store_true", help="every node, one canary first")
    install.add_argument("--mend", action="store_true", help="also put right what is wrong with other lines")
    looker = action("doctor", "find out at a node why it does not take the hub's key; changes nothing")
    looker.add_argument("node", metavar="NODE", help=NODE_HELP)
    for each in (install, looker):
        each.add_argument("--via-key", type=Path, metavar="FILE", help=VIA_HELP)
        each.add_argument("--via-user", default="", metavar="U", help=VIA_USER_HELP)
    rotate = action("rotate", "put a new key in the old one's place, or go on with that: shown, and with --yes done")
    for each in (install, rotate):
        each.add_argument("--yes", action="store_true", help="do it; else only what would be done is shown")


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print; the exit code."""
    hub = client.hub_of(args)
    return {"show": _show, "install": _install, "doctor": _doctor, "rotate": _rotate}[args.action](hub, args)


def ask(hub: client.Hub, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST, with the time that many nodes may take."""
    named = body | {"asked_by": operator()}
    return hub.ask("POST", path, named, deadline_s=ANSWER_S, bytes_max=ANSWER_BYTES_MAX)


def whole_path(path: Path | None) -> str:
    """A file as the hub is to find it."""
    return "" if path is None else str(path.expanduser().absolute())


def say(text: str = "") -> None:
    """Print what may hold a node's words: nothing in it is obeyed by the terminal."""
    from cli.node_logs import safe  # noqa: PLC0415 - see run

    print(safe(text))


def say_json(told: dict[str, Any]) -> None:
    """One object, one line."""
    import json  # noqa: PLC0415 - see run

    print(json.dumps(told, ensure_ascii=False))


# --- the actions


def _show(hub: client.Hub, args: argparse.Namespace) -> int:
    told = hub.ask("GET", "/api/v1/ssh/keys", bytes_max=ANSWER_BYTES_MAX)
    if args.json:
        say_json(told)
        return EXIT_OK
    for key in told["keys"]:
        say(f"{key['fingerprint']}  {key['path']}\n{key['public']}")
    if not told["keys"]:
        say("the hub has no key that can be used; `provewire incidents` says why")
    else:
        say(f"\nby hand, at a node, as the user to log in as:\n{told['console_line']}")
    if told["rotation"]:
        _say_rotation(told["rotation"], names_of(hub))
    if told["without_way"]:
        names = names_of(hub)
        say(f"\nnodes without a way in: {', '.join(names.get(node, node) for node in told['without_way'])}")
    return EXIT_OK if told["keys"] else EXIT_INTERNAL


def _doctor(hub: client.Hub, args: argparse.Namespace) -> int:
    body = {"via_key": whole_path(args.via_key), "via_user": args.via_user}
    told = ask(hub, f"{path_of(args.node)}/doctor", body)
    if args.json:
        say_json(told)
    else:
        key = "the hub's key is there" if told["key_there"] else "the hub's key does not get in by it"
        say(f"{told['path']} of {told['user']}: {key}")
        say_symptoms(told["symptoms"])
        if not told["symptoms"]:
            say("nothing is wrong there")
        elif any(symptom["installer"] for symptom in told["symptoms"]):
            via = f" --via-key {args.via_key}" if args.via_key else ""
            say(f"\nprovewire ssh-key install {args.node}{via} shows what it would mend; with --mend also other lines")
    return EXIT_OK if told["healthy"] else EXIT_INTERNAL


def say_symptoms(symptoms: list[dict[str, Any]]) -> None:
    """What is wrong, what keeps the hub out first."""
    for symptom in symptoms:
        mark = "KEEPS THE HUB OUT" if symptom["blocks"] else "also"
        say(f"\n{mark}: {symptom['what']}\n  where:  {symptom['where']}")
        if symptom["evidence"]:
            say(f"  seen:   {symptom['evidence']}")
        say(f"  repair: {symptom['repair']}{'  (the installer does it)' if symptom['installer'] else ''}")


def _install(hub: client.Hub, args: argparse.Namespace) -> int:
    body: dict[str, Any] = {"via_key": whole_path(args.via_key), "via_user": args.via_user, "mend": args.mend}
    if args.node:
        body["nodes"] = [hub.ask("GET", path_of(args.node))["node"]]
    told = ask(hub, "/api/v1/ssh/keys/preview", body)
    if not args.json:
        names = names_of(hub)
        for plan in told["plans"]:
            _say_plan(plan, names)
        for node, why in told["not_looked_at"].items():
            say(f"\n{names.get(node, node)}: not looked at: {why}")
        if not args.yes:
            say("\nnothing was changed; the same with --yes looks again and does what it then shows")
    elif not args.yes:
        say_json(told)
    looked = not told["not_looked_at"]
    done = _confirmed(hub, args, told["token"]) if args.yes else True
    return EXIT_OK if looked and done else EXIT_INTERNAL


def _confirmed(hub: client.Hub, args: argparse.Namespace, token: str) -> bool:
    """Do what was shown; whether all of it worked."""
    made = ask(hub, "/api/v1/ssh/keys/install", {"token": token})
    if args.json:
        say_json(made)
    else:
        say()
        names = names_of(hub)
        for one in made["installed"]:
            say(f"{names.get(one['node'], one['node'])}: {'done' if one['ok'] else 'NOT DONE'}: {one['sentence']}")
            if one["backup"]:
                say(f"  as it was: {one['backup']}")
            say_symptoms(one["symptoms"])
    return all(one["ok"] for one in made["installed"])


def names_of(hub: client.Hub) -> dict[str, str]:
    """What the nodes are called, by their ids."""
    from cli.ssh_target import every  # noqa: PLC0415 - see run

    return {row["node"]: row["name"] for row in every(hub)}


def _say_plan(plan: dict[str, Any], names: dict[str, str]) -> None:
    whose = f", as {plan['user']}" if plan["user"] and plan["way"] != "nothing" else ""
    say(f"\n{names.get(plan['node'], plan['node'])}: {WAYS.get(plan['way'], plan['way'])}{whose}")
    for why in plan["passed_over"]:
        say(f"  not by {why}")
    say_symptoms(plan["symptoms"])
    if plan["diff"]:
        say(f"\n{plan['diff']}")
    for command in plan["commands"]:
        say(f"\n{'run this there' if plan['way'] == 'console' else 'exactly this is run'}:\n{command}")


def _rotate(hub: client.Hub, args: argparse.Namespace) -> int:
    told = ask(hub, "/api/v1/ssh/rotation/preview", {})
    if not args.json:
        for number, step in enumerate(told["steps"], start=1):
            say(f"{number}. {step}")
        names = names_of(hub)
        without = ", ".join(names.get(node, node) for node in told["without_way"])
        say(f"\nat {told['nodes']} nodes; without a way in: {without or 'none'}")
    elif not args.yes:
        say_json(told)
    if not args.yes:
        if not args.json:
            say("nothing was changed; with --yes it is done, or gone on with")
        return EXIT_OK
    made = ask(hub, "/api/v1/ssh/rotation", {"token": told["token"]})
    if args.json:
        say_json(made)
    else:
        _say_rotation(made, names_of(hub))
    return EXIT_OK if made["done"] else EXIT_INTERNAL


def _say_rotation(rotation: dict[str, Any], names: dict[str, str]) -> None:
    state = "done" if rotation["done"] else "under way: `provewire ssh-key rotate --yes` goes on with it"
    say(f"\nrotation to {rotation['new_fingerprint']}: {state}")
    if rotation["retired_to"]:
        say(f"the old key, {rotation['old_fingerprint']}, lies at {rotation['retired_to']}")
    for station in rotation["nodes"]:
        old = "taken out" if station["old_removed"] else "still let in"
        new = "proved" if station["new_proved"] else "not proved"
        detail = f": {station['detail']}" if station["detail"] else ""
        say(f"  {names.get(station['node'], station['node'])}: new key {new}, old key {old}{detail}")
