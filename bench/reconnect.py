"""A fleet comes back after the hub was away: ``python -m bench.reconnect``.

Real sessions are open, the hub is stopped, stays down for three minutes while the agents try again and again with the
real backoff, and is started on the same data. Measured from the moment it listens until the last agent is back; every
node must be the one it was, and every event that was emitted meanwhile is acknowledged in the end.
"""

import argparse
import os
import select
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench.descriptors import take_descriptors
from bench.fleet import fleet_of
from bench.harness import Target, Verdict, hub_process, two_cores

BACK_S = 60.0
SETTINGS: dict[str, float | str] = {"enroll_per_s": 100_000}


def peak_per_s(seen: list[tuple[float, int]]) -> float:
    """The most sessions that opened in any one second."""
    peak = 0.0
    for at, (began_s, began) in enumerate(seen):
        later = [(when_s, opened) for when_s, opened in seen[at + 1 :] if when_s - began_s >= 1.0]
        if later:
            peak = max(peak, (later[0][1] - began) / (later[0][0] - began_s))
    return peak


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="agents")
    parser.add_argument("--down-s", type=float, default=180.0, help="how long the hub is away")
    parser.add_argument("--kill", action="store_true", help="SIGKILL instead of SIGTERM")
    args = parser.parse_args()
    count = min(args.count, take_descriptors())
    server, load = two_cores()
    os.sched_setaffinity(0, load)
    verdict = Verdict("reconnect")
    with (
        tempfile.TemporaryDirectory(prefix="pw-bench-") as name,
        hub_process(SETTINGS, cores=server) as hub,
        fleet_of(hub, Path(name), count, "--status-s", "2", cores=load) as fleet,
    ):
        first = fleet.wait_open()
        print(f"{count} agents came in {first[-1][0]:.1f} s for the first time", flush=True)
        before = {node["name"]: node["id"] for node in hub.nodes()}
        hub.stop(signal.SIGKILL if args.kill else signal.SIGTERM)
        print(f"the hub is down for {args.down_s:g} s", flush=True)
        select.select([], [], [], args.down_s)
        hub.start()
        seen = fleet.wait_open()
        back_s = seen[-1][0]
        half_s = next(when_s for when_s, opened in seen if opened >= count / 2)
        metrics = hub.metrics()
        nodes = hub.nodes()
        fleet.hush()
        figures = fleet.stop()
    states = Counter(node["state"] for node in nodes)
    same = sum(before.get(node["name"]) == node["id"] for node in nodes)
    verdict.figures = {
        "count": count,
        "down_s": args.down_s,
        "signal": "KILL" if args.kill else "TERM",
        "first_s": round(first[-1][0], 1),
        "half_back_s": round(half_s, 1),
        "back_s": round(back_s, 1),
        "peak_accepts_per_s": round(peak_per_s(seen)),
        "loop_lag_max_s": round(metrics["provewire_loop_lag_max_seconds"], 3),
        "states_when_back": dict(states),
        "faults_of_agents": figures["faults"],
        "events_emitted": sum(figures["emitted"].values()),
        "events_unacknowledged": sum(figures["emitted"].values()) - sum(figures["acknowledged"].values()),
    }
    print(f"half were back after {half_s:.1f} s; at most {peak_per_s(seen):.0f} came in a second", flush=True)
    verdict.targets = [
        Target("all_back_s", back_s, required=BACK_S, unit="s"),
        Target("duplicate_nodes", len(nodes) - count, required=0),
        Target("nodes_with_another_id", len(nodes) - same, required=0),
        Target("events_unacknowledged", float(str(verdict.figures["events_unacknowledged"])), required=0),
    ]
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
