// Pure: from the history's answer and the live picture to what a chart draws. A gap stays a gap.

export interface Range {
  readonly id: string;
  readonly label: string;
  readonly spanMs: number;
  /** How often the history is read anew; in between the live picture is appended where that says something. */
  readonly refreshMs: number;
  readonly live: boolean;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export const RANGES: readonly Range[] = [
  { id: "1m", label: "1 min, live", spanMs: MINUTE_MS, refreshMs: 30_000, live: true },
  { id: "15m", label: "15 min", spanMs: 15 * MINUTE_MS, refreshMs: MINUTE_MS, live: true },
  { id: "1h", label: "1 h", spanMs: HOUR_MS, refreshMs: MINUTE_MS, live: true },
  { id: "12h", label: "12 h", spanMs: 12 * HOUR_MS, refreshMs: 2 * MINUTE_MS, live: false },
  { id: "24h", label: "24 h", spanMs: DAY_MS, refreshMs: 2 * MINUTE_MS, live: false },
  { id: "7d", label: "7 days", spanMs: 7 * DAY_MS, refreshMs: 5 * MINUTE_MS, live: false },
  { id: "30d", label: "30 days", spanMs: 30 * DAY_MS, refreshMs: 10 * MINUTE_MS, live: false },
  { id: "90d", label: "90 days", spanMs: 90 * DAY_MS, refreshMs: 10 * MINUTE_MS, live: false },
];

export function rangeOf(id: string): Range {
  return RANGES.find((one) => one.id === id) ?? (RANGES[2] as Range);
}

/** As the history answers. */
export interface Points {
  readonly name: string;
  readonly kind: string;
  readonly unit: string;
  readonly min: readonly (number | null)[];
  readonly avg: readonly (number | null)[];
  readonly max: readonly (number | null)[];
  readonly last: readonly (number | null)[];
}

type Value = number | null;

export interface Line {
  readonly name: string;
  readonly mid: readonly Value[];
  /** Null for a line without a band. */
  readonly low: readonly Value[] | null;
  readonly high: readonly Value[] | null;
}

export interface Drawn {
  readonly timesMs: readonly number[];
  readonly lines: readonly Line[];
}

/** How a series is drawn; a counter as what it counted in a second. */
export function lineOf(points: Points, timesMs: readonly number[]): Line {
  if (points.kind === "counter") return { name: points.name, mid: rates(points.last, timesMs), low: null, high: null };
  return { name: points.name, mid: points.avg, low: points.min, high: points.max };
}

/** Differences of neighbours by the second. Where one is missing, or the counter began anew, nothing is known. */
export function rates(last: readonly Value[], timesMs: readonly number[]): Value[] {
  return last.map((value, index) => {
    const before = index > 0 ? (last[index - 1] ?? null) : null;
    const passedMs = index > 0 ? (timesMs[index] ?? 0) - (timesMs[index - 1] ?? 0) : 0;
    if (value === null || before === null || passedMs <= 0 || value < before) return null;
    return ((value - before) * 1000) / passedMs;
  });
}

/** One live reading: numbers by the names of their series, counters as they stand. */
export interface Reading {
  readonly atMs: number;
  readonly values: Readonly<Record<string, number | null>>;
}

const TAIL_MAX = 1200;
/** Of the live picture between two readings of the history: above that a line is broken. */
const TAIL_GAP_MS = 45_000;

/** The tail with one more reading; bounded, in the order of time, and without what is too old for the range. */
export function withReading(tail: readonly Reading[], reading: Reading, spanMs: number): readonly Reading[] {
  const newest = tail[tail.length - 1];
  if (newest !== undefined && reading.atMs <= newest.atMs) return tail;
  const kept = tail.filter((one) => one.atMs > reading.atMs - spanMs);
  return [...kept.slice(-(TAIL_MAX - 1)), reading];
}

/** The history with the live tail after it; times before `fromMs` are left out. */
export function joined(
  history: { readonly times_ms: readonly number[]; readonly series: readonly Points[] } | null,
  names: readonly string[],
  counters: ReadonlySet<string>,
  tail: readonly Reading[],
  fromMs: number,
): Drawn {
  const times = history?.times_ms ?? [];
  const lines = names.map((name) => {
    const points = history?.series.find((one) => one.name === name);
    return points === undefined ? empty(name, times.length) : lineOf(points, times);
  });
  const after = tail.filter((one) => one.atMs > (times[times.length - 1] ?? Number.NEGATIVE_INFINITY));
  const stretched = withGaps(after, times[times.length - 1] ?? null);
  const rows = stretched.map((one) => one.atMs);
  const all = [...times, ...rows];
  const joinedLines = lines.map((line) => {
    const more = stretched.map((one, index) => valueOf(one, stretched[index - 1], line.name, counters));
    return {
      name: line.name,
      mid: [...line.mid, ...more],
      low: line.low === null ? null : [...line.low, ...more],
      high: line.high === null ? null : [...line.high, ...more],
    };
  });
  return cut({ timesMs: all, lines: joinedLines }, fromMs);
}

function empty(name: string, length: number): Line {
  const nothing = new Array<Value>(length).fill(null);
  return { name, mid: nothing, low: nothing, high: nothing };
}

function valueOf(one: Reading, before: Reading | undefined, name: string, counters: ReadonlySet<string>): Value {
  const value = one.values[name] ?? null;
  if (!counters.has(name)) return value;
  const earlier = before?.values[name] ?? null;
  if (value === null || earlier === null || before === undefined || value < earlier) return null;
  return ((value - earlier) * 1000) / (one.atMs - before.atMs);
}

/** Where the live picture was silent, a row without values breaks the lines. */
function withGaps(tail: readonly Reading[], beforeMs: number | null): Reading[] {
  const found: Reading[] = [];
  let lastMs = beforeMs;
  for (const one of tail) {
    if (lastMs !== null && one.atMs - lastMs > TAIL_GAP_MS) found.push({ atMs: lastMs + 1, values: {} });
    found.push(one);
    lastMs = one.atMs;
  }
  return found;
}

function cut(drawn: Drawn, fromMs: number): Drawn {
  const first = drawn.timesMs.findIndex((atMs) => atMs >= fromMs);
  if (first <= 0) return first === 0 ? drawn : { timesMs: [], lines: drawn.lines.map((line) => empty(line.name, 0)) };
  const keep = (values: readonly Value[] | null) => (values === null ? null : values.slice(first));
  return {
    timesMs: drawn.timesMs.slice(first),
    lines: drawn.lines.map((line) => ({
      name: line.name,
      mid: line.mid.slice(first),
      low: keep(line.low),
      high: keep(line.high),
    })),
  };
}

/** The newest value there is. */
export function latest(line: Line): number | null {
  for (let index = line.mid.length - 1; index >= 0; index -= 1) {
    const value = line.mid[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
