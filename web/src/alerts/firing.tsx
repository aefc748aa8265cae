// What fires now, the worst first, with why and what to do.

import { useState } from "preact/hooks";
import { api, type Schemas } from "../api";
import { Dialog } from "../components/dialog";
import { useFetched } from "../components/fetched";
import { Form, text } from "../components/form";
import { Refusal } from "../components/refusal";
import { Remedy } from "../components/remedy";
import { State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { link } from "../router";
import { may } from "../session";
import { nodes } from "../store";
import { plural, stamp } from "../words";
import { named, severityOf, TIMES } from "./words";

type Alert = Schemas["AlertView"];
const EVERY_MS = 1_500;
const SUBJECTS_SHOWN = 8;
/** Rules whose subjects are nodes. */
const LINKED = /^(node_|gpu_|fallback_|outbox_|clock_|duplicate_|disk_)/;

export function Firing() {
  const told = useFetched((signal) => api.get("/api/v1/alerts", { signal }), [], EVERY_MS);
  const [acking, setAcking] = useState<Alert | null>(null);
  const unack = async (alert: Alert) => {
    await api.delete("/api/v1/alerts/{id}/ack", { path: { id: alert.id } }).catch(() => undefined);
    told.again();
  };
  const alerts = told.value?.alerts ?? null;
  return (
    <section aria-labelledby="firing">
      <h2 id="firing">Now</h2>
      <Refusal why={told.error} />
      {alerts?.length === 0 ? <p class="empty"><State severity="ok">Nothing fires.</State></p> : null}
      <div class="panels">
        {alerts?.map((alert) => <One key={alert.id} alert={alert} ack={() => setAcking(alert)} unack={() => void unack(alert)} />)}
      </div>
      {told.value && told.value.pending > 0 ? <p class="muted">{plural(told.value.pending, "thing is", "things are")} bad, and not yet for long enough.</p> : null}
      {acking ? <Ack alert={acking} close={() => { setAcking(null); told.again(); }} /> : null}
    </section>
  );
}

function One({ alert, ack, unack }: { alert: Alert; ack: () => void; unack: () => void }) {
  return (
    <article class="panel" aria-label={alert.headline}>
      <h3><State severity={severityOf(alert.severity)}>{alert.severity}: {visibleLine(alert.headline)}</State></h3>
      <p>{visibleLine(alert.detail)}</p>
      {LINKED.test(alert.rule) ? <Subjects alert={alert} /> : alert.count > 1 ? <p class="small">{visibleLine(named(alert.subjects, alert.count))}</p> : null}
      <Remedy text={alert.remedy} />
      <p class="small">
        since <span class="number">{stamp(alert.fired_at_ms)}</span>
        {alert.notified_at_ms === null ? "; not told yet: it waits for its group, or is silenced" : ""}
        {alert.flapping ? "; it comes and goes, and is told once" : ""}
      </p>
      {alert.acked_by === "" ? null : (
        <p class="small">
          {visibleLine(alert.acked_by)} looks after it{alert.acked_until_ms === null ? "" : ` until ${stamp(alert.acked_until_ms)}`}
          {alert.ack_note === "" ? "" : `: ${visibleLine(alert.ack_note)}`}
        </p>
      )}
      {may("operator") ? (
        <p class="buttons">
          {alert.acked_by === "" ? (
            <button type="button" class="quiet" aria-label={`I look after it: ${alert.headline}`} onClick={ack}>I look after it</button>
          ) : (
            <button type="button" class="quiet" aria-label={`Nobody looks after it: ${alert.headline}`} onClick={unack}>Nobody looks after it</button>
          )}
        </p>
      ) : null}
    </article>
  );
}

/** Nodes by name, each leading to its view where only one has that name. */
function Subjects({ alert }: { alert: Alert }) {
  const ids = new Map<string, string>();
  for (const slot of nodes.values()) {
    const { name } = slot.row.peek();
    ids.set(name, ids.has(name) ? "" : slot.id);
  }
  const shown = alert.subjects.slice(0, SUBJECTS_SHOWN);
  const more = alert.count - shown.length;
  return (
    <p class="small">
      {shown.map((name, at) => {
        const id = ids.get(name);
        return <span key={name}>{at > 0 ? ", " : ""}{id ? <a href={link(`/nodes/${id}`)}>{visibleLine(name)}</a> : visibleLine(name)}</span>;
      })}
      {more > 0 ? ` and ${more} more` : null}
    </p>
  );
}

function Ack({ alert, close }: { alert: Alert; close: () => void }) {
  const send = async (fields: FormData): Promise<void> => {
    const for_s = Number(text(fields, "for"));
    const body = { note: text(fields, "note"), ...(for_s > 0 ? { for_s } : {}) };
    await api.post("/api/v1/alerts/{id}/ack", body, { path: { id: alert.id } });
    close();
  };
  return (
    <Dialog title="You look after it" close={close}>
      <Form verb="I look after it" send={send}>
        <p>{visibleLine(alert.headline)}</p>
        <label>Note<input name="note" maxLength={500} /></label>
        <label>For<select name="for"><option value="0">until it is over</option>{TIMES.map(([word, seconds]) => <option key={word} value={seconds}>{word}; then you are reminded</option>)}</select></label>
      </Form>
    </Dialog>
  );
}
