"""``provewire ssh-target``: at the hub, where the nodes' sshds are, and which host keys they show."""

import argparse
from pathlib import Path
from typing import Any

from cli import client
from cli.ssh_run import operator, path_of

HELP = "list, set, accept, pin, import or remove the nodes' ways in by SSH"
NODE_HELP = "its name, its id, or a unique beginning of the id"
TARGET_HELP = "'ssh -p PORT user@host' (in quotes), user@host:port or ssh://user@host:port"
IMPORT_BYTES_MAX = 512 * 1024
ANSWER_BYTES_MAX = 16 * 1024**2
PAGE = 500
SCAN_S = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="the hub's own objects, one a line")
    client.add_arguments(common)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    def action(name: str, help_: str, *, node: bool = True) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=help_, description=help_, parents=[common], allow_abbrev=False)
        if node:
            made.add_argument("node", metavar="NODE", help=NODE_HELP)
        return made

    action("list", "every node's way in, and whether it was proved", node=False)
    action("show", "one node's way in: target, pinned host keys, what the node suggests")
    set_ = action("set", "set a node's target")
    set_.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    set_.add_argument("--host-key", action="append", metavar="KEY", help="'ssh-ed25519 AAAA...'; may be given again")
    accept = action("accept", "take over the target a node suggests")
    accept.add_argument("--host-keys", action="store_true", help="also its host keys, in place of those pinned")
    pin = action("pin", "pin a node's host keys, in place of those before")
    pin.add_argument("keys", nargs="*", metavar="KEY", help="'ssh-ed25519 AAAA...', in quotes")
    pin.add_argument("--jump", metavar="HOST", default="", help="of a host on the way to the node: user@host:port")
    pin.add_argument(
        "--scan", action="store_true", help="ask the target for its keys now; compare before you say --yes"
    )
    pin.add_argument("--none", action="store_true", help="pin none: no login is possible then")
    pin.add_argument("--yes", action="store_true", help="pin what --scan found")
    import_ = action(
        "import", "import targets: lines 'NODE ssh -p PORT user@host', ssh_config, CSV or JSON", node=False
    )
    import_.add_argument("file", metavar="FILE", help="- for standard input")
    import_.add_argument("--form", choices=["auto", "lines", "ssh_config", "csv", "json"], default="auto")
    import_.add_argument("--yes", action="store_true", help="take it over; else only what would change is shown")
    action("remove", "forget a node's target and pinned host keys")


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    hub = client.hub_of(args)
    actions = {
        "list": _list,
        "show": _show,
        "set": _set,
        "accept": _accept,
        "pin": _pin,
        "import": _import,
        "remove": _remove,
    }
    return actions[args.action](hub, args)


def every(hub: client.Hub) -> list[dict[str, Any]]:
    """Every node with its way in."""
    after, rows = "", []
    while True:
        page = hub.ask("GET", f"/api/v1/ssh/targets?limit={PAGE}&after={after}", bytes_max=ANSWER_BYTES_MAX)
        rows += page["targets"]
        if page["next"] is None:
            return rows
        after = page["next"]


def _list(hub: client.Hub, args: argparse.Namespace) -> int:
    rows = every(hub)
    if args.json:
        _print_json(rows)
        return 0
    from cli.node_logs import safe  # noqa: PLC0415 - see run

    wide = max((len(safe(row["name"])) for row in rows), default=4)
    for row in rows:
        pinned = f"host keys: {len(row['host_keys'])}"
        warning = "  HOST KEYS DIFFER from what the node says" if row["host_keys_differ"] else ""
        where = row["target"] or (f"suggests {row['suggested']['target']}" if row["suggested"] else "-")
        print(f"{safe(row['name']):{wide}}  {row['node']}  {where}  {pinned}  {row['fallback']['sentence']}{warning}")
    return 0


def _show(hub: client.Hub, args: argparse.Namespace) -> int:
    return _told(hub.ask("GET", path_of(args.node)), args)


def _set(hub: client.Hub, args: argparse.Namespace) -> int:
    body: dict[str, Any] = {"target": args.target, "asked_by": operator()}
    if args.host_key:
        body["host_keys"] = args.host_key
    return _told(hub.ask("PUT", path_of(args.node), body), args)


def _accept(hub: client.Hub, args: argparse.Namespace) -> int:
    body = {"host_keys": args.host_keys, "asked_by": operator()}
    return _told(hub.ask("POST", f"{path_of(args.node)}/accept", body), args)


def _pin(hub: client.Hub, args: argparse.Namespace) -> int:
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    if bool(args.keys) + args.scan + args.none != 1:
        raise UsageError("give host keys, or --scan to ask for them, or --none")
    keys = args.keys
    if args.scan:
        where = args.jump or hub.ask("GET", path_of(args.node))["target"]
        if where is None:
            raise UsageError(f"{args.node} has no target to ask; set one first")
        keys = _scanned(where)
        for key in keys:
            print(f"{_fingerprint(key)}  {key}")
        if not args.yes:
            print("nothing was pinned: compare these with what the node or its provider says, then say --yes")
            return 0
    body = {"host_keys": keys, "jump": args.jump, "asked_by": operator()}
    return _told(hub.ask("PUT", f"{path_of(args.node)}/host-keys", body), args)


def _scanned(where: str) -> list[str]:
    """The host keys an sshd shows to whoever asks.

    Raises:
        UsageError: there is a host to jump over, which cannot be asked past.
        Unreachable: it shows none.
    """
    import subprocess  # noqa: PLC0415 - see run

    from cli.errors import Unreachable, UsageError  # noqa: PLC0415 - same
    from hub.ssh.targets import TargetRefused, parse  # noqa: PLC0415 - same

    if " via " in where:
        raise UsageError("a host behind another cannot be asked from here; give its keys")
    try:
        target = parse(where)
    except TargetRefused as error:
        raise UsageError(str(error)) from None
    argv = ["ssh-keyscan", "-T", str(SCAN_S), "-p", str(target.port), "--", target.host]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=3 * SCAN_S)  # noqa: S603 - checked words, no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unreachable(f"ssh-keyscan: {error}") from None
    lines = [line.split(None, 1) for line in done.stdout.splitlines() if line and not line.startswith("#")]
    keys = sorted({words[1].strip() for words in lines if len(words) == 2})  # noqa: PLR2004 - host and key
    if not keys:
        raise Unreachable(f"{where} shows no host key: {done.stderr.strip() or 'it said nothing'}")
    return keys


def _fingerprint(key: str) -> str:
    from hub.ssh.identity import fingerprint  # noqa: PLC0415 - see run

    return fingerprint(key)


def _import(hub: client.Hub, args: argparse.Namespace) -> int:
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    body = {"text": _text(args.file), "form": args.form, "dry_run": not args.yes, "asked_by": operator()}
    try:
        told = hub.ask("POST", "/api/v1/ssh/import", body, deadline_s=150.0, bytes_max=ANSWER_BYTES_MAX)
    except UsageError as error:
        raise UsageError(f"{args.file}: {error}") from None
    if args.json:
        _print_json([told])
        return 0
    from cli.node_logs import safe  # noqa: PLC0415 - see run

    for step in told["steps"]:
        change = step["target"] or ""
        if step["before"] and step["before"] != step["target"]:
            change = f"{step['before']} -> {step['target']}"
        words = [f"{step['line']}:", step["outcome"], safe(step["node"]) or "-", change, safe(step["detail"])]
        print("  ".join(word for word in words if word))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in told["counts"].items())
    print(f"{counts}{'' if args.yes else '; nothing was changed yet: say --yes'}")
    return 0


def _text(name: str) -> str:
    """The file's text.

    Raises:
        UsageError: it cannot be read, or is too long.
    """
    import sys  # noqa: PLC0415 - see run

    from cli.errors import UsageError  # noqa: PLC0415 - same

    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            data = file.read(IMPORT_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > IMPORT_BYTES_MAX:
        raise UsageError(f"{name} has more than {IMPORT_BYTES_MAX} bytes; import it in parts")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no UTF-8 text: {error}") from None


def _remove(hub: client.Hub, args: argparse.Namespace) -> int:
    hub.ask("DELETE", path_of(args.node))
    print(f"{args.node} has no way in by ssh any more")
    return 0


def _told(told: dict[str, Any], args: argparse.Namespace) -> int:
    if args.json:
        _print_json([told])
        return 0
    from cli.node_logs import safe  # noqa: PLC0415 - see run

    print(f"node       {safe(told['name'])} ({told['node']})")
    print(f"fallback   {told['fallback']['sentence']}")
    if told["fallback"]["remedy"]:
        print(f"remedy     {told['fallback']['remedy']}")
    print(f"target     {told['target'] or 'none'}{'' if told['source'] is None else ', by ' + told['source']}")
    _print_keys("host key", told["host_keys"], told["pinned_by"])
    for name, keys in told["jump_keys"].items():
        _print_keys(f"of {name}", keys, None)
    if told["suggested"] is not None:
        print(f"suggests   {told['suggested']['target']}")
        if told["host_keys_differ"]:
            print("WARNING    the node says other host keys than those pinned:")
            _print_keys("it says", told["suggested"]["host_keys"], None)
    return 0


def _print_keys(label: str, keys: list[dict[str, str]], by: str | None) -> None:
    for key in keys:
        print(f"{label:10} {key['fingerprint']} ({key['key'].split()[0]}{'' if by is None else ', by ' + by})")
    if not keys:
        print(f"{label:10} none: pin one with `provewire ssh-target pin`")


def _print_json(rows: list[dict[str, Any]]) -> None:
    import json  # noqa: PLC0415 - see run

    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
