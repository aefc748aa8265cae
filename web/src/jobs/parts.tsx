// What the list of jobs and one job's view both show.

import { nowMs } from "../store";
import { duration } from "../words";
import { State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import type { Job } from "../node/bodies";
import { SEVERITIES, timeOf } from "./words";

export function JobState({ job }: { job: Job }) {
  return <State severity={SEVERITIES[job.state] ?? "info"}>{job.state}</State>;
}

export function Meter({ job }: { job: Job }) {
  if (job.phase === null) return null;
  const known = job.total > 0;
  const share = known ? Math.min(1, job.done / job.total) : 0;
  return (
    <span class="meter">
      <span>{visibleLine(job.phase)}</span>{" "}
      <progress aria-label={`progress of job ${job.id}`} max={1} {...(known ? { value: share } : {})} />{" "}
      {known && <span class="number">{Math.floor(100 * share)} %</span>}
    </span>
  );
}

export function Took({ job }: { job: Job }) {
  const { waits, ms } = timeOf(job, nowMs.value);
  const verb = waits ? (job.ended_at_ms === null ? "waits " : "waited ") : "";
  return (
    <span class="number">
      {verb}
      {duration(ms)}
    </span>
  );
}

export function Downloads({ job }: { job: Job }) {
  if (job.state !== "done") return null;
  const at = `/api/v1/jobs/${encodeURIComponent(job.id)}`;
  return (
    <span class="downloads">
      <a href={`${at}/proof`} download="proof.json">
        proof.json
      </a>{" "}
      <a href={`${at}/public`} download="public.json">
        public.json
      </a>
    </span>
  );
}
