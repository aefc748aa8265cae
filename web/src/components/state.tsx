// How something is: a symbol of its own shape and the word beside it, never colour alone.

import type { ComponentChildren } from "preact";

export type Severity = "ok" | "info" | "warn" | "bad" | "busy";

export function severityOf(text: string): Severity {
  return text === "ok" || text === "warn" || text === "bad" || text === "busy" ? text : "info";
}

export function State({ severity, children }: { severity: Severity; children: ComponentChildren }) {
  return (
    <span class="state" data-severity={severity}>
      <span class="symbol" aria-hidden="true" />
      <span>{children}</span>
    </span>
  );
}

/** What went wrong, in the hub's own sentence. */
export function Trouble({ children }: { children: ComponentChildren }) {
  return (
    <p class="trouble" role="alert">
      {children}
    </p>
  );
}
