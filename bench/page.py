"""The page in front of a large fleet: ``python -m bench.page --minutes N``.

A swarm of real sessions of eight-card nodes talks to a hub, some lose their line or start anew all the while, and a
real Chromium shows the fleet, worst first, and is scrolled now and then. Measured are

- the first picture: from the navigation until the first rows are painted, of some loads with nothing in the cache;
- the processor time of the process that draws the page, by the kernel;
- the page's heap after a forced collection, and the hub's resident memory: the slopes of both after a warm-up, by
  Theil and Sen as in `bench.soak`. Runs under `MINUTES_JUDGED` print them and are not judged by them.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from bench.descriptors import take_descriptors
from bench.fleet import Fleet, fleet_of
from bench.harness import HubProcess, Process, Target, Verdict, cpu_s, hub_process, rss_bytes, until
from bench.soak import CHURN_S, MIB, WARM_SHARE, blocks, slope_of
from tests.browser.world import browser_path, launch

FIRST_PAINT_S = 1.5
CPU_RATIO = 0.20
HEAP_MIB_PER_H = 5.0
HUB_MIB_PER_H = 1.0
MINUTES_JUDGED = 30.0
LOADS = 5
SAMPLE_S = 10.0
SCROLL_S = 45.0
WAIT_MS = 60_000.0
SCREEN = {"width": 1440, "height": 900}
SETTINGS: dict[str, float | str] = {"enroll_per_s": 100_000}
DEADLINE_S = 600.0
ROWS_SEEN = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".fleet tbody tr[aria-rowindex]")) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.rowsPaintedMs = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when the first frame with rows has been drawn."""


def logged_in(browser: Browser, hub: HubProcess) -> BrowserContext:
    """A browser's profile with a session, by a one-time link as an operator makes it."""
    context = browser.new_context(viewport=SCREEN)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(hub.login_link())
    page.locator(".fleet tbody tr").first.wait_for(timeout=WAIT_MS)
    page.close()
    return context


def first_rows_s(context: BrowserContext, hub: HubProcess) -> tuple[float, float]:
    """Seconds until something, and until the first rows were painted, with nothing in the cache."""
    page = context.new_page()
    try:
        page.add_init_script(ROWS_SEEN)
        context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
        page.goto(hub.url)
        # Asked again and again, for the page's policy lets nobody put a function of their own into it.
        rows_ms = until(lambda: page.evaluate("window.rowsPaintedMs"), "the first rows", deadline_s=WAIT_MS / 1000)
        painted_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        return painted_ms / 1000, rows_ms / 1000
    finally:
        page.close()


def drawing_pids(browser: Browser) -> list[int]:
    """The processes that draw: the one of the page, which the browser does not name, and idle ones kept in reserve."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return [int(one["id"]) for one in found if one["type"] == "renderer"]


def heap_bytes(cdp: CDPSession) -> int:
    """What lives in the page's heap, after a collection."""
    cdp.send("HeapProfiler.collectGarbage")
    return int(cdp.send("Runtime.getHeapUsage")["usedSize"])


class Watch:
    """Samples of one run."""

    def __init__(self, hub: HubProcess, swarm: Process, page: Page, pids: list[int]) -> None:
        self._hub = hub
        self._swarm = swarm
        self._page = page
        self._pids = pids
        self._cdp = page.context.new_cdp_session(page)
        self._began_s = time.monotonic()
        self.heap: list[tuple[float, int]] = []
        self.rss: list[tuple[float, int]] = []
        self.cpu: list[tuple[float, float]] = []
        self._churn = itertools.count(1)
        self._scrolled = 0.0

    def run(self, minutes: float) -> None:
        """For so long, with one sample every `SAMPLE_S`."""
        due_s = churn_s = 0.0
        while (now_s := time.monotonic() - self._began_s) < minutes * 60:
            self._swarm.check()
            self.rss.append((now_s, rss_bytes(self._hub.pid)))
            if now_s >= due_s:
                due_s = now_s + SAMPLE_S
                self.cpu.append((now_s, sum(cpu_s(pid) for pid in self._pids if psutil.pid_exists(pid))))
                self.heap.append((now_s, heap_bytes(self._cdp)))
                self._say(now_s)
            if now_s - churn_s >= CHURN_S:
                churn_s = now_s
                self._swarm.tell("cut 2" if next(self._churn) % 2 else "restart 1")
            if now_s - self._scrolled >= SCROLL_S:
                self._scrolled = now_s
                self._page.mouse.wheel(0, 1200.0 if int(now_s / SCROLL_S) % 4 else -4000.0)
            self._page.wait_for_timeout(1000)

    def _say(self, now_s: float) -> None:
        if len(self.heap) % 6 == 1:
            heap, rss = self.heap[-1][1] / MIB, self.rss[-1][1] / MIB
            print(f"{now_s / 60:6.1f} min  heap {heap:6.2f} MiB  hub {rss:7.1f} MiB", flush=True)

    def cpu_ratio(self) -> float:
        """Of one core, over the whole run."""
        (first_s, first), (last_s, last) = self.cpu[0], self.cpu[-1]
        return (last - first) / (last_s - first_s)

    def cpu_peak_ratio(self) -> float:
        """Of one core, in the busiest minute."""
        step = max(1, int(60 / SAMPLE_S))
        return max(
            ((b - a) / (t - s) for (s, a), (t, b) in zip(self.cpu, self.cpu[step:], strict=False)),
            default=self.cpu_ratio(),
        )


def measure(args: argparse.Namespace, browser: Browser, hub: HubProcess, fleet: Fleet) -> dict[str, Any]:
    """Everything, with a fleet that is open."""
    context = logged_in(browser, hub)
    loads = [first_rows_s(context, hub) for _ in range(LOADS)]
    for painted_s, rows_s in loads:
        print(f"first paint {painted_s:.2f} s, first rows {rows_s:.2f} s", flush=True)
    page = context.new_page()
    page.goto(hub.url)
    page.locator(".fleet tbody tr[aria-rowindex]").first.wait_for(timeout=WAIT_MS)
    watch = Watch(hub, fleet.process, page, drawing_pids(browser))
    watch.run(args.minutes)
    rows = page.locator(".fleet tbody tr[aria-rowindex]").count()
    known = page.locator(".toolbar .count").inner_text()
    return {"loads": loads, "watch": watch, "rows_drawn": rows, "count_shown": known}


def verdict_of(args: argparse.Namespace, found: dict[str, Any], ends: dict[str, object]) -> Verdict:
    """Figures and targets."""
    watch: Watch = found["watch"]
    judged = args.minutes >= MINUTES_JUDGED
    slopes: dict[str, dict[str, float]] = {}
    for name, samples in (("heap", watch.heap), ("hub", watch.rss)):
        points = blocks([one for one in samples if one[0] >= args.minutes * 60 * WARM_SHARE])
        slope, low, high = slope_of(points)
        slopes[name] = {"value": round(slope, 3), "low": round(low, 3), "high": round(high, 3)}
        print(f"{name}: {slope:+.2f} MiB/h, in nine of ten cases {low:+.2f} to {high:+.2f}", flush=True)
    rows_s = statistics.median(rows for _, rows in found["loads"])
    made = Verdict("page")
    made.figures = {
        "minutes": args.minutes,
        "count": args.count,
        "first_paint_s": [round(painted, 3) for painted, _ in found["loads"]],
        "first_rows_s": [round(rows, 3) for _, rows in found["loads"]],
        "cpu_busiest_minute": round(watch.cpu_peak_ratio(), 4),
        "heap_mib": {"first": round(watch.heap[0][1] / MIB, 2), "last": round(watch.heap[-1][1] / MIB, 2)},
        "hub_mib": {"first": round(watch.rss[0][1] / MIB, 1), "last": round(watch.rss[-1][1] / MIB, 1)},
        "slope_mib_per_h": slopes,
        "judged": judged,
        "rows_drawn": found["rows_drawn"],
        **ends,
    }
    made.targets = [
        Target("first_rows_s", rows_s, required=FIRST_PAINT_S, unit="s"),
        Target("browser_cpu_ratio", watch.cpu_ratio(), required=CPU_RATIO, unit="of a core"),
        Target("heap_mib_per_hour", slopes["heap"]["value"], required=HEAP_MIB_PER_H if judged else None, unit="MiB/h"),
        Target("hub_mib_per_hour", slopes["hub"]["value"], required=HUB_MIB_PER_H if judged else None, unit="MiB/h"),
        Target("nodes_not_shown", args.count - int(found["count_shown"].rpartition(" ")[2]), required=0),
    ]
    return made


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--count", type=int, default=2000, help="nodes")
    args = parser.parse_args()
    program = browser_path()
    if program is None:
        print("a browser is missing: apt-get install chromium", file=sys.stderr)
        return 1
    take_descriptors()
    with (
        tempfile.TemporaryDirectory(prefix="pw-bench-") as folder,
        hub_process(SETTINGS) as hub,
        fleet_of(hub, Path(folder), args.count, "--status-s", "2") as fleet,
        sync_playwright() as playwright,
    ):
        fleet.wait_open()
        until(lambda: hub.sessions() == args.count, "the hub to know all", deadline_s=DEADLINE_S, every_s=1.0)
        browser = launch(playwright, program)
        found = measure(args, browser, hub, fleet)
        metrics = hub.metrics()
        ends: dict[str, object] = {
            "viewers_dropped": metrics['provewire_live_dropped_total{where="viewer"}'],
            "loop_lag_max_s": round(metrics["provewire_loop_lag_max_seconds"], 3),
        }
        browser.close()
    return verdict_of(args, found, ends).finish()


if __name__ == "__main__":
    sys.exit(main())
