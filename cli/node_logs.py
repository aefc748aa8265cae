"""``provewire logs``: at the hub, what a node's logs say; with ``-f`` what they come to say, whatever happens between.

Records go to stdout, what happens to the connection to stderr. With ``--json`` each record is the hub's own object.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cli import client

HELP = "show a node's logs, or follow them with -f"
LINES_DEFAULT = 100
LINES_MAX = 10_000
NDJSON = "application/x-ndjson"
LINE_BYTES_MAX = 256 * 1024
RETRY_S = 1.0
RETRY_S_MAX = 15.0
SKEW_SHOWN_MS = 2000
"""A node's time that differs less from the hub's is not shown beside it."""
LENGTH = re.compile(r"\d{1,9}[smhd]")
CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would obey, or be confused by, instead of showing it."""
PLAIN = re.compile(r"[^\s\"'=]{1,200}")
COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "1;31"}
DIM, SOURCE, NOTE = "2", "36", "33"

Paint = Callable[[str, str], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("node", metavar="NODE", help="its name, its id, or a unique beginning of either")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes; Ctrl-C ends")
    parser.add_argument(
        "-n", "--lines", type=int, metavar="N", help=f"the newest N records ({LINES_DEFAULT}, or all since a time)"
    )
    parser.add_argument(
        "--since", metavar="T", help="received since: 10m, 2h, 1d, or a local time like '2026-11-30 12:00'"
    )
    parser.add_argument("--until", metavar="T", help="received before; the same forms")
    parser.add_argument("--level", choices=list(COLOURS), help="of this level or above")
    parser.add_argument("--source", metavar="S", help="agent, worker, file:PATH, unit:NAME and so on")
    parser.add_argument("--grep", metavar="TEXT", help="with TEXT in it, whatever the case of its letters")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, for programs")
    client.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the hub that runs on this data directory, and print."""
    wanted = query_of(args)
    printer = Printer(as_json=args.json)
    if args.follow:
        Following(lambda: client.hub_of(args), args.node, wanted, printer).run()
    else:
        show(client.hub_of(args), args.node, wanted, printer)
    return 0


def query_of(args: argparse.Namespace) -> dict[str, str]:
    """The options as the hub's query.

    Raises:
        UsageError: they cannot be used, or not together.
    """
    from cli.errors import UsageError  # noqa: PLC0415 - see run

    if args.follow and args.until:
        raise UsageError("--until and --follow contradict each other: what is followed has no end")
    if args.lines is not None and not 0 <= args.lines <= LINES_MAX:
        raise UsageError(f"--lines must be 0 to {LINES_MAX}, not {args.lines}")
    wanted = {"level": args.level, "source": args.source, "contains": args.grep}
    found = {name: value for name, value in wanted.items() if value}
    for name in ("since", "until"):
        if text := getattr(args, name):
            found[name] = time_of(name, text)
    lines = args.lines
    if lines is None and not (args.since or args.until):
        lines = LINES_DEFAULT
    if lines is not None:
        found["tail" if args.follow else "limit"] = str(lines)
    return found


def time_of(option: str, text: str) -> str:
    """A time as the hub takes it: lengths as they are, local times with their zone.

    Raises:
        UsageError: it is no time.
    """
    from datetime import datetime  # noqa: PLC0415 - see run

    from cli.errors import UsageError  # noqa: PLC0415 - same

    if LENGTH.fullmatch(text):
        return text
    if CLOCK.fullmatch(text):
        text = f"{datetime.now().astimezone():%Y-%m-%d} {text.zfill(len('00:00'))}"
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise UsageError(
            f"--{option} {text!r} is no time; it looks like 10m, 2h, 1d, 12:30, '2026-11-30 12:00' or "
            "2026-11-30T12:00:00Z"
        ) from None


def path_of(node: str, query: Mapping[str, str]) -> str:
    """The address of a node's log."""
    from urllib.parse import quote, urlencode  # noqa: PLC0415 - see run

    return f"/api/v1/nodes/{quote(node, safe='')}/logs?{urlencode(query)}"


def show(hub: client.Hub, node: str, wanted: Mapping[str, str], printer: "Printer") -> None:
    """What there is, oldest first."""
    newest = "limit" in wanted
    path = path_of(node, {**wanted, "order": "newest" if newest else "oldest"})
    with hub.stream(path, NDJSON) as answer:
        found = (told for told in _objects(answer) if told["kind"] == "log")
        for told in reversed(list(found)) if newest else found:
            printer.show(told)


def _objects(answer: Any) -> Iterator[dict[str, Any]]:
    """The objects of a stream.

    Raises:
        CommandError: what answers is no hub of ours.
        OSError: the stream broke off.
    """
    import json  # noqa: PLC0415 - see run
    from http.client import HTTPException  # noqa: PLC0415 - same

    from cli.errors import CommandError  # noqa: PLC0415 - same

    while True:
        try:
            line = answer.readline(LINE_BYTES_MAX)
        except (HTTPException, ValueError) as broken:
            raise ConnectionError(f"the stream broke off: {broken}") from broken
        if not line:
            return
        if not line.endswith(b"\n"):
            raise ConnectionError("the stream broke off within a record")
        try:
            told = json.loads(line)
            told["kind"]
        except (ValueError, KeyError, TypeError) as failed:
            raise CommandError(f"what answers is no hub of ours: it sent no record ({failed})") from failed
        yield told


class Following:
    """Follows a log for ever: a hub that goes away is come back to, from the last record that was seen."""

    def __init__(
        self, find: Callable[[], client.Hub], node: str, wanted: Mapping[str, str], printer: "Printer"
    ) -> None:
        self._find = find
        self._node = node
        self._wanted = dict(wanted)
        self._printer = printer
        self._after: int | None = None
        self._connected_before = False

    def run(self) -> None:
        """Until Ctrl-C, or the hub says that there is no such node.

        Raises:
            Unreachable: there is no hub at the start. Later it is waited for.
            UsageError: the hub refuses.
        """
        import time  # noqa: PLC0415 - see run

        from cli.errors import Unreachable  # noqa: PLC0415 - same

        wait_s, away = RETRY_S, False
        while True:
            try:
                for told in self._connect(away=away):
                    wait_s, away = RETRY_S, False
                    self._take(told)
                reason = "it ended the stream"
            except Unreachable as gone:
                if not self._connected_before:
                    raise
                reason = str(gone)
            except OSError as broke:
                if isinstance(broke, BrokenPipeError):
                    raise  # our reader's, not the hub's
                reason = str(broke) or type(broke).__name__
            if not away:
                self._printer.note(f"the hub is away ({reason}); trying again until it is back")
            away = True
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)

    def _connect(self, *, away: bool) -> Iterator[dict[str, Any]]:
        query = {**self._wanted, "follow": "1"}
        if self._after is not None:
            for name in ("tail", "since"):
                query.pop(name, None)
            query["after"] = str(self._after)
        with self._find().stream(path_of(self._node, query), NDJSON) as answer:
            self._connected_before = True
            if away:
                self._printer.note("the hub is back; its log goes on with what came in between")
            yield from _objects(answer)

    def _take(self, told: dict[str, Any]) -> None:
        match told["kind"]:
            case "log":
                self._printer.show(told)
                self._after = told["id"]
            case "skipped":
                self._printer.skipped(told)
                self._after = told["until"]
            case "beat":
                self._after = told["after"]


class Printer:
    """Shows records, in colours where a person looks on."""

    def __init__(self, *, as_json: bool) -> None:
        import os  # noqa: PLC0415 - see run
        import sys  # noqa: PLC0415 - same

        self._as_json = as_json
        coloured = not os.environ.get("NO_COLOR")
        self._out = painter(on=coloured and sys.stdout.isatty())
        self._err = painter(on=coloured and sys.stderr.isatty())

    def show(self, told: dict[str, Any]) -> None:
        """One record."""
        import json  # noqa: PLC0415 - see run

        print(json.dumps(told, ensure_ascii=False) if self._as_json else rendered(told, self._out), flush=True)

    def skipped(self, told: dict[str, Any]) -> None:
        """Records were passed over, because we were too slow."""
        if self._as_json:
            self.show(told)
        else:
            print(self._out(NOTE, f"--- {told['records']} records or more were passed over: reading was too slow ---"))

    def note(self, sentence: str) -> None:
        """About the connection."""
        import sys  # noqa: PLC0415 - see run

        print(self._err(NOTE, f"provewire: {sentence}"), file=sys.stderr, flush=True)


def painter(*, on: bool) -> Paint:
    """Puts a text into a colour, or leaves it."""
    return (lambda colour, text: f"\x1b[{colour}m{text}\x1b[0m") if on else (lambda _colour, text: text)


def rendered(told: dict[str, Any], paint: Paint) -> str:
    """A record as a line for people; nothing in it is obeyed by the terminal."""
    level, received_ms, node_ms = str(told["level"]), told["received_at_ms"], told["node_time_ms"]
    parts = [
        paint(DIM, _moment(received_ms)),
        paint(COLOURS.get(level, DIM), f"{safe(level):7}"),
        paint(SOURCE, safe(str(told["source"]))),
        paint(NOTE, f"--- {safe(told['text'])} ---") if told.get("given_up") else _indented(safe(str(told["text"]))),
    ]
    fields = told.get("fields") or {}
    if fields:
        parts.append(paint(DIM, " ".join(f"{safe(str(name))}={_value(value)}" for name, value in fields.items())))
    if abs(node_ms - received_ms) >= SKEW_SHOWN_MS:
        parts.append(paint(DIM, f"(node's time {_moment(node_ms)})"))
    return "  ".join(parts)


def safe(text: str) -> str:
    """A text without what a terminal would obey."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _indented(text: str) -> str:
    return text.rstrip("\n").replace("\n", "\n    ")


def _value(value: object) -> str:
    import json  # noqa: PLC0415 - see run

    text = safe(value if isinstance(value, str) else json.dumps(value))
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _moment(time_ms: int) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 - see run

    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"
