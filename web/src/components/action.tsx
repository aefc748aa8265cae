// What an operator does to something: first a preview of exactly what will happen, then a confirmation, then how it
// goes, then what came of it. Nothing is done by one click.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "../api";
import { Dialog } from "./dialog";
import { Trouble } from "./state";

type Stage<Plan, Outcome> =
  | { readonly at: "asking" }
  | { readonly at: "preview"; readonly plan: Plan }
  | { readonly at: "running"; readonly plan: Plan; readonly sinceMs: number }
  | { readonly at: "done"; readonly outcome: Outcome }
  | { readonly at: "failed"; readonly why: string };

interface Props<Plan, Outcome> {
  title: string;
  /** Makes the preview; it changes nothing. */
  preview: () => Promise<Plan>;
  shown: (plan: Plan) => ComponentChildren;
  /** What the button says that does it; null where there is nothing to do. */
  verb: (plan: Plan) => string | null;
  apply: (plan: Plan) => Promise<Outcome>;
  outcome: (outcome: Outcome) => ComponentChildren;
  close: () => void;
}

export function ActionDialog<Plan, Outcome>(props: Props<Plan, Outcome>) {
  const [stage, setStage] = useState<Stage<Plan, Outcome>>({ at: "asking" });
  const open = useRef(true);

  useEffect(() => {
    open.current = true;
    void look();
    return () => {
      open.current = false;
    };
  }, []);

  const set = (next: Stage<Plan, Outcome>) => open.current && setStage(next);

  async function look() {
    set({ at: "asking" });
    try {
      set({ at: "preview", plan: await props.preview() });
    } catch (error) {
      set({ at: "failed", why: sentence(error) });
    }
  }

  async function go(plan: Plan) {
    set({ at: "running", plan, sinceMs: Date.now() });
    try {
      set({ at: "done", outcome: await props.apply(plan) });
    } catch (error) {
      set({ at: "failed", why: sentence(error) });
    }
  }

  const verb = stage.at === "preview" ? props.verb(stage.plan) : null;
  return (
    <Dialog title={props.title} close={props.close}>
      {stage.at === "asking" && <p role="status">Looking what would be done. Nothing is changed by this.</p>}
      {(stage.at === "preview" || stage.at === "running") && props.shown(stage.plan)}
      {stage.at === "running" && <Running sinceMs={stage.sinceMs} />}
      {stage.at === "done" && <div role="status">{props.outcome(stage.outcome)}</div>}
      {stage.at === "failed" && <Trouble>{stage.why}</Trouble>}
      <p class="buttons">
        {stage.at === "preview" && verb !== null && (
          <button type="button" onClick={() => void go(stage.plan)}>
            {verb}
          </button>
        )}
        {stage.at === "failed" && (
          <button type="button" class="quiet" onClick={() => void look()}>
            Look again
          </button>
        )}
        {verb !== null && (
          <button type="button" class="quiet" onClick={props.close}>
            Leave it
          </button>
        )}
      </p>
      <p class="muted">What is confirmed here is kept in the audit log, with who asked and from where.</p>
    </Dialog>
  );
}

function Running({ sinceMs }: { sinceMs: number }) {
  const [nowMs, setNowMs] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNowMs(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <p role="status">
      <progress aria-label="under way" /> under way for {Math.max(0, Math.round((nowMs - sinceMs) / 1000))} s; closing
      this does not stop it
    </p>
  );
}
