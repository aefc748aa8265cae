"""The hub's REST interface, spoken by the commands: from anywhere by address and token, or at the hub by its own files.

Every such command takes ``--hub URL`` and ``--token-file F``, or PROVEWIRE_API_URL and PROVEWIRE_API_TOKEN_FILE.
Without them it is run at the hub, whose data directory says everything. Tokens stand in no command line or address.
"""

import argparse
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from cli.errors import CommandError, Unreachable, UsageError

DEADLINE_S = 30.0
ANSWER_BYTES_MAX = 64 * 1024
LIST_BYTES_MAX = 64 * 1024**2
TOKEN_BYTES_MAX = 4096
PAGE = 500
URL, TOKEN_FILE, CA = "PROVEWIRE_API_URL", "PROVEWIRE_API_TOKEN_FILE", "PROVEWIRE_API_CA"


class Hub:
    """One hub, and the token to speak to it with.

    Args:
        where: its address, for sentences about it.
        token: sent with each request.
        prefix: what every path begins with.
    """

    def __init__(self, where: str, token: str, prefix: str = "") -> None:
        self.where = where
        self.url = where
        """By which nodes and browsers reach it, as far as is known."""
        self._token = token
        self._prefix = prefix

    def connect(self, deadline_s: float) -> HTTPConnection:
        """A connection to it, and to nobody else."""
        raise NotImplementedError

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """`ask` with POST."""
        return self.ask("POST", path, body)

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> dict[str, Any]:
        """Send one request; the JSON object that answers it, an empty one for none.

        Raises:
            Unreachable: nobody answers, or somebody else, or the hub is too busy.
            UsageError: the hub refuses what was asked.
            CommandError: it failed, or what answers is no hub.
        """
        raw = self.fetch(method, path, body, deadline_s=deadline_s, bytes_max=bytes_max)
        if not raw:
            return {}
        try:
            made = json.loads(raw)
        except ValueError as failed:
            raise CommandError(f"what answers at {self.where} is no hub of ours: {failed}") from failed
        if not isinstance(made, dict):
            raise CommandError(f"what answers at {self.where} is no hub of ours: it sent no object")
        return made

    def fetch(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        bytes_max: int = LIST_BYTES_MAX,
    ) -> bytes:
        """`ask`, the answer as it came."""
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self.connect(deadline_s)
        try:
            packed = None if body is None else json.dumps(body).encode()
            connection.request(method, self._prefix + path, packed, headers)
            answer = connection.getresponse()
            status, raw = answer.status, answer.read(bytes_max + 1)
        except (OSError, HTTPException) as failed:
            raise Unreachable(f"the hub at {self.where} does not answer: {failed}") from failed
        finally:
            connection.close()
        _check(raw, status)
        if len(raw) > bytes_max:
            raise CommandError(f"the answer of the hub at {self.where} is larger than {bytes_max} bytes")
        return b"" if status == 204 else raw  # noqa: PLR2004 - HTTP's word for done, with nothing to say

    def pages(self, path: str, items: str, count_max: int | None = None, **query: str) -> list[dict[str, Any]]:
        """Everything of a listing, page by page, or the first so many.

        Args:
            path: of the listing.
            items: under which name a page has them.
            count_max: at most so many.
            query: more of what is asked for; what is empty is left out.
        """
        found: list[dict[str, Any]] = []
        after = ""
        while count_max is None or len(found) < count_max:
            limit = PAGE if count_max is None else min(PAGE, count_max - len(found))
            asked = {name: value for name, value in {**query, "limit": str(limit), "after": after}.items() if value}
            page = self.ask("GET", f"{path}?{urlencode(asked)}", bytes_max=LIST_BYTES_MAX)
            found += page[items]
            after = page["next"] or ""
            if not after:
                break
        return found

    @contextmanager
    def stream(self, path: str, accept: str) -> Iterator[HTTPResponse]:
        """One request whose answer is read as it comes; a silence of `DEADLINE_S` ends it with a ``TimeoutError``.

        Raises:
            Unreachable: nobody answers, or somebody else, or the hub is too busy.
            UsageError: the hub refuses what was asked.
            CommandError: it failed.
        """
        connection = self.connect(DEADLINE_S)
        try:
            try:
                headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
                connection.request("GET", self._prefix + path, headers=headers)
                answer = connection.getresponse()
            except (OSError, HTTPException) as failed:
                raise Unreachable(f"the hub at {self.where} does not answer: {failed}") from failed
            if answer.status >= 400:  # noqa: PLR2004 - HTTP's border of errors
                _check(answer.read(ANSWER_BYTES_MAX), answer.status)
            yield answer
        finally:
            connection.close()


class HubByUrl(Hub):
    """A hub anywhere.

    Raises:
        UsageError: the address is none.
    """

    def __init__(self, url: str, token: str, ca: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"the hub's address {url!r} is none; it looks like https://hub.example.org:8470")
        super().__init__(url, token, parts.path.rstrip("/"))
        self._parts, self._ca = parts, ca

    def connect(self, deadline_s: float) -> HTTPConnection:
        """Connect, past any proxy; with TLS only to whom the system, or the given file, vouches for."""
        host, port = self._parts.hostname or "", self._parts.port
        connection: HTTPConnection
        try:
            if self._parts.scheme == "https":
                context = ssl.create_default_context(cafile=None if self._ca is None else str(self._ca))
                connection = HTTPSConnection(host, port, timeout=deadline_s, context=context)
            else:
                connection = HTTPConnection(host, port, timeout=deadline_s)
            connection.connect()
        except ssl.SSLCertVerificationError as failed:
            raise Unreachable(
                f"the certificate of {self.where} is not to be trusted ({failed.verify_message}); "
                "give --ca with the file of the hub's certificate"
            ) from failed
        except OSError as failed:
            raise Unreachable(f"the hub at {self.where} cannot be reached: {failed}") from failed
        return connection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the hub is, and who asks it."""
    where = parser.add_argument_group("the hub", "without --hub: the hub of this machine")
    where.add_argument("--hub", metavar="URL", help=f"its address ({URL})")
    where.add_argument("--token-file", type=Path, metavar="F", help=f"a file with a token of the hub ({TOKEN_FILE})")
    where.add_argument("--ca", type=Path, metavar="F", help=f"whom to trust, if not the system's ({CA})")
    where.add_argument("--data-dir", type=Path, metavar="D", help="at the hub: its data directory (PROVEWIRE_DATA_DIR)")


def hub_of(args: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Hub:
    """The hub the arguments name.

    Raises:
        UsageError: the arguments do not fit, or a file cannot be read.
        Unreachable: it is to be the hub of this machine, and none runs.
    """
    import os  # noqa: PLC0415 - each side is imported in its own subcommand only

    surroundings = os.environ if environ is None else environ
    url = args.hub or (None if args.data_dir else surroundings.get(URL))
    if not url:
        if args.token_file is not None:
            raise UsageError("--token-file goes with --hub URL; at the hub itself none is needed")
        from cli.at_hub import HubHere  # noqa: PLC0415 - same
        from hub.config import operators_data_dir  # noqa: PLC0415 - same

        return HubHere(operators_data_dir(args.data_dir))
    file = args.token_file or surroundings.get(TOKEN_FILE)
    if not file:
        raise UsageError(f"a hub elsewhere needs a token: give --token-file, or set {TOKEN_FILE}")
    ca = args.ca or surroundings.get(CA)
    return HubByUrl(url, read_token(Path(file)), None if not ca else Path(ca))


def read_token(path: Path) -> str:
    """The token in a file.

    Raises:
        UsageError: there is none.
    """
    try:
        with path.open("r", encoding="ascii") as file:
            token = file.read(TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}); it should hold a token of the hub") from error
    if not token or not token.isprintable() or " " in token:
        raise UsageError(f"{path} holds no token; `provewire tokens add` prints one")
    return token


def _check(raw: bytes, status: int) -> None:
    """Tell a refusal as what it is."""
    if status == 503:  # noqa: PLR2004 - it may be over at the next try
        raise Unreachable(f"the hub cannot answer now: {_detail(raw, status)}")
    if status >= 400:  # noqa: PLR2004 - HTTP's border of errors
        kind = UsageError if status < 500 else CommandError  # noqa: PLR2004 - and of whose fault it is
        raise kind(f"the hub refused: {_detail(raw, status)}")


def _detail(raw: bytes, status: int) -> str:
    """The sentence of a refusal."""
    try:
        return str(json.loads(raw)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}"
