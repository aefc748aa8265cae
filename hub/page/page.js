// The live page: one EventSource, one map of nodes, one of jobs, rows changed in place.
// Whatever a node says is put in as text, never as markup. Ages and durations tick by the hub's clock.
"use strict";

const QUIET_MS = 16000; // three beats of the hub; after that the link counts as down
const SLEPT_MS = 15000; // a timer that comes this late means that the machine slept
const RETRY_MS = 3000;
const JOBS_SHOWN = 50;

const NODE_KIND = { online: "good", stale: "warn", reconnecting: "warn", lost: "bad", never: "off" };
const JOB_KIND = { queued: "off", leased: "busy", running: "busy", verifying: "busy", done: "good", failed: "bad", cancelled: "off" };
const GPU_KIND = { ok: "good", degraded: "warn", lost: "bad", driver_hung: "bad", driver_mismatch: "bad", absent: "bad" };
const ENGINE_SAYS = {
  down: "does not run",
  status_disabled: "its status is off",
  wrong_service: "something else answers on its port",
  bad_answer: "its answer cannot be read",
  silent: "does not answer",
};
const SKEW_SHOWN_MS = 2000;
const SKEW_ALARM_MS = 30000;
const WORKER_KIND = { idle: "good", proving: "busy", starting: "warn", silent: "warn", down: "bad" };
const NODE_ORDER = ["online", "reconnecting", "stale", "lost", "never"];
const JOB_ORDER = ["running", "verifying", "leased", "queued", "done", "failed", "cancelled"];

const nodes = new Map(); // id -> node, as the hub last said
const jobs = new Map();
const nodeRows = new Map(); // id -> row
const jobRows = new Map();
const link = { source: null, seq: 0, heardMs: 0, offsetMs: 0, downSinceMs: Date.now(), up: false, retry: 0, ended: false };
let allJobs = false;

const at = (id) => document.getElementById(id);
const hubNowMs = () => Date.now() + link.offsetMs;

// --- drawing ---------------------------------------------------------------------------------------------------

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function stateOf(text, kind) {
  const state = make("span", "state");
  state.dataset.kind = kind;
  const dot = make("span", "dot");
  dot.setAttribute("aria-hidden", "true");
  state.append(dot, make("span", "", text));
  return state;
}

function meter(phase, done, total, label) {
  const line = make("span", "meter");
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", label);
  bar.max = 1;
  if (total > 0) bar.value = Math.min(1, done / total);
  line.append(make("span", "", phase), bar);
  if (total > 0) line.append(make("span", "number", `${Math.floor((100 * Math.min(done, total)) / total)} %`));
  return line;
}

// A row has one cell for each column. A cell is redrawn only when what it shows has changed.
function newRow(columns, drawings) {
  const row = make("tr");
  row.setAttribute("role", "row");
  const cells = columns.map((column) => {
    const cell = make("td");
    cell.setAttribute("role", "cell");
    cell.dataset.label = column;
    row.append(cell);
    return { cell, shown: null };
  });
  return { row, cells, drawings };
}

function drawRow(entry, subject) {
  entry.drawings.forEach((drawing, index) => {
    const place = entry.cells[index];
    const content = drawing(subject);
    const key = content.map((part) => part.outerHTML).join("");
    if (key === place.shown) return;
    place.shown = key;
    place.cell.replaceChildren(...content);
    place.cell.classList.toggle("nothing", content.length === 0);
  });
}

function arrange(body, rows, order) {
  const wanted = order.map((id) => rows.get(id).row);
  const staying = new Set(order);
  for (const [id, entry] of rows) {
    if (!staying.has(id)) {
      entry.row.remove();
      rows.delete(id);
    }
  }
  wanted.forEach((row, index) => {
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] || null);
  });
}

// --- words -----------------------------------------------------------------------------------------------------

function duration(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

function age(ms) {
  const seconds = Math.floor(Math.max(0, ms) / 1000);
  return seconds < 120 ? `${seconds} s ago` : `${duration(ms)} ago`;
}

function gib(bytes) {
  const value = bytes / 2 ** 30;
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

function ofTotal(used, total) {
  if (total === null || total === undefined) return null;
  return used === null || used === undefined ? `${gib(total)} GiB` : `${gib(used)} of ${gib(total)} GiB`;
}

function tally(values, order) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  return order.filter((state) => counts.has(state)).map((state) => `${counts.get(state)} ${state}`).join(" · ");
}

function listed(names) {
  const shown = names.slice(0, 8).join(", ");
  return names.length > 8 ? `${shown} and ${names.length - 8} more` : shown;
}

// --- nodes -----------------------------------------------------------------------------------------------------

const NODE_COLUMNS = ["Node", "State", "Heard", "Host", "GPU", "Worker", "Job"];

const NODE_DRAWINGS = [
  (node) => {
    const more = [node.status && node.status.hostname !== node.name ? node.status.hostname : null, node.version];
    return [make("span", "name", node.name), make("span", "small", more.filter(Boolean).join(" · "))];
  },
  (node) => {
    const parts = [stateOf(node.state, NODE_KIND[node.state] || "off")];
    if (node.status && node.status.draining) parts.push(make("span", "small", "draining: takes no new job"));
    if (node.state !== "online" && node.last_reason) {
      const reason = node.last_reason;
      parts.push(make("p", "says", `last session ended ${reason.code} ${reason.name}: ${reason.detail}`));
    }
    if (node.state === "never") parts.push(make("p", "says", "enrolled, and not heard since"));
    return parts.concat(fallbackParts(node));
  },
  (node) => {
    const parts = [];
    if (node.last_heard_at_ms === null) parts.push(make("span", "number", "never"));
    else {
      const late = { stale: "late", reconnecting: "late", lost: "lost" }[node.state] || "";
      parts.push(make("span", `number ${late}`, age(hubNowMs() - node.last_heard_at_ms)));
    }
    const skewMs = Math.abs(node.clock_skew_ms ?? 0);
    if (skewMs > SKEW_SHOWN_MS) {
      const text = `its clock is ${duration(skewMs)} ${node.clock_skew_ms > 0 ? "ahead" : "behind"}`;
      if (skewMs > SKEW_ALARM_MS) parts.push(stateOf(text, "warn"));
      else parts.push(make("span", "small", text));
    }
    return parts;
  },
  (node) => {
    const host = node.status && node.status.host;
    if (!host) return [];
    const cpu = [];
    if (host.cpu_used_ratio !== null) cpu.push(`${Math.round(100 * host.cpu_used_ratio)} %`);
    if (host.cpu_count !== null) cpu.push(`of ${host.cpu_count} cores`);
    const memory = ofTotal(host.memory_used_bytes, host.memory_total_bytes);
    const parts = [];
    if (cpu.length) parts.push(make("span", "line number", `CPU ${cpu.join(" ")}`));
    if (memory) parts.push(make("span", "line number", `memory ${memory}`));
    if (host.disk_free_bytes !== null) parts.push(make("span", "small number", `disk ${gib(host.disk_free_bytes)} GiB free`));
    return parts;
  },
  (node) => {
    if (!node.status) return [];
    if (!node.status.gpus.length) return [make("span", "small", "none")];
    return node.status.gpus.flatMap((gpu) => {
      const parts = [make("span", "line", gpu.name || gpu.uuid)];
      if (gpu.state !== "ok") {
        parts.push(stateOf(gpu.state.replaceAll("_", " "), GPU_KIND[gpu.state] || "bad"));
        if (gpu.detail) parts.push(make("p", "says", gpu.detail));
      }
      const readings = [];
      if (gpu.utilization_ratio !== null) readings.push(`${Math.round(100 * gpu.utilization_ratio)} %`);
      const memory = ofTotal(gpu.memory_used_bytes, gpu.memory_total_bytes);
      if (memory) readings.push(memory);
      if (gpu.temperature_c !== null) readings.push(`${Math.round(gpu.temperature_c)} °C`);
      if (gpu.power_draw_mw !== null) readings.push(`${Math.round(gpu.power_draw_mw / 1000)} W`);
      if (gpu.xid_count) readings.push(`${gpu.xid_count} XID, last ${gpu.xid_last}`);
      if (readings.length) parts.push(make("span", "small number", readings.join(" · ")));
      if (gpu.age_s !== null) parts.push(make("span", "small", `read ${duration(1000 * gpu.age_s)} ago`));
      return parts;
    });
  },
  (node) => {
    if (!node.status) return [];
    const workers = node.status.workers.flatMap((worker) => {
      const parts = [stateOf(`${worker.device} ${worker.state}`, WORKER_KIND[worker.state] || "off")];
      if (worker.detail) parts.push(make("p", "says", worker.detail));
      return parts;
    });
    return workers.concat(node.status.engines.flatMap((engine) => engineLine(engine, node)));
  },
  (node) => {
    if (!node.status) return [];
    return node.status.jobs.flatMap((job) => {
      const known = jobs.get(job.job);
      const name = known ? known.circuit : "job";
      return [
        make("span", "small", `${name} · …${job.job.slice(-8)}${job.attempt > 1 ? ` · attempt ${job.attempt}` : ""}`),
        meter(job.phase, job.done, job.total, `progress of job ${job.job} on ${node.name}`),
      ];
    });
  },
];

// One line for an engine: what it does, or why that is not known. Its times are the node's, and so is "now" here.
function engineLine(engine, node) {
  const said = [];
  if (engine.state !== "ok") said.push(ENGINE_SAYS[engine.state] || engine.state.replaceAll("_", " "));
  const running = engine.jobs.filter((job) => job.state === "running").length + engine.jobs_left_out;
  if (engine.answered_at_ms !== null) {
    if (engine.state === "ok") said.push(running ? `proving ${running} ${running === 1 ? "job" : "jobs"}` : "idle");
    if (engine.state === "ok" && engine.queued !== null) said.push(`queue ${engine.queued}`);
    const nodeNowMs = hubNowMs() + (node.clock_skew_ms ?? 0);
    said.push(`last answer ${age(nodeNowMs - engine.answered_at_ms)}`);
  }
  const kind = { ok: running ? "busy" : "good", status_disabled: "warn" }[engine.state] || "bad";
  const parts = [stateOf(`${engine.engine}: ${said.join(", ")}`, kind)];
  if (engine.failed) parts.push(make("span", "small", `${engine.failed} failed of ${engine.failed + (engine.completed ?? 0)}`));
  if (engine.state !== "ok" && engine.detail) parts.push(make("p", "says", engine.detail));
  return parts;
}

function drawNodes() {
  for (const node of nodes.values()) {
    if (!nodeRows.has(node.id)) nodeRows.set(node.id, newRow(NODE_COLUMNS, NODE_DRAWINGS));
    const entry = nodeRows.get(node.id);
    drawRow(entry, node);
    entry.row.classList.toggle("silent", node.state === "lost" || node.state === "never");
  }
  const order = [...nodes.values()].sort((a, b) => a.name.localeCompare(b.name) || (a.id < b.id ? -1 : 1));
  arrange(at("nodes"), nodeRows, order.map((node) => node.id));
  say(at("nodes-tally"), tally([...nodes.values()].map((node) => node.state), NODE_ORDER));
  at("nodes-empty").hidden = nodes.size > 0 || link.seq === 0;
  drawIncident();
}

function drawIncident() {
  if (link.seq === 0) return;
  const named = (...states) =>
    [...nodes.values()].filter((node) => states.includes(node.state)).map((node) => node.name).sort();
  const lost = named("lost");
  const late = named("stale", "reconnecting");
  const incident = at("incident");
  let kind = "good";
  let text = { 1: "The one node is heard.", 2: "Both nodes are heard." }[nodes.size] || `All ${nodes.size} nodes are heard.`;
  if (lost.length) {
    kind = "bad";
    text = `${lost.length} of ${nodes.size} nodes lost: ${listed(lost)}.`;
    if (late.length) text += ` Silent for a while: ${listed(late)}.`;
  } else if (late.length) {
    kind = "warn";
    text = `${late.length} of ${nodes.size} nodes silent for a while: ${listed(late)}.`;
  } else if (nodes.size === 0) {
    kind = "wait";
    text = "No node is enrolled yet.";
  } else if (named("never").length) {
    const never = named("never");
    text = `${nodes.size - never.length} of ${nodes.size} nodes are heard; enrolled and not yet seen: ${listed(never)}.`;
    kind = never.length === nodes.size ? "wait" : "good";
  }
  const troubled = [...nodes.values()].filter((node) => node.state === "online" && trouble(node)).map((node) => node.name);
  if (troubled.length) {
    text += ` Trouble with a device or engine: ${listed(troubled.sort())}.`;
    if (kind === "good") kind = "warn";
  }
  incident.dataset.kind = kind;
  say(incident, text);
  document.title = lost.length ? `(${lost.length} lost) Provewire` : "Provewire";
}

function trouble(node) {
  const status = node.status;
  return status !== null && (status.gpus.some((gpu) => gpu.state !== "ok")
    || status.workers.some((worker) => worker.state === "down" || worker.state === "silent")
    || status.engines.some((engine) => engine.state !== "ok" && engine.state !== "status_disabled"));
}

// --- jobs ------------------------------------------------------------------------------------------------------

const JOB_COLUMNS = ["Job", "State", "Node", "Attempt", "Time", "Result"];

const JOB_DRAWINGS = [
  (job) => {
    const id = make("span", "small id", `…${job.id.slice(-12)}`);
    id.title = job.id;
    return [make("span", "name", job.circuit), id];
  },
  (job) => [stateOf(job.state, JOB_KIND[job.state] || "off")],
  (job) => (job.node_name === null ? [] : [make("span", "name", job.node_name)]),
  (job) => (job.attempt > 0 ? [make("span", "number", String(job.attempt))] : []),
  (job) => {
    if (job.started_at_ms === null) {
      const verb = job.ended_at_ms === null ? "waits" : "waited";
      return [make("span", "number small", `${verb} ${duration((job.ended_at_ms ?? hubNowMs()) - job.created_at_ms)}`)];
    }
    return [make("span", "number", duration((job.ended_at_ms ?? hubNowMs()) - job.started_at_ms))];
  },
  (job) => {
    const parts = [];
    const goesOn = job.ended_at_ms === null;
    if (job.phase !== null) parts.push(meter(job.phase, job.done, job.total, `progress of job ${job.id}`));
    if (job.state === "done") parts.push(files(job));
    if (job.error !== null) {
      const code = job.error.code === null ? "" : ` (code ${job.error.code})`;
      parts.push(make("p", job.state === "failed" ? "says bad" : "says", `${job.error.detail}${code}`));
    }
    const failure = job.last_failure;
    if (failure !== null && !(job.error !== null && job.error.detail.includes(failure.detail))) {
      const text = `attempt ${failure.attempt} on ${failure.node_name} ${failure.outcome}: ${failure.detail}`;
      parts.push(make("p", goesOn ? "says warn" : "says", text));
    }
    return parts;
  },
];

function files(job) {
  const line = make("span", "files");
  for (const [name, path] of [["proof.json", "proof"], ["public.json", "public"]]) {
    const anchor = make("a", "", name);
    anchor.href = `/api/v1/jobs/${encodeURIComponent(job.id)}/${path}`;
    anchor.download = name;
    anchor.setAttribute("aria-label", `${name} of job ${job.id}`);
    line.append(anchor);
  }
  return line;
}

function drawJobs() {
  const order = [...jobs.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
  const shown = allJobs ? order : order.slice(0, JOBS_SHOWN);
  for (const job of shown) {
    if (!jobRows.has(job.id)) jobRows.set(job.id, newRow(JOB_COLUMNS, JOB_DRAWINGS));
    drawRow(jobRows.get(job.id), job);
  }
  arrange(at("jobs"), jobRows, shown.map((job) => job.id));
  say(at("jobs-tally"), tally(order.map((job) => job.state), JOB_ORDER));
  at("jobs-empty").hidden = order.length > 0 || link.seq === 0;
  const more = at("jobs-more");
  more.hidden = shown.length === order.length;
  say(more, `Show all ${order.length}`);
}

// --- the link --------------------------------------------------------------------------------------------------

function open() {
  close();
  link.seq = 0;
  link.source = new EventSource("/api/v1/live");
  for (const [name, take] of Object.entries(TAKES)) {
    link.source.addEventListener(name, (event) => receive(event, take));
  }
  link.source.addEventListener("error", () => failed());
}

function close() {
  window.clearTimeout(link.retry);
  if (link.source !== null) link.source.close();
  link.source = null;
}

function receive(event, take) {
  if (event.target !== link.source) return;
  const data = JSON.parse(event.data);
  if (event.type !== "snapshot" && data.seq !== link.seq + 1) {
    open(); // something was lost on the way: the whole picture again
    return;
  }
  link.seq = data.seq;
  link.heardMs = Date.now();
  take(data);
  drawLink();
}

function failed() {
  drawLink();
  if (link.source !== null && link.source.readyState === EventSource.CLOSED) {
    // Refused, not merely cut: by a session that is over, or a hub that is full. Ask, so that the reason is known.
    window.clearTimeout(link.retry);
    link.retry = window.setTimeout(ask, RETRY_MS);
  }
}

async function ask() {
  try {
    const answer = await fetch("/api/v1/nodes?limit=1", { headers: { Accept: "application/json" } });
    if (answer.status === 401) {
      link.ended = true;
      close();
      drawLink();
      return;
    }
  } catch {
    // The hub is away; opening the stream again is the way to find out when it is back.
  }
  open();
}

const TAKES = {
  snapshot(data) {
    link.offsetMs = data.time_ms - Date.now();
    nodes.clear();
    jobs.clear();
    for (const node of data.nodes) nodes.set(node.id, node);
    for (const job of data.jobs) jobs.set(job.id, job);
    at("insecure").hidden = !data.hub.insecure;
    say(at("about"), `hub ${data.hub.id} · version ${data.hub.version} · stale after ${data.hub.stale_after_s} s, lost after ${data.hub.lost_after_s} s`);
    drawIncidents(data.incidents);
    drawNodes();
    drawJobs();
  },
  incidents(data) {
    drawIncidents(data.incidents);
  },
  node(data) {
    if (data.node === null) nodes.delete(data.id);
    else nodes.set(data.id, data.node);
    drawNodes();
  },
  job(data) {
    jobs.set(data.job.id, data.job);
    drawJobs();
  },
  beat(data) {
    link.offsetMs = data.time_ms - Date.now();
    for (const [id, heardAtMs] of Object.entries(data.heard)) {
      const node = nodes.get(id);
      if (node) node.last_heard_at_ms = Math.max(node.last_heard_at_ms ?? 0, heardAtMs);
    }
    drawNodes();
  },
};

function drawLink() {
  const connected = link.source !== null && link.source.readyState === EventSource.OPEN && link.seq > 0;
  const up = connected && Date.now() - link.heardMs < QUIET_MS;
  if (link.up && !up) link.downSinceMs = link.heardMs;
  link.up = up;
  document.body.dataset.link = up || link.heardMs === 0 ? "up" : "down";
  at("link").dataset.kind = up ? "good" : link.heardMs === 0 && !link.ended ? "wait" : "bad";
  let text = "live";
  if (link.ended) text = "logged out";
  else if (!up && link.heardMs === 0) text = "connecting";
  else if (!up) text = `link to the hub down for ${duration(Date.now() - link.downSinceMs)}`;
  say(at("link-text"), text);
  if (!up && (link.ended || link.heardMs !== 0)) {
    const incident = at("incident");
    incident.dataset.kind = "bad";
    say(incident, link.ended
      ? "This browser's session is over. Load the page again to log in."
      : "The live link to the hub is down. What stands below is as it was then; this page tries again by itself.");
  } else if (up) drawIncident();
}

let tickedMs = Date.now();

function tick() {
  const nowMs = Date.now();
  const slept = nowMs - tickedMs > SLEPT_MS;
  tickedMs = nowMs;
  if (!link.ended && (slept || (link.heardMs !== 0 && nowMs - link.heardMs > 2 * QUIET_MS && link.source !== null
      && link.source.readyState === EventSource.OPEN))) {
    link.heardMs = slept ? link.heardMs : nowMs - QUIET_MS;
    open();
  }
  drawLink();
  if (document.hidden || !link.up) return;
  drawNodes();
  drawJobs();
}

at("jobs-more").addEventListener("click", () => {
  allJobs = true;
  drawJobs();
});
window.setInterval(tick, 1000);
window.addEventListener("DOMContentLoaded", open); // once fallback.js is there too
