// Which rows are shown, and in which order. Pure.

import type { NodeRow } from "../store";

export type Sort = "severity" | "name" | "heard" | "gpus" | "jobs" | "enrolled";
export const SORTS: readonly Sort[] = ["severity", "name", "heard", "gpus", "jobs", "enrolled"];
export const SORT_WORDS: Readonly<Record<Sort, string>> = {
  severity: "worst first",
  name: "name",
  heard: "longest silent first",
  gpus: "most GPUs first",
  jobs: "most jobs first",
  enrolled: "newest first",
};

/** Words, all of which a row must have; "key:value" asks one field, a minus in front asks for its absence. */
export interface Term {
  field: string;
  text: string;
  not: boolean;
}

const FIELDS: Readonly<Record<string, (row: NodeRow) => string>> = {
  state: (row) => row.state,
  is: (row) => row.sentence.severity,
  why: (row) => row.sentence.state,
  name: (row) => row.name,
  gpu: (row) => row.gpu_name ?? "",
  ssh: (row) => row.fallback,
  version: (row) => row.version,
  host: (row) => row.hostname ?? "",
};
export const FIELD_NAMES = [...Object.keys(FIELDS), "label"];
const EXACT: ReadonlySet<string> = new Set(["state", "is", "why"]);
const RANK: Readonly<Record<string, number>> = { bad: 0, warn: 1, info: 2, ok: 3 };

export function parse(text: string): Term[] {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "" && word !== "-")
    .map((word) => {
      const not = word.startsWith("-");
      const rest = not ? word.slice(1) : word;
      const at = rest.indexOf(":");
      const field = rest.slice(0, Math.max(0, at));
      if (FIELD_NAMES.includes(field)) return { field, text: rest.slice(at + 1), not };
      return { field: "", text: rest, not };
    });
}

export function fits(row: NodeRow, terms: readonly Term[]): boolean {
  return terms.every((term) => holds(row, term) !== term.not);
}

function holds(row: NodeRow, { field, text }: Term): boolean {
  if (field === "label") return labels(row).some((label) => label === text || label.startsWith(`${text}=`));
  const read = FIELDS[field];
  if (read) return EXACT.has(field) ? read(row).toLowerCase() === text : read(row).toLowerCase().includes(text);
  const everything = [row.name, row.hostname ?? "", row.gpu_name ?? "", row.state, row.sentence.text, row.id, ...labels(row)];
  return everything.some((one) => one.toLowerCase().includes(text));
}

function labels(row: NodeRow): string[] {
  return Object.entries(row.labels).map(([key, value]) => `${key}=${value}`.toLowerCase());
}

/** Every label there is with how many nodes have it, the most frequent first. */
export function labelCounts(rows: readonly NodeRow[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const row of rows) for (const label of labels(row)) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

const KEYS_MAX = 20_000;
const keys = new Map<string, string>();

/** gpu-9 before gpu-10; made once for each name, because a fleet is sorted again with each change of state. */
export function naturalKey(name: string): string {
  let key = keys.get(name);
  if (key === undefined) {
    key = name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));
    if (keys.size >= KEYS_MAX) keys.clear();
    keys.set(name, key);
  }
  return key;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

const ORDERS: Readonly<Record<Sort, (a: NodeRow, b: NodeRow) => number>> = {
  // Of those that ail the alike stand together; what a well one does changes all the time and moves no row.
  severity: (a, b) => rank(a) - rank(b) || (rank(a) < WELL ? compare(a.sentence.state, b.sentence.state) : 0),
  name: () => 0,
  heard: (a, b) => (a.state === "online" ? 1 : 0) - (b.state === "online" ? 1 : 0) || (a.last_heard_at_ms ?? 0) - (b.last_heard_at_ms ?? 0),
  gpus: (a, b) => b.gpus - a.gpus,
  jobs: (a, b) => b.jobs - a.jobs,
  enrolled: (a, b) => b.enrolled_at_ms - a.enrolled_at_ms,
};

const WELL = 2;

function rank(row: NodeRow): number {
  return RANK[row.sentence.severity] ?? 3;
}

/** Those that fit, in order; the same rows give the same order always. */
export function arrange(rows: readonly NodeRow[], terms: readonly Term[], sort: Sort): NodeRow[] {
  const order = ORDERS[sort];
  return rows
    .filter((row) => fits(row, terms))
    .sort((a, b) => order(a, b) || compare(naturalKey(a.name), naturalKey(b.name)) || compare(a.id, b.id));
}
