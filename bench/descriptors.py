"""How many sockets a process of a bench may open."""

import resource

WANTED = 65_536
KEPT = 64
"""For everything but the sockets a bench counts."""


def take_descriptors() -> int:
    """Raise the soft limit of open files to what this process may have; how many sockets that leaves."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return WANTED - KEPT if soft == resource.RLIM_INFINITY else soft - KEPT
