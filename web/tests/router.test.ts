import { describe, expect, test } from "vitest";
import { linkIn, match } from "../src/address";
import { age, bytes, duration, plural, sinceTold } from "../src/words";

describe("addresses", () => {
  test.each([
    ["/", "/", {}],
    ["/nodes/:id", "/nodes/a%20b", { id: "a b" }],
    ["/nodes/:id", "/nodes/", null],
    ["/nodes/:id", "/nodes", null],
    ["/nodes/:id", "/nodes/a/b", null],
    ["/nodes/:id", "/nodes/%ff", null],
    ["/jobs", "/job", null],
  ])("%j for %j", (pattern, path, params) => {
    expect(match(pattern, path)).toEqual(params);
  });

  test("a link that lets in is known by its form", () => {
    expect(linkIn("/login/ab_C-9")).toEqual({ kind: "login", code: "ab_C-9" });
    expect(linkIn("/setup/x")).toEqual({ kind: "setup", code: "x" });
    for (const path of ["/login/", "/login/a/b", "/login/a%20b", "/logins/a", `/login/${"a".repeat(129)}`]) {
      expect(linkIn(path)).toBeNull();
    }
  });
});

describe("words", () => {
  test("since when stands with what began then, and not twice", () => {
    expect(sinceTold("disk full; proving 2 jobs", "14:02")).toBe("disk full since 14:02; proving 2 jobs");
    expect(sinceTold("worker down", "14:02")).toBe("worker down since 14:02");
    expect(sinceTold("GPU 3 lost since 14:02; proving", "14:02")).toBe("GPU 3 lost since 14:02; proving");
    expect(sinceTold("lost, last heard 14:01: why", "14:02")).toBe("lost, last heard 14:01: why");
  });

  test("times", () => {
    expect([0, 9_940, 59_999, 119_999, 120_000, 7_200_000, 172_800_000].map(duration)).toEqual([
      "0.0 s",
      "9.9 s",
      "59 s",
      "119 s",
      "2 min 0 s",
      "2 h 0 min",
      "2 days",
    ]);
    expect([-5, 1_999, 119_999, 7_199_999].map(age)).toEqual(["0 s", "1 s", "119 s", "119 min"]);
  });

  test("amounts", () => {
    expect([0, 1023, 1024, 150 * 1024 ** 3, null].map((value) => bytes(value))).toEqual(["0 B", "1023 B", "1.0 KiB", "150 GiB", "–"]);
    expect([plural(1, "node"), plural(0, "node"), plural(2, "entry", "entries")]).toEqual(["1 node", "0 nodes", "2 entries"]);
  });
});
