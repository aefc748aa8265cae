// The live tail of a node's log. What is shown is bounded; a paused tail holds no connection, and goes on from the last
// record it has, so that pausing costs neither side anything.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Severity, State } from "../components/state";
import { visible, visibleLine } from "../components/terminal_text";
import { logStream } from "./calls";
import type { LogFilter, LogRecord, LogRow, Tail } from "./log_filter";
import { EVERYTHING, LEVELS, NO_ROWS, fieldsLine, isLevel, parseFilter, queryOf, withRows } from "./log_filter";
import { stamp } from "../words";

const TAIL_RECORDS = 200;
const TYPED_MS = 300;
const DRAW_MS = 200;
const AGAIN_MS = 5000;
const KINDS: Record<string, Severity> = { debug: "info", info: "ok", warning: "warn", error: "bad" };

export function Logs({ nodeId }: { nodeId: string }) {
  const [filter, setFilter] = useState<LogFilter>(EVERYTHING);
  const [paused, setPaused] = useState(false);
  const { tail, state, clear } = useTail(nodeId, filter, paused);
  const list = useRef<HTMLOListElement>(null);
  const stuck = useRef(true);

  useEffect(() => {
    const element = list.current;
    if (element !== null && stuck.current) element.scrollTop = element.scrollHeight;
  }, [tail]);

  const scrolled = () => {
    const element = list.current;
    if (element !== null) stuck.current = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
  };
  return (
    <section aria-labelledby="logs-title">
      <div class="title">
        <h2 id="logs-title">Log</h2>
        <Filters filter={filter} setFilter={setFilter} />
        <button type="button" class="quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? "Go on" : "Pause"}
        </button>
        <button type="button" class="quiet" onClick={clear}>
          Clear
        </button>
        <span role="status" class="muted">
          {paused ? "paused; nothing is lost, it goes on where it stopped" : state}
        </span>
      </div>
      {tail.dropped > 0 && <p class="muted">{tail.dropped} older records left this view; the hub has them.</p>}
      <ol ref={list} class="log" tabIndex={0} aria-label="Log records, newest last" onScroll={scrolled}>
        {tail.rows.map((row) =>
          row.kind === "log" ? (
            <Record key={row.record.id} record={row.record} />
          ) : (
            <li key={`skipped ${row.id}`} class="skipped">
              <State severity="warn">{row.records} records passed over: this page was too slow. They can be read as a range.</State>
            </li>
          ),
        )}
      </ol>
      {tail.rows.length === 0 && <p class="empty">No record fits yet.</p>}
    </section>
  );
}

function Record({ record }: { record: LogRecord }) {
  const fields = fieldsLine(record.fields);
  return (
    <li data-level={record.level}>
      <time class="number" dateTime={new Date(record.node_time_ms).toISOString()}>
        {stamp(record.node_time_ms)}
      </time>{" "}
      <State severity={KINDS[record.level] ?? "info"}>{record.level}</State>{" "}
      <span class="source">{visibleLine(record.source)}</span>{" "}
      <span class="text">{visible(record.text)}</span>
      {fields !== "" && <span class="fields"> {visibleLine(fields)}</span>}
    </li>
  );
}

function Filters({ filter, setFilter }: { filter: LogFilter; setFilter: (filter: LogFilter) => void }) {
  const [typed, setTyped] = useState("");
  const [level, setLevel] = useState(filter.level);
  useEffect(() => {
    const timer = window.setTimeout(() => {
      const next = parseFilter(typed, { ...EVERYTHING, level });
      if (queryOf(next).toString() !== queryOf(filter).toString()) setFilter(next);
    }, TYPED_MS);
    return () => window.clearTimeout(timer);
  }, [typed, level]);
  return (
    <>
      <label class="inline">
        Level{" "}
        <select value={level} onChange={(event) => isLevel(event.currentTarget.value) && setLevel(event.currentTarget.value)}>
          {LEVELS.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <label class="inline grow">
        <span class="hidden">Filter</span>
        <input
          type="search"
          value={typed}
          maxLength={400}
          placeholder="text, source:worker, level:error"
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
    </>
  );
}

function useTail(nodeId: string, filter: LogFilter, paused: boolean): { tail: Tail; state: string; clear: () => void } {
  const [tail, setTail] = useState<Tail>(NO_ROWS);
  const [state, setState] = useState("connecting");
  const [turn, setTurn] = useState(0);
  const kept = useRef<{ key: string; tail: Tail }>({ key: "", tail: NO_ROWS });
  const key = `${nodeId} ${queryOf(filter).toString()}`;

  useEffect(() => {
    if (kept.current.key !== key) {
      kept.current = { key, tail: NO_ROWS };
      setTail(NO_ROWS);
    }
    if (paused) return undefined;
    const query = queryOf(filter);
    const after = kept.current.tail.after;
    if (after === null) query.set("tail", String(TAIL_RECORDS));
    else query.set("after", String(after));
    const source = new EventSource(logStream(nodeId, query));
    const waiting: LogRow[] = [];
    let timer = 0;
    let again = 0;
    const draw = () => {
      timer = 0;
      kept.current.tail = withRows(kept.current.tail, waiting.splice(0));
      setTail(kept.current.tail);
    };
    const take = (row: LogRow) => {
      waiting.push(row);
      if (timer === 0) timer = window.setTimeout(draw, DRAW_MS);
    };
    source.addEventListener("open", () => setState("follows"));
    source.addEventListener("log", (event) => take({ kind: "log", record: JSON.parse(event.data) as LogRecord }));
    source.addEventListener("skipped", (event) => {
      const told = JSON.parse(event.data) as { records: number; until: number };
      take({ kind: "skipped", id: told.until, records: told.records });
    });
    source.addEventListener("beat", () => setState("follows"));
    source.addEventListener("error", () => {
      setState("connecting again");
      // A browser comes back by itself unless it was refused: the hub was full, or restarts behind a proxy.
      if (source.readyState === EventSource.CLOSED) again = window.setTimeout(() => setTurn(turn + 1), AGAIN_MS);
    });
    return () => {
      source.close();
      window.clearTimeout(timer);
      window.clearTimeout(again);
      draw();
    };
  }, [key, paused, turn]);

  const clear = () => {
    kept.current.tail = { ...NO_ROWS, after: kept.current.tail.after };
    setTail(kept.current.tail);
  };
  return { tail, state, clear };
}
