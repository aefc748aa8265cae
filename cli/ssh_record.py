"""The record of an attempt by SSH, as an operator wants to read it; nothing in it is obeyed by the terminal."""

from collections.abc import Iterator
from typing import Any

LABEL_CHARS = 9


def rendered(told: dict[str, Any], *, verbose: bool = False) -> str:
    """Everything of a record that helps; with ``verbose`` what was sent to the node and which keys were offered too."""
    return "\n".join([*_head(told), *_said(told, verbose=verbose), *_again(told, verbose=verbose)])


def _head(told: dict[str, Any]) -> Iterator[str]:
    from cli.node_logs import safe  # noqa: PLC0415 - only where something is printed

    origin = told["origin"]
    from_ = f" from {origin['asked_from']}" if origin["asked_from"] else ""
    yield _labelled("node", f"{safe(told['node_name'])} ({told['node']})")
    yield _labelled("target", told["target"])
    yield _labelled("purpose", f"{told['purpose']}, asked for by {origin['asked_by']}{from_}")
    yield _labelled("when", f"{_moment(told['started_at_ms'])}, for {told['duration_s']:.2f} s")
    yield _labelled("result", _result(told))
    for label, text in (("evidence", told["evidence"]), ("remedy", told["remedy"]), ("note", told["note"])):
        if text:
            yield _labelled(label, text)
    if told["retry_of"]:
        yield _labelled("retry of", told["retry_of"])
    for line in told["differs"]:
        yield _labelled("differs", line)
    yield _labelled("attempt", told["id"])


def _result(told: dict[str, Any]) -> str:
    how = (
        "ssh did not start"
        if told["exit_code"] is None and told["signal"] is None
        else f"ssh ended with {told['exit_code']}"
    )
    if told["signal"] is not None:
        how = f"ssh was ended by signal {told['signal']}"
    elif told["cause"] in {"deadline", "master_hung"}:
        how = "ssh was ended at the deadline"
    if told["remote_exit_code"] is not None:
        how = f"the command ended with {told['remote_exit_code']}"
    through = "" if told["fresh"] else ", through a connection that stood already"
    return f"{told['cause'].replace('_', ' ')} ({how}{through})"


def _said(told: dict[str, Any], *, verbose: bool) -> Iterator[str]:
    yield from _block("ssh said", told["stderr"], told["stderr_bytes"])
    if told["stdout"]:
        yield from _block("the command printed", told["stdout"], None)
    if told["before"] and (verbose or not told["way_works"]):
        yield from _block("the login printed before", told["before"], None)
    if told["verbose"] and verbose:
        yield from _block("keys offered, from a login with -v", told["verbose"], None)
    elif told["verbose"]:
        yield ""
        yield "which keys were offered and what became of each: --verbose"


def _block(title: str, text: str, size_bytes: int | None) -> Iterator[str]:
    yield ""
    count = "" if size_bytes is None else f" ({size_bytes} bytes)"
    yield f"{title}{count}:" if text else f"{title}: nothing"
    if text:
        yield text.rstrip("\n")


def _again(told: dict[str, Any], *, verbose: bool) -> Iterator[str]:
    origin = told["origin"]
    keys = ", ".join(origin["fingerprints"]) or "no usable key"
    yield ""
    by = f"hub {origin['version']}, {origin['ssh_version'] or 'no ssh'}, pid {origin['pid']}; key {keys}"
    yield f"to do it again, on {origin['host']} as {origin['user']} ({by}):"
    yield told["command" if verbose else "login"]


def _labelled(label: str, text: str) -> str:
    return f"{label:{LABEL_CHARS}}{text}"


def _moment(time_ms: int) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 - only where something is printed

    return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
