// What the hub said last. Only live.ts writes here; views read signals, so that only what changed is drawn again.

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Schemas } from "./api";

export type NodeRow = Schemas["NodeRow"];
export type RowReadings = Schemas["RowReadings"];
export type NodeView = Schemas["NodeView"];
export type JobView = Schemas["JobView"];

/** One node's row and readings, each a signal of its own. */
export interface NodeSlot {
  readonly id: string;
  readonly row: Signal<NodeRow>;
  readonly readings: Signal<RowReadings | null>;
}

export const nodes = new Map<string, NodeSlot>();
/** Grows whenever a row comes, goes or changes: what lists and counts depend on. */
export const rowsChanged = signal(0);
/** The node shown whole, once it was said; null while it is not there. */
export const wholeNode = signal<NodeView | null>(null);
export const jobs = signal<ReadonlyMap<string, JobView> | null>(null);
export const incidents = signal<Schemas["IncidentsView"] | null>(null);
export const hub = signal<Schemas["HubView"] | null>(null);
/** Whether the first picture has come. */
export const loaded = computed(() => hub.value !== null);

/** The hub's clock minus ours. */
export const offsetMs = signal(0);
/** The hub's time, once a second. */
export const nowMs = signal(Date.now());

export function tick(): void {
  nowMs.value = Date.now() + offsetMs.peek();
}

export function allRows(): NodeRow[] {
  void rowsChanged.value;
  return Array.from(nodes.values(), (slot) => slot.row.peek());
}

export type Tally = Readonly<Record<"bad" | "warn" | "ok" | "info" | "all", number>>;
/** How many nodes there are of each severity. */
export const tally: ReadonlySignal<Tally> = computed(() => {
  const counts = { bad: 0, warn: 0, ok: 0, info: 0, all: 0 };
  for (const row of allRows()) {
    counts.all += 1;
    const severity = row.sentence.severity;
    if (severity === "bad" || severity === "warn" || severity === "info") counts[severity] += 1;
    else counts.ok += 1;
  }
  return counts;
});

export function setBoard(board: Schemas["LiveBoard"]): void {
  batch(() => {
    const staying = new Set<string>();
    for (const row of board.rows) {
      staying.add(row.id);
      putRow(row);
    }
    for (const id of nodes.keys()) if (!staying.has(id)) nodes.delete(id);
    hub.value = board.hub;
    incidents.value = board.incidents;
    rowsChanged.value += 1;
  });
}

function putRow(row: NodeRow): void {
  const slot = nodes.get(row.id);
  if (slot) slot.row.value = row;
  else nodes.set(row.id, { id: row.id, row: signal(row), readings: signal<RowReadings | null>(null) });
}

export function setRow(id: string, row: NodeRow | null): void {
  if (row === null) nodes.delete(id);
  else putRow(row);
  rowsChanged.value += 1;
}

export function setReadings(readings: RowReadings): void {
  const slot = nodes.get(readings.id);
  if (slot) slot.readings.value = readings;
}

export function setJobs(list: readonly JobView[]): void {
  jobs.value = new Map(list.map((job) => [job.id, job]));
}

export function setJob(job: JobView): void {
  if (jobs.peek() === null) return;
  jobs.value = new Map(jobs.peek()).set(job.id, job);
}

/** Forget everything: another person may log in. */
export function forget(): void {
  batch(() => {
    nodes.clear();
    wholeNode.value = null;
    jobs.value = null;
    incidents.value = null;
    hub.value = null;
    rowsChanged.value += 1;
  });
}
