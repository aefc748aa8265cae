import { expect, test } from "vitest";
import { about, named, ruleName, severityOf, thresholds } from "../src/alerts/words";

test("severities look as they matter", () => {
  expect(["critical", "warning", "info", "new"].map(severityOf)).toEqual(["bad", "warn", "info", "info"]);
});

test("a silence says what it is about", () => {
  const all = { rule: "", node: "", node_name: "", cause: "" };
  expect(about(all)).toBe("everything");
  expect(about({ ...all, rule: "node_lost", node: "id", node_name: "gpu-07" })).toBe("node lost, gpu-07");
  expect(about({ ...all, node: "id", cause: "identity_refused" })).toBe("id, identity refused");
});

test("thresholds with their unit, where there are any", () => {
  expect(thresholds({ bad: null, clear: null, unit: "" })).toBe("");
  expect(thresholds({ bad: 90, clear: 85, unit: "°C" })).toBe("bad at 90, well again at 85 °C");
  expect(thresholds({ bad: 1, clear: 1, unit: "jobs" })).toBe("bad at 1 jobs");
});

test("of many subjects some are named and the rest counted", () => {
  expect(named(["a", "b"], 2)).toBe("a, b");
  expect(named(["a", "b", "c"], 58, 2)).toBe("a, b and 56 more");
  expect(named(["a", "b"], 0)).toBe("a, b");
});

test("names of rules are words", () => expect(ruleName("gpu_fault")).toBe("gpu fault"));
