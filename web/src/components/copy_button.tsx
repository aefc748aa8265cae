// A button that puts a text on the clipboard, and says whether it did.

import { useEffect, useState } from "preact/hooks";

const SAID_MS = 2500;

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (said === "") return undefined;
    const timer = window.setTimeout(() => setSaid(""), SAID_MS);
    return () => window.clearTimeout(timer);
  }, [said]);
  const copy = async () => setSaid((await copied(text)) ? "Copied" : "Select it and press Ctrl+C");
  return (
    <span class="copy">
      <button type="button" class="quiet" aria-label={`Copy ${what}`} onClick={copy}>
        Copy
      </button>
      <span role="status">{said}</span>
    </span>
  );
}

/** Without TLS a browser has no clipboard for pages; the old way works there. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "hidden";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
