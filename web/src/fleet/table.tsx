// The fleet as a table: of two thousand rows those on the screen are drawn.

import { type ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { rowsInView } from "../live";
import { type NodeRow, nodes, type NodeSlot } from "../store";
import { CardReadings, Cards, Choose, HeardLight, HostBars, Jobs, Name, ProvingLight, Sentence } from "./cells";
import { chosen, chooseAll, cursor, shownRows } from "./list";
import { memo } from "./memo";
import { useWindow } from "./window";

export const ROW_PX = 60;
const COLUMNS = ["Node", "State", "Heard", "Proving", "GPUs", "Host", "Jobs"];

export function Table() {
  const rows = shownRows.value;
  const [body, part] = useWindow<HTMLTableSectionElement>(rows.length, ROW_PX);
  const { first, end } = part.value;
  const drawn = rows.slice(first, end);
  useRowsInView(drawn);
  useCursor(rows, body.current, ROW_PX, 1);
  const all = rows.length > 0 && rows.every((row) => chosen.value.has(row.id));
  return (
    <table class="fleet" aria-rowcount={rows.length + 1} aria-label="Nodes">
      <thead>
        <tr aria-rowindex={1}>
          <th scope="col" class="choose">
            <input type="checkbox" aria-label="Choose all that are listed" checked={all} onChange={(event) => chooseAll(event.currentTarget.checked)} />
          </th>
          {COLUMNS.map((column) => <th key={column} scope="col">{column}</th>)}
        </tr>
      </thead>
      <tbody ref={body}>
        <Space lines={first} />
        {drawn.map((row, at) => {
          const slot = nodes.get(row.id);
          return slot ? <Row key={row.id} slot={slot} index={first + at + 2} /> : null;
        })}
        <Space lines={rows.length - Math.max(end, first)} />
      </tbody>
    </table>
  );
}

/** In place of rows that are not on the screen. */
function Space({ lines }: { lines: number }) {
  if (lines <= 0) return null;
  return (
    <tr class="space" aria-hidden="true" style={{ height: `${lines * ROW_PX}px` }}>
      <td colSpan={COLUMNS.length + 1} />
    </tr>
  );
}

const Row = memo(function Row({ slot, index }: { slot: NodeSlot; index: number }) {
  const row = slot.row.value;
  return (
    <tr aria-rowindex={index} data-severity={row.sentence.severity} aria-current={cursor.value === row.id ? "true" : undefined}>
      <td class="choose"><Choose row={row} /></td>
      <Cell name="node"><Name row={row} /></Cell>
      <Cell name="sentence"><Sentence row={row} /></Cell>
      <Cell name="heard"><HeardLight slot={slot} /></Cell>
      <Cell name="proving"><ProvingLight row={row} /></Cell>
      <Cell name="gpus"><Cards row={row} /><CardReadings slot={slot} /></Cell>
      <Cell name="host"><HostBars slot={slot} /></Cell>
      <Cell name="jobs"><Jobs slot={slot} /></Cell>
    </tr>
  );
});

/** A cell that never makes its row higher: what is not on the screen is counted by the row's height. */
function Cell({ name, children }: { name: string; children: ComponentChildren }) {
  return <td class={name}><div class="cell">{children}</div></td>;
}

/** Say to the hub which rows are drawn, and none once they are gone. */
export function useRowsInView(rows: readonly NodeRow[]): void {
  const ids = rows.map((row) => row.id).join(" ");
  useEffect(() => {
    rowsInView.value = ids === "" ? [] : ids.split(" ");
  }, [ids]);
  useEffect(() => () => {
    rowsInView.value = [];
  }, []);
}

/** Bring the row under the cursor into view, and the focus to it. */
export function useCursor(rows: readonly NodeRow[], list: HTMLElement | null, linePx: number, perLine: number): void {
  const id = cursor.value;
  useEffect(() => {
    const at = rows.findIndex((row) => row.id === id);
    if (id === null || at < 0 || !list) return;
    const top = list.getBoundingClientRect().top + Math.floor(at / perLine) * linePx;
    const roomPx = 120; // the header that stays, and some lines around the cursor
    if (top < roomPx) window.scrollBy({ top: top - roomPx });
    else if (top + linePx > window.innerHeight - roomPx) window.scrollBy({ top: top + linePx - window.innerHeight + roomPx });
    const focus = requestAnimationFrame(() =>
      requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-node="${CSS.escape(id)}"]`)?.focus({ preventScroll: true })),
    );
    return () => cancelAnimationFrame(focus);
  }, [id]);
}
