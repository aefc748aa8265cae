"""The hub with a profiler in its event loop's and its store writer's thread: ``python -m bench.profiled_hub OUT ...``.

The arguments after OUT are those of ``provewire``. When the hub stops, OUT has one table for each thread.
"""

import cProfile
import io
import pstats
import sys
import threading
from collections import Counter
from pathlib import Path

from cli.main import main

THREAD = "store-writer"
LINES = 45
FILES = 25
ROOT = Path(__file__).parents[1]


def table(title: str, profiler: cProfile.Profile) -> str:
    """Time by file, then the functions that took most of it themselves."""
    text = io.StringIO()
    stats = pstats.Stats(profiler, stream=text)
    by_file: Counter[str] = Counter()
    for (file, _, _), (_, _, own_s, _, _) in stats.stats.items():  # type: ignore[attr-defined]  # documented nowhere, there since ever
        by_file[_short(file)] += own_s
    text.write("seconds in each file's own code (~: built in):\n")
    text.writelines(f"  {seconds:8.3f}  {file}\n" for file, seconds in by_file.most_common(FILES))
    stats.sort_stats("tottime").print_stats(LINES)
    return f"--- {title}\n{text.getvalue()}"


def _short(file: str) -> str:
    return file.removeprefix(f"{ROOT}/").rpartition("site-packages/")[2]


def run() -> int:
    """Run the hub under profilers."""
    out, sys.argv[1:] = Path(sys.argv[1]), sys.argv[2:]
    loop, writer = cProfile.Profile(), cProfile.Profile()
    plain = threading.Thread.run

    def run_thread(self: threading.Thread) -> None:
        if self.name != THREAD:
            plain(self)
            return
        writer.enable()
        try:
            plain(self)
        finally:
            writer.disable()

    threading.Thread.run = run_thread  # type: ignore[method-assign]  # this process is for nothing else
    loop.enable()
    try:
        return main(sys.argv[1:])
    finally:
        loop.disable()
        out.write_text(table("event loop", loop) + "\n" + table(THREAD, writer))


if __name__ == "__main__":
    sys.exit(run())
