// A time that ticks: only its own text changes, once a second.

import { type ReadonlySignal, useComputed } from "@preact/signals";
import { nowMs } from "../store";
import { age } from "../words";

/** Seconds since a moment by the hub's clock. */
export function Age({ sinceMs }: { sinceMs: ReadonlySignal<number | null> }) {
  const text = useComputed(() => (sinceMs.value === null ? "never" : age(nowMs.value - sinceMs.value)));
  return <span class="number">{text}</span>;
}
