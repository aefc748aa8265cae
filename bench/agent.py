"""What the daemon itself costs a node, without cards and with 1 and 8 of them: ``python -m bench.agent``.

Real agents with ``--observe`` (no worker, no job) push to a real hub through a relay that counts bytes; one more does
so over TLS. Each enrols in a first run, whose memory is looked at too, and is measured in the second. Cards are those
of the tests' fake NVML library, whose load, power and temperatures move twice a second as on a busy node; without a C
compiler these two parts are left out, visibly. CPU and memory are the kernel's figures. The agent's child that reads
NVML is listed apart; CPU is judged with it, memory of the daemon itself, and the proportional memory of both is shown.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import ssl
import sys
import tempfile
from pathlib import Path

import psutil
from msgspec import Struct

from bench.certificate import certificate
from bench.harness import HubProcess, Process, Target, Verdict, cpu_s, hub_process, peak_rss_bytes, rss_bytes, until
from bench.relay import Relay

CPU_RATIO = 0.01
RSS_MIB = 60.0
MIB = 1024**2
CHANGE_S = 0.5
DEADLINE_S = 60.0


class Cost(Struct, frozen=True):
    """One agent's."""

    gpus: int
    tls: bool
    enrolling_rss_mib: float
    """Of the first run, that enrolled: the most it ever had."""
    agent_cpu_ratio: float
    children_cpu_ratio: float
    agent_rss_mib: float
    agent_peak_rss_mib: float
    children_rss_mib: float
    pss_mib: float
    """Proportional memory of all of them together."""
    up_bytes_per_s: float
    down_bytes_per_s: float

    @property
    def name(self) -> str:
        """Which node it is."""
        return f"{self.gpus}_gpus_tls" if self.tls else f"{self.gpus}_gpus"

    def line(self) -> str:
        """For people."""
        return (
            f"{self.name}: agent {self.agent_cpu_ratio:.2%} of a core and {self.agent_rss_mib:.1f} MiB "
            f"({self.enrolling_rss_mib:.1f} in the run that enrols), "
            f"children {self.children_cpu_ratio:.2%} and {self.children_rss_mib:.1f} MiB, "
            f"together {self.pss_mib:.1f} MiB proportional; {self.up_bytes_per_s:.0f} bytes/s up, "
            f"{self.down_bytes_per_s:.0f} down"
        )


class Cards:
    """A fake NVML with some busy cards; none for a node without a driver."""

    def __init__(self, folder: Path, count: int) -> None:
        self.environ: dict[str, str] = {}
        self.count = count
        if count:
            from tests.agent.sensors.fake_nvml.library import FakeNvml  # noqa: PLC0415 - only where cards are played

            self._nvml = FakeNvml(folder / f"cards-{count}")
            self.environ = dict(self._nvml.environ)
            self._nvml.set(f"* cards {count}")

    async def live(self) -> None:
        """Load, power and temperature move, for ever."""
        rng = random.Random(1)
        scenario = Path(self.environ["FAKE_NVML_SCENARIO"])
        while True:
            lines = [f"* cards {self.count}"]
            for card in range(self.count):
                lines += [
                    f"{card} utilization {rng.randrange(101)}",
                    f"{card} power {rng.randrange(100_000, 700_000)}",
                    f"{card} temperature {rng.randrange(45, 75)}",
                ]
            fresh = scenario.with_suffix(".new")
            fresh.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
            fresh.replace(scenario)
            await asyncio.sleep(CHANGE_S)


def pss_bytes(pid: int) -> int:
    """Proportional resident bytes of a process."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


async def cost_of(hub: HubProcess, folder: Path, gpus: int, args: argparse.Namespace, *, tls: bool = False) -> Cost:
    """Run one agent for a while."""
    cards = Cards(folder, gpus)
    name = f"node-{gpus}-tls" if tls else f"node-{gpus}"
    token = folder / f"token-{name}"
    token.write_text(await asyncio.to_thread(hub.token, 1))
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(folder))
    async with Relay(hub.port, context) as relay, contextlib.AsyncExitStack() as stack:
        url = f"https://localhost:{relay.port}" if tls else f"http://127.0.0.1:{relay.port}"
        argv = ["-m", "cli.main", "agent", "--hub", url, "--token-file", str(token), "--data-dir", str(folder / name)]
        argv += ["--name", name, "--observe", "--local", "off", "--cuzk", "off"]
        argv += ["--ca", str(folder / "c.pem")] if tls else []
        env = {"PROVEWIRE_LOG": "json", **cards.environ}
        living = asyncio.create_task(cards.live() if gpus else asyncio.sleep(0))
        stack.callback(living.cancel)

        async def come_up(process: Process) -> Process:
            def there() -> bool:
                process.check()
                node = next((one for one in hub.nodes() if one["name"] == name and one["state"] == "online"), None)
                return node is not None and node["status"] is not None and len(node["status"]["gpus"]) == gpus

            await asyncio.to_thread(until, there, f"{name} with {gpus} cards", deadline_s=DEADLINE_S, every_s=0.5)
            await asyncio.sleep(args.warm_s)
            process.check()
            return process

        with Process(argv, folder / f"{name}.log", env=env) as first:
            await come_up(first)
            enrolling_bytes = peak_rss_bytes(first.pid)
            await asyncio.to_thread(first.end)
        process = await come_up(stack.enter_context(Process(argv, folder / f"{name}.log", env=env)))
        children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        agent_s, children_s = cpu_s(process.pid), sum(map(cpu_s, children))
        up, down, seconds = relay.up_bytes, relay.down_bytes, args.seconds
        await asyncio.sleep(seconds)
        return Cost(
            gpus=gpus,
            tls=tls,
            enrolling_rss_mib=enrolling_bytes / MIB,
            agent_cpu_ratio=(cpu_s(process.pid) - agent_s) / seconds,
            children_cpu_ratio=(sum(map(cpu_s, children)) - children_s) / seconds,
            agent_rss_mib=rss_bytes(process.pid) / MIB,
            agent_peak_rss_mib=peak_rss_bytes(process.pid) / MIB,
            children_rss_mib=sum(map(rss_bytes, children)) / MIB,
            pss_mib=sum(map(pss_bytes, [process.pid, *children])) / MIB,
            up_bytes_per_s=(relay.up_bytes - up) / seconds,
            down_bytes_per_s=(relay.down_bytes - down) / seconds,
        )


async def measure(args: argparse.Namespace) -> list[Cost]:
    """All nodes at the same time: each process's figures are its own."""
    kinds = [0, 1, 8]
    if shutil.which(os.environ.get("CC", "cc")) is None:
        print("SKIPPED: nodes with cards; there is no C compiler for the fake NVML library (apt-get install gcc)")
        kinds = [0]
    with tempfile.TemporaryDirectory(prefix="pw-bench-") as folder, hub_process() as hub:
        nodes = [cost_of(hub, Path(folder), gpus, args) for gpus in kinds]
        return await asyncio.gather(*nodes, cost_of(hub, Path(folder), 0, args, tls=True))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long is measured, after the warm-up")
    parser.add_argument("--warm-s", type=float, default=15.0)
    args = parser.parse_args()
    verdict = Verdict("agent")
    costs = asyncio.run(measure(args))
    for cost in costs:
        print(cost.line(), flush=True)
        total = cost.agent_cpu_ratio + cost.children_cpu_ratio
        verdict.targets += [
            Target(f"cpu_ratio_{cost.name}", total, required=CPU_RATIO, unit="of a core, children included"),
            Target(f"agent_rss_mib_{cost.name}", cost.agent_rss_mib, required=RSS_MIB, unit="MiB"),
            Target(f"enrolling_rss_mib_{cost.name}", cost.enrolling_rss_mib, required=RSS_MIB, unit="MiB"),
        ]
    verdict.figures = {
        "seconds": args.seconds,
        "nodes": [{name: round(getattr(cost, name), 5) for name in Cost.__struct_fields__} for cost in costs],
    }
    return verdict.finish()


if __name__ == "__main__":
    sys.exit(main())
