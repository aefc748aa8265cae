"""A network of the drills' own: a bridge in a namespace that this thread enters, and a namespace for every node on it.

What the thread starts there sees no other network, and nothing outside sees it. Root is needed.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.rig import until

CLONE_NEWNET = 0x40000000
NET = "10.77.0"
HUB = f"{NET}.1"
BRIDGE = "br0"
OWN = Path("/proc/thread-self/ns/net")

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), what)


def ip(*words: str, pid: int | None = None) -> None:
    """The command ``ip``, here or in a process's network."""
    inside = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    subprocess.run([*inside, "ip", *words], check=True, capture_output=True, timeout=20)


@contextmanager
def entered() -> Iterator[None]:
    """This thread, and what it starts, in a network with a bridge, until the end."""
    outside = os.open(OWN, os.O_RDONLY)
    try:
        _checked(_libc.unshare(CLONE_NEWNET), "unshare")
        try:
            ip("link", "set", "lo", "up")
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("addr", "add", f"{HUB}/24", "dev", BRIDGE)
            ip("link", "set", BRIDGE, "up")
            yield
        finally:
            _checked(_libc.setns(outside, CLONE_NEWNET), "setns")
    finally:
        os.close(outside)


def plug_in(pid: int, address: str) -> None:
    """Give a process, which is in a network of its own by now or soon, an interface on the bridge."""
    ours = OWN.readlink()
    until(lambda: Path(f"/proc/{pid}/ns/net").readlink() != ours, "a node to be in a network of its own")
    port = f"n{address.rsplit('.', 1)[1]}"
    ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", port, "master", BRIDGE)
    ip("link", "set", port, "up")
    ip("link", "set", "lo", "up", pid=pid)
    ip("addr", "add", f"{address}/24", "dev", "eth0", pid=pid)
    ip("link", "set", "eth0", "up", pid=pid)
    ip("neigh", "flush", "dev", BRIDGE)  # the address may have been another machine's
