// The fleet as it is shown: filter, order, the row under the cursor, the rows that were chosen.

import { computed, signal } from "@preact/signals";
import { place, replace, link } from "../router";
import { allRows, type NodeRow } from "../store";
import { arrange, parse, type Sort, SORTS } from "./filter";

export const filterText = computed(() => place.value.query.get("q") ?? "");
export const sort = computed<Sort>(() => SORTS.find((one) => one === place.value.query.get("sort")) ?? "severity");

export function setFilter(text: string, order: Sort = sort.peek()): void {
  replace(link("/", { q: text, sort: order === "severity" ? undefined : order }));
}

export const shownRows = computed<readonly NodeRow[]>(() => arrange(allRows(), parse(filterText.value), sort.value));

export const chosen = signal<ReadonlySet<string>>(new Set());
export const cursor = signal<string | null>(null);

export function choose(id: string, on: boolean): void {
  const next = new Set(chosen.peek());
  if (on) next.add(id);
  else next.delete(id);
  chosen.value = next;
}

export function chooseAll(on: boolean): void {
  chosen.value = new Set(on ? shownRows.peek().map((row) => row.id) : []);
}

/** The cursor's next place, so many rows on; the first row when it was nowhere. */
export function moveCursor(by: number): void {
  const rows = shownRows.peek();
  const at = rows.findIndex((row) => row.id === cursor.peek());
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  if (next) cursor.value = next.id;
}

type View = "table" | "cards";
const KEY = "provewire.fleet";
export const layout = signal<View>(kept());

function kept(): View {
  const text = localStorage.getItem(KEY);
  if (text === "table" || text === "cards") return text;
  return window.matchMedia("(max-width: 720px)").matches ? "cards" : "table";
}

export function setLayout(view: View): void {
  layout.value = view;
  localStorage.setItem(KEY, view);
}
