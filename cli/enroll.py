"""``provewire enroll``: at the hub, make a token with which nodes may enrol. The token alone goes to stdout."""

import argparse

from cli import client

HELP = "print a one-time token with which a node may enrol"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--label", action="append", default=[], metavar="N=V", help="given to every node that enrols with it"
    )
    client.add_arguments(parser)
    parser.add_argument("--uses", type=int, default=1, metavar="N", help="nodes it is good for (default: %(default)s)")
    parser.add_argument("--ttl", type=int, metavar="S", help="seconds it is good for (default: the hub's setting)")


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    import sys  # noqa: PLC0415 - each side is imported in its own subcommand only

    from cli.errors import CommandError  # noqa: PLC0415 - same

    hub = client.hub_of(args)
    wanted = {"uses": args.uses} | ({} if args.ttl is None else {"ttl_s": args.ttl})
    if args.label:
        wanted["labels"] = labels_of(args.label)
    made = hub.post("/api/v1/enroll-tokens", wanted)
    try:
        token, expires_at_ms = str(made["token"]), int(made["expires_at_ms"])
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"what answers is no hub of ours: it sent no token ({error})") from error
    print(token)
    print(_hint(args.uses, expires_at_ms, hub.url), file=sys.stderr)
    return 0


def labels_of(texts: list[str]) -> dict[str, str]:
    """Labels out of name=value.

    Raises:
        UsageError: one is not that.
    """
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--label {text!r} is no label; it looks like provider=vast")
        found[name] = value
    return found


def _hint(uses: int, expires_at_ms: int, url: str) -> str:
    """What to do with the token, for people."""
    from datetime import UTC, datetime  # noqa: PLC0415 - same

    until = datetime.fromtimestamp(expires_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    nodes = "one node" if uses == 1 else f"{uses} nodes"
    return f"good for {nodes} until {until}; on the node: provewire agent --hub {url} --token-file FILE"
