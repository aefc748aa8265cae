"""``provewire status``: what the agent of this machine knows about itself and its way to the hub."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

HELP = "show what this node's agent knows, through its local socket"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--data-dir", metavar="D", help="the agent's data directory (PROVEWIRE_DATA_DIR)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole status as JSON, for programs")
    form.add_argument("--frame", action="store_true", help="the status signed by the agent, for a hub that asks by ssh")
    parser.add_argument("--nonce", metavar="HEX", help="with --frame: what the hub made up, 16 bytes")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only
    import os  # noqa: PLC0415 - same
    import time  # noqa: PLC0415 - same

    from agent.config import data_dir_to_ask  # noqa: PLC0415 - same
    from agent.local_ask import ask_frame_now, ask_now  # noqa: PLC0415 - same
    from cli.errors import UsageError  # noqa: PLC0415 - same

    if args.frame != (args.nonce is not None):
        raise UsageError("--frame and --nonce are given together")
    socket_path = data_dir_to_ask(args.data_dir, os.environ) / "agent.sock"
    if args.frame:
        print(ask_frame_now(socket_path, args.nonce))
        return 0
    raw = ask_now(socket_path)
    if args.json:
        print(raw.decode(), end="")
        return 0
    from rich.console import Console  # noqa: PLC0415 - same

    from cli.status_lines import lines  # noqa: PLC0415 - same

    console = Console(highlight=False)
    for line in lines(json.loads(raw), now_ms=time.time_ns() // 1_000_000):
        console.print(line_of(line), soft_wrap=True)
    return 0


def line_of(spans: list[tuple[str, str]]) -> "Text":
    """Styled words as one line. Nothing in it is taken for markup."""
    from rich.text import Text  # noqa: PLC0415 - same

    return Text.assemble(*spans)
