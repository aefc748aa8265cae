// What a row and a card have in common.

import { type ReadonlySignal, useComputed } from "@preact/signals";
import { Age } from "../components/age";
import { Prose } from "../components/prose";
import { type Severity, severityOf, State } from "../components/state";
import { link } from "../router";
import { type NodeRow, type NodeSlot, nowMs } from "../store";
import { celsius, clock, percent, plural, sinceTold, watts } from "../words";
import { choose, chosen } from "./list";

export function Choose({ row }: { row: NodeRow }) {
  return (
    <input
      type="checkbox"
      aria-label={`Choose ${row.name}`}
      checked={chosen.value.has(row.id)}
      onChange={(event) => choose(row.id, event.currentTarget.checked)}
    />
  );
}

export function Name({ row }: { row: NodeRow }) {
  const labels = Object.entries(row.labels);
  return (
    <>
      <a class="name" href={link(`/nodes/${row.id}`)} data-node={row.id}>{row.name}</a>
      <span class="small clip">
        {labels.length > 0 ? labels.map(([key, value]) => `${key}=${value}`).join(" ") : row.hostname === row.name ? "" : row.hostname}
      </span>
    </>
  );
}

export function Sentence({ row }: { row: NodeRow }) {
  const { text, severity, remedy, since_ms } = row.sentence;
  const told = severity === "ok" || since_ms === null ? text : sinceTold(text, clock(since_ms, nowMs.peek()));
  return (
    <>
      <State severity={severityOf(severity)}><span title={told}><Prose text={told} /></span></State>
      {remedy !== "" && severity !== "ok" ? <span class="remedy clip" title={remedy}><Prose text={remedy} /></span> : null}
    </>
  );
}

const HEARD: Readonly<Record<string, Severity>> = { live: "ok", stale: "warn", lost: "bad", refused: "bad", never: "info" };
const PROVING: Readonly<Record<string, Severity>> = { proving: "busy", idle: "ok", unable: "bad", unknown: "info" };

/** The first light: whether it is heard, and for how long it was not. */
export function HeardLight({ slot }: { slot: NodeSlot }) {
  const { state } = slot.row.value.lights.heard;
  return (
    <span class="light">
      <State severity={HEARD[state] ?? "info"}>{state}</State>
      <span class="small"><LastHeard slot={slot} /></span>
    </span>
  );
}

/** The second: whether it proves. That it is not heard does not colour it: it says what was known, and when. */
export function ProvingLight({ row }: { row: NodeRow }) {
  const { state, last, at_ms, text } = row.lights.proving;
  const before = state === "unknown" && at_ms !== null ? `was ${last} ${clock(at_ms, nowMs.peek())}` : "";
  return (
    <span class="light" title={text}>
      <State severity={PROVING[state] ?? "info"}>{state}</State>
      {before === "" ? null : <span class="small">{before}</span>}
    </span>
  );
}

/** When it was last heard: from its readings while it is in view, else from its row. */
export function LastHeard({ slot }: { slot: NodeSlot }) {
  const at = useComputed(() => {
    const times = [slot.row.value.last_heard_at_ms, slot.readings.value?.last_heard_at_ms ?? null];
    return times.reduce<number | null>((a, b) => (b === null ? a : a === null ? b : Math.max(a, b)), null);
  });
  return <Age sinceMs={at} />;
}

export function Cards({ row }: { row: NodeRow }) {
  if (row.gpus === 0) return <span class="small">no GPU</span>;
  const bad = row.gpus_bad > 0 ? <State severity="bad">{`${row.gpus_bad} not ok`}</State> : null;
  return (
    <>
      <span class="clip">{`${row.gpus} × ${(row.gpu_name ?? "GPU").replace(/^NVIDIA /, "")}`}</span>
      {bad}
    </>
  );
}

/** Whether readings are of now: those of a node that is not heard say nothing any more. */
function isHeard(row: NodeRow): boolean {
  return row.lights.heard.state === "live" || row.lights.heard.state === "stale";
}

export function CardReadings({ slot }: { slot: NodeSlot }) {
  const text = useComputed(() => {
    const said = slot.readings.value;
    if (said === null || slot.row.value.gpus === 0 || !isHeard(slot.row.value)) return "";
    return `${percent(said.gpu_utilization_ratio)} · ${celsius(said.gpu_temperature_c)} · ${watts(said.gpu_power_mw)}`;
  });
  return <span class="small number">{text}</span>;
}

export function Bar({ label, value }: { label: string; value: ReadonlySignal<number | null> }) {
  const text = useComputed(() => percent(value.value));
  const style = useComputed(() => `${Math.round(100 * (value.value ?? 0))}`);
  return (
    <span class="bar">
      <span class="bar-label" aria-hidden="true">{label}</span>
      <progress max={100} value={style} aria-label={label} />
      <span class="number">{text}</span>
    </span>
  );
}

export function HostBars({ slot }: { slot: NodeSlot }) {
  const cpu = useComputed(() => slot.readings.value?.cpu_used_ratio ?? null);
  const memory = useComputed(() => slot.readings.value?.memory_used_ratio ?? null);
  if (!isHeard(slot.row.value)) return null;
  return (
    <>
      <Bar label="CPU" value={cpu} />
      <Bar label="mem" value={memory} />
    </>
  );
}

export function Jobs({ slot }: { slot: NodeSlot }) {
  const row = slot.row.value;
  const first = useComputed(() => {
    const job = slot.readings.value?.jobs[0];
    if (!job) return "";
    return job.total > 0 ? `${job.phase} ${percent(job.done / job.total)}` : job.phase;
  });
  if (row.jobs === 0 || !isHeard(row)) return <span class="small">–</span>;
  return (
    <>
      <span>{plural(row.jobs, "job")}</span>
      <span class="small number clip">{first}</span>
    </>
  );
}
