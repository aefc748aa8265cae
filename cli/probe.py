"""``provewire probe``: at the hub, look after a node by SSH now, and print what was found, rung by rung."""

import argparse
from typing import Any

from cli import client

HELP = "look after a node by SSH now: from its name to its provers and its clock, rung by rung"
MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED", "unknown": "?"}
DEADLINE_S = 300.0
"""For a turn at the node, the look itself, and a second try."""
ANSWER_BYTES_MAX = 16 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{HELP}. It changes nothing there. Ends with 0 if a shell at the node answered, else with 69."
    parser.add_argument("node", metavar="NODE", help="its name, its id, or a unique beginning of the id")
    parser.add_argument("--last", action="store_true", help="try nothing: show what the last look found")
    parser.add_argument("--details", action="store_true", help="also what was printed there")
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print; the exit code."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only
    from urllib.parse import quote  # noqa: PLC0415 - same

    from cli.ssh_run import operator  # noqa: PLC0415 - same

    hub, path = client.hub_of(args), f"/api/v1/nodes/{quote(args.node, safe='')}"
    if args.last:
        told = hub.ask("GET", f"{path}/ladder", bytes_max=ANSWER_BYTES_MAX)
    else:
        body = {"asked_by": operator()}
        told = hub.ask("POST", f"{path}/probe", body, deadline_s=DEADLINE_S, bytes_max=ANSWER_BYTES_MAX)
    print(json.dumps(told, ensure_ascii=False) if args.json else "\n".join(lines(told, details=args.details)))
    return exit_code_of(told)


def exit_code_of(told: dict[str, Any]) -> int:
    """0 where a shell answered, 69 where none did."""
    from cli.errors import EXIT_OK, EXIT_UNREACHABLE  # noqa: PLC0415 - see run

    shell = next((step["state"] for step in told["steps"] if step["rung"] == "shell"), "unknown")
    return EXIT_OK if shell == "ok" else EXIT_UNREACHABLE


def lines(told: dict[str, Any], *, details: bool) -> list[str]:
    """For people: a line for each rung, then the whole in one sentence."""
    from cli.incidents import moment, plain  # noqa: PLC0415 - see run

    found = [plain(f"{told['node_name']} by ssh, {moment(told['at_ms'])}, {told['duration_s']:.1f} s")]
    for step in told["steps"]:
        found.append(plain(f"  {MARKS.get(step['state'], step['state']):8} {step['rung']:8} {step['sentence']}"))
        if details:
            found += [plain(f"           | {line}") for line in step["detail"].splitlines()]
    if told["provers"]:
        found.append(plain(f"provers: {told['provers']}"))
    if told["next_look_s"] is not None:
        found.append(f"the hub looks again in {told['next_look_s']:.0f} s")
    return [*found, plain(told["summary"])]
