"""The process that hands notices over, by Apprise. Run as ``python -m hub.alerts.messenger``.

It takes one JSON object on stdin, so that no address ever stands in a process list, and answers with one line of JSON
on stdout. It has no environment but a path, so that no proxy is asked to reach what it may not; it follows no redirect,
holds itself to `hub.alerts.guard`, and ends after one answer. A service that hangs takes this process, not the hub.
"""

import contextlib
import logging
import resource
import sys
from urllib.parse import unquote, urlsplit

import msgspec

from hub.alerts.guard import Guard
from hub.alerts.targets import Allowed

REQUEST_BYTES_MAX = 256 * 1024
OPEN_FILES_MAX = 128
CPU_S_MAX = 20
NO_APPRISE = "this hub cannot send notices: pip install 'provewire[alerts]' there, and restart it"
SAID_MAX = 5
SECRET_CHARS_MIN = 4
MASK = "***"


class Message(msgspec.Struct, frozen=True):
    """One notice."""

    title: str
    body: str
    severity: str
    resolved: bool = False


class Errand(msgspec.Struct, frozen=True):
    """What to hand over, and where; without messages: whether the address is one at all."""

    url: str
    allowed: Allowed
    messages: tuple[Message, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """What became of it."""

    delivered: tuple[bool, ...] = ()
    error: str = ""
    """In one sentence, for people; empty: all well."""
    service: str = ""
    """Of an address that is one."""


class _Heard(logging.Handler):
    """What Apprise complained of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.said) < SAID_MAX:
            self.said.append(record.getMessage())


def limit() -> None:
    """No file grows, and nothing runs for ever."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_MAX, OPEN_FILES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(errand: Errand) -> Outcome:
    """Do it."""
    try:
        import apprise  # noqa: PLC0415 - an extra, which takes a second to load
        import requests.sessions  # noqa: PLC0415 - what Apprise speaks HTTP with
    except ImportError:
        return Outcome(delivered=(False,) * len(errand.messages), error=NO_APPRISE)
    heard = _Heard()
    apprise.logger.handlers[:] = [heard]
    guard = Guard(errand.allowed)

    def no_redirect(_session: object, answer: requests.Response) -> None:
        """Whatever an address or a plugin says of redirects."""
        if answer.is_redirect:
            guard.refused.append("the service answered by a redirect, which no notice follows; give its new address")

    requests.sessions.SessionRedirectMixin.get_redirect_target = no_redirect  # type: ignore[method-assign, assignment]
    asset = apprise.AppriseAsset(
        app_id="Provewire",
        app_desc="Provewire",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        async_mode=False,
        http_redirects=False,
        pgp_autogen=False,
        pem_autogen=False,
        storage_mode=apprise.PersistentStoreMode.MEMORY,
    )
    service = apprise.Apprise.instantiate(errand.url, asset=asset)
    if service is None:
        return Outcome(
            delivered=(False,) * len(errand.messages),
            error="Apprise knows no such address; see https://github.com/caronc/apprise/wiki for how each is written",
        )
    name = str(getattr(service, "service_name", "") or service.schema)
    guard.arm()
    delivered = []
    for message in errand.messages:
        kind = "success" if message.resolved else {"critical": "failure"}.get(message.severity, message.severity)
        with contextlib.suppress(Exception):  # a plugin's own fault: it did not deliver
            delivered.append(bool(service.notify(title=message.title, body=message.body, notify_type=kind)))
            continue
        delivered.append(False)
    if all(delivered):
        return Outcome(tuple(delivered), "", name)
    said = masked("; ".join(heard.said), errand.url)
    why = guard.refused[0] if guard.refused else said or "the service took nothing, and did not say why"
    return Outcome(tuple(delivered), why, name)


def masked(text: str, url: str) -> str:
    """A text without any part of an address that may be a secret."""
    parts = urlsplit(url)
    values = [pair.partition("=")[2] for pair in parts.query.split("&")]
    pieces = {*parts.path.split("/"), *values, parts.netloc}
    credentials, _, host = parts.netloc.rpartition("@")
    pieces |= {credentials, *credentials.split(":"), parts.query, parts.path, url}
    if parts.scheme.lower() not in SHOWN_HOSTS:
        pieces.add(host)
    else:
        pieces.discard(parts.netloc)
    secrets = {form for piece in pieces for form in (piece, unquote(piece)) if len(form) >= SECRET_CHARS_MIN}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


SHOWN_HOSTS = frozenset({"json", "jsons", "form", "forms", "xml", "xmls", "ntfys", "ntfy", "gotify", "gotifys"})
"""Services in whose addresses the host is a host, and no token."""


def shown(url: str) -> str:
    """What may be seen of an address: the service, and the host where it is one."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    host = parts.netloc.rpartition("@")[2]
    return f"{scheme}://{host}/..." if scheme in SHOWN_HOSTS and host else f"{scheme}://..."


def main() -> int:
    """One errand."""
    limit()
    errand = msgspec.json.decode(sys.stdin.buffer.read(REQUEST_BYTES_MAX), type=Errand)
    with contextlib.redirect_stdout(sys.stderr):
        outcome = run(errand)
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
