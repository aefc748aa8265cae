"""``driven.py agent ...``: the real agent with a test engine in it, which says numbered events for as long as it runs.

What it means to say, and what the outbox has taken, it writes down in its ledger (PROVEWIRE_LEDGER), which lies on
another disk: ``begun N``, then ``done N`` once the outbox has returned, or ``refused N``. So the harness knows
without asking the product what must arrive, exactly once and in order. One number comes every
PROVEWIRE_LEDGER_EVERY_S. While a file named as the ledger, with the
ending ``.quiet``, exists, it says nothing.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import agent.outbox
from agent.outbox import Outbox
from agent.outbox_file import OutboxRefused
from wire.frames import NodeEvent

KIND = "chaos.told"

_open = agent.outbox.open_outbox
_telling: set[asyncio.Task[None]] = set()


def last_number(ledger: Path) -> int:
    """How many were begun before."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return sum(line.startswith("begun") for line in lines)


async def tell(outbox: Outbox, ledger: Path, number: int) -> None:
    """Say one number after the other, for ever."""
    every_s = float(os.environ["PROVEWIRE_LEDGER_EVERY_S"])
    quiet = ledger.with_suffix(".quiet")
    with ledger.open("a", buffering=1) as file:
        while True:
            await asyncio.sleep(every_s)
            if os.access(quiet, os.F_OK):
                continue
            number += 1
            file.write(f"begun {number}\n")
            try:
                await outbox.append([NodeEvent(kind=KIND, detail=str(number))])
            except OutboxRefused:
                file.write(f"refused {number}\n")
            else:
                file.write(f"done {number}\n")


async def open_and_tell(*args: Any, **options: Any) -> Outbox:
    """Open the agent's outbox and start to speak through it."""
    outbox = await _open(*args, **options)
    ledger = Path(os.environ["PROVEWIRE_LEDGER"])
    task = asyncio.create_task(tell(outbox, ledger, last_number(ledger)))
    _telling.add(task)
    return outbox


if __name__ == "__main__":
    # Before the agent's modules take the function by its name.
    agent.outbox.open_outbox = open_and_tell
    from cli.main import main

    sys.exit(main())
