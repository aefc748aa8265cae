// Handing in a job: a circuit, a witness, how urgent it is.

import { useRef, useState } from "preact/hooks";
import { sentence } from "../api";
import { Dialog } from "../components/dialog";
import { FileUpload } from "../components/file_upload";
import { useFetched } from "../components/fetched";
import { Refusal } from "../components/refusal";
import { go, link } from "../router";
import { bytes } from "../words";
import type { Circuit } from "../node/bodies";
import { circuitsOf, submitJob } from "../node/calls";

export function SubmitDialog({ close, circuit = "" }: { close: () => void; circuit?: string }) {
  const circuits = useFetched(circuitsOf, [], null);
  const [chosen, setChosen] = useState(circuit);
  const [witness, setWitness] = useState<string | null>(null);
  const [priority, setPriority] = useState(0);
  const [label, setLabel] = useState("");
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState("");
  // Asking the same again after a broken connection makes no second job.
  const asked = useRef({ body: "", key: "" });
  const name = chosen || circuits.value?.[0]?.name || "";
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (witness === null) return;
    setBusy(true);
    setWhy("");
    try {
      const wanted = { circuit: name, witness, priority, label };
      const body = JSON.stringify(wanted);
      if (asked.current.body !== body) asked.current = { body, key: newKey() };
      const job = await submitJob(wanted, asked.current.key);
      close();
      go(link(`/jobs/${job.id}`));
    } catch (error) {
      setWhy(sentence(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Hand in a job" close={close}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <Refusal why={circuits.error} />
        {circuits.value?.length === 0 && (
          <p class="empty">
            No circuit is registered yet: <a href={link("/circuits")}>register one</a> first.
          </p>
        )}
        <label>
          Circuit
          <select value={name} required onChange={(event) => setChosen(event.currentTarget.value)}>
            {(circuits.value ?? []).map((one) => (
              <option key={one.id} value={one.name}>
                {one.name} ({told(one)})
              </option>
            ))}
          </select>
        </label>
        <FileUpload label="Witness, a .wtns file of that circuit" accept=".wtns" uploaded={setWitness} />
        <label>
          Priority; higher goes first
          <input
            type="number"
            min={-1000}
            max={1000}
            value={priority}
            onInput={(event) => setPriority(Math.trunc(event.currentTarget.valueAsNumber) || 0)}
          />
        </label>
        <label>
          Label, for people
          <input maxLength={128} value={label} onInput={(event) => setLabel(event.currentTarget.value)} />
        </label>
        <Refusal why={why} />
        <p class="buttons">
          <button type="submit" disabled={busy || witness === null || name === ""}>
            {busy ? "The hub checks that they belong together" : "Hand it in"}
          </button>
        </p>
      </form>
    </Dialog>
  );
}

function told(circuit: Circuit): string {
  return `${circuit.curve}, ${circuit.n_vars} wires, ${bytes(circuit.zkey_bytes)}`;
}

function newKey(): string {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(random, (one) => one.toString(16).padStart(2, "0")).join("");
}
