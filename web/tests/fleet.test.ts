import { describe, expect, test } from "vitest";
import { arrange, fits, labelCounts, naturalKey, parse } from "../src/fleet/filter";
import { read } from "../src/fleet/saved_filters";
import { visible } from "../src/fleet/window";
import type { NodeRow } from "../src/store";

function row(name: string, more: Partial<NodeRow> = {}): NodeRow {
  return {
    id: name,
    name,
    state: "online",
    sentence: { state: "idle", text: "idle", cause: "", remedy: "", severity: "ok", since_ms: null, certain: true },
    lights: { heard: { state: "live", text: "", at_ms: 0 }, proving: { state: "idle", text: "", at_ms: 0, last: "idle" } },
    hostname: null,
    version: "1",
    labels: {},
    draining: false,
    gpus: 0,
    gpus_bad: 0,
    gpu_name: null,
    jobs: 0,
    fallback: "none",
    last_heard_at_ms: 0,
    enrolled_at_ms: 0,
    ...more,
  };
}

function bad(name: string): NodeRow {
  const sentence = { state: "lost", text: "lost: agent dead", cause: "", remedy: "", severity: "bad", since_ms: 1, certain: true };
  return row(name, { state: "lost", sentence, last_heard_at_ms: 5 });
}

const names = (rows: NodeRow[]): string[] => rows.map((one) => one.name);

describe("the filter", () => {
  const eu = row("gpu-1", { labels: { region: "EU-West" }, gpu_name: "NVIDIA H100" });

  test.each([
    ["", true],
    ["GPU", true],
    ["gpu-1 h100", true],
    ["gpu-1 h200", false],
    ["-h200", true],
    ["-gpu", false],
    ["-", true],
    ["label:region", true],
    ["label:region=eu-west", true],
    ["label:region=eu", false],
    ["-label:region", false],
    ["gpu:h100", true],
    ["gpu:a100", false],
    ["state:online is:ok", true],
    ["state:on", false],
    ["unknown:field", false],
  ])("%j", (text, fitting) => {
    expect(fits(eu, parse(text))).toBe(fitting);
  });

  test("words of the sentence are found", () => {
    expect(fits(bad("a"), parse("agent dead"))).toBe(true);
  });
});

describe("the order", () => {
  test("worst first, then by name as people count", () => {
    expect(names(arrange([row("n10"), row("n9"), bad("n11")], [], "severity"))).toEqual(["n11", "n9", "n10"]);
  });

  test("of the worst the alike stand together, and what a well one does moves no row", () => {
    const full = (name: string) => ({ ...bad(name), sentence: { ...bad(name).sentence, state: "disk_full" } });
    expect(names(arrange([full("n1"), bad("n2"), full("n3")], [], "severity"))).toEqual(["n1", "n3", "n2"]);
    const busy = { ...row("n4"), sentence: { ...row("n4").sentence, state: "a" } };
    expect(names(arrange([busy, row("n3")], [], "severity"))).toEqual(["n3", "n4"]);
    expect(names(arrange([full("n1"), bad("n2")], parse("why:disk_full"), "severity"))).toEqual(["n1"]);
  });

  test("longest silent first, those that are heard last", () => {
    const early = { ...bad("early"), last_heard_at_ms: 1 };
    expect(names(arrange([row("heard"), bad("late"), early], [], "heard"))).toEqual(["early", "late", "heard"]);
  });

  test("the same names keep one order", () => {
    const twins = [row("b", { id: "2" }), row("b", { id: "1" })];
    expect(arrange(twins, [], "name").map((one) => one.id)).toEqual(["1", "2"]);
    expect(naturalKey("Gpu-2")).toBe(naturalKey("gpu-02"));
  });
});

test("labels are counted, the most frequent first", () => {
  const rows = [row("a", { labels: { r: "x" } }), row("b", { labels: { r: "y" } }), row("c", { labels: { r: "y" } })];
  expect(labelCounts(rows)).toEqual([
    ["r=y", 2],
    ["r=x", 1],
  ]);
});

describe("what is on the screen", () => {
  test("some lines before and after, and never more than there are", () => {
    expect(visible(0, 600, 60, 2000)).toEqual({ first: 0, end: 14 });
    expect(visible(-6000, 600, 60, 2000)).toEqual({ first: 96, end: 114 });
    expect(visible(-119_400, 600, 60, 2000)).toEqual({ first: 1986, end: 2000 });
    expect(visible(0, 600, 60, 0)).toEqual({ first: 0, end: 0 });
    expect(visible(-9_000_000, 600, 60, 10)).toEqual({ first: 10, end: 10 });
    expect(visible(2000, 600, 60, 10)).toEqual({ first: 0, end: 0 });
  });
});

describe("saved filters", () => {
  test("only what fits is taken from the browser's storage", () => {
    const good = { name: "a", text: "is:bad", sort: "name" };
    expect(read(JSON.stringify([good, { name: 1 }, null, { ...good, sort: "no" }]))).toEqual([good]);
    expect(read("{")).toEqual([]);
    expect(read('{"a":1}')).toEqual([]);
    expect(read(null)).toEqual([]);
    expect(read(JSON.stringify(Array(100).fill(good))).length).toBe(50);
  });
});
