// What proves on a node: our own workers, and engines beside them with their jobs, workers, memory and keys.

import { type Severity, State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { Partitions, took } from "../components/waterfall";
import { partitionRows } from "../components/waterfall_layout";
import type { Engine, EngineJob, Job, Node } from "./bodies";
import { JobState } from "../jobs/parts";
import { link } from "../router";
import { nowMs } from "../store";
import { age, bytes, plural, stamp } from "../words";

const WORKER_KINDS: Record<string, Severity> = { idle: "ok", proving: "busy", starting: "warn", silent: "warn" };
const ENGINE_SAYS: Record<string, string> = {
  ok: "answers",
  down: "does not run",
  status_disabled: "runs, its status is off",
  wrong_service: "something else answers on its port",
  bad_answer: "its answer cannot be read",
  silent: "does not answer",
};
const ENGINE_KINDS: Record<string, Severity> = { ok: "ok", status_disabled: "warn" };
const ENDED_SHOWN = 5;
/** While all goes well the time of the last good answer comes along with other news, at the latest with a heartbeat. */
const ANSWERED_EVERY_MS = 20_000;
const JOB_KINDS: Record<string, Severity> = { running: "busy", done: "ok" };

export function Engines({ node, jobs }: { node: Node; jobs: ReadonlyMap<string, Job> | null }) {
  const status = node.status;
  if (status === null) return null;
  return (
    <section aria-labelledby="engines-title">
      <h2 id="engines-title">Proving</h2>
      {status.draining && (
        <p>
          <State severity="warn">draining: it takes no new job</State>
        </p>
      )}
      <div class="panels">
        <article class="panel" aria-label="Our workers">
          <h3>Our workers</h3>
          {status.workers.length === 0 && <p class="muted">None: it only observes.</p>}
          <ul class="plain">
            {status.workers.map((worker) => (
              <li key={worker.device}>
                <State severity={worker.on_host === "" ? (WORKER_KINDS[worker.state] ?? "bad") : "bad"}>
                  {visibleLine(worker.device)} {worker.state}
                  {worker.on_host !== "" && " on the CPU"}
                </State>{" "}
                {worker.pid !== null && <span class="muted number">process {worker.pid}</span>}
                {worker.detail !== "" && <p class="says">{visibleLine(worker.detail)}</p>}
                {worker.on_host !== "" && <p class="says">It does not use its card: {visibleLine(worker.on_host)}</p>}
              </li>
            ))}
          </ul>
          {status.jobs.map((job) => (
            <p key={job.job} class="meter">
              <a href={link(`/jobs/${job.job}`)}>{jobs?.get(job.job)?.circuit ?? `job ${job.job.slice(-8)}`}</a>{" "}
              <span>{visibleLine(job.phase)}</span>{" "}
              <progress
                aria-label={`progress of job ${job.job}`}
                max={1}
                {...(job.total > 0 ? { value: Math.min(1, job.done / job.total) } : {})}
              />{" "}
              <span class="number">{took(1000 * job.elapsed_s)}</span>
            </p>
          ))}
          <Ended jobs={jobs} nodeId={node.id} />
          {status.outbox !== null && (
            <p class="muted number">
              Not yet acknowledged: {plural(status.outbox.events_held, "event")}, {bytes(status.outbox.bytes_held)}
              {status.outbox.dropped > 0 && `; ${status.outbox.dropped} dropped, each drop told as an event`}
            </p>
          )}
        </article>
        {status.engines.map((engine) => (
          <OtherEngine key={engine.engine} engine={engine} nodeNowMs={nowMs.value + (node.clock_skew_ms ?? 0)} />
        ))}
      </div>
    </section>
  );
}

/** The last jobs of ours that ended here, as far as the live picture goes. */
function Ended({ jobs, nodeId }: { jobs: ReadonlyMap<string, Job> | null; nodeId: string }) {
  const here = [...(jobs?.values() ?? [])].filter((job) => job.node === nodeId && job.ended_at_ms !== null);
  const newest = here.sort((a, b) => (b.ended_at_ms ?? 0) - (a.ended_at_ms ?? 0)).slice(0, ENDED_SHOWN);
  if (newest.length === 0) return null;
  return (
    <>
      <h4>Last jobs here</h4>
      <ul class="plain">
        {newest.map((job) => (
          <li key={job.id}>
            <a href={link(`/jobs/${job.id}`)}>{visibleLine(job.circuit)}</a> <JobState job={job} />{" "}
            <span class="muted number">{stamp(job.ended_at_ms ?? 0)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function OtherEngine({ engine, nodeNowMs }: { engine: Engine; nodeNowMs: number }) {
  const answered = engine.answered_at_ms;
  return (
    <article class="panel wide" aria-label={`Engine ${engine.engine}`}>
      <h3>{visibleLine(engine.engine)}</h3>
      <p>
        <State severity={ENGINE_KINDS[engine.state] ?? "bad"}>{ENGINE_SAYS[engine.state] ?? engine.state}</State>{" "}
        <span class="muted">
          {answered === null
            ? "it never answered"
            : engine.state === "ok" && nodeNowMs - answered < ANSWERED_EVERY_MS
              ? "what follows is of the last seconds"
              : `last good answer ${age(nodeNowMs - answered)} ago${engine.state === "ok" ? "" : "; what follows is of then"}`}
        </span>
      </p>
      {engine.detail !== "" && <p class="says">{visibleLine(engine.detail)}</p>}
      {answered !== null && (
        <>
          <dl class="facts">
            <Fact name="memory budget" value={ofTotal(engine.memory_used_bytes, engine.memory_total_bytes)} />
            <Fact name="waiting partitions" value={engine.queued} />
            <Fact name="syntheses" value={pairOf(engine.synthesis_active, engine.synthesis_max)} />
            <Fact name="proofs done" value={counted(engine.completed, engine.completed_by_kind)} />
            <Fact name="proofs failed" value={counted(engine.failed, engine.failed_by_kind)} />
            <Fact name="runs since" value={engine.started_at_ms === null ? null : stamp(engine.started_at_ms)} />
            {Object.entries(engine.in_flight).map(([name, value]) => (
              <Fact key={name} name={visibleLine(name.replaceAll("_", " "))} value={value} />
            ))}
          </dl>
          <Workers engine={engine} nodeNowMs={nodeNowMs} />
          {engine.jobs.map((job) => (
            <OtherJob key={job.id} job={job} nodeNowMs={nodeNowMs} />
          ))}
          {engine.jobs.length === 0 && <p class="muted">No job.</p>}
          {engine.jobs_left_out > 0 && <p class="muted">{engine.jobs_left_out} more jobs are not shown.</p>}
          <Keys engine={engine} nodeNowMs={nodeNowMs} />
          {engine.limits.length > 0 && <p class="muted">Its status cannot tell: {engine.limits.map(visibleLine).join("; ")}</p>}
        </>
      )}
    </article>
  );
}

function OtherJob({ job, nodeNowMs }: { job: EngineJob; nodeNowMs: number }) {
  const since = job.started_at_ms === null ? "" : `, since ${age(nodeNowMs - job.started_at_ms)}`;
  return (
    <details open={job.state === "running"}>
      <summary>
        <State severity={JOB_KINDS[job.state] ?? "bad"}>
          {visibleLine(job.kind)} {visibleLine(job.id)}: {job.state}, {job.partitions_done} of {job.partitions_total}{" "}
          partitions{since}
        </State>
      </summary>
      {job.detail !== "" && <p class="says">{visibleLine(job.detail)}</p>}
      {job.partitions !== undefined && job.partitions.length > 0 && (
        <>
          <p class="muted">How long each partition took so far; when each began is not told.</p>
          <Partitions rows={partitionRows(job.partitions)} label={`Partitions of job ${job.id}`} />
        </>
      )}
    </details>
  );
}

function Workers({ engine, nodeNowMs }: { engine: Engine; nodeNowMs: number }) {
  if (engine.workers.length === 0) return null;
  return (
    <ul class="plain inline">
      {engine.workers.map((worker) => (
        <li key={worker.id}>
          <State severity={worker.proving ? "busy" : "info"}>
            worker {worker.id} on GPU {worker.gpu_ordinal}:{" "}
            {worker.proving
              ? `partition ${worker.partition ?? "?"} of ${visibleLine(worker.job ?? "a job it does not name")}`
              : "idle"}
            {worker.since_ms !== null && ` for ${age(nodeNowMs - worker.since_ms)}`}
          </State>
        </li>
      ))}
    </ul>
  );
}

function Keys({ engine, nodeNowMs }: { engine: Engine; nodeNowMs: number }) {
  if (engine.keys === undefined || engine.keys.length === 0) return null;
  return (
    <table>
      <caption>Keys in memory</caption>
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Kind</th>
          <th scope="col">Size</th>
          <th scope="col">Last used</th>
          <th scope="col">May be evicted</th>
        </tr>
      </thead>
      <tbody>
        {engine.keys.map((key) => (
          <tr key={`${key.kind} ${key.id}`}>
            <td>{visibleLine(key.id)}</td>
            <td>{key.kind}</td>
            <td class="number">{bytes(key.bytes)}</td>
            <td class="number">{key.last_used_at_ms === null ? "unknown" : `${age(nodeNowMs - key.last_used_at_ms)} ago`}</td>
            <td>{key.evictable ? "yes" : "no"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Fact({ name, value }: { name: string; value: string | number | null }) {
  if (value === null) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
    </div>
  );
}

function ofTotal(used: number | null, total: number | null): string | null {
  if (used === null && total === null) return null;
  return `${used === null ? "unknown" : bytes(used)} of ${total === null ? "unknown" : bytes(total)}`;
}

function pairOf(active: number | null, max: number | null): string | null {
  if (active === null) return null;
  return max === null ? String(active) : `${active} of at most ${max}`;
}

function counted(count: number | null, byKind: Readonly<Record<string, number>>): string | null {
  if (count === null) return null;
  const kinds = Object.entries(byKind).map(([kind, one]) => `${visibleLine(kind)} ${one}`);
  return kinds.length > 0 ? `${count} (${kinds.join(", ")})` : String(count);
}
