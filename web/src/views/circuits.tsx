// Circuits: the proving keys there are, how far they can be trusted, and which nodes may get them.

import { useState } from "preact/hooks";
import { sentence } from "../api";
import { CopyButton } from "../components/copy_button";
import { Dialog } from "../components/dialog";
import { useFetched } from "../components/fetched";
import { FileUpload } from "../components/file_upload";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { type View, link } from "../router";
import { may } from "../session";
import { bytes, plural, stamp } from "../words";
import { circuitName, labelsText, parseLabels } from "../circuits/words";
import type { Circuit } from "../node/bodies";
import { allowCircuit, circuitsOf, registerCircuit } from "../node/calls";
import "../node/detail.css";

export const view: View = {
  path: "/circuits",
  title: "Circuits",
  nav: { label: "Circuits", key: "c", order: 2 },
  draw: CircuitsView,
};

const DIGEST_CHARS = 16;

function CircuitsView() {
  const circuits = useFetched(circuitsOf, [], null);
  const [registering, setRegistering] = useState(false);
  const [allowing, setAllowing] = useState<Circuit | null>(null);
  const changed = () => {
    setRegistering(false);
    setAllowing(null);
    circuits.again();
  };
  return (
    <>
      <div class="title">
        <h1>Circuits</h1>
        {may("operator") && (
          <button type="button" onClick={() => setRegistering(true)}>
            Register a circuit
          </button>
        )}
      </div>
      <Refusal why={circuits.error} />
      {circuits.value?.length === 0 && <p class="empty">None is registered yet.</p>}
      <div class="panels">
        {(circuits.value ?? []).map((circuit) => (
          <One key={circuit.id} circuit={circuit} allow={() => setAllowing(circuit)} />
        ))}
      </div>
      {registering && <Register close={() => setRegistering(false)} done={changed} />}
      {allowing !== null && <Allow circuit={allowing} close={() => setAllowing(null)} done={changed} />}
    </>
  );
}

function One({ circuit, allow }: { circuit: Circuit; allow: () => void }) {
  return (
    <article class="panel" aria-label={circuit.name}>
      <h2>{circuit.name}</h2>
      <p>
        <Trust circuit={circuit} />
      </p>
      <dl class="facts">
        <Fact name="curve" value={circuit.curve} />
        <Fact name="key" value={bytes(circuit.zkey_bytes)} />
        <Fact name="wires" value={String(circuit.n_vars)} />
        <Fact name="domain" value={String(circuit.domain_size)} />
        <Fact name="public signals" value={String(circuit.n_public)} />
        <Fact name="registered" value={stamp(circuit.created_at_ms)} />
        <Fact name="goes to" value={labelsText(circuit.node_labels) || "every node"} />
      </dl>
      <p class="mono">
        {circuit.id.slice(0, DIGEST_CHARS)}… <CopyButton text={circuit.id} what="the digest" />
      </p>
      <p class="buttons">
        <a href={`/api/v1/circuits/${encodeURIComponent(circuit.id)}/verification-key`} download="verification_key.json">
          verification_key.json
        </a>
        {may("operator") && <a href={link("/jobs", { submit: circuit.name })}>Hand in a job</a>}
        {may("admin") && (
          <button type="button" class="quiet" onClick={allow}>
            Which nodes
          </button>
        )}
      </p>
    </article>
  );
}

/** A key nobody contributed to was made by one party, who can forge proofs with what it knows. */
function Trust({ circuit }: { circuit: Circuit }) {
  const count = circuit.contributions;
  if (count === null) return <State severity="info">its contributions are not known</State>;
  if (count === 0) {
    return <State severity="bad">unsafe: nobody contributed to this key, so that whoever made it can forge proofs</State>;
  }
  return <State severity="ok">{plural(count, "contribution")}, as its file says</State>;
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
    </div>
  );
}

function Register({ close, done }: { close: () => void; done: () => void }) {
  const [zkey, setZkey] = useState<string | null>(null);
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState("");
  const register = async (event: SubmitEvent) => {
    event.preventDefault();
    if (zkey === null) return;
    setBusy(true);
    setWhy("");
    try {
      await registerCircuit(name, zkey);
      done();
    } catch (error) {
      setWhy(sentence(error));
      setBusy(false);
    }
  };
  const uploaded = (sha256: string | null, file: File | null) => {
    setZkey(sha256);
    if (file !== null && name === "") setName(circuitName(file.name));
  };
  return (
    <Dialog title="Register a circuit" close={close}>
      <form class="stack" onSubmit={(event) => void register(event)}>
        <FileUpload label="Proving key, a .zkey file of Groth16" accept=".zkey" uploaded={uploaded} />
        <label>
          Name
          <input
            required
            maxLength={64}
            pattern="[A-Za-z0-9][A-Za-z0-9._\-]*"
            title="letters, digits, dot, dash, underscore"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <Refusal why={why} />
        <p class="buttons">
          <button type="submit" disabled={busy || zkey === null}>
            {busy ? "The hub looks the key over" : "Register it"}
          </button>
        </p>
      </form>
    </Dialog>
  );
}

function Allow({ circuit, close, done }: { circuit: Circuit; close: () => void; done: () => void }) {
  const [text, setText] = useState(labelsText(circuit.node_labels));
  const [why, setWhy] = useState("");
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await allowCircuit(circuit.id, { node_labels: parseLabels(text) });
      done();
    } catch (error) {
      setWhy(sentence(error));
    }
  };
  return (
    <Dialog title={`Which nodes may get ${circuit.name}`} close={close}>
      <form class="stack" onSubmit={(event) => void save(event)}>
        <p>
          Whoever owns a node can read the witnesses it proves. Jobs of this circuit go only to nodes that have all of
          these labels; jobs that run already are not stopped.
        </p>
        <label>
          Labels, as <code>name=value, name=value</code>; none: every node
          <input value={text} maxLength={1000} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <Refusal why={why} />
        <p class="buttons">
          <button type="submit">
            Save
          </button>
        </p>
      </form>
    </Dialog>
  );
}
