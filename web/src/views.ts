// Every view there is: a file in views/ that exports `view` is one; nothing else lists them.

import { computed } from "@preact/signals";
import { match, place, type View } from "./router";

const found = import.meta.glob<{ view: View }>("./views/*.tsx", { eager: true });

export const VIEWS: readonly View[] = Object.values(found).map((module) => module.view);
export const NAVIGATION = VIEWS.filter((view) => view.nav).sort((a, b) => (a.nav?.order ?? 0) - (b.nav?.order ?? 0));

export interface Shown {
  view: View;
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
}

export const shown = computed<Shown | null>(() => {
  const { path, query } = place.value;
  for (const view of VIEWS) {
    const params = match(view.path, path);
    if (params) return { view, params, query };
  }
  return null;
});

export const viewTitle = computed(() => shown.value?.view.title ?? "Not found");
