// Saved filters as they are kept, and what is taken of what is found there. Pure.

import { type Sort, SORTS } from "./filter";

export const SAVED_MAX = 50;

export interface Saved {
  name: string;
  text: string;
  sort: Sort;
}

/** What stands in the browser's storage may be of another version, or of anybody: only what fits is taken. */
export function read(text: string | null): Saved[] {
  let found: unknown;
  try {
    found = JSON.parse(text ?? "[]");
  } catch {
    return [];
  }
  return Array.isArray(found) ? found.filter(isSaved).slice(0, SAVED_MAX) : [];
}

function isSaved(one: unknown): one is Saved {
  if (typeof one !== "object" || one === null) return false;
  const { name, text, sort } = one as Record<string, unknown>;
  return typeof name === "string" && typeof text === "string" && SORTS.some((known) => known === sort);
}
