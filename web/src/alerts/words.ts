// How alerts read.

import type { Severity } from "../components/state";

const SEVERITIES: Readonly<Record<string, Severity>> = { critical: "bad", warning: "warn", info: "info" };

export function severityOf(severity: string): Severity {
  return SEVERITIES[severity] ?? "info";
}

/** A rule's name as words: gpu_fault is gpu fault. */
export function ruleName(rule: string): string {
  return rule.replaceAll("_", " ");
}

export const TIMES: readonly (readonly [string, number])[] = [
  ["1 hour", 3600],
  ["4 hours", 4 * 3600],
  ["1 day", 86_400],
  ["7 days", 7 * 86_400],
];

/** What a silence is about, in words. */
export function about(silence: { rule: string; node: string; node_name: string; cause: string }): string {
  const parts = [ruleName(silence.rule), silence.node_name || silence.node, ruleName(silence.cause)];
  return parts.filter((part) => part !== "").join(", ") || "everything";
}

/** The two thresholds of a rule with their unit; none where it looks at a state. */
export function thresholds(rule: { bad: number | null; clear: number | null; unit: string }): string {
  if (rule.bad === null || rule.clear === null) return "";
  const both = rule.bad === rule.clear ? `${rule.bad}` : `${rule.bad}, well again at ${rule.clear}`;
  return `bad at ${both} ${rule.unit}`.trim();
}

/** The subjects an alert names, and how many more there are. */
export function named(subjects: readonly string[], count: number, most = 8): string {
  const shown = subjects.slice(0, most).join(", ");
  const more = Math.max(count, subjects.length) - Math.min(subjects.length, most);
  return more > 0 ? `${shown} and ${more} more` : shown;
}
