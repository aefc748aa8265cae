"""``provewire nodes``: at the hub, how every node is, in one sentence each, the worst first; above them the banner."""

import argparse
from typing import Any

from cli import client

HELP = "show how every node is, the worst first, with why and what to do"
PAGE = 500
ANSWER_BYTES_MAX = 64 * 1024**2
MARKS = {"ok": " ", "info": "-", "warn": "!", "bad": "X"}
"""Of a sentence's severity: a colour alone is none to many."""
ORDER = ("bad", "warn", "info", "ok")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{HELP}. X: it does not do what it is there for; !: it will not for ever; -: worth a word."
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    hub = client.hub_of(args)
    nodes: list[dict[str, Any]] = []
    after = ""
    while True:
        path = f"/api/v1/nodes?limit={PAGE}" + (f"&after={after}" if after else "")
        page = hub.ask("GET", path, bytes_max=ANSWER_BYTES_MAX)
        nodes += page["nodes"]
        if (after := page["next"] or "") == "":
            break
    banner = hub.ask("GET", "/api/v1/incidents", bytes_max=ANSWER_BYTES_MAX)["banner"]
    if args.json:
        print(json.dumps({"banner": banner, "nodes": nodes}, ensure_ascii=False))
    else:
        print("\n".join([*banner_lines(banner), *lines(nodes)]))
    return 0


def banner_lines(banner: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the fleet: verdict, since when, why, what to do; an empty line below."""
    from cli.incidents import moment, plain  # noqa: PLC0415 - see run

    found = []
    for line in banner:
        since = "" if line["since_ms"] is None else f", since {moment(line['since_ms'])}"
        found.append(plain(f"{MARKS.get(line['severity'], '?')} {line['headline']}{since}"))
        found += [plain(f"    {words}") for words in (line["cause"], line["remedy"]) if words]
    return [*found, ""] if found else []


def lines(nodes: list[dict[str, Any]]) -> list[str]:
    """A line for each node, the worst first; below one that needs somebody, why and what to do."""
    from cli.incidents import plain  # noqa: PLC0415 - see run

    if not nodes:
        return ["no node is enrolled yet: `provewire enroll` makes a token for one"]
    wide = min(32, max(len(plain(node["name"])) for node in nodes))
    found = []
    for node in sorted(nodes, key=lambda node: (_rank(node), node["name"])):
        said, lights = node["sentence"], node["lights"]
        heard, proving = lights["heard"]["state"], lights["proving"]["state"]
        mark = MARKS.get(said["severity"], "?")
        found.append(plain(f"{mark} {node['name']:{wide}}  {heard:7}  {proving:7}  {said['text']}"))
        if said["severity"] in {"warn", "bad"}:
            why = [said["cause"]] if said["cause"] and said["cause"] not in said["text"] else []
            found += [plain(f"    {words}") for words in (*why, said["remedy"]) if words]
    return found


def _rank(node: dict[str, Any]) -> int:
    severity = node["sentence"]["severity"]
    return ORDER.index(severity) if severity in ORDER else len(ORDER)
