// The keyboard: keys of the page and of its present view. Never while somebody types, never with a modifier.

import { useLayoutEffect } from "preact/hooks";
import { go, link } from "./router";
import { may } from "./session";
import { NAVIGATION } from "./views";

export interface Key {
  /** "j", "/", "Enter", or two after each other: "g f". */
  key: string;
  says: string;
  act: () => void;
}

const CHORD_MS = 1_200;
const bound: Key[][] = [];
let first = "";
let firstMs = 0;

/** Keys of a component, as long as it is there, from the moment it can be seen; those bound last go first. */
export function useKeys(keys: Key[]): void {
  useLayoutEffect(() => {
    bound.push(keys);
    return () => {
      bound.splice(bound.indexOf(keys), 1);
    };
  });
}

/** All keys that work now, for the help. */
export function activeKeys(): Key[] {
  return [...NAVIGATION.filter((view) => may(view.least ?? "viewer")).map(goingTo), ...bound.flat()];
}

function goingTo(view: (typeof NAVIGATION)[number]): Key {
  return { key: `g ${view.nav?.key}`, says: `go to ${view.nav?.label}`, act: () => go(link(view.path)) };
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && event.target instanceof HTMLElement && event.target.closest("a, button, summary")) return;
  const chord = Date.now() - firstMs < CHORD_MS && first !== "" ? `${first} ${event.key}` : event.key;
  const keys = activeKeys().reverse();
  const key = keys.find((one) => one.key === chord);
  first = key || chord !== event.key ? "" : event.key;
  firstMs = Date.now();
  if (key) {
    event.preventDefault();
    key.act();
  }
});
