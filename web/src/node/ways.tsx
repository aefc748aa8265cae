// The way in by SSH: whether it was proved, where it leads, and every attempt with all that was said.

import { useState } from "preact/hooks";
import { sentence } from "../api";
import { CopyButton } from "../components/copy_button";
import { useFetched } from "../components/fetched";
import { type Severity, State } from "../components/state";
import { Remedy } from "../components/remedy";
import { visibleLine } from "../components/terminal_text";
import { may } from "../session";
import { Attempts } from "./attempts";
import type { HostKey, Way } from "./bodies";
import { acceptSuggestion, setTarget, tryLogin, wayOf } from "./calls";
import { Refusal } from "../components/refusal";

const EVERY_MS = 10_000;
export const WAY_KINDS: Record<string, Severity> = { proved: "ok", broken: "bad", unproved: "warn", none: "warn" };

/** `changes` grows when something else on the page changed the way in. */
export function Ways({ nodeId, changes }: { nodeId: string; changes: number }) {
  const way = useFetched((stop) => wayOf(nodeId, stop), [nodeId, changes], EVERY_MS);
  const [tries, setTries] = useState(0);
  const [busy, setBusy] = useState("");
  const [why, setWhy] = useState("");
  const [editing, setEditing] = useState(false);
  const act = async (saying: string, work: () => Promise<unknown>) => {
    setBusy(saying);
    setWhy("");
    try {
      await work();
      setEditing(false);
    } catch (error) {
      setWhy(sentence(error));
    }
    setBusy("");
    setTries((count) => count + 1);
    way.again();
  };
  const found = way.value;
  return (
    <section aria-labelledby="ways-title">
      <h2 id="ways-title">Way in by SSH</h2>
      <Refusal why={why || way.error} />
      {found !== null && <Told way={found} />}
      {found !== null && may("operator") && (
        <p class="buttons">
          {found.target !== null && (
            <button
              type="button" class="quiet"
              disabled={busy !== ""}
              onClick={() => void act("Logging in; this may take a while.", () => tryLogin(nodeId))}
            >
              Try the login now
            </button>
          )}
          {found.suggested !== null && found.suggested.target !== found.target && (
            <button
              type="button" class="quiet"
              disabled={busy !== ""}
              onClick={() => void act("Taking it over.", () => acceptSuggestion(nodeId, found.host_keys.length === 0))}
            >
              Accept {visibleLine(found.suggested.target)}
            </button>
          )}
          <button type="button" class="quiet" aria-expanded={editing} onClick={() => setEditing(!editing)}>
            {found.target === null ? "Set the target" : "Change the target"}
          </button>
        </p>
      )}
      {editing && found !== null && (
        <TargetForm way={found} save={(target, keys) => void act("Saving.", () => setTarget(nodeId, target, keys))} />
      )}
      <p role="status">{busy}</p>
      <Attempts nodeId={nodeId} changes={changes + tries} />
    </section>
  );
}

function Told({ way }: { way: Way }) {
  const fallback = way.fallback;
  return (
    <>
      <p>
        <State severity={WAY_KINDS[fallback.state] ?? "info"}>{visibleLine(fallback.sentence)}</State>
      </p>
      <Remedy text={fallback.remedy ?? ""} />
      {way.evidence !== "" && fallback.state === "broken" && <p class="says mono">{visibleLine(way.evidence)}</p>}
      <dl class="facts">
        <div>
          <dt>target</dt>
          <dd>{way.target === null ? "none is set" : `${visibleLine(way.target)} (by ${way.source})`}</dd>
        </div>
        <div>
          <dt>host keys</dt>
          <dd>
            {way.host_keys.length === 0 ? "none is pinned, so no login is possible" : <Keys keys={way.host_keys} />}
          </dd>
        </div>
        {Object.entries(way.jump_keys).map(([name, keys]) => (
          <div key={name}>
            <dt>host keys of {visibleLine(name)}</dt>
            <dd>
              <Keys keys={keys} />
            </dd>
          </div>
        ))}
        {way.suggested !== null && (
          <div>
            <dt>the node says</dt>
            <dd>{visibleLine(way.suggested.target)}</dd>
          </div>
        )}
      </dl>
      {way.host_keys_differ && way.suggested !== null && (
        <div class="trouble" role="alert">
          The node says other host keys than those pinned. Somebody else may answer at
          this address, or the node was made anew.
          <Keys keys={way.suggested.host_keys} />
        </div>
      )}
    </>
  );
}

function Keys({ keys }: { keys: readonly HostKey[] }) {
  return (
    <ul class="plain mono">
      {keys.map((key) => (
        <li key={key.key}>
          {visibleLine(key.key.split(" ", 1)[0] ?? "")} {visibleLine(key.fingerprint)} <CopyButton text={key.key} what="the host key" />
        </li>
      ))}
    </ul>
  );
}

function TargetForm({ way, save }: { way: Way; save: (target: string, keys: string[]) => void }) {
  const [target, setTargetText] = useState(way.target ?? way.suggested?.target ?? "");
  const [keys, setKeys] = useState(way.host_keys.map((key) => key.key).join("\n"));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const lines = keys.split("\n").map((line) => line.trim()).filter(Boolean);
    save(target.trim(), lines);
  };
  return (
    <form class="stack" onSubmit={submit}>
      <label>
        <span>
          Target, as <code>ssh -p PORT user@host</code> or <code>user@host:port</code>
        </span>
        <input required value={target} maxLength={400} onInput={(event) => setTargetText(event.currentTarget.value)} />
      </label>
      <label>
        Host keys, one a line; without one no login is possible
        <textarea rows={3} value={keys} onInput={(event) => setKeys(event.currentTarget.value)} />
      </label>
      <p class="buttons">
        <button type="submit">
          Save
        </button>
      </p>
    </form>
  );
}
