// Silences: no notices about something, for a time.

import { useState } from "preact/hooks";
import { api, sentence } from "../api";
import { Dialog } from "../components/dialog";
import { Form, text } from "../components/form";
import { More, usePages } from "../components/pages";
import { Refusal } from "../components/refusal";
import { visibleLine } from "../components/terminal_text";
import { may } from "../session";
import { stamp } from "../words";
import { about, ruleName, TIMES } from "./words";

export function Silences() {
  const pages = usePages(async (after) => {
    const page = await api.get("/api/v1/alerts/silences", { query: { after } });
    return { rows: page.silences.filter((silence) => !silence.over), next: page.next };
  });
  const [making, setMaking] = useState(false);
  const [why, setWhy] = useState("");
  const end = async (id: string) => {
    try {
      await api.delete("/api/v1/alerts/silences/{id}", { path: { id } });
      setWhy("");
    } catch (error) {
      setWhy(sentence(error));
    }
    pages.again();
  };
  return (
    <section aria-labelledby="silences">
      <div class="title">
        <h2 id="silences">Silences</h2>
        {may("operator") ? <button type="button" onClick={() => setMaking(true)}>New silence</button> : null}
      </div>
      <Refusal why={pages.error || why} />
      {pages.rows?.length === 0 ? <p class="empty">Nothing is silenced.</p> : null}
      <ul>
        {pages.rows?.map((silence) => (
          <li key={silence.id}>
            {visibleLine(about(silence))} until <span class="number">{stamp(silence.until_ms)}</span>: {visibleLine(silence.reason)}
            <span class="small"> by {visibleLine(silence.created_by)}</span>{" "}
            {may("operator") ? <button type="button" class="quiet" aria-label={`End it now: the silence of ${about(silence)}`} onClick={() => void end(silence.id)}>End it now</button> : null}
          </li>
        ))}
      </ul>
      <More pages={pages} />
      {making ? <NewSilence close={() => { setMaking(false); pages.again(); }} /> : null}
    </section>
  );
}

function NewSilence({ close }: { close: () => void }) {
  const rules = usePages(async () => ({ rows: (await api.get("/api/v1/alerts/rules")).rules, next: null }));
  const send = async (fields: FormData): Promise<void> => {
    const rule = rules.rows?.find((one) => one.rule === text(fields, "rule"))?.rule;
    const which = { node: text(fields, "node").trim(), cause: "", ...(rule === undefined ? {} : { rule }) };
    await api.post("/api/v1/alerts/silences", { for_s: Number(text(fields, "for")), reason: text(fields, "reason"), ...which });
    close();
  };
  return (
    <Dialog title="New silence" close={close}>
      <Form verb="Silence it" send={send}>
        <label>Why<input name="reason" required maxLength={500} /></label>
        <label>For<select name="for">{TIMES.map(([word, seconds]) => <option key={word} value={seconds}>{word}</option>)}</select></label>
        <label>Rule<select name="rule"><option value="">every rule</option>{rules.rows?.map((one) => <option key={one.rule} value={one.rule}>{ruleName(one.rule)}</option>)}</select></label>
        <label>Node<input name="node" maxLength={64} placeholder="every node" aria-describedby="node-help" /></label>
        <p class="small" id="node-help">Its name, id, or the beginning of its id. What is bad when the silence ends is told then.</p>
      </Form>
    </Dialog>
  );
}
