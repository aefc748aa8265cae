"""From a change of state on a node to the browser's event, with a fleet connected: ``python -m bench.latency``.

A thousand real sessions push readings at the hub's own rate, and some twenty times a second one of them changes the
state of its worker, which is pushed at once. Viewers read the live stream as the page does. A change carries the time
at which it happened, so that the figure has everything in it: the agent's session, socket, hub, stream, viewer.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.descriptors import take_descriptors
from bench.fleet import fleet_of
from bench.harness import Process, Target, Verdict, cpu_s, hub_process, two_cores
from bench.viewer import Seen

STATE_P99_MS = 250.0
READINGS_BEHIND_S = 1.0
SETTINGS: dict[str, float | str] = {"enroll_per_s": 100_000, "accept_per_s": 200, "accept_burst": 1000}
DIALS_PER_S = 150
DEADLINE_S = 300.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of them do not exceed.

    Raises:
        RuntimeError: there is none.
    """
    if not values:
        raise RuntimeError("nothing was seen on the live stream; is anything pushed?")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(args: argparse.Namespace, folder: Path) -> tuple[list[Seen], float, float, dict[str, float]]:
    """What the viewers saw, the hub's rate of readings, its share of a core, and its metrics at the end."""
    server, load = two_cores()
    options = ["--status-s", "0.01", "--state-s", str(args.count / args.changes_per_s)]
    options += ["--dial-over-s", str(args.count / DIALS_PER_S)]
    with (
        hub_process(SETTINGS, cores=server) as hub,
        fleet_of(hub, folder, args.count, *options, cores=load) as fleet,
    ):
        fleet.wait_open()
        outs = [folder / f"viewer-{at}.json" for at in range(args.viewers)]
        began_s = cpu_s(hub.pid)
        with ExitStack() as stack:
            viewers = []
            for out in outs:
                argv = ["-m", "bench.viewer", "--url", hub.url, "--token-file", str(hub.folder / "admin-token")]
                argv += ["--seconds", str(args.seconds), "--out", str(out)]
                viewers.append(stack.enter_context(Process(argv, out.with_suffix(".log"), cores=load)))
            for viewer in viewers:
                if viewer.wait(args.seconds + DEADLINE_S) != 0:
                    viewer.check()
        busy = (cpu_s(hub.pid) - began_s) / args.seconds
        metrics = hub.metrics()
        figures = fleet.stop()
    return [msgspec.json.decode(out.read_bytes(), type=Seen) for out in outs], figures["readings_s"], busy, metrics


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="agents")
    parser.add_argument("--viewers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--changes-per-s", type=float, default=20.0, help="changes of state, all agents together")
    args = parser.parse_args()
    take_descriptors()
    verdict = Verdict("latency")
    with tempfile.TemporaryDirectory(prefix="pw-bench-") as folder:
        viewers, readings_s, busy, metrics = measure(args, Path(folder))
    state_ms = list(itertools.chain.from_iterable(seen.state_ms for seen in viewers))
    shown_s = [each / 1000 for seen in viewers for each in seen.shown_ms]
    reading_ms = list(itertools.chain.from_iterable(seen.reading_ms for seen in viewers))
    shares = (0.5, 0.9, 0.99, 1.0)
    state = {f"p{share * 100:g}": round(percentile(state_ms, share), 1) for share in shares}
    print(f"state to browser, ms: {state} of {len(state_ms)}")
    print(f"reading to browser, ms: p50 {percentile(reading_ms, 0.5):.0f}, p99 {percentile(reading_ms, 0.99):.0f}")
    behind_s = percentile(shown_s, 0.99) - readings_s
    verdict.figures = {
        "count": args.count,
        "viewers": args.viewers,
        "changes_seen": len(state_ms),
        "state_ms": state,
        "reading_ms": {f"p{share * 100:g}": round(percentile(reading_ms, share), 1) for share in shares},
        "shown_s_p99": round(percentile(shown_s, 0.99), 3),
        "hub_readings_s": readings_s,
        "stream_bytes_per_s": round(sum(seen.bytes for seen in viewers) / args.seconds / args.viewers),
        "stream_events_per_s": round(sum(seen.events for seen in viewers) / args.seconds / args.viewers, 1),
        "snapshots": [seen.snapshots for seen in viewers],
        "holes": sum(seen.holes for seen in viewers),
        "hub_cores": round(busy, 3),
        "hub_loop_lag_max_s": round(metrics["provewire_loop_lag_max_seconds"], 3),
    }
    verdict.targets = [
        Target("state_p99_ms", state["p99"], required=STATE_P99_MS, unit="ms"),
        Target("readings_behind_s", behind_s, required=READINGS_BEHIND_S, unit="s beyond the hub's rate"),
    ]
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
