"""Speaking to the hub of this machine as its operator: for the commands that are run at the hub.

The data directory says everything: the admin token, and in ``hub.json`` where the hub listens and which certificate it
shows. That very certificate is asked for, so that one signed by ourselves, or for another name, is as good as any.
"""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli.errors import CommandError, Unreachable, UsageError

DEADLINE_S = 30.0
ANSWER_BYTES_MAX = 64 * 1024
TOKEN_FILE = "admin-token"  # noqa: S105 - a file's name
FACTS_FILE = "hub.json"


class HubHere:
    """The hub that runs on a data directory of this machine."""

    def __init__(self, data_dir: Path) -> None:
        """Read how to reach it.

        Raises:
            UsageError: no hub ever ran there, or its files cannot be read.
            Unreachable: none runs now.
        """
        self._token = _read_token(data_dir)
        facts = data_dir / FACTS_FILE
        try:
            said = json.loads(facts.read_text())
            self.url = str(said["url"])
            self._local = urlsplit(str(said["local_url"]))
            self._certificate = str(said["certificate_sha256"])
            self._host, self._port = self._local.hostname or "", self._local.port
        except FileNotFoundError:
            raise Unreachable(
                f"no hub runs on {data_dir} (it has no {FACTS_FILE}); start `provewire hub` first"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{facts} cannot be read ({error}); restart the hub, it is written at the start"
            ) from error

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
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connect(deadline_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            status, raw = answer.status, answer.read(bytes_max)
        except (OSError, HTTPException) as failed:
            raise Unreachable(f"the hub at {self._local.geturl()} does not answer: {failed}") from failed
        finally:
            connection.close()
        if status == 503:  # noqa: PLR2004 - it may be over at the next try
            raise Unreachable(f"the hub cannot answer now: {_detail(raw, status)}")
        if status >= 400:  # noqa: PLR2004 - HTTP's border of errors
            kind = UsageError if status < 500 else CommandError  # noqa: PLR2004 - and of whose fault it is
            raise kind(f"the hub refused: {_detail(raw, status)}")
        if status == 204:  # noqa: PLR2004 - HTTP's word for done, with nothing to say
            return {}
        try:
            made = json.loads(raw)
        except ValueError as failed:
            raise CommandError(f"what answers at {self._local.geturl()} is no hub of ours: {failed}") from failed
        if not isinstance(made, dict):
            raise CommandError(f"what answers at {self._local.geturl()} is no hub of ours: it sent no object")
        return made

    @contextmanager
    def stream(self, path: str, accept: str) -> Iterator[HTTPResponse]:
        """One request whose answer is read as it comes; a silence of `DEADLINE_S` ends it with a ``TimeoutError``.

        Raises:
            Unreachable: nobody answers, or somebody else, or the hub is too busy.
            UsageError: the hub refuses what was asked.
            CommandError: it failed.
        """
        connection = self._connect()
        try:
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}", "Accept": accept})
                answer = connection.getresponse()
            except (OSError, HTTPException) as failed:
                raise Unreachable(f"the hub at {self._local.geturl()} does not answer: {failed}") from failed
            if answer.status >= 400:  # noqa: PLR2004 - HTTP's border of errors
                detail = _detail(answer.read(ANSWER_BYTES_MAX), answer.status)
                if answer.status == 503:  # noqa: PLR2004 - it may be over at the next try
                    raise Unreachable(f"the hub cannot answer now: {detail}")
                kind = UsageError if answer.status < 500 else CommandError  # noqa: PLR2004 - of whose fault it is
                raise kind(f"the hub refused: {detail}")
            yield answer
        finally:
            connection.close()

    def _connect(self, deadline_s: float = DEADLINE_S) -> HTTPConnection:
        """Connect, past any proxy, and see that it is the hub before the token is sent."""
        connection: HTTPConnection
        if self._local.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # in place of it: the one certificate, below
            connection = HTTPSConnection(self._host, self._port, timeout=deadline_s, context=context)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=deadline_s)
        try:
            connection.connect()
        except OSError as failed:
            raise Unreachable(f"the hub at {self._local.geturl()} cannot be reached: {failed}") from failed
        if isinstance(connection.sock, ssl.SSLSocket):
            shown = connection.sock.getpeercert(binary_form=True) or b""
            if sha256(shown).hexdigest() != self._certificate:
                connection.close()
                raise Unreachable(
                    f"what answers at {self._local.geturl()} shows another certificate than the hub's; "
                    "is something else on its port?"
                )
        return connection


def _read_token(data_dir: Path) -> str:
    path = data_dir / TOKEN_FILE
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        raise UsageError(
            f"{data_dir} is no hub's data directory: it has no {TOKEN_FILE}; give --data-dir as to `provewire hub`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}); run this as the hub's user, or as root") from error


def _detail(raw: bytes, status: int) -> str:
    """The sentence of a refusal."""
    try:
        return str(json.loads(raw)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}"
