"""The hub looks at its own side of the way in: key, known hosts, sockets' folder, ssh itself, descriptors, network.

Done every minute and whenever many nodes fail alike, so that what broke here is named before a node is lost, and
before anybody looks for the fault on sixty machines. What can be made good without a doubt (a folder that is gone, a
known_hosts file that is not what the store says) is made good, and said.
"""

import asyncio
import ipaddress
import os
import re
import resource
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hub.children import Bounded, child
from hub.ssh import identity, pins
from hub.ssh.argv import RuntimeDirTooLong, Way, check_runtime_dir
from hub.ssh.cause import Cause
from hub.ssh.targets import Target
from hub.ssh.verdict import Problem

DESCRIPTORS_SHARE = 0.9
"""Of the limit: above it the next probe may find none left."""
NAMES_MIN = 2
NAMES_MAX = 3
"""Names asked for at each look: one alone may be wrong itself."""
NAMES_S = 5.0
VERSION_S = 5.0
VERSION_BYTES_MAX = 1024
Pins = Sequence[tuple[Target | str, Sequence[str]]]


class Finding(Struct, frozen=True):
    """Something wrong on this side, or just made good."""

    cause: Cause
    sentence: str


class Seen(Struct, frozen=True):
    """What one look saw."""

    findings: tuple[Finding, ...]
    fingerprints: tuple[str, ...]
    ssh_version: str
    """``OpenSSH_9.2p1``; empty without one."""


async def look(way: Way, known: Pins, *, fingerprints_before: Sequence[str] | None) -> Seen:
    """Look once, within a few seconds; never raises.

    Args:
        way: by what means the hub goes to its nodes.
        known: the host keys the store holds.
        fingerprints_before: of the identities at the last look, or as installed at the nodes; None for the first look.
    """
    files, prints = await asyncio.to_thread(_files, way, known, fingerprints_before)
    version, trouble = await _ssh_version(way.ssh)
    return Seen(findings=(*files, *trouble, *_descriptors(), *_network()), fingerprints=prints, ssh_version=version)


async def names(hosts: Sequence[str]) -> list[Finding]:
    """Whether names can be resolved at all: of some of the nodes' names, by whatever this machine asks.

    One that can be is enough; one that cannot be is its own node's trouble.
    """
    asked = [host for host in dict.fromkeys(hosts) if not _is_address(host)][:NAMES_MAX]
    if len(asked) < NAMES_MIN:
        return []
    tries = [asyncio.create_task(_resolve(host)) for host in asked]
    try:
        answers = await asyncio.gather(*tries)
    finally:
        for each in tries:
            each.cancel()
    if any(answers):
        return []
    return [Finding(Cause.NAME_RESOLUTION, f"no name of a node can be resolved: {', '.join(asked)}")]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _resolve(host: str) -> bool:
    try:
        async with asyncio.timeout(NAMES_S):
            return bool(await asyncio.get_running_loop().getaddrinfo(host, None))
    except (OSError, TimeoutError, UnicodeError):
        return False


def _files(way: Way, known: Pins, before: Sequence[str] | None) -> tuple[list[Finding], tuple[str, ...]]:
    found: list[Finding] = []
    looked = [identity.look(path) for path in way.identities]
    found += [Finding(each.cause, f"the hub's key: {each.detail}") for each in looked if not each.usable]
    prints = tuple(each.fingerprint for each in looked if each.usable)
    if not looked and way.agent_socket is None:
        found.append(Finding(Cause.NO_IDENTITY, "the hub has no key to offer"))
    if before is not None and prints and not set(before) <= set(prints):
        sentence = f"the hub's key was replaced: {', '.join(before) or 'none'} before, {', '.join(prints)} now"
        found.append(Finding(Cause.IDENTITY_REFUSED, sentence))
    if way.agent_socket is not None and not way.agent_socket.is_socket():
        found.append(Finding(Cause.AGENT_REFUSED, f"there is no ssh agent at {way.agent_socket}"))
    return [*found, *_known_hosts(way.known_hosts, known), *_runtime_dir(way.runtime_dir)], prints


def _known_hosts(path: Path, known: Pins) -> list[Finding]:
    wanted = pins.known_hosts(known)
    try:
        present = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        present = None
    except OSError as error:
        return [Finding(_cause(error, Cause.HOST_KEY_UNKNOWN), f"{path} cannot be read: {error.strerror}")]
    if present == wanted:
        return []
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pins.write(path, known)
    except OSError as error:
        sentence = f"{path} is not what the hub knows, and cannot be written: {error}"
        return [Finding(_cause(error, Cause.HOST_KEY_UNKNOWN), sentence)]
    if present is None and not wanted:
        return []
    how = "was gone" if present is None else "had been changed"
    return [Finding(Cause.HOST_KEY_UNKNOWN, f"{path} {how}; it was written anew from the pinned host keys")]


def _runtime_dir(path: Path) -> list[Finding]:
    try:
        check_runtime_dir(path)
    except RuntimeDirTooLong as error:
        return [Finding(Cause.CONTROL_PATH_TOO_LONG, str(error))]
    try:
        there = path.exists()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            return [Finding(Cause.CONTROL_PATH_UNUSABLE, f"{path} does not belong to the hub's user")]
        if state.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        return [Finding(Cause.CONTROL_PATH_UNUSABLE, f"{path}, for control sockets, cannot be made: {error.strerror}")]
    return [] if there else [Finding(Cause.CONTROL_PATH_UNUSABLE, f"{path}, for control sockets, was gone; made anew")]


async def _ssh_version(ssh: str) -> tuple[str, list[Finding]]:
    stderr = Bounded(VERSION_BYTES_MAX)
    try:
        async with asyncio.timeout(VERSION_S), child([ssh, "-V"], len, stderr.add) as running:
            code = await running.wait()
            await running.heard(VERSION_S)
    except TimeoutError:
        return "", [Finding(Cause.SSH_MISSING, f"{ssh} -V did not answer within {VERSION_S:g} s")]
    except OSError as error:
        return "", [Finding(_cause(error, Cause.SSH_MISSING), f"{ssh} cannot be started: {error.strerror}")]
    said = stderr.kept().decode("utf-8", "replace")
    found = re.match(r"\S+", said)
    if code != 0 or found is None:
        cause = Cause.NO_USER if "No user exists" in said else Cause.SSH_MISSING
        return "", [Finding(cause, f"{ssh} -V ended with {code}: {said.strip()}")]
    return found[0].rstrip(","), []


def _cause(error: OSError, otherwise: Cause) -> Cause:
    """Without a descriptor nothing can be opened: then that is the cause, whatever was to be opened."""
    return Cause.OUT_OF_DESCRIPTORS if error.errno in identity.NO_DESCRIPTORS else otherwise


def _descriptors() -> list[Finding]:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        taken = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not looked at
    except OSError as error:
        return [Finding(Cause.OUT_OF_DESCRIPTORS, f"the hub's open files cannot be counted: {error.strerror}")]
    if limit == resource.RLIM_INFINITY or taken < limit * DESCRIPTORS_SHARE:
        return []
    return [Finding(Cause.OUT_OF_DESCRIPTORS, f"the hub has {taken} files open and may have {limit}")]


def _network() -> list[Finding]:
    """Whether there is any way out: a route that is not loopback's."""
    try:
        v4 = Path("/proc/net/route").read_text("ascii", "replace").splitlines()[1:]
        v6 = Path("/proc/net/ipv6_route").read_text("ascii", "replace").splitlines()
    except OSError:
        return []  # not Linux, or not allowed to know
    if any(not line.endswith(" lo") for line in v6) or any(line.split()[0] != "lo" for line in v4 if line.split()):
        return []
    return [Finding(Cause.NETWORK_UNREACHABLE, "the hub has no route to anywhere")]


class Memory:
    """What is wrong since when: a finding keeps its beginning while it lasts, and is forgotten a while after."""

    def __init__(self, forget_ms: int) -> None:
        self._forget_ms = forget_ms
        self._since: dict[Finding, tuple[int, int]] = {}

    def take(self, findings: Sequence[Finding], now_ms: int) -> list[Problem]:
        """The problems now: those found, and those made good so lately that they may explain what is seen."""
        for finding in findings:
            since_ms, _ = self._since.get(finding, (now_ms, now_ms))
            self._since[finding] = (since_ms, now_ms)
        self._since = {f: times for f, times in self._since.items() if now_ms - times[1] <= self._forget_ms}
        return [
            Problem(f.cause, f.sentence, since_ms, None if f in findings else seen_ms)
            for f, (since_ms, seen_ms) in self._since.items()
        ]
