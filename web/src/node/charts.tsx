// A node's readings, from the last minute to ninety days. Short ranges go on with the live picture.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { Chart } from "../components/chart";
import type { Drawn, Reading } from "../components/chart_data";
import { RANGES, joined, rangeOf, withReading } from "../components/chart_data";
import { useFetched } from "../components/fetched";
import { visibleLine } from "../components/terminal_text";
import { nowMs } from "../store";
import type { Node } from "./bodies";
import { historyOf, seriesOf } from "./calls";
import { COUNTERS, type Group, type Unit, formatted, groupsOf, readingOf } from "./chart_groups";

const POINTS_MAX = 600;
const SHORT_UUID = 8;
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const STEPS: Partial<Record<Unit, readonly number[]>> = { bytes: BINARY_STEPS, bytes_per_s: BINARY_STEPS, flag: [1] };

interface Props {
  node: Node;
  range: string;
  setRange: (id: string) => void;
}

export function Charts({ node, range: rangeId, setRange }: Props) {
  const range = rangeOf(rangeId);
  const cards = useCards(node);
  const memoryTop = node.status?.host?.memory_total_bytes ?? null;
  const groups = useMemo(() => groupsOf(cards, memoryTop), [cards, memoryTop]);
  const tail = useRef<readonly Reading[]>([]);

  useEffect(() => {
    tail.current = [];
  }, [node.id]);
  useEffect(() => {
    if (node.last_heard_at_ms !== null && node.status !== null) {
      tail.current = withReading(tail.current, readingOf(node, node.last_heard_at_ms), range.spanMs);
    }
  }, [node]);
  const history = useFetched(
    (stop) => historyOf(node.id, patternsOf(groups), nowMs.peek() - range.spanMs, POINTS_MAX, stop),
    [node.id, range.id, groups.length, cards.length],
    range.refreshMs,
  );
  const toMs = range.live ? nowMs.value : (history.value?.to_ms ?? nowMs.peek());
  const fromMs = toMs - range.spanMs;
  return (
    <section aria-labelledby="charts-title">
      <div class="title">
        <h2 id="charts-title">Charts</h2>
        <div class="ranges" role="group" aria-label="Range of time">
          {RANGES.map((one) => (
            <button
              key={one.id}
              type="button"
              class="quiet"
              aria-pressed={one.id === range.id}
              onClick={() => setRange(one.id)}
            >
              {one.label}
            </button>
          ))}
        </div>
      </div>
      {history.error !== "" && (
        <p class="says bad" role="alert">
          The history cannot be read: {history.error}
        </p>
      )}
      <div class="charts">
        {groups.map((group) => (
          <One
            key={group.title}
            {...told(group, drawnOf(group, history.value, range.live ? tail.current : [], fromMs))}
            fromMs={fromMs}
            toMs={toMs}
          />
        ))}
      </div>
    </section>
  );
}

function One({ group, drawn, fromMs, toMs }: { group: Group; drawn: Drawn; fromMs: number; toMs: number }) {
  if (group.lines.length === 0) return <p class="muted">{group.title}: none in this time.</p>;
  return (
    <Chart
      title={group.title}
      drawn={drawn}
      names={group.lines.map((line) => line.label)}
      fromMs={fromMs}
      toMs={toMs}
      format={(value) => formatted(value, group.unit)}
      top={group.top}
      steps={STEPS[group.unit]}
    />
  );
}

/** Of flags only those that were ever set say something. */
function told(group: Group, drawn: Drawn): { group: Group; drawn: Drawn } {
  if (group.unit !== "flag") return { group, drawn };
  const set = drawn.lines.map((line) => line.mid.some((value) => value !== null && value > 0));
  const lines = group.lines.filter((_, index) => set[index]);
  return { group: { ...group, lines }, drawn: { ...drawn, lines: drawn.lines.filter((_, index) => set[index]) } };
}

type History = Parameters<typeof joined>[0];

function drawnOf(group: Group, history: History, tail: readonly Reading[], fromMs: number): Drawn {
  const names = group.lines.map((line) => line.name);
  return joined(history, names, COUNTERS, tail, fromMs);
}

function patternsOf(groups: readonly Group[]): string[] {
  const fields = groups.flatMap((group) => group.lines.map((line) => line.name.replace(/^gpu\..*\./, "gpu.*.")));
  return [...new Set(fields)];
}

/** Cards the node tells of now, and those it told of within the history. */
function useCards(node: Node): { uuid: string; label: string }[] {
  const series = useFetched((stop) => seriesOf(node.id, stop), [node.id], null);
  const now = node.status?.gpus ?? [];
  const key = now.map((gpu) => `${gpu.uuid} ${gpu.index} ${gpu.name}`).join("\n");
  return useMemo(() => {
    const told = now.map((gpu) => ({
      uuid: gpu.uuid,
      label: `GPU ${gpu.index ?? visibleLine(gpu.uuid).slice(-SHORT_UUID)}`,
    }));
    const known = new Set(told.map((card) => card.uuid));
    const before = new Set<string>();
    for (const one of series.value?.series ?? []) {
      const match = /^gpu\.(.+)\.utilization_ratio$/.exec(one.name);
      if (match?.[1] !== undefined && !known.has(match[1])) before.add(match[1]);
    }
    return [...told, ...[...before].map((uuid) => ({ uuid, label: `gone: ${visibleLine(uuid).slice(-SHORT_UUID)}` }))];
  }, [key, series.value]);
}
