import { describe, expect, it } from "vitest";
import { LabelsRefused, circuitName, labelsText, parseLabels } from "../src/circuits/words";
import { ordered, queueOf, timeOf, troubles } from "../src/jobs/words";
import type { Job } from "../src/node/bodies";

const job = (id: string, changes: Partial<Job> = {}): Job => ({
  id,
  circuit: "c",
  circuit_id: "0".repeat(64),
  state: "queued",
  priority: 0,
  label: "",
  node_labels: {},
  attempt: 0,
  node: null,
  node_name: null,
  phase: null,
  done: 0,
  total: 0,
  elapsed_s: null,
  error: null,
  last_failure: null,
  created_at_ms: 1000,
  started_at_ms: null,
  ended_at_ms: null,
  timings_ms: {},
  ...changes,
});

describe("jobs", () => {
  it("stand with what goes on first, the queue as it is taken, then the newest that ended", () => {
    const list = [
      job("1", { state: "done" }),
      job("2"),
      job("3", { priority: 5 }),
      job("4", { state: "running" }),
      job("5", { state: "failed" }),
      job("6"),
    ];
    expect(ordered(list).map((one) => one.id)).toEqual(["4", "3", "2", "6", "5", "1"]);
  });

  it("wait until they begin, and then take their time", () => {
    expect(timeOf(job("1"), 5000)).toEqual({ waits: true, ms: 4000 });
    expect(timeOf(job("1", { started_at_ms: 2000 }), 5000)).toEqual({ waits: false, ms: 3000 });
    expect(timeOf(job("1", { started_at_ms: 2000, ended_at_ms: 2500 }), 5000)).toEqual({ waits: false, ms: 500 });
  });

  it("make a queue with an age", () => {
    const list = [job("1", { created_at_ms: 3000 }), job("2"), job("3", { state: "verifying" }), job("4", { state: "done" })];
    expect(queueOf(list, 5000)).toEqual({ queued: 2, running: 1, oldestMs: 4000, oldest: "2" });
    expect(queueOf([], 5000)).toEqual({ queued: 0, running: 0, oldestMs: null, oldest: null });
  });

  it("tell each trouble once and whole", () => {
    const last_failure = { attempt: 2, node: "n", node_name: "node", outcome: "failed", code: 5, detail: "no memory" };
    expect(troubles(job("1", { last_failure }))).toEqual([
      { title: "Attempt 2 on node: failed, code 5", text: "no memory" },
    ]);
    const error = { code: 5, detail: "3 attempts, the last: no memory" };
    expect(troubles(job("1", { state: "failed", error, last_failure })).length).toBe(1);
    expect(troubles(job("1"))).toEqual([]);
  });
});

describe("circuits", () => {
  it("are named after their file", () => {
    expect(circuitName("my circuit (2).zkey")).toBe("my-circuit-2-");
    expect(circuitName("..hidden.ZKEY")).toBe("hidden");
    expect(circuitName("日本.zkey")).toBe("");
  });

  it("go to nodes with labels that are typed in full", () => {
    expect(parseLabels(" owner=us , rack=7=8,")).toEqual({ owner: "us", rack: "7=8" });
    expect(parseLabels("")).toEqual({});
    expect(labelsText({ owner: "us", rack: "7" })).toBe("owner=us, rack=7");
    for (const wrong of ["owner", "=us", "owner="]) expect(() => parseLabels(wrong)).toThrow(LabelsRefused);
  });
});
