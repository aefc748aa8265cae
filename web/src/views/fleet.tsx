// All nodes: what is wrong first, then each of them.

import { Banner } from "../fleet/banner";
import { BulkBar } from "../fleet/bulk";
import { CardList } from "../fleet/cards";
import { chosen, chooseAll, choose, cursor, filterText, layout, moveCursor, setFilter, setLayout, shownRows } from "../fleet/list";
import { Table } from "../fleet/table";
import { Toolbar } from "../fleet/toolbar";
import { useKeys } from "../keys";
import { go, link, type View } from "../router";
import { loaded, tally } from "../store";

function Fleet() {
  useKeys([
    { key: "j", says: "next node", act: () => moveCursor(1) },
    { key: "k", says: "node before", act: () => moveCursor(-1) },
    { key: "Enter", says: "open the node", act: () => cursor.value && go(link(`/nodes/${cursor.value}`)) },
    { key: "x", says: "choose the node", act: () => cursor.value && choose(cursor.value, !chosen.value.has(cursor.value)) },
    { key: "t", says: "table or cards", act: () => setLayout(layout.value === "table" ? "cards" : "table") },
    { key: "Escape", says: "clear choice and filter", act: clear },
  ]);
  return (
    <>
      <h1 class="hidden">Fleet</h1>
      <Banner />
      {loaded.value && tally.value.all > 0 ? (
        <>
          <Toolbar />
          <BulkBar />
          {layout.value === "table" ? <Table /> : <CardList />}
          {shownRows.value.length === 0 ? <p class="empty">No node fits this filter.</p> : null}
        </>
      ) : null}
    </>
  );
}

function clear(): void {
  if (chosen.value.size > 0) chooseAll(false);
  else if (filterText.value !== "") setFilter("");
  else cursor.value = null;
}

export const view: View = {
  path: "/",
  title: "Fleet",
  nav: { label: "Fleet", key: "f", order: 0 },
  draw: Fleet,
};
