// Pure: what took how long in a job, as bars on one axis. A time that is not known is never drawn as if it were.

export type BarKind = "wait" | "fetch" | "prove" | "verify" | "bad";

export interface Bar {
  readonly label: string;
  readonly kind: BarKind;
  readonly startMs: number;
  /** Null while it goes on. */
  readonly endMs: number | null;
  /** Within another one. */
  readonly depth: 0 | 1;
  readonly detail: string;
}

export interface TimedAttempt {
  readonly attempt: number;
  readonly node_name: string;
  readonly outcome: string | null;
  readonly state: string;
  readonly detail: string;
  readonly assigned_at_ms: number;
  readonly started_at_ms: number | null;
  readonly ended_at_ms: number | null;
}

export interface TimedJob {
  readonly state: string;
  readonly created_at_ms: number;
  readonly started_at_ms: number | null;
  readonly ended_at_ms: number | null;
  readonly timings_ms: Readonly<Record<string, number>>;
  readonly attempts?: readonly TimedAttempt[] | undefined;
}

/** A phase that this page itself saw begin. */
export interface SeenPhase {
  readonly phase: string;
  readonly sinceMs: number;
}

const WELL = new Set([null, "done"]);

/** The bars of a job, in the order in which they began. */
export function jobBars(job: TimedJob, seen: readonly SeenPhase[] = []): Bar[] {
  const attempts = job.attempts ?? [];
  const bars: Bar[] = [];
  let freeSinceMs = job.created_at_ms;
  for (const attempt of attempts) {
    if (attempt.assigned_at_ms > freeSinceMs) {
      bars.push(bar("waits in the queue", "wait", freeSinceMs, attempt.assigned_at_ms));
    }
    bars.push(...attemptBars(attempt, job, seen, attempt === attempts[attempts.length - 1]));
    freeSinceMs = attempt.ended_at_ms ?? Number.POSITIVE_INFINITY;
  }
  if (job.state === "queued") bars.push(bar("waits in the queue", "wait", freeSinceMs, null));
  else if (attempts.length === 0) bars.push(bar("waited in the queue", "wait", freeSinceMs, job.ended_at_ms));
  return bars.filter((one) => Number.isFinite(one.startMs));
}

function attemptBars(attempt: TimedAttempt, job: TimedJob, seen: readonly SeenPhase[], last: boolean): Bar[] {
  const name = `attempt ${attempt.attempt} on ${attempt.node_name}`;
  const well = WELL.has(attempt.outcome);
  const told = attempt.outcome === null ? attempt.state : attempt.outcome;
  const whole = bar(name, well ? "prove" : "bad", attempt.assigned_at_ms, attempt.ended_at_ms, 0, told);
  const startedMs = attempt.started_at_ms;
  if (startedMs === null) return [whole];
  const provesMs = attempt.outcome === "done" ? beginning(attempt, startedMs, job.timings_ms) : startedMs;
  const bars = [whole, bar("takes and fetches its inputs", "fetch", attempt.assigned_at_ms, provesMs, 1)];
  if (attempt.outcome === "done") {
    let atMs = provesMs;
    for (const [phase, tookMs] of Object.entries(job.timings_ms)) {
      bars.push(bar(phase, phase === "verify" ? "verify" : "prove", atMs, atMs + tookMs, 1));
      atMs += tookMs;
    }
    if (attempt.ended_at_ms !== null && attempt.ended_at_ms > atMs) {
      bars.push(bar("handed over and verified by the hub", "verify", atMs, attempt.ended_at_ms, 1));
    }
  } else if (last && attempt.outcome === null) {
    seen.forEach((one, index) => {
      const next = seen[index + 1];
      bars.push(bar(one.phase, "prove", Math.max(startedMs, one.sinceMs), next ? next.sinceMs : null, 1, "as seen here"));
    });
  }
  return bars;
}

/** The hub hears a little late that a proof began; a proof that was over sooner than its phases took began before. */
function beginning(attempt: TimedAttempt, heardMs: number, timings: Readonly<Record<string, number>>): number {
  const tookMs = Object.values(timings).reduce((sum, one) => sum + one, 0);
  const latestMs = attempt.ended_at_ms === null ? heardMs : attempt.ended_at_ms - tookMs;
  return Math.max(attempt.assigned_at_ms, Math.min(heardMs, latestMs));
}

function bar(label: string, kind: BarKind, startMs: number, endMs: number | null, depth: 0 | 1 = 0, detail = ""): Bar {
  return { label, kind, startMs, endMs: endMs === null ? null : Math.max(startMs, endMs), depth, detail };
}

export interface Placed {
  readonly bar: Bar;
  /** Of the whole width, 0 to 1. */
  readonly left: number;
  readonly width: number;
  readonly tookMs: number;
}

/** Bars on an axis from the first beginning to the last end; what goes on ends now. */
export function placed(bars: readonly Bar[], nowMs: number): { placed: Placed[]; spanMs: number } {
  if (bars.length === 0) return { placed: [], spanMs: 0 };
  const firstMs = Math.min(...bars.map((one) => one.startMs));
  const ends = bars.map((one) => one.endMs ?? Math.max(nowMs, one.startMs));
  const spanMs = Math.max(1, Math.max(...ends) - firstMs);
  const found = bars.map((one, index) => {
    const tookMs = (ends[index] ?? one.startMs) - one.startMs;
    return { bar: one, left: (one.startMs - firstMs) / spanMs, width: tookMs / spanMs, tookMs };
  });
  return { placed: found, spanMs };
}

const SEEN_MAX = 64;

/** The phases seen so far, once another picture of the job has come. */
export function withPhase(seen: readonly SeenPhase[], phase: string | null, nowMs: number): readonly SeenPhase[] {
  if (phase === null || seen[seen.length - 1]?.phase === phase) return seen;
  return [...seen.slice(-(SEEN_MAX - 1)), { phase, sinceMs: nowMs }];
}

export interface Partition {
  readonly index: number;
  readonly state: string;
  readonly synthesis_ms: number | null;
  readonly gpu_ms: number | null;
}

export interface PartitionRow {
  readonly index: number;
  readonly state: string;
  /** Of the longest partition's time, 0 to 1; null where the engine said nothing. */
  readonly synthesis: number | null;
  readonly gpu: number | null;
  readonly text: string;
}

/**
 * The partitions of another engine's job. It says how long each took and not when it began, so that all bars begin at
 * the same place and are compared by length only.
 */
export function partitionRows(partitions: readonly Partition[]): PartitionRow[] {
  const longestMs = Math.max(1, ...partitions.map((one) => (one.synthesis_ms ?? 0) + (one.gpu_ms ?? 0)));
  return partitions.map((one) => ({
    index: one.index,
    state: one.state,
    synthesis: one.synthesis_ms === null ? null : one.synthesis_ms / longestMs,
    gpu: one.gpu_ms === null ? null : one.gpu_ms / longestMs,
    text: [
      one.state,
      one.synthesis_ms === null ? "" : `synthesis ${(one.synthesis_ms / 1000).toFixed(1)} s`,
      one.gpu_ms === null ? "" : `GPU ${(one.gpu_ms / 1000).toFixed(1)} s`,
    ]
      .filter(Boolean)
      .join(", "),
  }));
}
