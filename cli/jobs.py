"""``provewire jobs``: the hub's jobs, newest first."""

import argparse
from typing import Any

from cli import client

HELP = "list the hub's jobs, newest first"
SHOWN_DEFAULT = 50
SHOWN_MAX = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--state", metavar="S", help="queued, leased, running, verifying, done, failed or cancelled")
    parser.add_argument("-n", "--count", type=int, default=SHOWN_DEFAULT, metavar="N", help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    from cli import tables  # noqa: PLC0415 - same
    from cli.errors import UsageError  # noqa: PLC0415 - same

    if not 1 <= args.count <= SHOWN_MAX:
        raise UsageError(f"--count must be 1 to {SHOWN_MAX}, not {args.count}")
    jobs = client.hub_of(args).pages("/api/v1/jobs", "jobs", args.count, state=args.state or "")
    if args.json:
        print(json.dumps({"jobs": jobs}, ensure_ascii=False))
        return 0
    columns = ("id", "state", "circuit", "label", "node", "phase", "seconds", "handed in", "")
    tables.show(columns, map(_row, jobs), "there is no such job" if args.state else "no job was handed in yet")
    return 0


def _row(job: dict[str, Any]) -> tuple[object, ...]:
    from cli.tables import moment  # noqa: PLC0415 - see run

    phase = f"{job['phase']} {job['done']}/{job['total']}" if job["phase"] else ""
    why = job["error"] or job["last_failure"]
    return (
        job["id"],
        job["state"],
        job["circuit"],
        job["label"],
        job["node_name"],
        phase,
        job["elapsed_s"],
        moment(job["created_at_ms"]),
        "" if why is None else why["detail"].splitlines()[0] if why["detail"] else "",
    )
