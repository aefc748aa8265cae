// What happened at a node, and why its sessions ended: with the numbers both sides log.

import { useEffect, useState } from "preact/hooks";
import { useFetched } from "../components/fetched";
import { Refusal } from "../components/refusal";
import { type Severity, State } from "../components/state";
import { clipped, visible, visibleLine } from "../components/terminal_text";
import type { NodeEvent, Reason } from "./bodies";
import { eventsOf, sessionsOf } from "./calls";
import { age, stamp } from "../words";

const EVERY_MS = 10_000;
const DETAIL_CHARS = 500;
const KINDS: Record<string, Severity> = { debug: "info", info: "ok", warning: "warn", error: "bad" };
const STREAMS = [
  { id: "", label: "all" },
  { id: "events", label: "node" },
  { id: "jobs", label: "jobs" },
  { id: "hub", label: "hub" },
] as const;

export function Events({ nodeId }: { nodeId: string }) {
  const [stream, setStream] = useState("");
  const [older, setOlder] = useState<{ events: NodeEvent[]; next: string | null } | null>(null);
  const [why, setWhy] = useState("");
  const newest = useFetched((stop) => eventsOf(nodeId, stream, "", stop), [nodeId, stream], EVERY_MS);
  useEffect(() => setOlder(null), [nodeId, stream]);
  const next = older === null ? (newest.value?.next ?? null) : older.next;
  const more = async () => {
    if (next === null) return;
    try {
      const page = await eventsOf(nodeId, stream, next);
      setOlder({ events: [...(older?.events ?? []), ...page.events], next: page.next });
      setWhy("");
    } catch (error) {
      setWhy((error as Error).message);
    }
  };
  const events = [...(newest.value?.events ?? []), ...(older?.events ?? [])];
  return (
    <section aria-labelledby="events-title">
      <div class="title">
        <h2 id="events-title">Events</h2>
        <div class="ranges" role="group" aria-label="Which events">
          {STREAMS.map((one) => (
            <button
              key={one.id}
              type="button"
              class="quiet"
              aria-pressed={one.id === stream}
              onClick={() => setStream(one.id)}
            >
              {one.label}
            </button>
          ))}
        </div>
      </div>
      <Refusal why={why || newest.error} />
      <ol class="plain events">
        {events.map((event) => (
          <Event key={`${event.source} ${event.epoch} ${event.stream} ${event.seq} ${event.time_ms} ${event.kind}`} event={event} />
        ))}
      </ol>
      {newest.value !== null && events.length === 0 && <p class="empty">Nothing was told yet.</p>}
      {next !== null && (
        <button type="button" class="quiet" onClick={() => void more()}>
          Older
        </button>
      )}
    </section>
  );
}

function Event({ event }: { event: NodeEvent }) {
  const body = Object.entries(event.body).filter(([, value]) => value !== null && value !== "");
  const shown = clipped(visible(event.detail), DETAIL_CHARS);
  const late = event.received_at_ms - event.time_ms;
  return (
    <li>
      <time class="number" dateTime={new Date(event.received_at_ms).toISOString()}>
        {stamp(event.received_at_ms)}
      </time>{" "}
      <State severity={KINDS[event.level] ?? "info"}>{visibleLine(event.kind)}</State>{" "}
      <span class="muted">{event.source === "hub" ? "by the hub" : "by the node"}</span>{" "}
      {late > 60_000 && <span class="muted">(it happened {age(late)} before, by the node's clock) </span>}
      <span class="text">{shown.head + (shown.leftOut > 0 ? " …" : "")}</span>
      {shown.leftOut > 0 && (
        <details>
          <summary class="muted">all of it</summary>
          <pre tabIndex={0}>{visible(event.detail)}</pre>
        </details>
      )}
      {body.length > 0 && (
        <details>
          <summary class="muted">what it carries</summary>
          <pre tabIndex={0}>{visible(JSON.stringify(event.body, null, 2))}</pre>
        </details>
      )}
    </li>
  );
}

export function Sessions({ nodeId }: { nodeId: string }) {
  const sessions = useFetched((stop) => sessionsOf(nodeId, stop), [nodeId], EVERY_MS);
  return (
    <section aria-labelledby="sessions-title">
      <h2 id="sessions-title">Sessions</h2>
      <Refusal why={sessions.error} />
      <div class="frame" tabIndex={0}>
        <table aria-labelledby="sessions-title">
          <thead>
            <tr>
              <th scope="col">Opened</th>
              <th scope="col">Lasted</th>
              <th scope="col">From</th>
              <th scope="col">Why it ended</th>
            </tr>
          </thead>
          <tbody>
            {(sessions.value ?? []).map((one) => (
              <tr key={one.id}>
                <td class="number">{stamp(one.opened_at_ms)}</td>
                <td class="number">
                  {one.closed_at_ms === null
                    ? "open"
                    : one.closed_at_ms === one.opened_at_ms
                      ? "refused"
                      : age(one.closed_at_ms - one.opened_at_ms)}
                </td>
                <td>{visibleLine(one.remote)}</td>
                <td>{one.reason === null ? "" : reasonText(one.reason)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function reasonText(reason: Reason): string {
  return `${reason.code} ${reason.name}: ${visibleLine(reason.detail)}`;
}
