"""A swarm in a process of its own, as the benches use it: started, asked how it stands, told what to do.

How many sessions are open is asked of the swarm and not of the hub: a scrape of a large fleet's metrics is work, and
memory, of the hub that is measured.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import HubProcess, Process, until

STANDING = re.compile(r"^(\d+) of (\d+) open, (\d+) events held", re.MULTILINE)
SAY_EVERY_S = 0.25
DEADLINE_S = 600.0


class Fleet:
    """See the module. Made by `fleet_of`."""

    def __init__(self, process: Process, count: int) -> None:
        self.process = process
        self.count = count

    def standing(self) -> tuple[int, int]:
        """(sessions open, events held), as it said last; nothing is open before it has said anything.

        Raises:
            RuntimeError: it has ended.
        """
        self.process.check()
        said = STANDING.findall(self.process.text())
        return (int(said[-1][0]), int(said[-1][2])) if said else (0, 0)

    def wait_open(self, deadline_s: float = DEADLINE_S) -> list[tuple[float, int]]:
        """(seconds, open sessions) until all are open, from now on."""
        began_s = time.monotonic()
        seen: list[tuple[float, int]] = []

        def there() -> bool:
            seen.append((time.monotonic() - began_s, self.standing()[0]))
            return seen[-1][1] >= self.count

        until(there, f"{self.count} sessions", deadline_s=deadline_s, every_s=SAY_EVERY_S / 2)
        return seen

    def hush(self) -> None:
        """Emit no more, and wait until everything is acknowledged."""
        self.process.tell("hush")

        def empty() -> bool:
            self.process.check()
            said = STANDING.findall(self.process.text().partition("hushed\n")[2])
            return bool(said) and int(said[-1][2]) == 0

        until(empty, "the outboxes to empty", deadline_s=DEADLINE_S, every_s=SAY_EVERY_S)

    def stop(self) -> dict[str, Any]:
        """Say goodbye; its figures."""
        self.process.tell("stop")
        self.process.wait(DEADLINE_S)
        figures: dict[str, Any] = json.loads(self.process.text().splitlines()[-1])["swarm"]
        return figures


@contextmanager
def fleet_of(
    hub: HubProcess, folder: Path, count: int, *options: str, name: str = "swarm", cores: set[int] | None = None
) -> Iterator[Fleet]:
    """A swarm of ``count`` agents with these options of ``python -m bench.swarm``; gone at the end."""
    token = folder / f"{name}.token"
    token.write_text(hub.token(count))
    argv = ["-m", "bench.swarm", "--hub", hub.url, "--token-file", str(token), "--count", str(count), "--name", name]
    argv += ["--say-every-s", str(SAY_EVERY_S), *options]
    with Process(argv, folder / f"{name}.log", cores=cores, orders=True) as process:
        yield Fleet(process, count)
