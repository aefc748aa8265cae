// Pure: a job's state in the page's words, and how jobs are listed.

import type { Severity } from "../components/state";
import type { Job } from "../node/bodies";

export const SEVERITIES: Readonly<Record<string, Severity>> = {
  queued: "info",
  leased: "busy",
  running: "busy",
  verifying: "busy",
  done: "ok",
  failed: "bad",
  cancelled: "info",
};

export const OPEN: ReadonlySet<string> = new Set(["queued", "leased", "running", "verifying"]);

export interface Choice {
  readonly id: string;
  readonly label: string;
  /** As the hub's listing takes it; empty for all. */
  readonly state: string;
  readonly fits: (job: Job) => boolean;
}

export const CHOICES: readonly Choice[] = [
  { id: "all", label: "all", state: "", fits: () => true },
  { id: "queued", label: "queued", state: "queued", fits: (job) => job.state === "queued" },
  { id: "running", label: "running", state: "running", fits: (job) => OPEN.has(job.state) && job.state !== "queued" },
  { id: "done", label: "done", state: "done", fits: (job) => job.state === "done" },
  { id: "failed", label: "failed", state: "failed", fits: (job) => job.state === "failed" },
  { id: "cancelled", label: "cancelled", state: "cancelled", fits: (job) => job.state === "cancelled" },
];

const RANK: Readonly<Record<string, number>> = { running: 0, verifying: 0, leased: 0, queued: 1 };

/** What goes on first, then what waits in the order it is taken, then the newest that ended. */
export function ordered(jobs: readonly Job[]): Job[] {
  return [...jobs].sort((a, b) => {
    const ranks = (RANK[a.state] ?? 2) - (RANK[b.state] ?? 2);
    if (ranks !== 0) return ranks;
    if (a.state === "queued") return b.priority - a.priority || compare(a.id, b.id);
    return compare(b.id, a.id);
  });
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export interface Queue {
  readonly queued: number;
  readonly running: number;
  /** How long the oldest has waited, and which it is; null when none waits. */
  readonly oldestMs: number | null;
  readonly oldest: string | null;
}

export function queueOf(jobs: Iterable<Job>, nowMs: number): Queue {
  let queued = 0;
  let running = 0;
  let first: Job | null = null;
  for (const job of jobs) {
    if (job.state === "queued") {
      queued += 1;
      if (first === null || job.created_at_ms < first.created_at_ms) first = job;
    } else if (OPEN.has(job.state)) running += 1;
  }
  const oldestMs = first === null ? null : Math.max(0, nowMs - first.created_at_ms);
  return { queued, running, oldestMs, oldest: first?.id ?? null };
}

/** What it took, or takes so far: proving once it began, waiting before. */
export function timeOf(job: Job, nowMs: number): { readonly waits: boolean; readonly ms: number } {
  const endMs = job.ended_at_ms ?? nowMs;
  if (job.started_at_ms === null) return { waits: true, ms: endMs - job.created_at_ms };
  return { waits: false, ms: endMs - job.started_at_ms };
}

/** Everything that is known of why it came to nothing, once each. */
export function troubles(job: Job): { readonly title: string; readonly text: string }[] {
  const found: { title: string; text: string }[] = [];
  if (job.error !== null && job.error.detail !== "") {
    const code = job.error.code === null ? "" : `, code ${job.error.code}`;
    found.push({ title: `Why it ${job.state === "failed" ? "failed" : "was ended"}${code}`, text: job.error.detail });
  }
  const failure = job.last_failure;
  if (failure !== null && failure.detail !== "" && !found.some((one) => one.text.includes(failure.detail))) {
    const code = failure.code === null ? "" : `, code ${failure.code}`;
    found.push({
      title: `Attempt ${failure.attempt} on ${failure.node_name}: ${failure.outcome}${code}`,
      text: failure.detail,
    });
  }
  return found;
}
