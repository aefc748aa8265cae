// The cards of a node: how well each is, what it is at, what slows it down, and what the driver complained of.

import { type Severity, State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { took } from "../components/waterfall";
import type { Gpu, Node } from "./bodies";
import { bytes, celsius, percent, stamp, watts } from "../words";

const KINDS: Record<string, Severity> = { ok: "ok", degraded: "warn" };
const HARMLESS = new Set(["idle", "application_clocks", "display_clocks", "sync_boost"]);

export function Gpus({ node }: { node: Node }) {
  const gpus = node.status?.gpus ?? [];
  return (
    <section aria-labelledby="gpus-title">
      <h2 id="gpus-title">GPUs</h2>
      {gpus.length === 0 && <p class="empty">{node.status === null ? "The node has said nothing yet." : "It has none."}</p>}
      <div class="panels">
        {gpus.map((gpu) => (
          <Card key={gpu.uuid} gpu={gpu} />
        ))}
      </div>
    </section>
  );
}

function Card({ gpu }: { gpu: Gpu }) {
  const name = `GPU ${gpu.index ?? "?"}: ${visibleLine(gpu.name ?? "unknown card")}`;
  return (
    <article class="panel" aria-label={name}>
      <h3>{name}</h3>
      <p>
        <State severity={KINDS[gpu.state] ?? "bad"}>{gpu.state.replaceAll("_", " ")}</State>
        {gpu.age_s !== null && <span class="muted"> read {took(1000 * gpu.age_s)} ago; older than that is unknown</span>}
      </p>
      {gpu.detail !== "" && <p class="says">{visibleLine(gpu.detail)}</p>}
      <Xids gpu={gpu} />
      <Throttle gpu={gpu} />
      <dl class="facts">{facts(gpu).map(([name_, value]) => fact(name_, value))}</dl>
      <details>
        <summary>More</summary>
        <dl class="facts">{more(gpu).map(([name_, value]) => fact(name_, value))}</dl>
        {gpu.mig_instances.length > 0 && <p class="says">MIG: {gpu.mig_instances.map(visibleLine).join(", ")}</p>}
        <Processes gpu={gpu} />
      </details>
    </article>
  );
}

function Xids({ gpu }: { gpu: Gpu }) {
  if (gpu.xid_count === null) return <p class="muted">XIDs cannot be read here.</p>;
  if (gpu.xid_count === 0) return null;
  const when = gpu.xid_last_time_ms === null ? "" : ` at ${stamp(gpu.xid_last_time_ms)} by the node's clock`;
  return (
    <p>
      <State severity="warn">
        {gpu.xid_count} XID{gpu.xid_count === 1 ? "" : "s"}, last {gpu.xid_last ?? "unknown"}
        {when}
      </State>
    </p>
  );
}

function Throttle({ gpu }: { gpu: Gpu }) {
  const reasons = gpu.throttle_reasons;
  if (reasons === null || reasons.length === 0) return null;
  const bad = reasons.filter((one) => !HARMLESS.has(one));
  const said = (bad.length > 0 ? bad : reasons).map((one) => one.replaceAll("_", " ")).join(", ");
  return (
    <p>
      <State severity={bad.length > 0 ? "warn" : "info"}>
        {bad.length > 0 ? "throttled: " : "clocks held: "}
        {said}
      </State>
    </p>
  );
}

type Fact = [name: string, value: string | null];

function facts(gpu: Gpu): Fact[] {
  return [
    ["use", known(gpu.utilization_ratio, percent)],
    ["memory", of(gpu.memory_used_bytes, gpu.memory_total_bytes, bytes)],
    ["temperature", both(gpu.temperature_c, gpu.memory_temperature_c, celsius, "memory")],
    ["power", of(gpu.power_draw_mw, gpu.power_limit_mw, watts)],
    ["clocks", both(gpu.sm_clock_mhz, gpu.memory_clock_mhz, (value) => `${value} MHz`, "memory")],
    ["fan", known(gpu.fan_ratio, percent)],
  ];
}

function more(gpu: Gpu): Fact[] {
  const ecc = (corrected: number | null, uncorrected: number | null) =>
    corrected === null && uncorrected === null ? null : `${corrected ?? "?"} mended, ${uncorrected ?? "?"} not`;
  return [
    ["uuid", visibleLine(gpu.uuid)],
    ["PCI", gpu.pci_bus_id],
    ["driver", gpu.driver_version],
    ["CUDA", gpu.cuda_version],
    ["VBIOS", gpu.vbios_version],
    ["PCIe", gpu.pcie_generation === null ? null : `generation ${gpu.pcie_generation}, ${gpu.pcie_width ?? "?"} lanes`],
    ["PCIe replays", text(gpu.pcie_replays)],
    ["NVLinks", text(gpu.nvlinks_active)],
    ["persistence", flag(gpu.persistence_mode)],
    ["ECC since start", ecc(gpu.ecc_corrected_volatile, gpu.ecc_uncorrected_volatile)],
    ["ECC in its life", ecc(gpu.ecc_corrected_aggregate, gpu.ecc_uncorrected_aggregate)],
    ["remapped rows", ecc(gpu.remapped_rows_corrected, gpu.remapped_rows_uncorrected)],
    ["remapping pending", flag(gpu.remapped_rows_pending)],
    ["remapping failed", flag(gpu.remapped_rows_failed)],
    ["retired pages", text(gpu.retired_pages)],
  ].map(([name, value]) => [name as string, value === null ? null : visibleLine(String(value))]);
}

function fact(name: string, value: string | null) {
  if (value === null) return null;
  return (
    <div key={name}>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
    </div>
  );
}

function Processes({ gpu }: { gpu: Gpu }) {
  if (gpu.processes === null) return <p class="muted">Its processes cannot be listed.</p>;
  if (gpu.processes.length === 0) return <p class="muted">No process computes on it.</p>;
  return (
    <ul>
      {gpu.processes.map((one) => (
        <li key={one.pid} class="number">
          process {one.pid}
          {one.memory_used_bytes !== null && `, ${bytes(one.memory_used_bytes)}`}
          {one.sm_ratio !== null && `, ${percent(one.sm_ratio)}`}
        </li>
      ))}
    </ul>
  );
}

function known(value: number | null, format: (value: number) => string): string | null {
  return value === null ? null : format(value);
}

function text(value: number | null): string | null {
  return value === null ? null : String(value);
}

function flag(value: boolean | null): string | null {
  return value === null ? null : value ? "yes" : "no";
}

function of(used: number | null, whole: number | null, format: (value: number) => string): string | null {
  if (used === null) return whole === null ? null : `unknown of ${format(whole)}`;
  return whole === null ? format(used) : `${format(used)} of ${format(whole)}`;
}

function both(first: number | null, second: number | null, format: (value: number) => string, name: string): string | null {
  const parts = [first === null ? null : format(first), second === null ? null : `${name} ${format(second)}`];
  return parts.filter(Boolean).join(", ") || null;
}
