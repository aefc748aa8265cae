// Pure: which records of a log are wanted, and the bounded tail of those that came.

export const LEVELS = ["debug", "info", "warning", "error"] as const;
export type Level = (typeof LEVELS)[number];

export interface LogFilter {
  readonly level: Level;
  readonly source: string;
  readonly contains: string;
}

export const EVERYTHING: LogFilter = { level: "info", source: "", contains: "" };
const SOURCE_CHARS_MAX = 128;
const TEXT_CHARS_MAX = 256;

/**
 * What is typed into one field: `level:warning source:worker what the text contains`. A word that begins like an option
 * and is none belongs to the text. Quotes are not needed: everything else is the text, as it stands.
 */
export function parseFilter(text: string, base: LogFilter = EVERYTHING): LogFilter {
  let { level, source } = base;
  const rest: string[] = [];
  for (const word of text.trim().split(/\s+/)) {
    const [name, value] = splitOnce(word);
    if (name === "level" && isLevel(value)) level = value;
    else if (name === "source" && value !== "") source = value.slice(0, SOURCE_CHARS_MAX);
    else if (word !== "") rest.push(word);
  }
  return { level, source, contains: rest.join(" ").slice(0, TEXT_CHARS_MAX) };
}

function splitOnce(word: string): [string, string] {
  const at = word.indexOf(":");
  return at < 0 ? ["", word] : [word.slice(0, at).toLowerCase(), word.slice(at + 1)];
}

export function isLevel(text: string): text is Level {
  return (LEVELS as readonly string[]).includes(text);
}

/** The filter as the hub takes it. */
export function queryOf(filter: LogFilter): URLSearchParams {
  const query = new URLSearchParams();
  if (filter.level !== "debug") query.set("level", filter.level);
  if (filter.source !== "") query.set("source", filter.source);
  if (filter.contains !== "") query.set("contains", filter.contains);
  return query;
}

export interface LogRecord {
  readonly id: number;
  readonly received_at_ms: number;
  readonly node_time_ms: number;
  readonly level: string;
  readonly source: string;
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly given_up: number | null;
}

/** A record, or in its place how many were passed over because this page was too slow. */
export type LogRow =
  | { readonly kind: "log"; readonly record: LogRecord }
  | { readonly kind: "skipped"; readonly id: number; readonly records: number };

export const ROWS_MAX = 2000;
const CHARS_MAX = 2_000_000;

export interface Tail {
  readonly rows: readonly LogRow[];
  /** Of their texts. */
  readonly chars: number;
  /** The id to go on from. */
  readonly after: number | null;
  /** How many were dropped at the old end, so that memory stays bounded. */
  readonly dropped: number;
}

export const NO_ROWS: Tail = { rows: [], chars: 0, after: null, dropped: 0 };

/** The tail with more rows; what was told before is not taken again, and the oldest go when there are too many. */
export function withRows(tail: Tail, more: readonly LogRow[]): Tail {
  const after = tail.after ?? 0;
  const fresh = more.filter((row) => idOf(row) > after);
  if (fresh.length === 0) return tail;
  const rows = [...tail.rows, ...fresh];
  let chars = tail.chars + fresh.reduce((sum, row) => sum + charsOf(row), 0);
  let gone = 0;
  while (rows.length - gone > ROWS_MAX || (chars > CHARS_MAX && rows.length - gone > 1)) {
    chars -= charsOf(rows[gone] as LogRow);
    gone += 1;
  }
  return {
    rows: gone > 0 ? rows.slice(gone) : rows,
    chars,
    after: idOf(fresh[fresh.length - 1] as LogRow),
    dropped: tail.dropped + gone,
  };
}

function idOf(row: LogRow): number {
  return row.kind === "log" ? row.record.id : row.id;
}

function charsOf(row: LogRow): number {
  return row.kind === "log" ? row.record.text.length + JSON.stringify(row.record.fields).length : 0;
}

/** Fields as one line of `name=value`. */
export function fieldsLine(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
