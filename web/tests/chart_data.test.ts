import { describe, expect, it } from "vitest";
import type { Points, Reading } from "../src/components/chart_data";
import { RANGES, joined, latest, lineOf, rangeOf, rates, withReading } from "../src/components/chart_data";

const gauge = (name: string, values: (number | null)[]): Points => ({
  name,
  kind: "gauge",
  unit: "ratio",
  min: values.map((value) => (value === null ? null : value - 1)),
  avg: values,
  max: values.map((value) => (value === null ? null : value + 1)),
  last: values,
});
const NONE: ReadonlySet<string> = new Set();

describe("ranges", () => {
  it("reach from a minute to ninety days, and an unknown one is an hour", () => {
    expect(RANGES[0]?.spanMs).toBe(60_000);
    expect(RANGES.at(-1)?.spanMs).toBe(90 * 24 * 3600 * 1000);
    expect(rangeOf("nonsense").id).toBe("1h");
  });
});

describe("counters", () => {
  it("are drawn by the second; a gap and a new beginning are unknown", () => {
    expect(rates([0, 100, null, 300, 250, 350], [0, 1000, 2000, 3000, 4000, 6000])).toEqual([
      null, 100, null, null, null, 50,
    ]);
    const line = lineOf({ ...gauge("c", []), kind: "counter", last: [0, 10] }, [0, 2000]);
    expect([line.mid, line.low, line.high]).toEqual([[null, 5], null, null]);
  });
});

describe("history and live tail", () => {
  const history = { times_ms: [1000, 2000, 3000], series: [gauge("a", [1, null, 3])] };
  const reading = (atMs: number, values: Record<string, number | null>): Reading => ({ atMs, values });

  it("are one line, with bands, and gaps stay gaps", () => {
    const tail = [reading(2500, { a: 9 }), reading(4000, { a: 4 }), reading(5000, {})];
    const { timesMs, lines } = joined(history, ["a", "b"], NONE, tail, 0);
    expect(timesMs).toEqual([1000, 2000, 3000, 4000, 5000]);
    expect(lines[0]?.mid).toEqual([1, null, 3, 4, null]);
    expect(lines[0]?.low).toEqual([0, null, 2, 4, null]);
    expect(lines[1]?.mid).toEqual([null, null, null, null, null]);
    expect(latest(lines[0] ?? { name: "", mid: [], low: null, high: null })).toBe(4);
  });

  it("are broken where nothing was heard for long", () => {
    const { timesMs, lines } = joined(history, ["a"], NONE, [reading(60_000, { a: 6 })], 0);
    expect(timesMs).toEqual([1000, 2000, 3000, 3001, 60_000]);
    expect(lines[0]?.mid.slice(-2)).toEqual([null, 6]);
  });

  it("count what a counter counted between two live readings", () => {
    const tail = [reading(1000, { c: 100 }), reading(2000, { c: 300 }), reading(3000, { c: 50 })];
    expect(joined(null, ["c"], new Set(["c"]), tail, 0).lines[0]?.mid).toEqual([null, 200, null]);
  });

  it("begin where the range begins", () => {
    expect(joined(history, ["a"], NONE, [], 2000).timesMs).toEqual([2000, 3000]);
    expect(joined(history, ["a"], NONE, [], 9000)).toEqual({
      timesMs: [],
      lines: [{ name: "a", mid: [], low: [], high: [] }],
    });
  });

  it("keep a bounded tail in the order of time", () => {
    let tail: readonly Reading[] = [];
    for (let atMs = 1; atMs <= 5000; atMs += 1) tail = withReading(tail, reading(atMs, {}), 1e9);
    expect(tail.length).toBe(1200);
    expect(withReading(tail, reading(4000, {}), 1e9)).toBe(tail);
    expect(withReading(tail, reading(70_000, {}), 60_000)).toEqual([reading(70_000, {})]);
  });
});
