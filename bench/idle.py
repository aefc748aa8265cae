"""Memory of the hub for each connected agent that has nothing to say: ``python -m bench.idle``.

Agents are real sessions of eight-card nodes that have told their picture once and then only beat; they run in another
process. All that they add to the hub's resident memory counts, divided by their number: connection, session, the known
node, its picture. A bare aiohttp WebSocket connection is measured in the same run.
"""

import argparse
import os
import select
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.descriptors import take_descriptors
from bench.fleet import fleet_of
from bench.harness import Process, Target, Verdict, hub_process, rss_bytes, until
from bench.ingest import sink_process

REQUIRED_KIB = 40.0
AIM_KIB = 25.0
WARM = 50
"""Agents that come and go first: what the hub loads once is not theirs."""
SETTINGS: dict[str, float | str] = {
    "enroll_per_s": 100_000,
    "accept_per_s": 500,
    "accept_burst": 1000,
    "unauthenticated_max": 100_000,
}
DIALS_PER_S = 400
DEADLINE_S = 300.0


def settled_bytes(pid: int, seconds: float) -> float:
    """Resident bytes of a process that is left alone for some seconds: the median of the second half."""
    seen: list[int] = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        seen.append(rss_bytes(pid))
        select.select([], [], [], 0.2)
    return statistics.median(seen[len(seen) // 2 :])


def idle_agents(count: int, gpus: int) -> list[str]:
    """Options of a swarm that has nothing to say."""
    quiet = [word for what in ("status", "sweep", "events", "logs", "readings") for word in (f"--{what}-s", "0")]
    return ["--gpus", str(gpus), "--ping-s", "0", "--dial-over-s", str(count / DIALS_PER_S), *quiet]


def hub_bytes_each(args: argparse.Namespace, folder: Path, count: int) -> tuple[float, float]:
    """What one connected agent adds to the hub; and the hub's bytes before."""
    with hub_process(SETTINGS) as hub:
        with fleet_of(hub, folder, WARM, *idle_agents(WARM, args.gpus), name="warm") as warm:
            warm.wait_open()
        before = settled_bytes(hub.pid, args.settle_s)
        with fleet_of(hub, folder, count, *idle_agents(count, args.gpus), name="idle") as fleet:
            fleet.wait_open()
            after = settled_bytes(hub.pid, args.settle_s)
            online = sum(node["state"] == "online" for node in hub.nodes())
            if online != count:
                raise RuntimeError(f"{count} agents are connected, and the hub shows {online} online")
        return (after - before) / count, before


def bare_bytes_each(args: argparse.Namespace, folder: Path, count: int) -> float:
    """What one bare connection adds to aiohttp."""
    with sink_process(folder, "bare", set(os.sched_getaffinity(0)), unpacks=False) as (port, pid):
        argv = ["-m", "bench.crowd", "--port", str(port), "--count"]
        with Process([*argv, str(WARM)], folder / "warm-crowd.log", orders=True) as warm:
            until(lambda: "ready" in warm.text(), "the first connections", deadline_s=DEADLINE_S)
        before = settled_bytes(pid, args.settle_s)
        with Process([*argv, str(count)], folder / "crowd.log", orders=True) as crowd:

            def ready() -> bool:
                crowd.check()
                return "ready" in crowd.text()

            until(ready, f"{count} connections", deadline_s=DEADLINE_S)
            after = settled_bytes(pid, args.settle_s)
            crowd.end(signal.SIGKILL)
        return (after - before) / count


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="agents; 10000 where descriptors allow")
    parser.add_argument("--gpus", type=int, default=8, help="cards of each node")
    parser.add_argument("--settle-s", type=float, default=15.0, help="seconds that memory is watched")
    args = parser.parse_args()
    count = min(args.count, take_descriptors())
    if count < args.count:
        print(f"this machine allows {count} descriptors; {args.count} agents were asked for")
    verdict = Verdict("idle")
    with tempfile.TemporaryDirectory(prefix="pw-bench-") as folder:
        bare = bare_bytes_each(args, Path(folder), count)
        print(f"a bare connection    {bare / 1024:7.1f} KiB", flush=True)
        ours, base = hub_bytes_each(args, Path(folder), count)
        print(f"an idle agent        {ours / 1024:7.1f} KiB; the hub without any {base / 1024**2:.1f} MiB", flush=True)
    verdict.figures = {
        "count": count,
        "gpus": args.gpus,
        "bare_kib": round(bare / 1024, 2),
        "agent_kib": round(ours / 1024, 2),
        "over_bare": round(ours / bare, 2),
        "hub_base_mib": round(base / 1024**2, 1),
    }
    verdict.targets = [Target("kib_per_idle_agent", ours / 1024, required=REQUIRED_KIB, aim=AIM_KIB, unit="KiB")]
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
