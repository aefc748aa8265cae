// Several nodes were chosen: what to do with them, shown before it is done.

import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "../api";
import { Dialog } from "../components/dialog";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { may } from "../session";
import { nodes, type NodeRow } from "../store";
import { plural } from "../words";
import { BULK_ACTIONS, type BulkAction, eachOf, type Outcome, type Plan } from "./bulk_actions";
import { chosen, chooseAll } from "./list";

export function BulkBar() {
  const [action, setAction] = useState<BulkAction | null>(null);
  if (chosen.value.size === 0 && action === null) return null;
  return (
    <div class="bulk" role="region" aria-label="What to do with the chosen nodes">
      <strong class="number">{plural(chosen.value.size, "node")} chosen</strong>
      {BULK_ACTIONS.filter((one) => may(one.least)).map((one) => (
        <button key={one.name} type="button" class="quiet" onClick={() => setAction(one)}>{`${one.name} …`}</button>
      ))}
      {may("operator") ? null : <span>An operator can act on them.</span>}
      <button type="button" class="quiet" onClick={() => chooseAll(false)}>Choose none</button>
      {action ? <Bulk action={action} close={() => setAction(null)} /> : null}
    </div>
  );
}

function chosenRows(): NodeRow[] {
  return Array.from(chosen.peek(), (id) => nodes.get(id)?.row.peek()).filter((row) => row !== undefined);
}

function Bulk({ action, close }: { action: BulkAction; close: () => void }) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const [error, setError] = useState("");
  const [stage, setStage] = useState<"asking" | "running" | "done">("asking");
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map());
  const open = useRef(true);
  useEffect(() => {
    action.plan(chosenRows()).then(
      (made) => open.current && setPlan(made),
      (problem: unknown) => open.current && setError(sentence(problem)),
    );
    return () => {
      open.current = false;
    };
  }, []);
  const run = async (made: Plan): Promise<void> => {
    setStage("running");
    await eachOf(made.planned, async ({ row, act }) => {
      const outcome = await act().catch((problem: unknown) => ({ ok: false, says: sentence(problem) }));
      if (open.current) setOutcomes((before) => new Map(before).set(row.id, outcome));
    });
    if (open.current) setStage("done");
  };
  return (
    <Dialog title={action.name} close={close}>
      <Refusal why={error} />
      {plan === null && error === "" ? <p role="status">Asking the hub what would be done; nothing is changed by this.</p> : null}
      {plan ? <Shown plan={plan} outcomes={outcomes} /> : null}
      {plan ? (
        <p class="buttons">
          {stage === "asking" && plan.planned.length > 0 ? (
            <button type="button" class={action.danger ? "danger" : undefined} onClick={() => void run(plan)}>
              {`${action.verb}: ${plural(plan.planned.length, "node")}`}
            </button>
          ) : null}
          <span role="status">{stage === "asking" ? "" : `${outcomes.size} of ${plan.planned.length} done`}</span>
        </p>
      ) : null}
    </Dialog>
  );
}

/** Those that are passed over, the alike together. */
function byReason(plan: Plan): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { row, why } of plan.passedOver) found.set(why, [...(found.get(why) ?? []), row.name]);
  return found;
}

function Shown({ plan, outcomes }: { plan: Plan; outcomes: ReadonlyMap<string, Outcome> }) {
  return (
    <>
      <p>
        {plan.planned.length === 0 ? "This can be done to none of them." : `Would be done to ${plural(plan.planned.length, "node")}:`}
      </p>
      <ul class="plan">
        {plan.planned.map(({ row, says, exactly }) => {
          const outcome = outcomes.get(row.id);
          return (
            <li key={row.id}>
              <span class="name">{row.name}</span>{" "}
              {outcome ? <State severity={outcome.ok ? "ok" : "bad"}>{outcome.says}</State> : <span>{says}</span>}
              {exactly !== "" ? <details><summary class="small">exactly this</summary><pre>{exactly}</pre></details> : null}
            </li>
          );
        })}
      </ul>
      {plan.passedOver.length > 0 ? (
        <>
          <p>{`Passed over, ${plural(plan.passedOver.length, "node")}:`}</p>
          <ul class="plan">
            {Array.from(byReason(plan), ([why, names]) => <li key={why}><span class="name">{names.join(", ")}</span> <State severity="warn">{why}</State></li>)}
          </ul>
        </>
      ) : null}
    </>
  );
}
