"""``provewire job J``: one job with its attempts; call it off; take its proof."""

import argparse
from pathlib import Path
from typing import Any

from cli import client

HELP = "show one job with its attempts; cancel it; save its proof"
FILE_BYTES_MAX = 16 * 1024**2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", metavar="JOB", help="its id, or a unique beginning of it")
    parser.add_argument("--cancel", action="store_true", help="call it off")
    parser.add_argument("--proof", type=Path, metavar="F", help="save proof.json, which the hub has verified")
    parser.add_argument("--public", type=Path, metavar="F", help="save public.json")
    parser.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Do what is asked, and print the job as it is then."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only
    from urllib.parse import quote  # noqa: PLC0415 - same

    hub, path = client.hub_of(args), f"/api/v1/jobs/{quote(args.job, safe='')}"
    job = hub.ask("POST" if args.cancel else "GET", path + ("/cancel" if args.cancel else ""))
    for file, what in ((args.proof, "proof"), (args.public, "public")):
        if file is not None:
            _save(file, hub.fetch("GET", f"/api/v1/jobs/{job['id']}/{what}", bytes_max=FILE_BYTES_MAX))
    print(json.dumps(job, ensure_ascii=False) if args.json else rendered(job))
    return 0


def _save(path: Path, data: bytes) -> None:
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def rendered(job: dict[str, Any]) -> str:
    """The job, then a line for each attempt."""
    from cli import tables  # noqa: PLC0415 - see run
    from cli.incidents import plain  # noqa: PLC0415 - see run

    known: list[tuple[str, object]] = [
        ("job", job["id"]),
        ("state", job["state"]),
        ("circuit", f"{job['circuit']}  {job['circuit_id']}"),
        ("label", job["label"]),
        ("handed in", tables.moment(job["created_at_ms"])),
        ("started", tables.moment(job["started_at_ms"])),
        ("ended", tables.moment(job["ended_at_ms"])),
        ("seconds", job["elapsed_s"]),
    ]
    if job["phase"]:
        known.append(("phase", f"{job['phase']} {job['done']}/{job['total']}"))
    if job["timings_ms"]:
        known.append(("phases", ", ".join(f"{name} {ms:.0f} ms" for name, ms in job["timings_ms"].items())))
    found = [tables.lines(*known)]
    if job.get("waits_for"):
        found.append(f"waits for: {job['waits_for']}")
    if job["error"] is not None:
        found.append(f"failed with {job['error']['code']}:\n  {_indented(job['error']['detail'])}")
    for attempt in job["attempts"]:
        said = f"  {_indented(attempt['detail'])}" if attempt["detail"] else ""
        found.append(
            plain(
                f"attempt {attempt['attempt']}  {attempt['outcome'] or attempt['state']}  {attempt['node_name']}  "
                f"{attempt['device']}  {tables.moment(attempt['assigned_at_ms'])}"
            )
            + said
        )
    return "\n".join(found)


def _indented(text: str) -> str:
    from cli.incidents import plain  # noqa: PLC0415 - see run

    return "\n  ".join(plain(line) for line in text.splitlines())
