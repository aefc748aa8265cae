// The hub's words, where what stands in backticks is a command to be copied.

import { CopyButton } from "./copy_button";
import { visible } from "./terminal_text";

export function Worded({ text }: { text: string }) {
  const parts = visible(text).split("`");
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 0 ? (
          part
        ) : (
          <span key={index}>
            <code>{part}</code> <CopyButton text={part} what={`the command ${part}`} />
          </span>
        ),
      )}
    </>
  );
}

export function Remedy({ text, lead = "What to do:" }: { text: string; lead?: string }) {
  if (text === "") return null;
  return (
    <p class="says">
      <strong>{lead}</strong> <Worded text={text} />
    </p>
  );
}
