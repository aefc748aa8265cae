// Numbers and times in words, the same everywhere. Pure.

export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} days`;
}

/** Whole seconds: an age that ticks. */
export function age(ms: number): string {
  const seconds = Math.floor(Math.max(0, ms) / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} days`;
}

/** 14:02; with the day when it is not today. */
export function clock(atMs: number, nowMs: number): string {
  const at = new Date(atMs);
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === new Date(nowMs).toDateString()) return time;
  return `${at.toLocaleDateString("en-CA")} ${time}`;
}

/**
 * A node's sentence with the time since when its first part is so: what follows after it began at another time. A part
 * that names a time already is left as it is.
 */
export function sinceTold(text: string, at: string): string {
  const end = text.indexOf("; ");
  const first = end < 0 ? text : text.slice(0, end);
  return /\d\d:\d\d/.test(first) ? text : `${first} since ${at}${text.slice(first.length)}`;
}

/** 2026-11-30 14:02:07: for tables, where it must sort and be copied. */
export function stamp(atMs: number): string {
  const at = new Date(atMs);
  return `${at.toLocaleDateString("en-CA")} ${at.toLocaleTimeString("en-GB")}`;
}

export function percent(ratio: number | null | undefined): string {
  return ratio === null || ratio === undefined ? "–" : `${Math.round(100 * ratio)} %`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let amount = value;
  let at = 0;
  while (amount >= 1024 && at < units.length - 1) {
    amount /= 1024;
    at += 1;
  }
  return `${at === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[at]}`;
}

export function watts(mw: number | null | undefined): string {
  return mw === null || mw === undefined ? "–" : `${Math.round(mw / 1000)} W`;
}

export function celsius(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${Math.round(value)} °C`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
