"""What the control groups, version 1 or 2, allow this process: its own group's limits and those of every group above.

Pure but for reading files below ``root``, so that recorded trees can be played. A file that is missing or makes no
sense sets no limit.
"""

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE_BYTES_MAX = 64 * 1024
LEVELS_MAX = 64
"""Groups within groups; the kernel's own default bound is far above what anybody nests."""
NO_LIMIT_BYTES = 2**60
"""Version 1 writes "no limit" as a number near 2**63."""
CORES_MAX = 65536
"""A quota of more is none."""
MIB = 1024 * 1024


class Limits(NamedTuple):
    """The tightest of each."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    """What counts against ``memory_bytes``, without the inactive file cache."""


class Mount(NamedTuple):
    """A hierarchy, as mounted."""

    path: str
    root: str
    """The group that the mount point shows."""
    controllers: frozenset[str]
    """Of version 1; empty for version 2."""


def limits(root: Path = Path("/")) -> Limits:
    """The limits of the process that ``/proc/self`` of ``root`` is."""
    groups = own_groups(_text(root, "/proc/self/cgroup") or "")
    cpu: list[float] = []
    memory: list[tuple[int, int | None]] = []
    for mount in mounts(_text(root, "/proc/self/mountinfo") or ""):
        for folder in folders(mount, groups):
            unified = not mount.controllers
            if unified or "cpu" in mount.controllers:
                cores = _cores_v2(root, folder) if unified else _cores_v1(root, folder)
                cpu += [] if cores is None else [cores]
            if unified or "memory" in mount.controllers:
                bound = _memory_v2(root, folder) if unified else _memory_v1(root, folder)
                memory += [] if bound is None else [bound]
    # Of equal limits the outer group's is the one that others share: it is found later, and has more in use.
    tightest = min(memory, key=lambda each: (each[0], -(each[1] or 0)), default=(None, None))
    return Limits(round(min(cpu), 2) if cpu else None, *tightest)


def own_groups(text: str) -> dict[str, str]:
    """``/proc/self/cgroup``: the group by controller; that of version 2 under an empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        for controller in controllers.split(",") if number != "0" else [""]:
            groups[controller] = path
    return groups


def mounts(text: str) -> Iterator[Mount]:
    """``/proc/self/mountinfo``: the hierarchies that can be seen."""
    for line in text.splitlines():
        where, _, what = line.partition(" - ")
        parts, kind = where.split(" "), what.split(" ")
        if len(parts) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):  # noqa: PLR2004 - proc(5)
            continue
        controllers = frozenset(kind[2].split(",")) if kind[0] == "cgroup" else frozenset[str]()
        yield Mount(_unescaped(parts[4]), _unescaped(parts[3]), controllers)


def folders(mount: Mount, groups: dict[str, str]) -> list[str]:
    """The folders of the process's group and of all above it, as far as the mount shows them; the own one first."""
    names = [name for name in ("memory", "cpu") if name in mount.controllers] if mount.controllers else [""]
    group = next((groups[name] for name in names if name in groups), None)
    if group is None:
        return []
    inside = posixpath.relpath(group, mount.root) if mount.root.startswith("/") else "."
    if inside.startswith(".."):
        # A container shows its own group as the mount's root, and names it by another's view: only that one is seen.
        inside = "."
    parts = [part for part in inside.split("/") if part not in ("", ".")][:LEVELS_MAX]
    return [posixpath.join(mount.path, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def _cores_v2(root: Path, folder: str) -> float | None:
    quota, _, period = (_text(root, f"{folder}/cpu.max") or "").strip().partition(" ")
    return _cores(quota, period or "100000")


def _cores_v1(root: Path, folder: str) -> float | None:
    quota, period = (_text(root, f"{folder}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    return _cores(quota.strip(), period.strip())


def _cores(quota: str, period: str) -> float | None:
    try:
        allowed_us, of_us = int(quota), int(period)
    except ValueError:  # "max", or nothing
        return None
    sensible = 0 < allowed_us < CORES_MAX * of_us
    return allowed_us / of_us if sensible else None


def _memory_v2(root: Path, folder: str) -> tuple[int, int | None] | None:
    return _memory(root, folder, "memory.max", "memory.current", "inactive_file")


def _memory_v1(root: Path, folder: str) -> tuple[int, int | None] | None:
    return _memory(root, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _memory(root: Path, folder: str, limit: str, usage: str, cache: str) -> tuple[int, int | None] | None:
    bound = _number(_text(root, f"{folder}/{limit}"))
    if bound is None or bound >= NO_LIMIT_BYTES:
        return None
    used = _number(_text(root, f"{folder}/{usage}"))
    if used is None:
        return bound, None
    droppable = 0
    for line in (_text(root, f"{folder}/memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == cache:
            droppable = _number(value) or 0
    return bound, max(0, used - droppable) // MIB * MIB


def _number(text: str | None) -> int | None:
    try:
        value = int((text or "").strip())
    except ValueError:
        return None
    return value if value >= 0 else None


def _text(root: Path, path: str) -> str | None:
    try:
        with (root / path.lstrip("/")).open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None


def _unescaped(path: str) -> str:
    """Of mountinfo, which writes blanks as octal escapes."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(escape, character)
    return path
