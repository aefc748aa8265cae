// Who did what, and who was refused.

import { api, type Schemas } from "../api";
import { More, usePages } from "../components/pages";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { link, replace, type View, type ViewProps } from "../router";
import { stamp } from "../words";

function Audit({ query }: ViewProps) {
  const who = query.get("who") ?? "";
  const action = query.get("action") ?? "";
  const refused = query.get("refused") ?? "";
  const pages = usePages(
    async (after) => {
      const page = await api.get("/api/v1/audit", {
        query: { after, who: who || undefined, action: action || undefined, refused: refused || undefined },
      });
      return { rows: page.entries, next: page.next };
    },
    [who, action, refused],
  );
  const set = (changed: Record<string, string>): void => replace(link("/audit", { who, action, refused, ...changed }));
  return (
    <>
      <h1>Audit</h1>
      <div class="toolbar" role="search">
        <input type="search" aria-label="Who" placeholder="who: user or token" value={who} onChange={(event) => set({ who: event.currentTarget.value.trim() })} />
        <input type="search" aria-label="What" placeholder="what: /nodes/, DELETE" value={action} onChange={(event) => set({ action: event.currentTarget.value.trim() })} />
        <select aria-label="Done or refused" value={refused} onChange={(event) => set({ refused: event.currentTarget.value })}>
          <option value="">done and refused</option>
          <option value="0">only what was done</option>
          <option value="1">only refusals</option>
        </select>
        <button type="button" class="quiet" onClick={pages.again}>Read again</button>
      </div>
      <Refusal why={pages.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="What was done">
        <table class="stack">
          <thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Came to</th></tr></thead>
          <tbody>{pages.rows?.map((entry) => <Entry key={entry.id} entry={entry} />)}</tbody>
        </table>
        {pages.rows?.length === 0 ? <p class="empty">Nothing fits.</p> : null}
      </div>
      <More pages={pages} />
    </>
  );
}

function Entry({ entry }: { entry: Schemas["AuditView"] }) {
  const detail = entry.detail === null || entry.detail === undefined ? "" : JSON.stringify(entry.detail, null, 1);
  return (
    <tr>
      <td data-label="When" class="number">{stamp(entry.time_ms)}</td>
      <td data-label="Who"><span class="name">{entry.who}</span><span class="small">{[entry.kind, entry.role, entry.remote].filter((one) => one !== "").join(" · ")}</span></td>
      <td data-label="What">
        {entry.what || entry.action}
        <span class="small"><code>{`${entry.action.split(" ")[0] ?? ""} ${entry.target}`}</code></span>
        {detail !== "" && detail !== "{}" ? <details><summary class="small">what was sent</summary><pre>{detail}</pre></details> : null}
      </td>
      <td data-label="Came to">{entry.refused === null ? <State severity="ok">done</State> : <State severity="warn">{`refused: ${entry.refused}`}</State>}<span class="small number">{entry.status}</span></td>
    </tr>
  );
}

export const view: View = {
  path: "/audit",
  title: "Audit",
  nav: { label: "Audit", key: "d", order: 80 },
  least: "admin",
  draw: Audit,
};
