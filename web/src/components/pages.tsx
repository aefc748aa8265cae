// A listing of the hub, a page at a time: the first at once, more when asked for.

import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "../api";

interface Page<Row> {
  rows: readonly Row[];
  next: string | null;
}

export interface Pages<Row> {
  /** null before the first answer. */
  rows: readonly Row[] | null;
  error: string;
  /** null on the last page. */
  more: (() => void) | null;
  /** From the beginning. */
  again: () => void;
}

export function usePages<Row>(read: (after: string | undefined) => Promise<Page<Row>>, keys: readonly unknown[] = []): Pages<Row> {
  const [state, setState] = useState<{ rows: readonly Row[] | null; next: string | null; error: string }>({ rows: null, next: null, error: "" });
  const turn = useRef(0);
  const ask = async (after: string | undefined): Promise<void> => {
    const mine = ++turn.current;
    try {
      const page = await read(after);
      if (mine !== turn.current) return; // another question was asked meanwhile
      setState((before) => ({ rows: after === undefined ? page.rows : [...(before.rows ?? []), ...page.rows], next: page.next, error: "" }));
    } catch (error) {
      if (mine === turn.current) setState((before) => ({ ...before, error: sentence(error) }));
    }
  };
  useEffect(() => {
    void ask(undefined);
    return () => {
      turn.current += 1;
    };
  }, keys);
  const next = state.next;
  return {
    rows: state.rows,
    error: state.error,
    more: next === null ? null : () => void ask(next),
    again: () => void ask(undefined),
  };
}

export function More({ pages }: { pages: Pages<unknown> }) {
  if (pages.more === null) return null;
  return <p class="buttons"><button type="button" class="quiet" onClick={pages.more}>Show more</button></p>;
}
