"""``provewire status``: what the agent of this machine knows about itself and its way to the hub."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

HELP = "show what this node's agent knows, through its local socket"
BYTES_IN_GIB = 1024**3
MINUTE_S = 60
HOUR_S = 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--data-dir", metavar="D", help="the agent's data directory (PROVEWIRE_DATA_DIR)")
    parser.add_argument("--json", action="store_true", help="the whole status as JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only
    import os  # noqa: PLC0415 - same

    from agent.config import data_dir_to_ask  # noqa: PLC0415 - same
    from agent.local import ask_now  # noqa: PLC0415 - same

    raw = ask_now(data_dir_to_ask(args.data_dir, os.environ) / "agent.sock")
    if args.json:
        print(raw.decode(), end="")
        return 0
    from rich.console import Console  # noqa: PLC0415 - same
    from rich.text import Text  # noqa: PLC0415 - same

    console = Console(highlight=False)
    for part in rendered(json.loads(raw)):
        console.print(part, soft_wrap=isinstance(part, Text))
    return 0


def rendered(status: dict[str, Any]) -> "list[RenderableType]":
    """The status as lines and tables for people. Nothing in it is taken for markup."""
    return [*_head(status), *_hub(status["hub"]), *_workers(status), *_jobs(status), *_rest(status)]


def _head(status: dict[str, Any]) -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415 - same

    healthy = status["healthy"]
    head = Text.assemble(
        (f"{status['name']}  ", "bold"),
        ("healthy" if healthy else "NOT HEALTHY", "green" if healthy else "bold red"),
        f"  agent {status['version']}, pid {status['pid']}, up {duration(status['uptime_s'])}",
        "  observes only" if status["observe"] else "",
    )
    return [head, Text(f"agent id {status['agent_id'] or '(not enrolled yet)'}, epoch {status['epoch']}", style="dim")]


def _hub(hub: dict[str, Any]) -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415 - same

    age = "nothing acknowledged yet"
    if hub["last_ack_age_s"] is not None:
        age = f"last acknowledged {duration(hub['last_ack_age_s'])} ago"
    style = "green" if hub["state"] == "open" else "yellow"
    lines = [Text.assemble("hub     ", (hub["state"], style), f"  {hub['url'] or '(unknown)'}  {age}")]
    if hub["insecure"]:
        lines.append(Text("        --insecure: a hub without TLS is allowed", style="bold red"))
    if hub["next_attempt_in_s"] is not None:
        lines.append(Text(f"        attempt {hub['attempts'] + 1} in {duration(hub['next_attempt_in_s'])}"))
    reason = hub["last_reason"]
    if reason is not None:
        number = "" if reason["code"] is None else f" ({reason['code']})"
        lines.append(Text(f"        last reason: {reason['name']}{number}: {reason['detail']}", style="yellow"))
    return [*lines]


def _workers(status: dict[str, Any]) -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415 - same

    lines = []
    for worker in status["workers"]:
        good = worker["state"] in ("idle", "proving")
        pid = "" if worker["pid"] is None else f", pid {worker['pid']}"
        detail = f"  {worker['detail']}" if worker["detail"] else ""
        line = Text.assemble(
            "worker  ", (worker["state"], "green" if good else "yellow"), f"  {worker['device']}{pid}{detail}"
        )
        lines.append(line)
    return [*lines]


def _jobs(status: dict[str, Any]) -> "list[RenderableType]":
    from rich import box  # noqa: PLC0415 - same
    from rich.table import Table  # noqa: PLC0415 - same
    from rich.text import Text  # noqa: PLC0415 - same

    if not status["jobs"]:
        return []
    table = Table("job", "attempt", "phase", "done", "elapsed", box=box.SIMPLE)
    for job in status["jobs"]:
        done = f"{job['done']}/{job['total']}" if job["total"] else ""
        cells = (job["job"], str(job["attempt"]), job["phase"], done, duration(job["elapsed_s"]))
        table.add_row(*(Text(cell) for cell in cells))
    return [table]


def _rest(status: dict[str, Any]) -> "list[RenderableType]":
    from rich.text import Text  # noqa: PLC0415 - same

    lines = []
    for gpu in status["gpus"]:
        memory = f"{gib(gpu['memory_used_bytes'])} of {gib(gpu['memory_total_bytes'])}"
        lines.append(Text(f"gpu     {gpu['state']}  {gpu['name'] or gpu['uuid']}  {memory}"))
    host = status["host"]
    if host is not None:
        busy = "?" if host["cpu_used_ratio"] is None else f"{host['cpu_used_ratio']:.0%}"
        memory = f"{gib(host['memory_used_bytes'])} of {gib(host['memory_total_bytes'])}"
        lines.append(
            Text(
                f"host    {host['cpu_count'] or '?'} cpus {busy} busy, memory {memory}, "
                f"disk {gib(host['disk_free_bytes'])} free"
            )
        )
    outbox = status["outbox"]
    dropped = f", {outbox['dropped']} dropped" if outbox["dropped"] else ""
    lines.append(Text(f"outbox  {outbox['events_held']} events held ({outbox['bytes_held']} bytes){dropped}"))
    return [*lines]


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S:.0f} min {seconds % MINUTE_S:.0f} s"
    return f"{seconds // HOUR_S:.0f} h {seconds % HOUR_S // MINUTE_S:.0f} min"


def gib(size_bytes: int | None) -> str:
    """Bytes in GiB; a question mark for what cannot be read."""
    return "?" if size_bytes is None else f"{size_bytes / BYTES_IN_GIB:.1f} GiB"
