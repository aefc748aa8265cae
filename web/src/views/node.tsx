// One node: first how it is and what to do, then everything that says why.

import { Fragment } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { Remedy } from "../components/remedy";
import { type Severity, State, severityOf } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { jobsInView, nodeInView } from "../live";
import { type View, type ViewProps, link, replace } from "../router";
import { may } from "../session";
import { jobs, loaded, nodes, nowMs, wholeNode } from "../store";
import { age, duration, stamp } from "../words";
import type { Node } from "../node/bodies";
import { Charts } from "../node/charts";
import { Engines } from "../node/engines";
import { Events, Sessions, reasonText } from "../node/events";
import { Gpus } from "../node/gpus";
import { LadderPanel } from "../node/ladder";
import { Logs } from "../node/logs";
import { RecoveryPanel } from "../node/recovery";
import { RevokeButton } from "../node/revoke";
import { WAY_KINDS, Ways } from "../node/ways";
import "../node/detail.css";

export const view: View = { path: "/nodes/:id", title: "Node", draw: NodeView };

const SKEW_SHOWN_MS = 2000;
const SKEW_ALARM_MS = 30_000;
const HEARD: Record<string, Severity> = { live: "ok", stale: "warn", lost: "bad", refused: "bad" };
const PROVING: Record<string, Severity> = { proving: "busy", idle: "ok", unable: "bad" };

function NodeView({ params, query }: ViewProps) {
  const id = params["id"] ?? "";
  const [changes, setChanges] = useState(0);
  useLayoutEffect(() => {
    nodeInView.value = id;
    jobsInView.value = true;
    return () => {
      nodeInView.value = null;
      jobsInView.value = false;
    };
  }, [id]);
  const node = wholeNode.value;
  if (node === null || node.id !== id) return <Waiting id={id} />;
  const changed = () => setChanges((count) => count + 1);
  return <Shown key={id} node={node} query={query} changes={changes} changed={changed} />;
}

interface ShownProps {
  node: Node;
  query: URLSearchParams;
  changes: number;
  changed: () => void;
}

function Shown({ node, query, changes, changed }: ShownProps) {
  const id = node.id;
  // As it was when it was opened: nothing moves away from under whoever reads or types.
  const [silent] = useState(() => !isHeard(node));
  const help = (
    <Fragment key="help">
      <Ways nodeId={id} changes={changes} />
      <LadderPanel nodeId={id} done={changed} />
      <RecoveryPanel nodeId={id} nodeName={node.name} changed={changed} />
    </Fragment>
  );
  const readings = (
    <Fragment key="readings">
      <OfThen node={node} />
      <Engines node={node} jobs={jobs.value} />
      <Gpus node={node} />
      <Charts
        node={node}
        range={query.get("range") ?? "1h"}
        setRange={(range) => replace(link(`/nodes/${id}`, { range }))}
      />
    </Fragment>
  );
  return (
    <div class="detail">
      <Top node={node} />
      <Parts silent={silent} />
      {silent ? [help, readings] : [readings, help]}
      <Logs nodeId={id} />
      <Events nodeId={id} />
      <Sessions nodeId={id} />
      <About node={node} />
    </div>
  );
}

function isHeard(node: Node): boolean {
  return node.lights.heard.state === "live" || node.lights.heard.state === "stale";
}

/** What a silent node said last looks like now, and is not. */
function OfThen({ node }: { node: Node }) {
  const bySsh = node.fallback.via_ssh_at_ms;
  const at = bySsh ?? node.last_heard_at_ms;
  if (at === null || (isHeard(node) && bySsh === null)) return null;
  return (
    <p class="then">
      <State severity="warn">
        {bySsh === null
          ? `It is not heard. Workers, jobs and cards are as they were at ${stamp(at)}.`
          : `Workers, jobs and cards are as the node said by SSH at ${stamp(bySsh)}, not over a session.`}
      </State>
    </p>
  );
}

function Waiting({ id }: { id: string }) {
  if (!loaded.value || nodes.has(id)) return <p class="empty">Waiting for the hub.</p>;
  return (
    <p class="empty">
      There is no node {id}: it was revoked, or the address is wrong. <a href={link("/")}>The fleet</a> is there.
    </p>
  );
}

function Top({ node }: { node: Node }) {
  const said = node.sentence;
  const heard = node.lights.heard;
  const proving = node.lights.proving;
  return (
    <section class="top" data-severity={severityOf(said.severity)} aria-label="How it is">
      <h1>{visibleLine(node.name)}</h1>
      <p class="verdict" role="status">
        <State severity={severityOf(said.severity)}>{visibleLine(said.text)}</State>
      </p>
      {said.cause !== "" && (
        <p class="says">
          <strong>{said.certain ? "Why:" : "Likely why:"}</strong> {visibleLine(said.cause)}
        </p>
      )}
      <Remedy text={said.remedy} />
      <ul class="lights">
        <li>
          <span class="muted">Heard from</span> <State severity={HEARD[heard.state] ?? "info"}>{visibleLine(heard.text)}</State>{" "}
          {node.last_heard_at_ms !== null && (
            <span class="muted number">{age(nowMs.value - node.last_heard_at_ms)} ago</span>
          )}
        </li>
        <li>
          <span class="muted">Proving</span> <State severity={PROVING[proving.state] ?? "info"}>{visibleLine(proving.text)}</State>
        </li>
        <li>
          <span class="muted">Way in by SSH</span>{" "}
          <State severity={WAY_KINDS[node.fallback.state] ?? "info"}>{visibleLine(node.fallback.sentence)}</State>
        </li>
        <Skew node={node} />
      </ul>
      {node.last_reason !== null && node.session === null && (
        <p class="muted">The last session ended: {reasonText(node.last_reason)}</p>
      )}
    </section>
  );
}

const PARTS = [
  ["engines-title", "Proving"],
  ["gpus-title", "GPUs"],
  ["charts-title", "Charts"],
  ["ways-title", "SSH"],
  ["recovery-title", "Put it right"],
  ["logs-title", "Log"],
  ["events-title", "Events"],
  ["sessions-title", "Sessions"],
] as const;

const HELP: ReadonlySet<string> = new Set(["ways-title", "recovery-title"]);
/** Of one that was silent when it was opened: what helps stands first. */
const PARTS_SILENT = [...PARTS.filter(([id]) => HELP.has(id)), ...PARTS.filter(([id]) => !HELP.has(id))];

/** What stands after # in the address is the view; so these are buttons. */
function Parts({ silent }: { silent: boolean }) {
  return (
    <nav class="parts" aria-label="Parts of this view">
      {(silent ? PARTS_SILENT : PARTS).map(([id, name]) => (
        <button key={id} type="button" class="quiet" onClick={() => showPart(id)}>
          {name}
        </button>
      ))}
    </nav>
  );
}

function showPart(id: string): void {
  const heading = document.getElementById(id);
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
  heading?.scrollIntoView({ block: "start" });
}

function Skew({ node }: { node: Node }) {
  const skewMs = node.clock_skew_ms ?? 0;
  if (Math.abs(skewMs) <= SKEW_SHOWN_MS) return null;
  return (
    <li>
      <span class="muted">Clock</span>{" "}
      <State severity={Math.abs(skewMs) > SKEW_ALARM_MS ? "warn" : "info"}>
        {duration(Math.abs(skewMs))} {skewMs > 0 ? "ahead of" : "behind"} the hub's
      </State>
    </li>
  );
}

function About({ node }: { node: Node }) {
  const host = node.status?.host ?? null;
  const facts: [string, string | null][] = [
    ["id", node.id],
    ["host name", node.status?.hostname ?? null],
    ["address", node.remote || null],
    ["agent", node.version || null],
    ["capabilities", node.capabilities.join(", ") || null],
    ["labels", Object.entries(node.labels).map(([name, value]) => `${name}=${value}`).join(", ") || null],
    ["enrolled", stamp(node.enrolled_at_ms)],
    ["session since", node.session_opened_at_ms === null ? null : stamp(node.session_opened_at_ms)],
    ["kernel", host?.kernel ?? null],
    ["container", host?.container ?? null],
    ["up", host?.uptime_s == null ? null : duration(1000 * host.uptime_s)],
    ["boot", node.boot_id || null],
    ["epoch", node.epoch || null],
  ];
  return (
    <section aria-labelledby="about-title">
      <div class="title">
        <h2 id="about-title">About it</h2>
        {may("operator") && <RevokeButton node={node} />}
      </div>
      <dl class="facts">
        {facts.map(([name, value]) =>
          value === null ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{visibleLine(value)}</dd>
            </div>
          ),
        )}
      </dl>
    </section>
  );
}
