// Filters somebody gave a name to; kept in this browser.

import { signal } from "@preact/signals";
import { read, type Saved, SAVED_MAX } from "./saved_filters";

const KEY = "provewire.filters";

export const saved = signal<readonly Saved[]>(read(localStorage.getItem(KEY)));

export function save(one: Saved): void {
  keep([one, ...saved.value.filter((other) => other.name !== one.name)].slice(0, SAVED_MAX));
}

export function forgetSaved(name: string): void {
  keep(saved.value.filter((one) => one.name !== name));
}

function keep(list: readonly Saved[]): void {
  saved.value = list;
  localStorage.setItem(KEY, JSON.stringify(list));
}
