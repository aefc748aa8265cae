// One job: where it is, what took how long, why it came to nothing, or its proof.

import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { ActionDialog } from "../components/action";
import { labelsText } from "../circuits/words";
import { CopyButton } from "../components/copy_button";
import { useFetched } from "../components/fetched";
import { RawText } from "../components/raw_text";
import { Refusal } from "../components/refusal";
import { type Severity, State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { Waterfall } from "../components/waterfall";
import { type SeenPhase, jobBars, withPhase } from "../components/waterfall_layout";
import { jobsInView } from "../live";
import { type View, type ViewProps, link } from "../router";
import { may } from "../session";
import { jobs, nowMs } from "../store";
import { duration, stamp } from "../words";
import { Downloads, JobState, Meter, Took } from "../jobs/parts";
import { OPEN, troubles } from "../jobs/words";
import type { Job } from "../node/bodies";
import { cancelJob, jobOf } from "../node/calls";
import "../node/detail.css";

export const view: View = { path: "/jobs/:id", title: "Job", draw: JobView };

const OUTCOMES: Readonly<Record<string, Severity>> = { done: "ok", cancelled: "info", declined: "info" };
const OPEN_EVERY_MS = 5000;

function JobView({ params }: ViewProps) {
  const id = params["id"] ?? "";
  const [cancelling, setCancelling] = useState(false);
  const [seen, setSeen] = useState<readonly SeenPhase[]>([]);
  useLayoutEffect(() => {
    jobsInView.value = true;
    return () => {
      jobsInView.value = false;
    };
  }, []);
  const live = jobs.value?.get(id) ?? null;
  // Why it waits changes with the fleet, and is told to who asks.
  const asks = live === null || live.state === "queued";
  const fetched = useFetched((stop) => jobOf(id, stop), [id], asks ? OPEN_EVERY_MS : null);
  // The live picture has no attempts; they are read anew when it shows another state or attempt.
  const state = live === null ? "" : `${live.state} ${live.attempt} ${live.last_failure?.attempt ?? 0}`;
  useEffect(() => {
    if (state !== "") fetched.again();
  }, [state]);
  const whole = fetched.value;
  const job = useMemo(
    () => (live === null || whole === null ? (live ?? whole) : { ...live, attempts: whole.attempts ?? [] }),
    [live, whole],
  );
  useEffect(() => {
    if (job !== null) setSeen((before) => withPhase(before, job.phase, nowMs.peek()));
  }, [job?.phase, job?.attempt]);
  useEffect(() => setSeen([]), [id, job?.attempt]);
  if (job === null) return fetched.error === "" ? <p class="empty">Waiting for the hub.</p> : <Refusal why={fetched.error} />;
  return (
    <div class="detail">
      <section class="top" aria-label="How it is">
        <h1>
          {visibleLine(job.circuit)} {job.label !== "" && <span class="label">{visibleLine(job.label)}</span>}
        </h1>
        <p class="verdict" role="status">
          <JobState job={job} /> <Meter job={job} />
        </p>
        <p>
          <Took job={job} />{" "}
          {job.node !== null && (
            <>
              on <a href={link(`/nodes/${job.node}`)}>{visibleLine(job.node_name ?? job.node)}</a>
            </>
          )}
        </p>
        {job.state === "queued" && whole?.waits_for && (
          <p>
            <State severity="warn">{visibleLine(whole.waits_for)}</State>
          </p>
        )}
        {troubles(job).map((one) => (
          <RawText key={one.title} title={visibleLine(one.title)} text={one.text} />
        ))}
        <p class="buttons">
          <Downloads job={job} />
          {job.state === "done" && (
            <a
              href={`/api/v1/circuits/${encodeURIComponent(job.circuit_id)}/verification-key`}
              download="verification_key.json"
            >
              verification_key.json
            </a>
          )}
          {OPEN.has(job.state) && may("operator") && (
            <button type="button" class="danger" onClick={() => setCancelling(true)}>
              Cancel it
            </button>
          )}
        </p>
        {job.state === "done" && <Verify />}
      </section>
      <section aria-labelledby="times-title">
        <h2 id="times-title">What took how long</h2>
        <Bars job={job} seen={seen} />
        <Phases job={job} />
      </section>
      <Attempts job={job} />
      <Facts job={job} />
      {cancelling && <Cancel job={job} close={() => setCancelling(false)} done={fetched.again} />}
    </div>
  );
}

function Bars({ job, seen }: { job: Job; seen: readonly SeenPhase[] }) {
  const bars = useMemo(() => jobBars(job, seen), [job, seen]);
  return <Waterfall bars={bars} nowMs={OPEN.has(job.state) ? nowMs.value : 0} label="What took how long" />;
}

function Phases({ job }: { job: Job }) {
  if (Object.keys(job.timings_ms).length === 0) return null;
  return <p class="muted">Phases are as the node tells them, one after the other; the hub's own times are around them.</p>;
}

const COMMAND = "snarkjs groth16 verify verification_key.json public.json proof.json";

function Verify() {
  return (
    <p class="muted">
      The hub verified it. Anybody can again: <code>{COMMAND}</code> <CopyButton text={COMMAND} what="the command" />
    </p>
  );
}

function Attempts({ job }: { job: Job }) {
  const attempts = job.attempts ?? [];
  if (attempts.length === 0) return null;
  return (
    <section aria-labelledby="attempts-title">
      <h2 id="attempts-title">Attempts</h2>
      <ol class="plain events">
        {[...attempts].reverse().map((one) => (
          <li key={one.attempt}>
            <State severity={one.outcome === null ? "busy" : (OUTCOMES[one.outcome] ?? "bad")}>
              {one.attempt}: {one.outcome ?? one.state}
            </State>{" "}
            on <a href={link(`/nodes/${one.node}`)}>{visibleLine(one.node_name)}</a>
            {one.device !== "" && ` (${visibleLine(one.device)})`}{" "}
            <span class="muted number">
              {stamp(one.assigned_at_ms)}
              {one.ended_at_ms !== null && `, ${duration(one.ended_at_ms - one.assigned_at_ms)}`}
            </span>
            {one.detail !== "" && (
              <RawText title={one.code === null ? "What was said" : `What was said, code ${one.code}`} text={one.detail} />
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Facts({ job }: { job: Job }) {
  const facts: [string, string | null][] = [
    ["id", job.id],
    ["circuit", job.circuit_id],
    ["priority", String(job.priority)],
    ["goes only to nodes with", labelsText(job.node_labels) || null],
    ["handed in", stamp(job.created_at_ms)],
    ["began", job.started_at_ms === null ? null : stamp(job.started_at_ms)],
    ["ended", job.ended_at_ms === null ? null : stamp(job.ended_at_ms)],
  ];
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">About it</h2>
      <dl class="facts">
        {facts.map(([name, value]) =>
          value === null ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="mono">{value}</dd>
            </div>
          ),
        )}
      </dl>
    </section>
  );
}

function Cancel({ job, close, done }: { job: Job; close: () => void; done: () => void }) {
  return (
    <ActionDialog
      title="Cancel this job"
      preview={async () => job.node_name}
      shown={(node) => (
        <ul>
          <li>
            {node === null ? "It leaves the queue." : `${visibleLine(node)} is told to stop it at the end of its phase.`}
          </li>
          <li>What was computed is lost. It is handed in anew as a new job.</li>
        </ul>
      )}
      verb={() => "Cancel it"}
      apply={() => cancelJob(job.id)}
      outcome={(after) => <p>The job is {after.state}.</p>}
      close={() => {
        close();
        done();
      }}
    />
  );
}
