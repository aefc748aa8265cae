// Search, counts, labels, order, saved filters.

import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { useKeys } from "../keys";
import { allRows, tally } from "../store";
import { labelCounts, type Sort, SORT_WORDS, SORTS } from "./filter";
import { filterText, layout, setFilter, setLayout, shownRows, sort } from "./list";
import { forgetSaved, save, saved } from "./saved";

const SEVERITIES = [
  ["bad", "bad"],
  ["warn", "warnings"],
  ["info", "notes"],
  ["ok", "well"],
] as const;
const LABELS_SHOWN = 100;

export function Toolbar() {
  const search = useRef<HTMLInputElement>(null);
  useKeys([{ key: "/", says: "search", act: () => search.current?.focus() }]);
  return (
    <div class="toolbar" role="search">
      <input
        ref={search}
        type="search"
        aria-label="Search nodes"
        placeholder="name, label, words of the state; state:lost gpu:h100 -label:test"
        value={filterText.value}
        onInput={(event) => setFilter(event.currentTarget.value)}
      />
      <Severities />
      <Labels />
      <label>
        <span class="hidden">Order</span>
        <select value={sort.value} onChange={(event) => setFilter(filterText.value, event.currentTarget.value as Sort)}>
          {SORTS.map((one) => <option key={one} value={one}>{SORT_WORDS[one]}</option>)}
        </select>
      </label>
      <SavedFilters />
      <button type="button" class="quiet" onClick={() => setLayout(layout.value === "table" ? "cards" : "table")}>
        {layout.value === "table" ? "Cards" : "Table"}
      </button>
      <span class="count number" role="status">{`${shownRows.value.length} of ${tally.value.all}`}</span>
    </div>
  );
}

function Severities() {
  const words = filterText.value.split(/\s+/);
  return (
    <div class="chips" role="group" aria-label="How they are">
      {SEVERITIES.map(([severity, word]) => {
        const on = words.includes(`is:${severity}`);
        return (
          <button key={severity} type="button" class="chip state" data-severity={severity} aria-pressed={on} onClick={() => toggle(`is:${severity}`, "is:")}>
            <span class="symbol" aria-hidden="true" />
            <span class="number">{tally.value[severity]}</span> {word}
          </button>
        );
      })}
    </div>
  );
}

/** Put a word into the filter, in place of others of its kind; or out of it. */
function toggle(word: string, kind: string): void {
  const words = filterText.peek().split(/\s+/).filter((one) => one !== "");
  const rest = words.filter((one) => !one.startsWith(kind));
  setFilter((words.includes(word) ? rest : [...rest, word]).join(" "));
}

function Labels() {
  const counts = useComputed(() => labelCounts(allRows()).slice(0, LABELS_SHOWN));
  if (counts.value.length === 0) return null;
  const chosen = filterText.value.split(/\s+/).find((word) => word.startsWith("label:"));
  return (
    <label>
      <span class="hidden">Label</span>
      <select
        value={chosen?.slice(6) ?? ""}
        onChange={(event) => toggle(event.currentTarget.value === "" ? chosen ?? "" : `label:${event.currentTarget.value}`, "label:")}
      >
        <option value="">every label</option>
        {counts.value.map(([label, count]) => <option key={label} value={label}>{`${label} (${count})`}</option>)}
      </select>
    </label>
  );
}

function SavedFilters() {
  const naming = useSignal(false);
  const name = useRef<HTMLInputElement>(null);
  const present = saved.value.find((one) => one.text === filterText.value && one.sort === sort.value);
  if (naming.value) {
    return (
      <form
        class="naming"
        onSubmit={(event) => {
          event.preventDefault();
          const text = name.current?.value.trim() ?? "";
          if (text !== "") save({ name: text, text: filterText.value, sort: sort.value });
          naming.value = false;
        }}
      >
        <input ref={name} type="text" aria-label="Name of this filter" maxLength={40} required autofocus />
        <button type="submit">Save</button>
        <button type="button" class="quiet" onClick={() => (naming.value = false)}>Not now</button>
      </form>
    );
  }
  return (
    <div class="naming">
      {saved.value.length > 0 ? (
        <label>
          <span class="hidden">Saved filter</span>
          <select value={present?.name ?? ""} onChange={(event) => apply(event.currentTarget.value)}>
            <option value="">saved filters</option>
            {saved.value.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
          </select>
        </label>
      ) : null}
      {present ? (
        <button type="button" class="quiet" onClick={() => forgetSaved(present.name)}>Forget it</button>
      ) : filterText.value !== "" ? (
        <button type="button" class="quiet" onClick={() => (naming.value = true)}>Save filter</button>
      ) : null}
    </div>
  );
}

function apply(name: string): void {
  const one = saved.peek().find((other) => other.name === name);
  setFilter(one?.text ?? "", one?.sort ?? "severity");
}
