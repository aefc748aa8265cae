// The rules of alerts: when each fires, and how much it matters.

import { useState } from "preact/hooks";
import { api, type Schemas } from "../api";
import { Dialog } from "../components/dialog";
import { Form, text } from "../components/form";
import { usePages } from "../components/pages";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { may } from "../session";
import { ruleName, severityOf, thresholds } from "./words";

type Rule = Schemas["RuleView"];

export function Rules() {
  const pages = usePages(async () => ({ rows: (await api.get("/api/v1/alerts/rules")).rules, next: null }));
  const [changing, setChanging] = useState<Rule | null>(null);
  return (
    <section aria-labelledby="rules">
      <h2 id="rules">Rules</h2>
      <Refusal why={pages.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Rules of alerts">
        <table class="stack">
          <thead><tr><th scope="col">Rule</th><th scope="col">Severity</th><th scope="col">When</th><th scope="col">Held for</th><th scope="col">Over after</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {pages.rows?.map((rule) => (
              <tr key={rule.rule}>
                <td data-label="Rule" class="name">{ruleName(rule.rule)}{rule.changed ? <span class="small">changed</span> : null}</td>
                <td data-label="Severity">{rule.enabled ? <State severity={severityOf(rule.severity)}>{rule.severity}</State> : <State severity="info">off</State>}</td>
                <td data-label="When">{rule.about}<span class="small">{thresholds(rule)}</span></td>
                <td data-label="Held for"><span class="number">{rule.hold_s} s</span></td>
                <td data-label="Over after"><span class="number">{rule.resolve_s} s</span></td>
                <td>{may("operator") ? <button type="button" class="quiet" aria-label={`Change the rule ${ruleName(rule.rule)}`} onClick={() => setChanging(rule)}>Change</button> : null}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {changing ? <ChangeRule rule={changing} close={() => { setChanging(null); pages.again(); }} /> : null}
    </section>
  );
}

function ChangeRule({ rule, close }: { rule: Rule; close: () => void }) {
  const number = (fields: FormData, name: string): Record<string, number> => (text(fields, name) === "" ? {} : { [name]: Number(text(fields, name)) });
  const send = async (fields: FormData): Promise<void> => {
    const limits = Object.assign({}, ...["bad", "clear", "hold_s", "resolve_s"].map((name) => number(fields, name))) as Record<string, number>;
    const severity = text(fields, "severity") as Rule["severity"];
    await api.patch("/api/v1/alerts/rules/{rule}", { ...limits, severity, enabled: fields.has("enabled") }, { path: { rule: rule.rule } });
    close();
  };
  const reset = async (): Promise<void> => {
    await api.delete("/api/v1/alerts/rules/{rule}", { path: { rule: rule.rule } });
    close();
  };
  return (
    <Dialog title={`The rule ${ruleName(rule.rule)}`} close={close}>
      <Form verb="Change it" send={send}>
        <p>{rule.about}</p>
        <label><input type="checkbox" name="enabled" checked={rule.enabled} /> on</label>
        <label>Severity<select name="severity">{["critical", "warning", "info"].map((one) => <option key={one} value={one} selected={one === rule.severity}>{one}</option>)}</select></label>
        {rule.bad === null ? null : <label>Bad at ({rule.unit})<input name="bad" type="number" step="any" defaultValue={String(rule.bad)} /></label>}
        {rule.clear === null ? null : <label>Well again at<input name="clear" type="number" step="any" defaultValue={String(rule.clear)} /></label>}
        <label>Held for, in seconds<input name="hold_s" type="number" min={0} max={86_400} step="any" defaultValue={String(rule.hold_s)} /></label>
        <label>Over after, in seconds<input name="resolve_s" type="number" min={0} max={86_400} step="any" defaultValue={String(rule.resolve_s)} /></label>
      </Form>
      {rule.changed ? <Form verb="As it came" send={reset}><p class="small">Or give it back what it came with.</p></Form> : null}
    </Dialog>
  );
}
