// Text of strangers in a `pre`: whole, with what cannot be seen written out, and a button to copy it as it came.

import { useState } from "preact/hooks";
import { CopyButton } from "./copy_button";
import { clipped, visible } from "./terminal_text";

const CHARS_SHOWN = 20_000;

interface Props {
  title: string;
  text: string;
  /** Said in place of an empty text. */
  empty?: string;
  copy?: boolean;
}

export function RawText({ title, text, empty, copy = true }: Props) {
  const [whole, setWhole] = useState(false);
  if (text === "" && empty === undefined) return null;
  const shown = clipped(visible(text), whole ? Number.POSITIVE_INFINITY : CHARS_SHOWN);
  return (
    <figure class="raw">
      <figcaption>
        {title} {copy && text !== "" && <CopyButton text={text} what={title} />}
      </figcaption>
      <pre tabIndex={0} aria-label={title}>
        {text === "" ? empty : shown.head}
        {shown.leftOut > 0 && `\n[... ${shown.leftOut} characters ...]\n${shown.tail}`}
      </pre>
      {shown.leftOut > 0 && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show all of it
        </button>
      )}
    </figure>
  );
}

const KINDS: Record<string, string> = { "+": "added", "-": "removed", "@": "place" };

/** A unified diff: its signs stay, colour comes on top of them. */
export function Diff({ text }: { text: string }) {
  if (text === "") return null;
  const lines = visible(text).replace(/\n$/, "").split("\n");
  return (
    <figure class="raw">
      <figcaption>
        What changes in the file <CopyButton text={text} what="the diff" />
      </figcaption>
      <pre tabIndex={0} class="diff" aria-label="What changes in the file">
        {lines.map((line, index) => (
          <span key={index} class={/^(\+\+\+|---) /.test(line) ? "place" : (KINDS[line[0] ?? ""] ?? "")}>
            {`${line}\n`}
          </span>
        ))}
      </pre>
    </figure>
  );
}
