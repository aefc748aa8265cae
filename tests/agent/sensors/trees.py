"""Trees of /proc and /sys as machines show them, as files by path."""

from pathlib import Path

GIB = 1024**3

V2_HOST = {
    "proc/self/cgroup": "0::/system.slice/provewire-agent.service\n",
    "proc/self/mountinfo": (
        "24 30 0:22 / /proc rw,nosuid shared:12 - proc proc rw\n"
        "35 25 0:29 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
    ),
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/fs/cgroup/system.slice/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/memory.current": "9000000000\n",
    "sys/fs/cgroup/system.slice/provewire-agent.service/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/provewire-agent.service/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/provewire-agent.service/memory.current": "40000000\n",
}
"""A machine of its own, no limits: systemd, version 2."""

V2_ANCESTORS = {
    **V2_HOST,
    "sys/fs/cgroup/system.slice/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": f"{8 * GIB}\n",
    "sys/fs/cgroup/system.slice/memory.current": f"{5 * GIB}\n",
    "sys/fs/cgroup/system.slice/memory.stat": f"anon {3 * GIB}\nfile {2 * GIB}\ninactive_file {GIB}\n",
    "sys/fs/cgroup/system.slice/provewire-agent.service/cpu.max": "400000 100000\n",
    "sys/fs/cgroup/system.slice/provewire-agent.service/memory.max": f"{16 * GIB}\n",
}
"""The group above is the tighter one, in both."""

V2_CONTAINER = {
    "proc/self/cgroup": "0::/\n",
    "proc/self/mountinfo": (
        "616 512 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d\n"
        "621 620 0:27 / /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw,nsdelegate\n"
    ),
    "sys/fs/cgroup/cpu.max": "350000 100000\n",
    "sys/fs/cgroup/memory.max": f"{32 * GIB}\n",
    "sys/fs/cgroup/memory.current": f"{6 * GIB}\n",
    "sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {2 * GIB}\nactive_file 5\n",
    ".dockerenv": "",
}
"""A rented container with a name space of its own for groups."""

V1_CONTAINER = {
    "proc/self/cgroup": (
        "11:memory:/docker/4ac0ffee\n4:cpu,cpuacct:/docker/4ac0ffee\n1:name=systemd:/docker/4ac0ffee\n"
    ),
    "proc/1/cgroup": "11:memory:/docker/4ac0ffee\n",
    "proc/self/mountinfo": (
        "616 512 0:50 / / rw,relatime - overlay overlay rw\n"
        "700 699 0:30 /docker/4ac0ffee /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
        "701 699 0:31 /docker/4ac0ffee /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    ),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{12 * GIB}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{7 * GIB}\n",
    "sys/fs/cgroup/memory/memory.stat": f"cache {3 * GIB}\ninactive_file 1\ntotal_inactive_file {2 * GIB}\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
}
"""The same in version 1, where the mount shows the container's group as its root."""

V1_HOST = {
    "proc/self/cgroup": "4:memory:/user.slice/a\\x2d\n1:cpu:/user.slice\n0::/user.slice/session-3.scope\n",
    "proc/self/mountinfo": (
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    ),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/user.slice/a\\x2d/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/user.slice/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/user.slice/cpu.cfs_period_us": "100000\n",
}
"""A machine of its own, hybrid: version 1 with an empty version 2 beside it."""


def planted(root: Path, tree: dict[str, str]) -> Path:
    """``tree`` as real files below ``root``."""
    for path, text in tree.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root
