// Pure: which charts a node has, of which series, and the live picture as readings of the same names.

import type { Reading } from "../components/chart_data";
import { bytes, celsius, percent, watts } from "../words";
import type { Node } from "./bodies";

export interface Group {
  readonly title: string;
  /** Series by name, with what the legend calls each. */
  readonly lines: readonly { readonly name: string; readonly label: string }[];
  readonly unit: Unit;
  readonly top?: number;
}

export type Unit = "ratio" | "bytes" | "bytes_per_s" | "celsius" | "mw" | "mhz" | "flag";

/** Counters that are drawn as what they count in a second. */
export const COUNTERS: ReadonlySet<string> = new Set(["host.network_rx_bytes", "host.network_tx_bytes"]);
/** In one answer of the hub; a machine with very many cards shows the charts that come first. */
const SERIES_MAX = 128;

export function formatted(value: number, unit: Unit): string {
  switch (unit) {
    case "ratio":
      return percent(value);
    case "bytes":
      return bytes(value);
    case "bytes_per_s":
      return `${bytes(value)}/s`;
    case "celsius":
      return celsius(value);
    case "mw":
      return watts(value);
    case "mhz":
      return `${Math.round(value)} MHz`;
    case "flag":
      return value > 0 ? "yes" : "no";
  }
}

interface Card {
  readonly uuid: string;
  readonly label: string;
}

/** The charts of a node with these cards; a card that is gone keeps its history under its uuid. */
export function groupsOf(cards: readonly Card[], memoryTop: number | null): Group[] {
  const each = (field: string, suffix = "") =>
    cards.map((card) => ({ name: `gpu.${card.uuid}.${field}`, label: `${card.label}${suffix}` }));
  const host: Group[] = [
    { title: "CPU", unit: "ratio", top: 1, lines: [{ name: "host.cpu_used_ratio", label: "used" }] },
    {
      title: "Memory",
      unit: "bytes",
      ...(memoryTop === null ? {} : { top: memoryTop }),
      lines: [{ name: "host.memory_used_bytes", label: "used" }],
    },
    {
      title: "Network",
      unit: "bytes_per_s",
      lines: [
        { name: "host.network_rx_bytes", label: "in" },
        { name: "host.network_tx_bytes", label: "out" },
      ],
    },
    { title: "Disk", unit: "bytes", lines: [{ name: "host.disk_free_bytes", label: "free" }] },
  ];
  if (cards.length === 0) return host;
  const all: Group[] = [
    ...host,
    { title: "GPU use", unit: "ratio", top: 1, lines: each("utilization_ratio") },
    { title: "GPU memory", unit: "bytes", lines: each("memory_used_bytes") },
    { title: "GPU temperature", unit: "celsius", lines: each("temperature_c") },
    { title: "GPU power", unit: "mw", lines: each("power_draw_mw") },
    { title: "GPU clock", unit: "mhz", lines: each("sm_clock_mhz") },
    { title: "GPU memory clock", unit: "mhz", lines: each("memory_clock_mhz") },
    {
      title: "Throttled",
      unit: "flag",
      top: 1,
      lines: [...each("throttled_thermal", " by heat"), ...each("throttled_power", " by power")],
    },
  ];
  let series = 0;
  return all.filter((group) => (series += group.lines.length) <= SERIES_MAX);
}

const HEAT = new Set(["software_thermal", "hardware_thermal"]);
const POWER = new Set(["software_power_cap", "power_brake"]);

/** The live picture, by the names the history has. Readings of a card that are not of now are gaps. */
export function readingOf(node: Node, atMs: number): Reading {
  const values: Record<string, number | null> = {};
  const host = node.status?.host ?? null;
  if (host !== null) {
    values["host.cpu_used_ratio"] = host.cpu_used_ratio;
    values["host.memory_used_bytes"] = host.memory_used_bytes;
    values["host.disk_free_bytes"] = host.disk_free_bytes;
    values["host.network_rx_bytes"] = host.network_rx_bytes;
    values["host.network_tx_bytes"] = host.network_tx_bytes;
  }
  for (const gpu of node.status?.gpus ?? []) {
    if (gpu.age_s !== null) continue;
    const name = `gpu.${gpu.uuid}.`;
    values[`${name}utilization_ratio`] = gpu.utilization_ratio;
    values[`${name}memory_used_bytes`] = gpu.memory_used_bytes;
    values[`${name}temperature_c`] = gpu.temperature_c;
    values[`${name}power_draw_mw`] = gpu.power_draw_mw;
    values[`${name}sm_clock_mhz`] = gpu.sm_clock_mhz;
    values[`${name}memory_clock_mhz`] = gpu.memory_clock_mhz;
    const reasons = gpu.throttle_reasons;
    values[`${name}throttled_thermal`] = reasons === null ? null : Number(reasons.some((one) => HEAT.has(one)));
    values[`${name}throttled_power`] = reasons === null ? null : Number(reasons.some((one) => POWER.has(one)));
  }
  return { atMs, values };
}
