"""Whether the agent runs in a container, and in which kind. Reads files below ``root`` only."""

from collections.abc import Mapping
from pathlib import Path

FILE_BYTES_MAX = 64 * 1024
NONE = "none"
UNNAMED = "container"
KINDS = frozenset({"docker", "podman", "lxc", "systemd-nspawn", "kubernetes"})
BY_GROUP = {
    "/kubepods": "kubernetes",
    "/libpod": "podman",
    "/docker": "docker",
    "docker-": "docker",
    "/lxc": "lxc",
    "/machine.slice/": "systemd-nspawn",
}
"""Pieces of the group names the container managers give to process 1."""


def container(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """The kind by its name; ``container`` for one that cannot be told, ``none`` outside of any."""
    said = environ.get("container") or _text(root / "run/systemd/container").strip()
    first = _text(root / "proc/1/cgroup")
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    if (root / "run/.containerenv").exists() or said == "podman":
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    if said:
        return said if said in KINDS else UNNAMED
    for piece, kind in BY_GROUP.items():
        if piece in first:
            return kind
    return UNNAMED if _root_is_an_overlay(_text(root / "proc/self/mountinfo")) else NONE


def _root_is_an_overlay(mountinfo: str) -> bool:
    """Images of every kind are overlays; a machine's own root hardly ever is."""
    for line in mountinfo.splitlines():
        where, _, what = line.partition(" - ")
        parts = where.split(" ")
        if len(parts) > 4 and parts[4] == "/" and what.startswith("overlay "):  # noqa: PLR2004 - proc(5)
            return True
    return False


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
