// One chart by uPlot: lines, their least and greatest as bands, gaps as gaps. The legend says its values as text.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Drawn, Line } from "./chart_data";
import { latest } from "./chart_data";

const HEIGHT = 150;
/** With more lines than this, bands would hide each other. */
const BANDED_MAX = 3;
const COLOURS = 8;
/** Colour is never alone: lines differ in their strokes too. */
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3]];
const SYNC = "provewire-node";

export interface ChartProps {
  title: string;
  drawn: Drawn;
  /** For each line. */
  names: readonly string[];
  fromMs: number;
  toMs: number;
  format: (value: number) => string;
  /** The scale begins at zero and ends here, at least. */
  top?: number | undefined;
  /** What the scale goes by; round numbers if left out. */
  steps?: readonly number[] | undefined;
}

export function Chart({ title, drawn, names, fromMs, toMs, format, top, steps }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const window_ = useRef({ fromMs, toMs, top });
  window_.current = { fromMs, toMs, top };
  const shape = names.join("\n");

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const made = new uPlot(options({ names, format, shown: window_, setAt, width: element.clientWidth, steps }), [[]], element);
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    sized.observe(element);
    const repaint = () => made.redraw(false, true);
    const themed = new MutationObserver(repaint);
    themed.observe(document.documentElement, { attributes: true });
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", repaint);
    return () => {
      sized.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", repaint);
      made.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(columns(drawn, names.length));
  }, [drawn, fromMs, toMs, shape]);

  const now = drawn.lines.map(latest);
  const told = drawn.lines.map((line, index) => valueAt(line, at) ?? { mid: now[index] ?? null, low: null, high: null });
  const said = names.map((name, index) => `${name} ${text(now[index] ?? null, format)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}: ${said}`} />
      <ul class="legend">
        {names.map((name, index) => (
          <li key={name}>
            <Swatch index={index} />
            <span>{name}</span> <strong class="number">{text(told[index]?.mid ?? null, format)}</strong>
            <Spread low={told[index]?.low ?? null} high={told[index]?.high ?? null} format={format} />
          </li>
        ))}
      </ul>
    </figure>
  );
}

function Spread({ low, high, format }: { low: number | null; high: number | null; format: (value: number) => string }) {
  if (low === null || high === null || low === high) return null;
  return (
    <span class="number muted">
      {format(low)} to {format(high)}
    </span>
  );
}

function Swatch({ index }: { index: number }) {
  return (
    <svg class={`swatch series-${index % COLOURS}`} viewBox="0 0 22 8" aria-hidden="true">
      <line x1="0" y1="4" x2="22" y2="4" stroke-dasharray={dashOf(index).join(" ")} />
    </svg>
  );
}

function dashOf(index: number): number[] {
  return [...(DASHES[index % DASHES.length] ?? [])];
}

function text(value: number | null, format: (value: number) => string): string {
  return value === null ? "unknown" : format(value);
}

function valueAt(line: Line, at: number | null): { mid: number | null; low: number | null; high: number | null } | null {
  if (at === null) return null;
  return { mid: line.mid[at] ?? null, low: line.low?.[at] ?? null, high: line.high?.[at] ?? null };
}

/** Three columns for each line: middle, least, greatest. */
function columns(drawn: Drawn, count: number): uPlot.AlignedData {
  const times = drawn.timesMs.map((ms) => ms / 1000);
  const nothing = times.map(() => null);
  const banded = count <= BANDED_MAX;
  const lines = drawn.lines.flatMap((line) => [
    [...line.mid],
    banded && line.low !== null ? [...line.low] : nothing,
    banded && line.high !== null ? [...line.high] : nothing,
  ]);
  return [times, ...lines] as uPlot.AlignedData;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

interface Drawing {
  readonly names: readonly string[];
  readonly format: (value: number) => string;
  readonly shown: { current: { fromMs: number; toMs: number; top?: number | undefined } };
  readonly setAt: (at: number | null) => void;
  readonly width: number;
  readonly steps: readonly number[] | undefined;
}

const MINUTE_S = 60;
const DAY_S = 24 * 3600;

/** A moment on the axis: its seconds, its minute, or its day, as the range asks. */
function tick(atS: number, spanS: number): string {
  const at = new Date(atS * 1000);
  if (spanS > 2 * DAY_S) return at.toLocaleDateString("en-CA").slice(5);
  return at.toLocaleTimeString("en-GB").slice(0, spanS > 5 * MINUTE_S ? 5 : 8);
}

function options({ names, format, shown, setAt, width, steps }: Drawing): uPlot.Options {
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  names.forEach((name, index) => {
    const stroke = () => colour(`--series-${index % COLOURS}`);
    const first = series.length;
    series.push({ label: name, stroke, width: 1.5, dash: dashOf(index), points: { size: 4 }, spanGaps: false });
    series.push({ stroke: "transparent", width: 0, points: { show: false } });
    series.push({ stroke: "transparent", width: 0, points: { show: false } });
    bands.push({ series: [first + 2, first + 1], fill: () => `${stroke()}33` });
  });
  const axis: uPlot.Axis = {
    stroke: () => colour("--quiet"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width: Math.max(width, 100),
    height: HEIGHT,
    series,
    bands,
    legend: { show: false },
    cursor: { sync: { key: SYNC }, drag: { x: false, y: false }, y: false },
    scales: {
      x: { time: true, range: () => [shown.current.fromMs / 1000, shown.current.toMs / 1000] },
      y: { range: (_plot, low, high) => span(low, high, shown.current.top) },
    },
    axes: [
      {
        ...axis,
        size: 24,
        space: 70,
        values: (_plot, splits) => {
          const spanS = (shown.current.toMs - shown.current.fromMs) / 1000;
          return splits.map((atS) => tick(atS, spanS));
        },
      },
      {
        ...axis,
        size: 66,
        space: 30,
        ...(steps ? { incrs: [...steps] } : {}),
        values: (_plot, splits) => splits.map((value) => format(value)),
      },
    ],
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
  };
}

function span(low: number | null, high: number | null, top: number | undefined): [number, number] {
  if (top !== undefined) return [0, Math.max(top, high ?? 0)];
  if (low === null || high === null) return [0, 1];
  return [Math.min(0, low), high <= 0 ? 1 : high * 1.05];
}
