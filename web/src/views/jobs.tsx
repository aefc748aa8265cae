// Jobs: what runs, what waits, what came of those that ended.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { sentence } from "../api";
import { useFetched } from "../components/fetched";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { useKeys } from "../keys";
import { jobsInView } from "../live";
import { type View, type ViewProps, link, replace } from "../router";
import { may } from "../session";
import { jobs, nowMs } from "../store";
import { age, duration, stamp } from "../words";
import { Downloads, JobState, Meter, Took } from "../jobs/parts";
import { SubmitDialog } from "../jobs/submit";
import { CHOICES, type Queue, ordered, queueOf, troubles } from "../jobs/words";
import type { Job } from "../node/bodies";
import { jobOf, jobsOf } from "../node/calls";
import "../node/detail.css";

export const view: View = { path: "/jobs", title: "Jobs", nav: { label: "Jobs", key: "j", order: 1 }, draw: JobsView };

const PAGE = 100;
const LIVE_MAX = 300; // of the live picture: beyond, older ones may be had by asking
const SAID_CHARS = 300;
const WAITS_EVERY_MS = 10_000;

function JobsView({ query }: ViewProps) {
  const choice = CHOICES.find((one) => one.id === query.get("state")) ?? CHOICES[0];
  const [older, setOlder] = useState<{ list: readonly Job[]; next: string | null } | null>(null);
  const [why, setWhy] = useState("");
  const [handingIn, setHandingIn] = useState(query.get("submit") !== null);
  const rows = useRef<HTMLTableSectionElement>(null);
  useLayoutEffect(() => {
    jobsInView.value = true;
    return () => {
      jobsInView.value = false;
    };
  }, []);
  useEffect(() => setOlder(null), [choice?.id]);
  useKeys([
    { key: "j", says: "next job", act: () => step(rows.current, 1) },
    { key: "k", says: "job before", act: () => step(rows.current, -1) },
    ...(may("operator") ? [{ key: "n", says: "hand in a job", act: () => setHandingIn(true) }] : []),
  ]);
  const now = jobs.value;
  const shown = useMemo(() => {
    const found = new Map<string, Job>((older?.list ?? []).map((job) => [job.id, job]));
    for (const job of now?.values() ?? []) found.set(job.id, job);
    return ordered([...found.values()].filter((job) => choice?.fits(job)));
  }, [now, older, choice?.id]);
  const more = async () => {
    const oldest = older === null ? oldestOf(shown) : older.next;
    if (oldest === null) return;
    try {
      const page = await jobsOf(choice?.state ?? "", PAGE, oldest);
      setOlder({ list: [...(older?.list ?? []), ...page.jobs], next: page.next });
      setWhy("");
    } catch (error) {
      setWhy(sentence(error));
    }
  };
  return (
    <div class="listing">
      <div class="title">
        <h1>Jobs</h1>
        {now !== null && <QueueLine queue={queueOf(now.values(), nowMs.value)} />}
        {may("operator") && (
          <button type="button" onClick={() => setHandingIn(true)}>
            Hand in a job
          </button>
        )}
      </div>
      <div class="ranges" role="group" aria-label="Which jobs">
        {CHOICES.map((one) => (
          <button
            key={one.id}
            type="button"
            class="quiet"
            aria-pressed={one.id === choice?.id}
            onClick={() => replace(link("/jobs", { state: one.id === "all" ? undefined : one.id }))}
          >
            {one.label}
          </button>
        ))}
      </div>
      <Refusal why={why} />
      {now === null && <p class="empty">Waiting for the hub.</p>}
      {now !== null && shown.length === 0 && <p class="empty">No such job.</p>}
      {shown.length > 0 && (
        <div class="frame" tabIndex={0}>
          <table class="jobs">
            <caption class="hidden">Jobs</caption>
            <thead>
              <tr>
                {["Job", "State", "Node", "Attempt", "Handed in", "Time", "Progress and result"].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody ref={rows}>
              {shown.map((job) => (
                <Row key={job.id} job={job} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {now !== null && (older === null ? now.size >= LIVE_MAX : older.next !== null) && (
        <button type="button" class="quiet" onClick={() => void more()}>
          Older
        </button>
      )}
      {handingIn && <SubmitDialog circuit={query.get("submit") ?? ""} close={() => setHandingIn(false)} />}
    </div>
  );
}

function QueueLine({ queue }: { queue: Queue }) {
  const oldest = queue.oldest;
  // Of the oldest only: what keeps it mostly keeps the rest.
  const told = useFetched(
    async (stop) => (oldest === null ? "" : ((await jobOf(oldest, stop)).waits_for ?? "")),
    [oldest],
    oldest === null ? null : WAITS_EVERY_MS,
  );
  return (
    <p class="tally">
      <State severity={queue.running > 0 ? "busy" : "info"}>{queue.running} running</State>{" "}
      <State severity="info">
        {queue.queued} queued{queue.oldestMs !== null && `, the oldest for ${age(queue.oldestMs)}`}
      </State>{" "}
      {told.value !== null && told.value !== "" && <State severity="warn">{visibleLine(told.value)}</State>}
    </p>
  );
}

function Row({ job }: { job: Job }) {
  const said = troubles(job)[0];
  return (
    <tr>
      <td data-label="Job">
        <a href={link(`/jobs/${job.id}`)}>{visibleLine(job.circuit)}</a>{" "}
        <span class="muted mono">…{job.id.slice(-12)}</span>
        {job.label !== "" && <span class="label"> {visibleLine(job.label)}</span>}
      </td>
      <td data-label="State">
        <JobState job={job} />
      </td>
      <td data-label="Node">
        {job.node !== null && <a href={link(`/nodes/${job.node}`)}>{visibleLine(job.node_name ?? job.node)}</a>}
      </td>
      <td data-label="Attempt" class="number">
        {job.attempt > 0 ? job.attempt : ""}
      </td>
      <td data-label="Handed in" class="number">
        {stamp(job.created_at_ms)}
      </td>
      <td data-label="Time">{job.ended_at_ms === null ? <Took job={job} /> : <EndedTook job={job} />}</td>
      <td data-label="Result">
        <Meter job={job} /> <Downloads job={job} />
        {said !== undefined && (
          <span class="says" title={said.title}>
            {visibleLine(said.text).slice(0, SAID_CHARS)}
          </span>
        )}
      </td>
    </tr>
  );
}

/** Of a job that ended nothing ticks. */
function EndedTook({ job }: { job: Job }) {
  const beganMs = job.started_at_ms ?? job.created_at_ms;
  return (
    <span class="number">
      {job.started_at_ms === null && "waited "}
      {duration((job.ended_at_ms ?? beganMs) - beganMs)}
    </span>
  );
}

function oldestOf(list: readonly Job[]): string | null {
  return list.reduce<string | null>((oldest, job) => (oldest === null || job.id < oldest ? job.id : oldest), null);
}

function step(body: HTMLElement | null, by: number): void {
  const links = [...(body?.querySelectorAll<HTMLElement>("td:first-child a") ?? [])];
  const at = links.indexOf(document.activeElement as HTMLElement);
  links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}
