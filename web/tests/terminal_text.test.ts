import { describe, expect, it } from "vitest";
import { clipped, visible, visibleLine } from "../src/components/terminal_text";

describe("text of strangers", () => {
  it("shows escapes instead of obeying them, and leaves lines and letters of all languages alone", () => {
    expect(visible("\u001b[31mred\u001b[0m\u0007")).toBe("\\x1b[31mred\\x1b[0m\\x07");
    expect(visible("two\r\nlines\tand\u00a0Ωж漢😀")).toBe("two\nlines\tand\u00a0Ωж漢😀");
    expect(visible("over\rwritten")).toBe("over\\x0dwritten");
    expect(visible("\u009b2J\u007f")).toBe("\\x9b2J\\x7f");
  });
  it("shows what turns the direction of writing or has no width", () => {
    expect(visible("abc\u202etxt.exe")).toBe("abc\\u{202e}txt.exe");
    expect(visible("a\u200bb\ufeff\u2066\u{e0041}")).toBe("a\\u{200b}b\\u{feff}\\u{2066}\\u{e0041}");
    expect(visible("\ud800x")).toBe("\\u{d800}x");
  });
  it("has one line where one line is wanted", () => {
    expect(visibleLine("one\ntwo\tthree")).toBe("one\\ntwo three");
  });
  it("keeps head and tail of what is long", () => {
    expect(clipped("abcdefghij", 4)).toEqual({ head: "ab", tail: "ij", leftOut: 6 });
    expect(clipped("abc", 4)).toEqual({ head: "abc", tail: "", leftOut: 0 });
  });
});
