"""Speaking to the hub of this machine as its operator: for the commands that are run at the hub.

The data directory says everything: the admin token, and in ``hub.json`` where the hub listens and which certificate it
shows. That very certificate is asked for, so that one signed by ourselves, or for another name, is as good as any.
"""

import json
import ssl
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from cli.client import Hub
from cli.errors import Unreachable, UsageError

TOKEN_FILE = "admin-token"  # noqa: S105 - a file's name
FACTS_FILE = "hub.json"


class HubHere(Hub):
    """The hub that runs on a data directory of this machine."""

    def __init__(self, data_dir: Path) -> None:
        """Read how to reach it.

        Raises:
            UsageError: no hub ever ran there, or its files cannot be read.
            Unreachable: none runs now.
        """
        token = _read_token(data_dir)
        facts = data_dir / FACTS_FILE
        try:
            said = json.loads(facts.read_text())
            url = str(said["url"])
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
        super().__init__(self._local.geturl(), token)
        self.url = url

    def connect(self, deadline_s: float) -> HTTPConnection:
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
