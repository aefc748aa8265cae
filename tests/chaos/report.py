"""What a run did and what it checked, as one table: printed, and kept as Markdown and JSON beside the build."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.e2e.rig import ROOT

FOLDER = ROOT / "build" / "chaos"
SEED = int(os.environ.get("PROVEWIRE_CHAOS_SEED") or time.time_ns() % 100_000)


@dataclass
class Report:
    """Filled while a run goes on."""

    title: str
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    """What happened, and how often."""
    checks: dict[str, list[int]] = field(default_factory=dict)
    """Promise to [times checked, things looked at]."""
    broken: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    def check(self, promise: str, look: Callable[[], int]) -> None:
        """Hold a promise against what there is; a broken one is noted and the rest is still looked at."""
        try:
            seen = look()
        except AssertionError as error:
            seen = 0
            self.broken.append(f"{promise}: {error}")
        times = self.checks.setdefault(promise, [0, 0])
        times[0] += 1
        times[1] += seen

    def failed(self, what: str) -> None:
        self.broken.append(what)

    def lines(self) -> list[str]:
        """The table."""
        broken = Counter(each.split(":", 1)[0] for each in self.broken)
        rows = [("what was done", "times", "", "")]
        rows += [(name, str(count), "", "") for name, count in sorted(self.done.items())]
        rows += [("**what was checked**", "**times**", "**things looked at**", "**result**")]
        rows += [
            (name, str(times), str(seen), "BROKEN" if broken[name] else "kept")
            for name, (times, seen) in self.checks.items()
        ]
        rows += [(name, str(value), "", "") for name, value in self.notes.items()]
        widths = [max(len(row[at]) for row in rows) for at in range(4)]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
        ]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        verdict = f"{len(self.broken)} promises broken" if self.broken else "every promise kept"
        return [f"{self.title}, seed {self.seed}: {self.done.total()} things done, {verdict}.", "", *lines]

    def write(self, name: str = "report") -> str:
        """Keep it; the text."""
        text = "\n".join([*self.lines(), *(f"\nBROKEN {each[:4000]}" for each in self.broken)]) + "\n"
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.md").write_text(text)
        (FOLDER / f"{name}.json").write_text(
            json.dumps(
                {
                    "title": self.title,
                    "seed": self.seed,
                    "done": self.done,
                    "checks": self.checks,
                    "broken": self.broken,
                    "notes": self.notes,
                },
                indent=1,
                default=str,
            )
        )
        return text
