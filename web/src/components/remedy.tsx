// What to do, in the hub's words: what stands in backticks there is a command, to be copied.

import { CopyButton } from "./copy_button";
import { visibleLine } from "./terminal_text";

export function Remedy({ text, lead = "What to do:" }: { text: string; lead?: string }) {
  if (text === "") return null;
  return (
    <p class="says">
      <strong>{lead}</strong>{" "}
      {visibleLine(text)
        .split("`")
        .map((part, index) =>
          index % 2 === 0 ? (
            part
          ) : (
            <span key={index} class="command">
              <code>{part}</code> <CopyButton text={part} what={`the command ${part}`} />
            </span>
          ),
        )}
    </p>
  );
}
