// Where we are stands after the # of the address: the hub serves one document, and a link can be sent to a colleague.

import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Role } from "./session";

export { match } from "./address";

export interface ViewProps {
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
}

/** What each file of views/ exports as `view`. */
export interface View {
  /** "/" or "/nodes/:id"; the parts after a colon become `params`. */
  path: string;
  /** In the browser's title and as the page's heading for those who hear it. */
  title: string;
  /** An entry of the navigation; `key` goes there after g. */
  nav?: { label: string; key: string; order: number };
  /** Who may see it; "viewer" if left out. */
  least?: Role;
  draw: (props: ViewProps) => ComponentChildren;
}

const hash = signal(location.hash);
window.addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const place = computed(() => {
  const [path = "/", query = ""] = hash.value.replace(/^#/, "").split("?", 2);
  return { path: path === "" ? "/" : path, query: new URLSearchParams(query) };
});

/** An address within the page, for `href`. */
export function link(path: string, query: Record<string, string | undefined> = {}): string {
  const text = new URLSearchParams(Object.entries(query).filter((item): item is [string, string] => !!item[1])).toString();
  return `#${path}${text === "" ? "" : `?${text}`}`;
}

export function go(to: string): void {
  location.hash = to.replace(/^#/, "");
}

/** Change the address without a new entry in the history: for filters that change with each key. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  hash.value = location.hash;
}
