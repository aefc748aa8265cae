"""Targets from elsewhere: lines with an ssh command, an ssh_config, CSV or JSON; pure. One bad entry stops no other.

The lines are as the old manager stored them: ``ssh -p 22022 root@203.0.113.5``, with the node's name, id or a beginning
of its id in front or behind.
"""

import csv
import fnmatch
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from hub.ssh.pins import KEYS_MAX, KeyRefused, host_key
from hub.ssh.reach import Reach
from hub.ssh.targets import Target, TargetRefused, parse, target

ENTRIES_MAX = 10_000
NODE_CHARS_MAX = 256
COLUMNS = {
    "node": ("node", "node_id", "name", "id", "label", "uuid"),
    "target": ("target", "ssh", "ssh_cmd", "ssh_command", "command"),
    "host": ("host", "hostname", "address", "ip", "public_ip", "ssh_host"),
    "port": ("port", "ssh_port"),
    "user": ("user", "username", "ssh_user"),
    "jumps": ("jumps", "proxyjump", "jump"),
    "host_keys": ("host_keys", "host_key", "hostkey"),
}
"""What a column or key may be called, the first that has a value counts."""
_COMMAND = re.compile(r"^(?:(?P<before>\S+?)[:=,;]?\s+)?(?P<command>ssh\s.*)$")
_HOST_LINE = re.compile(r"^\s*Host\s+\S", re.MULTILINE | re.IGNORECASE)


class Form(StrEnum):
    """How the text is written."""

    AUTO = "auto"
    LINES = "lines"
    SSH_CONFIG = "ssh_config"
    CSV = "csv"
    JSON = "json"


class ImportRefused(ValueError):
    """The whole text cannot be read."""


class Entry(Struct, frozen=True, kw_only=True):
    """One node's target as the text has it."""

    line: int
    """Where it stands; for JSON the number of the entry, from 1."""
    node: str = ""
    target: Target | None = None
    host_keys: tuple[str, ...] = ()
    error: str = ""
    """Why it cannot be used."""


class Outcome(StrEnum):
    """What becomes of an entry."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    REFUSED = "refused"


class Step(Struct, frozen=True, kw_only=True):
    """One entry and what it would change."""

    line: int
    node: str
    """As the text has it."""
    outcome: Outcome
    node_id: str = ""
    before: Target | None = None
    target: Target | None = None
    host_keys: tuple[str, ...] = ()
    """To be pinned; none: those pinned stay."""
    detail: str = ""
    """Why it is refused, or what else changes."""


def read(text: str, form: Form = Form.AUTO) -> list[Entry]:
    """Every entry of the text, bad ones with the reason.

    Raises:
        ImportRefused: it is not written in this form at all, or has too many entries.
    """
    form = _guess(text) if form is Form.AUTO else form
    readers: dict[Form, Callable[[str], Iterable[Entry]]] = {
        Form.LINES: _lines,
        Form.SSH_CONFIG: _ssh_config,
        Form.CSV: _csv,
        Form.JSON: _json,
    }
    found: list[Entry] = []
    for entry in readers[form](text.removeprefix("\ufeff")):
        if len(found) >= ENTRIES_MAX:
            raise ImportRefused(f"more than {ENTRIES_MAX} entries; import them in parts")
        found.append(entry)
    if not found:
        raise ImportRefused(f"there is no target in it, read as {form.value}; say its form if it is another")
    return found


def _guess(text: str) -> Form:
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith(("[", "{")):
        return Form.JSON
    if _HOST_LINE.search(text):
        return Form.SSH_CONFIG
    header = {cell.strip().lower() for cell in start.partition("\n")[0].split(",")}
    known = {name for names in COLUMNS.values() for name in names}
    return Form.CSV if len(header) > 1 and len(header & known) > 1 else Form.LINES


def plan(entries: Iterable[Entry], which: Callable[[str], str], reach: Callable[[str], Reach]) -> list[Step]:
    """What these entries would change.

    Args:
        entries: in their order; of two for one node the first counts.
        which: the id of the node somebody means; raises LookupError with a sentence.
        reach: a node's present way in.
    """
    steps: list[Step] = []
    first: dict[str, Step] = {}
    for entry in entries:
        step = _step(entry, which, reach)
        earlier = first.get(step.node_id) if step.node_id else None
        if earlier is not None and step.outcome is not Outcome.REFUSED:
            detail = f"line {earlier.line} is of the same node"
            step = Step(line=entry.line, node=entry.node, outcome=Outcome.REFUSED, node_id=step.node_id, detail=detail)
        elif step.outcome is not Outcome.REFUSED:
            first[step.node_id] = step
        steps.append(step)
    return steps


def _step(entry: Entry, which: Callable[[str], str], reach: Callable[[str], Reach]) -> Step:
    def refused(why: str) -> Step:
        return Step(line=entry.line, node=entry.node, outcome=Outcome.REFUSED, detail=why)

    if entry.error or entry.target is None:
        return refused(entry.error or "it names no host")
    if not entry.node:
        return refused("it names no node: write its name or id in front")
    try:
        node_id = which(entry.node)
    except LookupError as error:
        return refused(str(error))
    now = reach(node_id)
    keys_change = bool(entry.host_keys) and entry.host_keys != now.host_keys
    if now.target is None:
        outcome = Outcome.NEW
    else:
        outcome = Outcome.SAME if now.target == entry.target and not keys_change else Outcome.CHANGED
    return Step(
        line=entry.line,
        node=entry.node,
        outcome=outcome,
        node_id=node_id,
        before=now.target,
        target=entry.target,
        host_keys=entry.host_keys if keys_change else (),
        detail=f"{len(entry.host_keys)} host keys pinned in place of {len(now.host_keys)}" if keys_change else "",
    )


# --- lines


def _lines(text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            yield _line(number, bare)


def _line(number: int, line: str) -> Entry:
    """``NODE ssh -p PORT user@host``, ``ssh -p PORT user@host NODE``, or ``NODE user@host:port``."""
    match = _COMMAND.match(line)
    if match is None:
        node, _, rest = line.partition(" ")
        return _entry(number, node.rstrip(":=,;"), rest) if rest else _bad(number, "", "it has no target behind a node")
    if match["before"] is not None:
        return _entry(number, match["before"], match["command"])
    command, _, node = match["command"].rpartition(" ")
    node = node.lstrip("#")
    words = command.split()
    last_is_value = len(words) > 1 and words[-2] in {"-p", "-l", "-J"}
    if "@" in node or words[-1:] == ["ssh"] or ("@" not in command and (words[-1][0] == "-" or last_is_value)):
        return _entry(number, "", match["command"])  # the last word is the destination: it names no node
    return _entry(number, node, command.rstrip("# \t"))


# --- tables


def _csv(text: str) -> Iterator[Entry]:
    try:
        reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, strict=True)
        for row in reader:
            yield _fields(reader.line_num, {str(k).strip().lower(): v for k, v in row.items() if isinstance(v, str)})
    except csv.Error as error:
        raise ImportRefused(f"it is no CSV: {error}") from None


def _json(text: str) -> Iterator[Entry]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportRefused(f"it is no JSON: {error}") from None
    if isinstance(whole, dict):
        whole = [
            {"node": node, **(said if isinstance(said, dict) else {"target": said})} for node, said in whole.items()
        ]
    if not isinstance(whole, list):
        raise ImportRefused("the JSON must be a list of objects, or an object of targets by node")
    for number, said in enumerate(whole, start=1):
        if isinstance(said, dict):
            yield _fields(number, {str(key).lower(): value for key, value in said.items()})
        else:
            yield _bad(number, "", "the entry is no object")


def _fields(number: int, said: Mapping[str, Any]) -> Entry:
    values: dict[str, Any] = {}
    for name, columns in COLUMNS.items():
        values[name] = next((said[column] for column in columns if said.get(column) not in (None, "", [])), None)
    node = values["node"]
    if not isinstance(node, str):
        return _bad(number, "", "it names no node")
    if values["target"] is not None:
        if not isinstance(values["target"], str):
            return _bad(number, node, "its target is no text")
        return _entry(number, node, values["target"], _keys_said(values["host_keys"]))
    host, port, user = values["host"], values["port"], values["user"]
    if not isinstance(host, str) or isinstance(port, bool | float) or not isinstance(user, str | None):
        return _bad(number, node, "it has neither a target nor a host")
    text = f"{'' if user is None else f'{user.strip()}@'}{_bracketed(host.strip())}"
    return _entry(
        number,
        node,
        text if port is None else f"{text}:{str(port).strip()}",
        _keys_said(values["host_keys"]),
        jumps=values["jumps"] if isinstance(values["jumps"], str) else "",
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _keys_said(said: Any) -> list[str]:
    """Host keys as a list, or in one text, parted by semicolons or lines."""
    if isinstance(said, str):
        return [part.strip() for part in re.split(r"[;\n]", said) if part.strip()]
    return [str(item) for item in said] if isinstance(said, list) else []


# --- ssh_config


def _ssh_config(text: str) -> Iterator[Entry]:
    """Each ``Host`` without a pattern; as ssh does, the first value of an option that fits counts."""
    blocks: list[tuple[int, list[str], dict[str, str]]] = [(0, ["*"], {})]
    skipped = False
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        keyword, value = _option(bare)
        if keyword == "host":
            skipped = False
            blocks.append((number, value.split(), {}))
        elif keyword == "match":
            skipped = True  # its conditions can only be told at the moment of a login
        elif not skipped:
            blocks[-1][2].setdefault(keyword, value)
    for number, names, _ in blocks:
        for name in names:
            if not any(char in name for char in "*?!"):
                yield _configured(number, name, blocks)


def _option(line: str) -> tuple[str, str]:
    keyword, *value = re.split(r"\s*=\s*|\s+", line, maxsplit=1)
    return keyword.lower(), "".join(value).strip().strip('"')


def _configured(number: int, name: str, blocks: list[tuple[int, list[str], dict[str, str]]]) -> Entry:
    options: dict[str, str] = {}
    for _, patterns, said in blocks:
        refused = any(p.startswith("!") and fnmatch.fnmatchcase(name, p[1:]) for p in patterns)
        if not refused and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            for keyword, value in said.items():
                options.setdefault(keyword, value)
    if options.get("proxycommand", "none").lower() != "none":
        return _bad(number, name, "it needs a ProxyCommand, which is not taken over; use ProxyJump")
    user = options.get("user")
    host = options.get("hostname", name).replace("%h", name)
    text = f"{'' if user is None else f'{user}@'}{_bracketed(host)}"
    jumps = options.get("proxyjump", "none")
    return _entry(
        number,
        name,
        f"{text}:{options['port']}" if "port" in options else text,
        jumps="" if jumps.lower() == "none" else jumps,
    )


# --- one entry


def _entry(number: int, node: str, text: str, keys: Iterable[str] = (), jumps: str = "") -> Entry:
    node = node.strip()
    if len(node) > NODE_CHARS_MAX or not node.isprintable():
        return _bad(number, "", "what stands for the node is no name")
    try:
        found = parse(text)
        if jumps:
            over = tuple(parse(part.strip()) for part in jumps.split(","))
            found = target(found.host, found.port, found.user, over)
        pinned = tuple(dict.fromkeys(host_key(key) for key in keys))
    except (TargetRefused, KeyRefused) as error:
        return _bad(number, node, str(error))
    if len(pinned) > KEYS_MAX:
        return _bad(number, node, f"{len(pinned)} host keys; at most {KEYS_MAX}")
    return Entry(line=number, node=node, target=found, host_keys=pinned)


def _bad(number: int, node: str, why: str) -> Entry:
    return Entry(line=number, node=node, error=why)
