import { describe, expect, it } from "vitest";
import type { LogRow } from "../src/node/log_filter";
import { EVERYTHING, NO_ROWS, ROWS_MAX, fieldsLine, parseFilter, queryOf, withRows } from "../src/node/log_filter";

const row = (id: number, text = "x"): LogRow => ({
  kind: "log",
  record: { id, received_at_ms: 0, node_time_ms: 0, level: "info", source: "agent", text, fields: {}, given_up: null },
});

describe("the filter", () => {
  it("reads level and source out of what is typed; the rest is the text", () => {
    expect(parseFilter("level:error source:worker:cuda:0 out of memory")).toEqual({
      level: "error",
      source: "worker:cuda:0",
      contains: "out of memory",
    });
    expect(parseFilter("level:nonsense a:b source: x")).toEqual({
      ...EVERYTHING,
      contains: "level:nonsense a:b source: x",
    });
    expect(parseFilter("  ", { level: "debug", source: "agent", contains: "y" })).toEqual({
      level: "debug",
      source: "agent",
      contains: "",
    });
    expect(parseFilter("x".repeat(999)).contains.length).toBe(256);
  });

  it("is told to the hub without what is left out", () => {
    expect(queryOf({ level: "debug", source: "", contains: "" }).toString()).toBe("");
    expect(queryOf(parseFilter("level:warning source:agent a&b")).toString()).toBe(
      "level=warning&source=agent&contains=a%26b",
    );
  });
});

describe("the tail", () => {
  it("takes nothing twice and says where to go on", () => {
    const tail = withRows(withRows(NO_ROWS, [row(1), row(2)]), [row(2), row(3)]);
    expect(tail.rows.map((one) => (one.kind === "log" ? one.record.id : 0))).toEqual([1, 2, 3]);
    expect([tail.after, tail.dropped]).toEqual([3, 0]);
    expect(withRows(tail, [row(3)])).toBe(tail);
    const skipped = withRows(tail, [{ kind: "skipped", id: 90, records: 87 }]);
    expect([skipped.after, skipped.rows.length]).toEqual([90, 4]);
  });

  it("is bounded in records and in characters", () => {
    const many = withRows(NO_ROWS, Array.from({ length: ROWS_MAX + 5 }, (_, index) => row(index + 1)));
    expect([many.rows.length, many.dropped, many.after]).toEqual([ROWS_MAX, 5, ROWS_MAX + 5]);
    const large = withRows(NO_ROWS, Array.from({ length: 300 }, (_, index) => row(index + 1, "y".repeat(8000))));
    expect(large.chars).toBeLessThanOrEqual(2_000_000);
    expect(large.rows.length + large.dropped).toBe(300);
  });

  it("shows fields on one line", () => {
    expect(fieldsLine({ n: 1, who: "me", deep: { a: [1] } })).toBe('n=1 who=me deep={"a":[1]}');
  });
});
