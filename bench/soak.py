"""The hub's memory under a steady load: ``python -m bench.soak --minutes N``.

A swarm of real sessions pushes statuses, events, log records and samples for so long; some agents lose their line or
are restarted all the while, and a viewer follows the live stream. After a warm-up (caches fill, the allocator finds its
size) the slope of the resident memory is taken by Theil and Sen: the median of the slopes between all pairs of
10-second medians, which a few odd moments do not move, with the interval that holds it in nine of ten cases.

Resident memory wavers by some hundred KiB, so a slope of 1 MiB an hour is told from none only by runs of an hour and
more; shorter ones print their figure and interval and are not judged by it.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

from bench.descriptors import take_descriptors
from bench.fleet import fleet_of
from bench.harness import HubProcess, Process, Target, Verdict, hub_process, rss_bytes, two_cores, until

SLOPE_MIB_PER_H = 1.0
MINUTES_JUDGED = 60.0
WARM_SHARE = 0.25
BLOCK_S = 10.0
CHURN_S = 15.0
MIB = 1024**2
NORMAL_90 = 1.645
SETTINGS: dict[str, float | str] = {"enroll_per_s": 100_000}
DEADLINE_S = 300.0


def slope_of(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The Theil-Sen slope of (x, y) points and the ends of its 90 % interval (Sen's, by the ranks of the slopes)."""
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2))
    if not slopes:
        raise RuntimeError("the run was too short for a slope; give --minutes 2 or more")
    n = len(points)
    spread = NORMAL_90 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    last = len(slopes) - 1
    low, high = (round((last - spread) / 2), round((last + spread) / 2))
    return statistics.median(slopes), slopes[max(0, low)], slopes[min(last, high)]


def blocks(samples: list[tuple[float, int]]) -> list[tuple[float, float]]:
    """(hours, MiB) medians of `BLOCK_S` seconds each."""
    grouped: dict[int, list[int]] = {}
    for when_s, size in samples:
        grouped.setdefault(int(when_s / BLOCK_S), []).append(size)
    return [(block * BLOCK_S / 3600, statistics.median(sizes) / MIB) for block, sizes in sorted(grouped.items())]


def watch(hub: HubProcess, swarm: Process, viewer: Process, minutes: float) -> list[tuple[float, int]]:
    """(seconds, resident bytes) of the hub once a second, while lines are cut and agents restarted."""
    began_s = time.monotonic()
    samples: list[tuple[float, int]] = []
    churned = 0

    def over() -> bool:
        nonlocal churned
        swarm.check()
        viewer.check()
        now_s = time.monotonic() - began_s
        samples.append((now_s, rss_bytes(hub.pid)))
        if churned + 1 < now_s / CHURN_S < minutes * 60 / CHURN_S - 2:  # who was restarted is back at the end
            churned += 1
            swarm.tell("cut 2" if churned % 2 else "restart 1")
        if len(samples) % 60 == 0:
            print(f"{now_s / 60:6.1f} min  {samples[-1][1] / MIB:7.1f} MiB", flush=True)
        return now_s >= minutes * 60

    until(over, "the time to pass", deadline_s=minutes * 60 + DEADLINE_S, every_s=1.0)
    return samples


def soak(args: argparse.Namespace, folder: Path) -> tuple[list[tuple[float, int]], dict[str, object], dict[str, float]]:
    """The samples, what the swarm says at the end, and the counts at both ends."""
    server, load = two_cores()
    os.sched_setaffinity(0, load)
    with hub_process(SETTINGS, cores=server) as hub, fleet_of(hub, folder, args.count, "--status-s", "2") as fleet:
        fleet.wait_open()
        out = ["--url", hub.url, "--token-file", str(hub.folder / "admin-token"), "--out", str(folder / "seen")]
        seconds = str(args.minutes * 60 + DEADLINE_S)
        with Process(["-m", "bench.viewer", *out, "--seconds", seconds], folder / "viewer.log") as viewer:
            samples = watch(hub, fleet.process, viewer, args.minutes)
        descriptors = len(list(Path(f"/proc/{hub.pid}/fd").iterdir()))
        fleet.wait_open()
        fleet.hush()
        ends: dict[str, float] = {
            "hub_nodes": len(hub.nodes()),
            "hub_sessions": hub.sessions(),
            "hub_descriptors": descriptors,
            "store_mib": round(sum(path.stat().st_size for path in hub.folder.glob("hub.sqlite*")) / MIB, 1),
            "loop_lag_max_s": round(hub.metrics()["provewire_loop_lag_max_seconds"], 3),
        }
        said: dict[str, object] = fleet.stop()
    return samples, said, ends


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=500, help="agents")
    args = parser.parse_args()
    take_descriptors()
    verdict = Verdict("soak")
    with tempfile.TemporaryDirectory(prefix="pw-bench-") as folder:
        samples, said, ends = soak(args, Path(folder))
    points = blocks([one for one in samples if one[0] >= args.minutes * 60 * WARM_SHARE])
    slope, low, high = slope_of(points)
    judged = args.minutes >= MINUTES_JUDGED
    note = "" if judged else f"; not judged, a run of {MINUTES_JUDGED:g} minutes would be"
    print(f"{slope:+.2f} MiB/h, in nine of ten cases {low:+.2f} to {high:+.2f}{note}", flush=True)
    emitted, acknowledged = said["emitted"], said["acknowledged"]
    verdict.figures = {
        "minutes": args.minutes,
        "count": args.count,
        "rss_mib": {"first": round(samples[0][1] / MIB, 1), "warm": round(points[0][1], 1), "last": points[-1][1]},
        "slope_mib_per_h": {"value": round(slope, 3), "low": round(low, 3), "high": round(high, 3), "judged": judged},
        "swarm": {name: said[name] for name in ("open", "sessions", "frames_sent", "bytes_sent", "faults")},
        "emitted": emitted,
        **ends,
    }
    verdict.targets = [
        Target("mib_per_hour", slope, required=SLOPE_MIB_PER_H if judged else None, unit="MiB/h"),
        Target("agents_missing_at_the_hub", args.count - ends["hub_sessions"], required=0),
        Target("nodes_too_many_at_the_hub", ends["hub_nodes"] - args.count, required=0),
        Target("streams_not_acknowledged_whole", float(emitted != acknowledged), required=0),
    ]
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
