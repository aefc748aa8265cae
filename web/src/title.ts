// Counts in the title and the icon, so that a tab among many says how the fleet is.

import { effect } from "@preact/signals";
import { loaded, tally } from "./store";
import { viewTitle } from "./views";

export function showTally(): void {
  effect(() => {
    const { bad, warn } = tally.value;
    const counts = [bad > 0 ? `${bad} bad` : "", warn > 0 ? `${warn} warn` : ""].filter((part) => part !== "");
    const said = loaded.value && counts.length > 0 ? `(${counts.join(", ")}) ` : "";
    document.title = `${said}${viewTitle.value} · Provewire`;
    showIcon(loaded.value ? bad : 0, loaded.value ? warn : 0);
  });
}

function showIcon(bad: number, warn: number): void {
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (!link) return;
  const address = bad + warn === 0 ? "/favicon.svg" : `data:image/svg+xml,${encodeURIComponent(icon(bad, warn))}`;
  if (link.href !== address) link.href = address;
}

function icon(bad: number, warn: number): string {
  const count = bad > 0 ? bad : warn;
  const [ground, ink] = bad > 0 ? ["#b3261e", "#fff"] : ["#f0b45a", "#1b232e"];
  const text = count > 99 ? "99+" : String(count);
  const size = text.length > 2 ? 14 : 20;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${ground}"/>` +
    `<text x="16" y="${16 + size * 0.36}" font-family="sans-serif" font-weight="700" font-size="${size}" ` +
    `text-anchor="middle" fill="${ink}">${text}</text></svg>`
  );
}
