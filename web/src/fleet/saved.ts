// Filters somebody gave a name to; kept in this browser.

import { signal } from "@preact/signals";
import { type Sort, SORTS } from "./filter";

export interface Saved {
  name: string;
  text: string;
  sort: Sort;
}

const KEY = "provewire.filters";
const SAVED_MAX = 50;

export const saved = signal<readonly Saved[]>(read(localStorage.getItem(KEY)));

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

export function save(one: Saved): void {
  keep([one, ...saved.value.filter((other) => other.name !== one.name)].slice(0, SAVED_MAX));
}

export function forgetSaved(name: string): void {
  keep(saved.value.filter((one) => one.name !== name));
}

function keep(list: readonly Saved[]): void {
  saved.value = list;
  localStorage.setItem(KEY, JSON.stringify(list));
}
