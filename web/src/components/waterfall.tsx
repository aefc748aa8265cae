// Bars of what took how long. The same is told as text in each row, so that nothing hangs on seeing the bars.

import type { Bar, PartitionRow } from "./waterfall_layout";
import { placed } from "./waterfall_layout";

const WIDTH = 1000;
const HEIGHT = 12;

export function took(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function Waterfall({ bars, nowMs, label }: { bars: readonly Bar[]; nowMs: number; label: string }) {
  const drawn = placed(bars, nowMs);
  if (drawn.placed.length === 0) return null;
  return (
    <table class="waterfall" aria-label={label}>
      <tbody>
        {drawn.placed.map(({ bar, left, width, tookMs }, index) => (
          <tr key={index} class={bar.depth === 1 ? "inner" : ""}>
            <th scope="row">{bar.label}</th>
            <td class="bars">
              <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
                <rect class={`stretch ${bar.kind}`} x={left * WIDTH} width={Math.max(3, width * WIDTH)} y="1" height="10" />
              </svg>
            </td>
            <td class="number">
              {took(tookMs)}
              {bar.endMs === null && " so far"}
            </td>
            <td class="what">{bar.detail}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Partitions side by side: lengths can be compared, beginnings are not known. */
export function Partitions({ rows, label }: { rows: readonly PartitionRow[]; label: string }) {
  if (rows.length === 0) return null;
  return (
    <table class="waterfall partitions" aria-label={label}>
      <tbody>
        {rows.map((row) => (
          <tr key={row.index}>
            <th scope="row">{row.index}</th>
            <td class="bars">
              <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
                {row.synthesis !== null && (
                  <rect class="stretch fetch" x="0" width={row.synthesis * WIDTH} y="1" height="10" />
                )}
                {row.gpu !== null && (
                  <rect class="stretch prove" x={(row.synthesis ?? 0) * WIDTH} width={row.gpu * WIDTH} y="1" height="10" />
                )}
              </svg>
            </td>
            <td class="what">{row.text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
