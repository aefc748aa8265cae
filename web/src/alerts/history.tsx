// Alerts that are over, newest first.

import { api } from "../api";
import { More, usePages } from "../components/pages";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { duration, stamp } from "../words";
import { named, severityOf } from "./words";

export function History() {
  const pages = usePages(async (after) => {
    const page = await api.get("/api/v1/alerts/history", { query: { after, limit: 50 } });
    return { rows: page.alerts.filter((alert) => alert.state !== "firing"), next: page.next };
  });
  return (
    <section aria-labelledby="history">
      <div class="title">
        <h2 id="history">Over</h2>
        <button type="button" class="quiet" onClick={pages.again}>Look again</button>
      </div>
      <Refusal why={pages.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Alerts that are over">
        <table class="stack">
          <thead><tr><th scope="col">Alert</th><th scope="col">Of</th><th scope="col">From</th><th scope="col">Lasted</th></tr></thead>
          <tbody>
            {pages.rows?.map((alert) => (
              <tr key={alert.id}>
                <td data-label="Alert"><State severity={severityOf(alert.severity)}>{visibleLine(alert.headline)}</State></td>
                <td data-label="Of">{visibleLine(named(alert.subjects, alert.count_max, 3))}</td>
                <td data-label="From"><span class="number">{stamp(alert.fired_at_ms)}</span></td>
                <td data-label="Lasted"><span class="number">{alert.ended_at_ms === null ? "" : duration(alert.ended_at_ms - alert.fired_at_ms)}</span>{alert.merged_into === null ? null : <span class="small">then part of a larger one</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {pages.rows?.length === 0 ? <p class="empty">No alert was over yet.</p> : null}
      </div>
      <More pages={pages} />
    </section>
  );
}
