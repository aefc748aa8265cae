"""``provewire hub``: the central service."""

import argparse
from pathlib import Path

SETUP_LINK = "setup-link"
DAEMON = True
"""Its log never holds it up."""
HELP = "run the hub: agents' sessions, jobs, store, REST and the live page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; each is also ``PROVEWIRE_<NAME>`` in the environment."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=[SETUP_LINK],
        help=f"{SETUP_LINK}: at the hub that runs, print a link to set up an admin, good once and for an hour",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen (default: 127.0.0.1:8470; port 0: any)")
    parser.add_argument("--data-dir", type=Path, metavar="D", help="store, keys and artifacts (default: the XDG one)")
    parser.add_argument("--tls-cert", type=Path, metavar="F", help="certificate chain, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="F", help="its private key, PEM")
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="allow plain HTTP off loopback; shown on every page"
    )
    parser.add_argument(
        "--allow-unsafe",
        action="store_true",
        default=None,
        help="take circuits whose key says it was made by setup --unsafe, for tests",
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C; or print a link."""
    if args.action == SETUP_LINK:
        from cli.login import print_link  # noqa: PLC0415 - as below

        return print_link(args.data_dir, "setup-links", "good once until {until}: whoever opens it sets up an admin")
    from hub import app  # noqa: PLC0415 - a node loads no hub
    from hub.config import Config  # noqa: PLC0415 - same

    names = ("listen", "data_dir", "tls_cert", "tls_key", "insecure", "allow_unsafe")
    options = {name: getattr(args, name) for name in names}
    return app.run(Config.load(options))
