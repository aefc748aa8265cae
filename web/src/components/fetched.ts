// A value of the hub, read again now and then. The last good answer is kept, with when it came.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Fetched<Value> {
  readonly value: Value | null;
  readonly atMs: number | null;
  /** Why the latest reading failed; the value is then of an earlier one. */
  readonly error: string;
  readonly again: () => void;
}

interface State<Value> {
  readonly value: Value | null;
  readonly atMs: number | null;
  readonly error: string;
}

/**
 * Read by `read` at once, whenever `keys` change, and `everyMs` after each answer (never, if null). A hidden page reads
 * nothing and reads at once when it is shown again.
 */
export function useFetched<Value>(
  read: (stop: AbortSignal) => Promise<Value>,
  keys: readonly unknown[],
  everyMs: number | null,
): Fetched<Value> {
  const nothing: State<Value> = { value: null, atMs: null, error: "" };
  const [state, setState] = useState(nothing);
  const wake = useRef<() => void>(() => undefined);
  const every = useRef(everyMs);
  every.current = everyMs;
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let running = false;
    setState(nothing);
    const turn = async () => {
      window.clearTimeout(timer);
      if (running || stop.signal.aborted) return;
      running = true;
      try {
        const value = await read(stop.signal);
        if (!stop.signal.aborted) setState({ value, atMs: Date.now(), error: "" });
      } catch (error) {
        if (!stop.signal.aborted) setState((last) => ({ ...last, error: (error as Error).message }));
      }
      running = false;
      if (every.current !== null && !stop.signal.aborted && !document.hidden) timer = window.setTimeout(turn, every.current);
    };
    const shown = () => !document.hidden && every.current !== null && void turn();
    wake.current = () => void turn();
    document.addEventListener("visibilitychange", shown);
    void turn();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, keys);
  // What was told by other means until now, and is not any more, is read from now on.
  useEffect(() => {
    if (everyMs !== null) wake.current();
  }, [everyMs === null]);
  const again = useCallback(() => wake.current(), []);
  return { ...state, again };
}
