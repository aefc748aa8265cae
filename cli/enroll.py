"""``provewire enroll``: at the hub, make a token with which nodes may enrol. The token alone goes to stdout."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

HELP = "at the hub, print a one-time token with which a node may enrol"
DEADLINE_S = 30.0
ANSWER_BYTES_MAX = 64 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--data-dir", type=Path, metavar="D", help="the hub's data directory (PROVEWIRE_DATA_DIR)")
    parser.add_argument("--uses", type=int, default=1, metavar="N", help="nodes it is good for (default: %(default)s)")
    parser.add_argument("--ttl", type=int, metavar="S", help="seconds it is good for (default: the hub's setting)")


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    import sys  # noqa: PLC0415 - each side is imported in its own subcommand only

    from hub.config import Config  # noqa: PLC0415 - same

    config = Config.load({"data_dir": args.data_dir})
    url, token = _hub_of(config.data_dir)
    wanted = {"uses": args.uses} | ({} if args.ttl is None else {"ttl_s": args.ttl})
    made = _post(f"{url}/api/v1/enroll-tokens", token, wanted, _trust(config.tls_cert))
    print(made["token"])
    print(_hint(args.uses, made["expires_at_ms"], url), file=sys.stderr)
    return 0


def _hub_of(data_dir: Path) -> tuple[str, str]:
    """Address and admin token of the hub that runs on a data directory.

    Raises:
        UsageError: no hub ever ran there, or its files cannot be read.
        Unreachable: none runs now.
    """
    import json  # noqa: PLC0415 - same

    from cli.errors import Unreachable, UsageError  # noqa: PLC0415 - same

    token_file, facts_file = data_dir / "admin-token", data_dir / "hub.json"
    try:
        token = token_file.read_text("ascii").strip()
    except FileNotFoundError:
        raise UsageError(
            f"{data_dir} is no hub's data directory: it has no admin-token; give --data-dir as to `provewire hub`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{token_file} cannot be read ({error}); run this as the hub's user") from error
    try:
        url = json.loads(facts_file.read_text())["url"]
    except FileNotFoundError:
        raise Unreachable(f"no hub runs on {data_dir} (it has no hub.json); start `provewire hub` first") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{facts_file} cannot be read ({error}); restart the hub, it is written at the start"
        ) from error
    return str(url), token


def _trust(certificate: Path | None) -> "ssl.SSLContext":
    """Whom to believe: the system's authorities, and the hub's own certificate where we know it."""
    import ssl  # noqa: PLC0415 - same

    context = ssl.create_default_context()
    if certificate is not None:
        context.load_verify_locations(certificate)
    return context


def _post(url: str, token: str, body: dict[str, Any], trust: "ssl.SSLContext") -> dict[str, Any]:
    """One request, past any proxy.

    Raises:
        Unreachable: nobody answers.
        UsageError: the hub refuses what was asked.
        CommandError: it failed, or what answers is no hub.
    """
    import json  # noqa: PLC0415 - same
    from urllib import error, request  # noqa: PLC0415 - same

    from cli.errors import CommandError, Unreachable, UsageError  # noqa: PLC0415 - same

    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - the hub wrote it
    opener = request.build_opener(request.ProxyHandler({}), request.HTTPSHandler(context=trust))
    try:
        with opener.open(asked, timeout=DEADLINE_S) as answer:
            made = json.loads(answer.read(ANSWER_BYTES_MAX))
    except error.HTTPError as refused:
        detail = _detail(refused.read(ANSWER_BYTES_MAX), refused.code)
        kind = UsageError if refused.code < 500 else CommandError  # noqa: PLR2004 - HTTP's border of whose fault it is
        raise kind(f"the hub refused: {detail}") from refused
    except OSError as failed:
        reason = getattr(failed, "reason", failed)
        raise Unreachable(f"the hub at {url.partition('/api/')[0]} cannot be reached: {reason}") from failed
    except ValueError as failed:
        raise CommandError(f"what answers at {url} is no hub of ours: {failed}") from failed
    if not isinstance(made, dict) or not isinstance(made.get("token"), str):
        raise CommandError(f"what answers at {url} is no hub of ours: it sent no token")
    return made


def _detail(raw: bytes, status: int) -> str:
    """The sentence of a refusal."""
    import json  # noqa: PLC0415 - same

    try:
        return str(json.loads(raw)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}"


def _hint(uses: int, expires_at_ms: int, url: str) -> str:
    """What to do with the token, for people."""
    from datetime import UTC, datetime  # noqa: PLC0415 - same

    until = datetime.fromtimestamp(expires_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    nodes = "one node" if uses == 1 else f"{uses} nodes"
    return f"good for {nodes} until {until}; on the node: provewire agent --hub {url} --token-file FILE"
