"""Frames a second through the real hub, beside two bare aiohttp servers on the same core: ``python -m bench.ingest``.

Many agents send the same recorded minutes (deltas of about 300 bytes each second, a full status a minute, events, log
records) as fast as the server takes them. The hub does all it does in service: WebSocket, session, validation, live
view, store commit, acknowledgement; it is done when the last event is acknowledged. One sink counts messages, the
other unpacks them too. The server has one core to itself, the generator another; rounds alternate, medians count.

``--profile FILE`` writes what is left: CPU seconds by thread, and where the hub's event loop and writer spend them.
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct

from bench.descriptors import take_descriptors
from bench.enrolment import Identity, enrol_at
from bench.harness import Process, Target, Verdict, cpu_s, hub_process, thread_cpu_s, two_cores, until
from bench.players import Band, score_of
from bench.recording import Mix, Recording, record

REQUIRED = {"counting": 0.3, "unpacking": 0.5}
AIM = {"counting": 0.5, "unpacking": 0.8}
NO_LIMIT = 1_000_000_000
HUB_SETTINGS: dict[str, float | str] = {
    "enroll_per_s": NO_LIMIT,
    "accept_per_s": NO_LIMIT,
    "accept_burst": NO_LIMIT,
    "unauthenticated_max": NO_LIMIT,
    "frames_per_s": NO_LIMIT,
    "frames_burst": NO_LIMIT,
    "node_events_per_s": NO_LIMIT,
    "node_events_burst": NO_LIMIT,
    "node_event_bytes_per_day": NO_LIMIT,
    "node_log_bytes_per_day": NO_LIMIT,
    "node_reading_bytes_per_day": NO_LIMIT,
}
"""What protects a hub from one node would otherwise be what is measured."""


class Round(Struct, frozen=True):
    """One server took one band's frames."""

    frames: int
    wall_s: float
    server_cpu_s: float
    generator_cpu_s: float

    @property
    def frames_per_s(self) -> float:
        """By the clock."""
        return self.frames / self.wall_s

    @property
    def frames_per_cpu_s(self) -> float:
        """By the server's own CPU time: what other work on the machine does not change."""
        return self.frames / self.server_cpu_s


@contextmanager
def sink_process(folder: Path, name: str, cores: set[int], *, unpacks: bool) -> Iterator[tuple[int, int]]:
    """(port, pid) of a bare server."""
    port_file = folder / f"{name}.port"
    argv = ["-m", "bench.sink", "--port-file", str(port_file), *(["--unpack"] if unpacks else [])]
    with Process(argv, folder / f"{name}.log", cores=cores) as process:
        until(port_file.exists, f"the {name} sink to listen", deadline_s=30.0)
        yield int(port_file.read_text()), process.pid


async def one_round(
    port: int, pid: int, recording: Recording, args: argparse.Namespace, who: list[Identity] | None
) -> Round:
    """Play once into one server."""
    band = Band(port, score_of(recording.of_epoch(str(uuid.uuid4())), args.burst), who, args.agents)
    await band.open()
    try:
        server_s, own_s = cpu_s(pid), cpu_s(os.getpid())
        wall_s = await band.play()
        return Round(band.frames, wall_s, cpu_s(pid) - server_s, cpu_s(os.getpid()) - own_s)
    finally:
        band.close()


async def measure(args: argparse.Namespace, recording: Recording) -> dict[str, list[Round]]:
    """Rounds of each server, alternating."""
    server, generator = two_cores()
    os.sched_setaffinity(0, generator)
    rounds: dict[str, list[Round]] = {"counting": [], "unpacking": [], "hub": []}
    with (
        tempfile.TemporaryDirectory(prefix="pw-bench-") as folder,
        sink_process(Path(folder), "counting", server, unpacks=False) as counting,
        sink_process(Path(folder), "unpacking", server, unpacks=True) as unpacking,
        hub_process(HUB_SETTINGS, cores=server) as hub,
    ):
        who = await enrol_at(hub.url, hub.token(args.agents), args.agents)
        for number in range(args.rounds + 1):
            for name, (port, pid), agents in (
                ("counting", counting, None),
                ("unpacking", unpacking, None),
                ("hub", (hub.port, hub.pid), who),
            ):
                done = await one_round(port, pid, recording, args, agents)
                if number > 0:  # the first round only warms up
                    rounds[name].append(done)
                    print(
                        f"round {number}  {name:<9}  {done.frames_per_s:9.0f} frames/s by the clock, "
                        f"{done.frames_per_cpu_s:9.0f} by its CPU time; "
                        f"generator busy {done.generator_cpu_s / done.wall_s:.0%}",
                        flush=True,
                    )
    return rounds


def report(args: argparse.Namespace, recording: Recording, rounds: dict[str, list[Round]]) -> int:
    """Medians, ratios, targets."""
    per_s = {name: statistics.median(one.frames_per_s for one in some) for name, some in rounds.items()}
    per_cpu_s = {name: statistics.median(one.frames_per_cpu_s for one in some) for name, some in rounds.items()}
    verdict = Verdict("ingest")
    for name in ("counting", "unpacking"):
        pairs = zip(rounds["hub"], rounds[name], strict=True)
        ratio = statistics.median(ours.frames_per_s / bare.frames_per_s for ours, bare in pairs)
        verdict.targets.append(Target(f"hub_over_{name}", ratio, required=REQUIRED[name], aim=AIM[name], at_least=True))
    verdict.figures = {
        "agents": args.agents,
        "frames_each": len(recording.frames),
        "burst": args.burst,
        "rounds": args.rounds,
        "frame_bytes": recording.mean_bytes(),
        "frames_of_kind": recording.counts(),
        "frames_per_s": {name: round(value) for name, value in per_s.items()},
        "frames_per_cpu_s": {name: round(value) for name, value in per_cpu_s.items()},
        "hub_us_per_frame": round(1e6 / per_cpu_s["hub"], 1),
        "ratios_by_cpu": {name: round(per_cpu_s["hub"] / per_cpu_s[name], 3) for name in ("counting", "unpacking")},
        "generator_busy": round(
            statistics.median(one.generator_cpu_s / one.wall_s for some in rounds.values() for one in some), 2
        ),
    }
    return verdict.finish()


async def profile(args: argparse.Namespace, recording: Recording) -> None:
    """One round into a hub that profiles itself; the report goes into ``args.profile``."""
    server, generator = two_cores()
    os.sched_setaffinity(0, generator)
    with hub_process(HUB_SETTINGS, cores=server) as hub:
        who = await enrol_at(hub.url, hub.token(args.agents), args.agents)
        await one_round(hub.port, hub.pid, recording, args, who)
        before = thread_cpu_s(hub.pid)
        done = await one_round(hub.port, hub.pid, recording, args, who)
        threads = {name: seconds - before.get(name, 0.0) for name, seconds in thread_cpu_s(hub.pid).items()}
    lines = [
        f"{done.frames} frames, {done.frames_per_s:.0f} frames/s, {1e6 / done.frames_per_cpu_s:.1f} us of CPU a frame",
        f"frames: {recording.counts()}; bytes: {recording.mean_bytes()}",
        "",
        "CPU by thread, us a frame, not profiled:",
        *(
            f"  {seconds / done.frames * 1e6:7.1f}  {name}"
            for name, seconds in sorted(threads.items(), key=lambda item: -item[1])
            if seconds > 0.0
        ),
        "",
    ]
    with tempfile.TemporaryDirectory(prefix="pw-bench-") as folder:
        tables = Path(folder) / "profile.txt"
        with hub_process(HUB_SETTINGS, cores=server, profile=tables) as hub:
            who = await enrol_at(hub.url, hub.token(args.agents), args.agents)
            done = await one_round(hub.port, hub.pid, recording, args, who)
            hub.stop(signal.SIGTERM)
        lines.append(f"Under cProfile, which adds to every call: {done.frames} frames.")
        lines.append(tables.read_text())
    args.profile.write_text("\n".join(lines))
    print(f"the profile is in {args.profile}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=3.0, help="recorded minutes that each agent sends a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=int, default=1, help="frames of one agent in one write")
    parser.add_argument("--readings-s", type=int, default=0, help="also a sample for the history every so many seconds")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write a profile instead of measuring")
    args = parser.parse_args()
    take_descriptors()
    recording = record(args.minutes, Mix(readings_s=args.readings_s))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.profile is not None:
            runner.run(profile(args, recording))
            return 0
        rounds = runner.run(measure(args, recording))
    return report(args, recording, rounds)


if __name__ == "__main__":
    sys.exit(main())
