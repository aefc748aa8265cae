import { describe, expect, it } from "vitest";
import type { TimedAttempt, TimedJob } from "../src/components/waterfall_layout";
import { jobBars, partitionRows, placed, withPhase } from "../src/components/waterfall_layout";

const attempt = (number: number, changes: Partial<TimedAttempt>): TimedAttempt => ({
  attempt: number,
  node_name: "n",
  outcome: null,
  state: "running",
  detail: "",
  assigned_at_ms: 0,
  started_at_ms: null,
  ended_at_ms: null,
  ...changes,
});
const job = (changes: Partial<TimedJob>): TimedJob => ({
  state: "queued",
  created_at_ms: 1000,
  started_at_ms: null,
  ended_at_ms: null,
  timings_ms: {},
  ...changes,
});
const told = (bars: ReturnType<typeof jobBars>) => bars.map((one) => [one.label, one.startMs, one.endMs]);

describe("a job's waterfall", () => {
  it("is a wait that goes on while the job queues", () => {
    expect(told(jobBars(job({})))).toEqual([["waits in the queue", 1000, null]]);
  });

  it("has every attempt, the waits between them, and the phases of the one that won", () => {
    const lost = attempt(1, { outcome: "lost", assigned_at_ms: 1100, started_at_ms: 1150, ended_at_ms: 2000 });
    const won = attempt(2, { outcome: "done", assigned_at_ms: 2500, started_at_ms: 2600, ended_at_ms: 3000 });
    const timings_ms = { key: 100, verify: 200 };
    const bars = jobBars(job({ state: "done", ended_at_ms: 3000, timings_ms, attempts: [lost, won] }));
    expect(told(bars)).toEqual([
      ["waits in the queue", 1000, 1100],
      ["attempt 1 on n", 1100, 2000],
      ["takes and fetches its inputs", 1100, 1150],
      ["waits in the queue", 2000, 2500],
      ["attempt 2 on n", 2500, 3000],
      ["takes and fetches its inputs", 2500, 2600],
      ["key", 2600, 2700],
      ["verify", 2700, 2900],
      ["handed over and verified by the hub", 2900, 3000],
    ]);
    expect(bars.map((one) => one.kind).slice(0, 2)).toEqual(["wait", "bad"]);
  });

  it("lets a proof begin early enough for its phases when the hub heard of it late", () => {
    const won = attempt(1, { outcome: "done", assigned_at_ms: 1000, started_at_ms: 1400, ended_at_ms: 1500 });
    const bars = jobBars(job({ state: "done", ended_at_ms: 1500, timings_ms: { key: 300 }, attempts: [won] }));
    expect(told(bars).slice(-2)).toEqual([
      ["takes and fetches its inputs", 1000, 1200],
      ["key", 1200, 1500],
    ]);
  });

  it("shows the phases that were seen while it runs, the last of them open", () => {
    const running = attempt(1, { assigned_at_ms: 1100, started_at_ms: 1200 });
    let seen = withPhase([], "key", 1100);
    seen = withPhase(seen, "key", 1300);
    seen = withPhase(seen, "msm_a", 1400);
    seen = withPhase(seen, null, 1500);
    const bars = jobBars(job({ state: "running", attempts: [running] }), seen);
    expect(told(bars).slice(-2)).toEqual([
      ["key", 1200, 1400],
      ["msm_a", 1400, null],
    ]);
  });

  it("is queued again after an attempt that came to nothing", () => {
    const lost = attempt(1, { outcome: "lost", assigned_at_ms: 1100, ended_at_ms: 2000 });
    expect(told(jobBars(job({ attempts: [lost] })))).toEqual([
      ["waits in the queue", 1000, 1100],
      ["attempt 1 on n", 1100, 2000],
      ["waits in the queue", 2000, null],
    ]);
  });

  it("never ends before it begins, whatever the clocks say", () => {
    const odd = attempt(1, { outcome: "failed", assigned_at_ms: 2000, ended_at_ms: 1500 });
    for (const one of placed(jobBars(job({ state: "failed", attempts: [odd] })), 0).placed) {
      expect(one.width).toBeGreaterThanOrEqual(0);
      expect(one.left + one.width).toBeLessThanOrEqual(1);
    }
    expect(placed([], 0)).toEqual({ placed: [], spanMs: 0 });
  });
});

describe("partitions", () => {
  it("are compared by length; what is not told is not drawn", () => {
    const rows = partitionRows([
      { index: 0, state: "done", synthesis_ms: 3000, gpu_ms: 1000 },
      { index: 1, state: "synthesizing", synthesis_ms: 2000, gpu_ms: null },
      { index: 2, state: "pending", synthesis_ms: null, gpu_ms: null },
    ]);
    expect(rows.map((row) => [row.synthesis, row.gpu])).toEqual([
      [0.75, 0.25],
      [0.5, null],
      [null, null],
    ]);
    expect(rows[0]?.text).toBe("done, synthesis 3.0 s, GPU 1.0 s");
    expect(rows[2]?.text).toBe("pending");
  });
});
