// Dark, light, or as the system says; kept in this browser.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "provewire.theme";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>(kept());

function kept(): Theme {
  const text = localStorage.getItem(KEY);
  return THEMES.find((one) => one === text) ?? "system";
}

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(KEY, theme.value);
});

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
}
