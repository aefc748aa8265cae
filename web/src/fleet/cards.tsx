// The fleet as cards: for phones, and for those who like them.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type NodeSlot, nodes } from "../store";
import { CardReadings, Cards, Choose, HeardLight, HostBars, Jobs, Name, ProvingLight, Sentence } from "./cells";
import { cursor, shownRows } from "./list";
import { memo } from "./memo";
import { useCursor, useRowsInView } from "./table";
import { useWindow } from "./window";

const CARD_PX = 196;
const CARD_WIDTH_PX = 320;

export function CardList() {
  const rows = shownRows.value;
  const perLine = useSignal(1);
  const lines = Math.ceil(rows.length / perLine.value);
  const [list, part] = useWindow<HTMLDivElement>(lines, CARD_PX);
  useEffect(() => {
    const element = list.current;
    if (!element) return undefined;
    const sized = new ResizeObserver(() => {
      perLine.value = Math.max(1, Math.floor(element.clientWidth / CARD_WIDTH_PX));
    });
    sized.observe(element);
    return () => sized.disconnect();
  }, []);
  const { first, end } = part.value;
  const drawn = rows.slice(first * perLine.value, end * perLine.value);
  useRowsInView(drawn);
  useCursor(rows, list.current, CARD_PX, perLine.value);
  return (
    <div ref={list} role="list" aria-label="Nodes" class="cards" style={{ height: `${lines * CARD_PX}px` }}>
      <div class="cards-drawn" role="presentation" style={{ top: `${first * CARD_PX}px`, gridTemplateColumns: `repeat(${perLine.value}, minmax(0, 1fr))` }}>
        {drawn.map((row, at) => {
          const slot = nodes.get(row.id);
          return slot ? <Card key={row.id} slot={slot} position={first * perLine.value + at + 1} count={rows.length} /> : null;
        })}
      </div>
    </div>
  );
}

const Card = memo(function Card({ slot, position, count }: { slot: NodeSlot; position: number; count: number }) {
  const row = slot.row.value;
  return (
    <div
      role="listitem"
      aria-posinset={position}
      aria-setsize={count}
      aria-current={cursor.value === row.id ? "true" : undefined}
      class="card"
      data-severity={row.sentence.severity}
    >
      <div class="card-head">
        <Choose row={row} />
        <div class="node"><Name row={row} /></div>
      </div>
      <div class="lights"><HeardLight slot={slot} /><ProvingLight row={row} /></div>
      <div class="sentence"><Sentence row={row} /></div>
      <div class="card-foot">
        <div class="gpus"><Cards row={row} /><CardReadings slot={slot} /></div>
        <div class="host"><HostBars slot={slot} /></div>
        <div class="jobs"><Jobs slot={slot} /></div>
      </div>
    </div>
  );
});
