// What a look at a node by SSH found, rung by rung: from its name to its clock.

import { useState } from "preact/hooks";
import { useFetched } from "../components/fetched";
import { type Severity, State } from "../components/state";
import { RawText } from "../components/raw_text";
import { visibleLine } from "../components/terminal_text";
import type { Ladder } from "./bodies";
import { ladderOf, probe } from "./calls";
import { Refusal } from "../components/refusal";
import { sentence } from "../api";
import { may } from "../session";
import { nowMs } from "../store";
import { age, stamp } from "../words";

const KINDS: Record<string, Severity> = { ok: "ok", warning: "warn", failed: "bad", unknown: "info" };
const EVERY_MS = 15_000;

const NOT_REACHED = "not reached";

export function LadderPanel({ nodeId, done }: { nodeId: string; done: () => void }) {
  const ladder = useFetched((stop) => ladderOf(nodeId, stop), [nodeId], EVERY_MS);
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState("");
  const look = async () => {
    setBusy(true);
    setWhy("");
    try {
      await probe(nodeId);
      ladder.again();
      done();
    } catch (error) {
      setWhy(sentence(error));
    }
    setBusy(false);
  };
  const found = ladder.value;
  return (
    <section aria-labelledby="ladder-title">
      <div class="title">
        <h3 id="ladder-title">What a look by SSH finds</h3>
        {may("operator") && (
          <button type="button" class="quiet" disabled={busy} onClick={() => void look()}>
            {busy ? "Looking" : "Look now"}
          </button>
        )}
      </div>
      <Refusal why={why || ladder.error} />
      {ladder.atMs !== null && found === null && <p class="empty">Nobody has looked after this node by SSH yet.</p>}
      {found !== null && (
        <>
          <p>
            {visibleLine(found.summary)}{" "}
            <span class="muted number">
              {stamp(found.at_ms)}, {age(nowMs.value - found.at_ms)} ago
            </span>
          </p>
          {found.provers !== "" && <p class="says">{visibleLine(found.provers)}</p>}
          <ol class="plain rungs">
            {found.steps.filter((step) => !isBeyond(step)).map((step) => (
              <li key={step.rung}>
                <State severity={KINDS[step.state] ?? "info"}>
                  {step.rung}: {step.state}
                </State>{" "}
                {visibleLine(step.sentence)}
                {step.detail !== "" && (
                  <details>
                    <summary class="muted">what it printed</summary>
                    <RawText title={`What ${step.rung} printed`} text={step.detail} />
                  </details>
                )}
              </li>
            ))}
            {found.steps.some(isBeyond) && (
              <li>
                <State severity="info">
                  not reached: {found.steps.filter(isBeyond).map((step) => step.rung).join(", ")}
                </State>
              </li>
            )}
          </ol>
        </>
      )}
    </section>
  );
}

/** A rung behind the one that failed: nothing is known of it. */
function isBeyond(step: Ladder["steps"][number]): boolean {
  return step.state === "unknown" && step.sentence === NOT_REACHED;
}
