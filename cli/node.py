"""``provewire node NODE``: at the hub, how one node is, why, what to do, and what it last said of itself."""

import argparse
from collections.abc import Iterable
from typing import Any

from cli import client

HELP = "show how one node is, why, what to do, and what it last said of itself"
ANSWER_BYTES_MAX = 16 * 1024**2
GIB = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("node", metavar="NODE", help="its name, its id, or a unique beginning of the id")
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only
    from urllib.parse import quote  # noqa: PLC0415 - same

    hub = client.hub_of(args)
    told = hub.ask("GET", f"/api/v1/nodes/{quote(args.node, safe='')}", bytes_max=ANSWER_BYTES_MAX)
    print(json.dumps(told, ensure_ascii=False) if args.json else "\n".join(lines(told)))
    return 0


def lines(node: dict[str, Any]) -> list[str]:
    """For people: the sentence with why and what to do, both lights, the way in, then what it said."""
    from cli.incidents import moment, plain  # noqa: PLC0415 - see run
    from cli.nodes import MARKS  # noqa: PLC0415 - see run

    said, lights, fallback = node["sentence"], node["lights"], node["fallback"]
    found = [f"{node['name']}  {node['id']}", f"{MARKS.get(said['severity'], '?')} {said['text']}"]
    if said["cause"]:
        found.append(f"  why      {said['cause']}{'' if said['certain'] else '  (not certain)'}")
    if said["remedy"]:
        found.append(f"  do       {said['remedy']}")
    found.append(f"  heard    {lights['heard']['text']}")
    found.append(f"  proving  {lights['proving']['text']}")
    found.append(f"  ssh      {fallback['sentence']}{'' if fallback['target'] is None else '  ' + fallback['target']}")
    if fallback["found"]:
        found.append(f"  looked   {moment(fallback['looked_at_ms'])}: {fallback['found']}")
    labels = ", ".join(f"{name}={value}" for name, value in sorted(node["labels"].items()))
    found.append(f"  agent    {node['version'] or '?'} from {node['remote'] or '?'}{', ' + labels if labels else ''}")
    if node["status"] is not None:
        found += _status(node["status"])
    return [plain(line) for line in found]


def _status(status: dict[str, Any]) -> Iterable[str]:
    """Workers, cards, engines, disk: a line each."""
    for worker in status["workers"]:
        on_host = f", ON THE CPU instead of its card: {worker['on_host']}" if worker.get("on_host") else ""
        yield f"  worker   {worker['device']} {worker['state']}{_why(worker)}{on_host}"
    for gpu in status["gpus"]:
        index = "?" if gpu["index"] is None else gpu["index"]
        used = "" if gpu["utilization_ratio"] is None else f", {gpu['utilization_ratio']:.0%} used"
        heat = "" if gpu["temperature_c"] is None else f", {gpu['temperature_c']} °C"
        yield f"  gpu      {index} {gpu['name'] or gpu['uuid']} {gpu['state']}{used}{heat}{_why(gpu)}"
    for engine in status["engines"]:
        yield f"  engine   {engine['engine']} {engine['state']}, {len(engine['jobs'])} jobs{_why(engine)}"
    host = status["host"]
    if host is not None and host["disk_total_bytes"] and host["disk_free_bytes"] is not None:
        yield f"  disk     {host['disk_free_bytes'] / GIB:.1f} of {host['disk_total_bytes'] / GIB:.1f} GiB free"
    if status["outbox"] is not None and status["outbox"]["events_held"]:
        yield f"  outbox   {status['outbox']['events_held']} events wait to be acknowledged"


def _why(part: dict[str, Any]) -> str:
    return f": {part['detail']}" if part["detail"] else ""
