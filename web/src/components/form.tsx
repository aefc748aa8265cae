// A form that asks the hub for something: busy while it does, and the hub's own sentence where it refuses.

import { type ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { sentence } from "../api";
import { Refusal } from "./refusal";

interface Props {
  /** What the button says. */
  verb: string;
  send: (fields: FormData) => Promise<void>;
  children: ComponentChildren;
  danger?: boolean;
}

export function Form({ verb, send, children, danger = false }: Props) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await send(new FormData(event.currentTarget as HTMLFormElement));
    } catch (problem) {
      setError(sentence(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="fields" onSubmit={(event) => void submit(event)}>
      {children}
      <Refusal why={error} />
      <p class="buttons"><button type="submit" class={danger ? "danger" : undefined} disabled={busy}>{verb}</button></p>
    </form>
  );
}

/** A field's text. */
export function text(fields: FormData, name: string): string {
  const value = fields.get(name);
  return typeof value === "string" ? value : "";
}
