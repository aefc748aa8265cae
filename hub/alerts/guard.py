"""Holds the process that sends notices to what it is for: it connects to where it may, and does nothing else.

Python tells an audit hook of each thing a library is about to do, with the address a name was resolved to; what the
hook refuses does not happen, however the library came to it: by the URL it was given, by a redirect, by a name that
resolves to another address the second time. A hook cannot be taken away again.
"""

import socket
import sys
from pathlib import Path
from typing import Any

from hub.alerts.targets import Allowed, refusal

_SENDING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_NEVER = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen"}
    | {"ctypes.dlopen", "socket.bind", "syslog.openlog", "syslog.syslog"}
)
_FILES = ("/etc/hosts", "/etc/mime.types", "/etc/resolv.conf", "/dev/null", "/dev/urandom")
_FOLDERS = ("/etc/ssl", "/etc/pki", "/usr/lib", "/usr/share")


class Refused(OSError):
    """Something a notice may not do; the sentence says what."""


class Guard:
    """What was refused, for the answer."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._by_name: set[str] = set()
        """Addresses of names that are allowed."""
        self._readable = tuple(
            str(Path(folder).resolve()) for folder in (sys.prefix, sys.base_prefix, *_FOLDERS, *_packages())
        )
        self.refused: list[str] = []

    def arm(self) -> None:
        """From now on, for ever."""
        resolve = socket.getaddrinfo

        def noting(host: Any, *args: Any, **more: Any) -> Any:
            found = resolve(host, *args, **more)
            name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
            if isinstance(name, str) and self._allowed.host(name):
                self._by_name.update(str(one[4][0]) for one in found)
            return found

        socket.getaddrinfo = noting
        sys.addaudithook(self._seen)

    def _seen(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _SENDING:
            self._may_reach(args[1])
        elif event in _NEVER:
            self._refuse(f"a notice starts no program and opens no port ({event})")
        elif event == "open":
            self._may_open(args[0], args[1])

    def _may_reach(self, address: Any) -> None:
        if address is None:
            return  # a socket that is connected
        if not isinstance(address, tuple):
            self._refuse("a notice goes to no socket of this machine")
        host = str(address[0])
        if host not in self._by_name and (why := refusal(host, self._allowed)):
            self._refuse(why)

    def _may_open(self, path: Any, mode: Any) -> None:
        if isinstance(path, int):
            return
        name = str(Path(path.decode() if isinstance(path, bytes) else path).resolve())
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if name == "/dev/null" or (
            not writes and (name in _FILES or any(name.startswith(f"{folder}/") for folder in self._readable))
        ):
            return
        self._refuse("a notice reads no file and writes none")

    def _refuse(self, why: str) -> None:
        self.refused.append(why)
        raise Refused(why)


def _packages() -> list[str]:
    """Where Python finds its modules."""
    return [path for path in sys.path if path and Path(path).name in {"site-packages", "dist-packages"}]
