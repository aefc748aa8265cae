// What can be done for a node: each with a preview of the exact commands, a confirmation, and what came of it.

import { useState } from "preact/hooks";
import { sentence } from "../api";
import { ActionDialog } from "../components/action";
import { Remedy, Worded } from "../components/remedy";
import { State } from "../components/state";
import { Diff, RawText } from "../components/raw_text";
import { visible, visibleLine } from "../components/terminal_text";
import { may } from "../session";
import type { Chart, Process, Recovered, RecoveryPreview, Symptom } from "./bodies";
import { type RecoveryOptions, doctor, previewRecovery, recover } from "./calls";
import { Refusal } from "../components/refusal";

interface Known {
  readonly id: string;
  readonly label: string;
  readonly says: string;
  readonly wheel?: true;
}

const ACTIONS: readonly Known[] = [
  { id: "install-key", label: "Install the hub's key", says: "Puts the key into the node's file, or the file right." },
  { id: "restart-agent", label: "Restart the agent", says: "Its supervisor starts it anew; provers go on." },
  { id: "fetch-logs", label: "Fetch its logs", says: "Reads the newest lines by SSH; changes nothing." },
  { id: "re-enrol", label: "Enrol it anew", says: "For a node whose identity is lost; it becomes a new node." },
  { id: "upgrade", label: "Upgrade it", says: "Installs a wheel of the hub's machine and restarts the agent.", wheel: true },
];

interface Props {
  nodeId: string;
  nodeName: string;
  changed: () => void;
}

export function RecoveryPanel({ nodeId, nodeName, changed }: Props) {
  const [open, setOpen] = useState<Known | null>(null);
  const [options, setOptions] = useState<RecoveryOptions>({});
  // Files of the hub's machine are for admins to name.
  const mayNameFiles = may("admin");
  if (!may("operator")) return null;
  const set = (more: RecoveryOptions) => setOptions({ ...options, ...more });
  return (
    <section aria-labelledby="recovery-title">
      <h2 id="recovery-title">Put it right</h2>
      <Doctor nodeId={nodeId} options={options} />
      <ul class="plain actions">
        {ACTIONS.filter((one) => one.wheel === undefined || mayNameFiles).map((one) => (
          <li key={one.id}>
            <button type="button" class="quiet" onClick={() => setOpen(one)}>
              {one.label}
            </button>{" "}
            <span class="muted">{one.says} A preview comes first.</span>
          </li>
        ))}
      </ul>
      <details>
        <summary>Another way in, and more</summary>
        <div class="stack">
          {mayNameFiles && (
            <>
              <Text label="Another private key, by its path on the hub's machine" set={(via_key) => set({ via_key })} />
              <Text label="Who logs in with that key" set={(via_user) => set({ via_user })} />
              <Text label="Wheel to upgrade to, by its path on the hub's machine" set={(wheel) => set({ wheel })} />
            </>
          )}
          <label class="inline">
            <input type="checkbox" onChange={(event) => set({ mend: event.currentTarget.checked })} /> when the key is
            installed, also put right what is wrong with other lines of the file
          </label>
        </div>
      </details>
      {open !== null && (
        <ActionDialog<RecoveryPreview, Recovered>
          title={`${open.label}: ${nodeName}`}
          preview={() => previewRecovery(nodeId, open.id, options)}
          shown={(plan) => <Preview plan={plan} />}
          verb={(plan) => (hasWork(plan) ? open.label : null)}
          apply={(plan) => recover(plan.token)}
          outcome={(done) => <Outcome done={done} />}
          close={() => {
            setOpen(null);
            changed();
          }}
        />
      )}
    </section>
  );
}

/** Whether there is something that the hub itself would do. */
function hasWork(plan: RecoveryPreview): boolean {
  return !plan.by_hand && (plan.commands.length > 0 || plan.diff !== "");
}

function Text({ label, set }: { label: string; set: (text: string) => void }) {
  return (
    <label>
      {label}
      <input maxLength={1024} onInput={(event) => set(event.currentTarget.value.trim())} />
    </label>
  );
}

function Preview({ plan }: { plan: RecoveryPreview }) {
  return (
    <>
      <ul>
        {plan.effects.map((effect) => (
          <li key={effect}>
            <Worded text={effect} />
          </li>
        ))}
      </ul>
      <Diff text={plan.diff} />
      {plan.commands.map((command, index) => (
        <RawText key={index} title={plan.by_hand ? "To be run at the provider's console" : "Exactly this is run"} text={command} />
      ))}
      {plan.by_hand ? null : <RawText title="And given to it" text={plan.stdin} copy={false} />}
    </>
  );
}

function Outcome({ done }: { done: Recovered }) {
  return (
    <>
      <p>
        <State severity={done.ok ? "ok" : "bad"}>{visible(done.sentence)}</State>
      </p>
      {done.provers_lost.length > 0 && (
        <div class="trouble">
          Provers that were there before and are not now: <Processes list={done.provers_lost} />
        </div>
      )}
      {done.after.length > 0 && (
        <details>
          <summary>Processes of ours there, before and after</summary>
          <h3>Before</h3>
          <Processes list={done.before} />
          <h3>After</h3>
          <Processes list={done.after} />
        </details>
      )}
      <RawText title="It printed" text={done.output} />
    </>
  );
}

function Processes({ list }: { list: readonly Process[] }) {
  return (
    <ul class="plain mono">
      {list.map((one) => (
        <li key={one.pid}>
          {one.pid} {one.kind} {one.state} {visibleLine(one.command)}
        </li>
      ))}
    </ul>
  );
}

/** Why the node does not take the hub's key: looked at there, changing nothing. */
function Doctor({ nodeId, options }: { nodeId: string; options: RecoveryOptions }) {
  const [chart, setChart] = useState<Chart | null>(null);
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState("");
  const look = async () => {
    setBusy(true);
    setWhy("");
    try {
      setChart(await doctor(nodeId, options));
    } catch (error) {
      setChart(null);
      setWhy(sentence(error));
    }
    setBusy(false);
  };
  return (
    <div class="doctor">
      <p>
        <button type="button" class="quiet" disabled={busy} onClick={() => void look()}>
          {busy ? "Looking" : "Why is the key not taken?"}
        </button>{" "}
        <span class="muted">Looks at the node's files and its sshd; changes nothing.</span>
      </p>
      <Refusal why={why} />
      {chart !== null && (
        <>
          <p>
            <State severity={chart.healthy ? "ok" : "bad"}>
              {chart.healthy ? "nothing was found that keeps the hub out" : "something keeps the hub out"}
            </State>{" "}
            <span class="muted">
              {visibleLine(chart.path)} of {visibleLine(chart.user)};{" "}
              {chart.key_there ? "the hub's key stands in it" : "the hub's key does not stand in it"}
            </span>
          </p>
          <ul class="plain">
            {chart.symptoms.map((symptom, index) => (
              <Finding key={index} symptom={symptom} />
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function Finding({ symptom }: { symptom: Symptom }) {
  return (
    <li>
      <State severity={symptom.blocks ? "bad" : "warn"}>{visible(symptom.what)}</State>{" "}
      <span class="muted">{visibleLine(symptom.where)}</span>
      <Remedy lead={symptom.installer ? "Repair, which installing the key makes:" : "Repair:"} text={symptom.repair} />
      <RawText title="Seen" text={symptom.evidence} />
    </li>
  );
}
