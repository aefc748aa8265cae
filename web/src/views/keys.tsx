// The hub's own SSH key: what it is, how it gets in by hand, and its rotation over all nodes.

import { useState } from "preact/hooks";
import { ActionDialog } from "../components/action";
import { CopyButton } from "../components/copy_button";
import { useFetched } from "../components/fetched";
import { RawText } from "../components/raw_text";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { type View, link } from "../router";
import { may } from "../session";
import { nodes } from "../store";
import { plural, stamp } from "../words";
import type { Rotation, RotationPreview } from "../node/bodies";
import { hubKeys, previewRotation, rotate } from "../node/calls";
import "../node/detail.css";

export const view: View = { path: "/ssh", title: "SSH key", nav: { label: "SSH key", key: "k", order: 4 }, draw: Keys };

const EVERY_MS = 10_000;

function Keys() {
  const keys = useFetched(hubKeys, [], EVERY_MS);
  const [rotating, setRotating] = useState(false);
  const found = keys.value;
  const goesOn = found?.rotation !== null && found?.rotation !== undefined && !found.rotation.done;
  return (
    <div class="listing">
      <div class="title">
        <h1>SSH key of this hub</h1>
        {found !== null && may("operator") && (
          <button type="button" class="quiet" onClick={() => setRotating(true)}>
            {goesOn ? "Go on with the rotation" : "Rotate it"}
          </button>
        )}
      </div>
      <Refusal why={keys.error} />
      {found?.keys.length === 0 && <p class="empty">The hub has no key that it can offer; its log says why.</p>}
      {found?.keys.map((key) => (
        <article key={key.fingerprint} class="panel wide" aria-label={`Key ${key.fingerprint}`}>
          <p class="mono">
            {visibleLine(key.fingerprint)} <span class="muted">{visibleLine(key.path)}</span>
          </p>
          <RawText title="Its public half, for authorized_keys" text={key.public} />
        </article>
      ))}
      {found !== null && found.console_line !== "" && (
        <RawText title="Lets it in, run by hand at a node's console" text={found.console_line} />
      )}
      {found !== null && found.without_way.length > 0 && <WithoutWay ids={found.without_way} />}
      {found?.rotation != null && <Stations rotation={found.rotation} />}
      {rotating && (
        <ActionDialog<RotationPreview, Rotation>
          title="Rotate the hub's SSH key"
          preview={previewRotation}
          shown={(plan) => (
            <>
              <ol>
                {plan.steps.map((step) => (
                  <li key={step}>{step}</li>
                ))}
              </ol>
              <p>
                {plural(plan.nodes, "node")} with a way in; {plan.without_way.length} without one keep the old key until
                they are reached by hand.
              </p>
            </>
          )}
          verb={() => (goesOn ? "Go on" : "Rotate it")}
          apply={(plan) => rotate(plan.token)}
          outcome={(rotation) => <Stations rotation={rotation} />}
          close={() => {
            setRotating(false);
            keys.again();
          }}
        />
      )}
    </div>
  );
}

function WithoutWay({ ids }: { ids: readonly string[] }) {
  return (
    <section aria-labelledby="without-title">
      <h2 id="without-title">Nodes without a way in</h2>
      <ul class="plain inline">
        {ids.map((id) => (
          <li key={id}>
            <NodeLink id={id} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function NodeLink({ id }: { id: string }) {
  return <a href={link(`/nodes/${id}`)}>{visibleLine(nodes.get(id)?.row.peek().name ?? id)}</a>;
}

function Stations({ rotation }: { rotation: Rotation }) {
  return (
    <section aria-labelledby="rotation-title">
      <h2 id="rotation-title">Rotation</h2>
      <p>
        <State severity={rotation.done ? "ok" : "busy"}>{rotation.done ? "done" : "not done yet"}</State>{" "}
        <span class="muted">
          begun {stamp(rotation.started_at_ms)} by {visibleLine(rotation.asked_by)}
        </span>
      </p>
      <p class="mono">
        {visibleLine(rotation.old_fingerprint)} → {visibleLine(rotation.new_fingerprint)}{" "}
        <CopyButton text={rotation.new_fingerprint} what="the new fingerprint" />
      </p>
      {rotation.retired_to !== "" && <p class="muted">The old key is kept at {visibleLine(rotation.retired_to)}.</p>}
      <ul class="plain">
        {rotation.nodes.map((station) => (
          <li key={station.node}>
            <NodeLink id={station.node} />{" "}
            <State severity={station.new_proved ? "ok" : "warn"}>
              {station.new_proved ? "new key proved" : "new key not proved"}
            </State>{" "}
            <State severity={station.old_removed ? "ok" : "info"}>
              {station.old_removed ? "old key removed" : "old key still there"}
            </State>
            {station.detail !== "" && <span class="says"> {visibleLine(station.detail)}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
