import { describe, expect, it } from "vitest";
import { digestOf } from "../src/components/upload";

async function trueDigest(data: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (one) => one.toString(16).padStart(2, "0")).join("");
}

describe("a file's digest", () => {
  it("is what everybody else says, over several pieces, and tells how far it is", async () => {
    const data = new Uint8Array(9 * 1024 * 1024 + 7).map((_, index) => (index * 31 + (index >> 9)) & 255);
    const shares: number[] = [];
    const told = await digestOf(new Blob([data]), (share) => shares.push(share), new AbortController().signal);
    expect(told).toBe(await trueDigest(data));
    expect(shares.at(-1)).toBe(1);
    expect(shares.length).toBeGreaterThan(2);
    const empty = await digestOf(new Blob([]), () => undefined, new AbortController().signal);
    expect(empty).toBe(await trueDigest(new Uint8Array()));
  });

  it("can be stopped", async () => {
    const stop = new AbortController();
    const begun = digestOf(new Blob([new Uint8Array(9 * 1024 * 1024)]), () => stop.abort(), stop.signal);
    await expect(begun).rejects.toThrow();
  });
});
