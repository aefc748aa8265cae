"""``provewire incidents``: at the hub, what many nodes suffer from alike, and what is wrong on the hub's own side."""

import argparse
from typing import Any

from cli import client

HELP = "show what many nodes suffer from alike, and what is wrong on the hub's own side"
NAMES_SHOWN = 20
ANSWER_BYTES_MAX = 16 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    told = client.hub_of(args).ask("GET", "/api/v1/incidents", bytes_max=ANSWER_BYTES_MAX)
    print(json.dumps(told, ensure_ascii=False) if args.json else "\n".join(lines(told)))
    return 0


def lines(told: dict[str, Any]) -> list[str]:
    """For people: the incidents, each with this side beside it; else this side alone."""
    found: list[str] = []
    sides = [
        line
        for one in told["problems"]
        for line in (f"this side: {one['sentence']}, since {moment(one['since_ms'])}", f"  {one['remedy']}")
    ]
    for incident in told["incidents"]:
        names = [one["name"] for one in incident["nodes"]]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        found += [
            f"{incident['headline']} since {moment(incident['since_ms'])}",
            *(f"  {side}" for side in sides or ["the hub found nothing wrong with its own side"]),
            f"  {incident['remedy']}",
            *(f"  {note}" for note in told["notes"]),
            f"  {', '.join(names[:NAMES_SHOWN])}{more}",
        ]
    if not told["incidents"]:
        found += sides or ["no incident; the hub found nothing wrong with its own side"]
    if told["lost"]:
        paused = f"; nothing is tried now: {told['paused']}" if told["paused"] else ""
        found.append(f"{told['lost']} lost nodes are looked after by ssh{paused}")
    return [plain(line) for line in found]


def plain(text: str) -> str:
    """On one line, and nothing in it that a terminal would obey: names are what nodes call themselves."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def moment(time_ms: int) -> str:
    """Local time, to the minute."""
    from datetime import UTC, datetime  # noqa: PLC0415 - see run

    return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"
