"""Bare WebSocket connections in one process that say nothing: what an idle agent costs a server at the very least.

``python -m bench.crowd --port P --count N`` connects N times, says ``ready``, and stays until its stdin closes.
"""

import argparse
import asyncio
import sys

import uvloop

from bench.descriptors import take_descriptors
from bench.players import Band, Score

NOTHING = Score(epoch="", chunks=[], frames=0, last_seq={})


async def stay(port: int, count: int) -> None:
    """Connect, say so, and wait for the end of stdin."""
    band = Band(port, NOTHING, None, count)
    await band.open()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    band.close()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    take_descriptors()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(stay(args.port, args.count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
