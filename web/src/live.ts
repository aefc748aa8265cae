// The live stream: a first picture with a number, then changes whose numbers have no holes.
// Whoever sees a hole, a silence, or wakes from sleep opens the stream again: nothing is patched up from memory.

import { batch, effect, signal } from "@preact/signals";
import { type Schemas, request } from "./api";
import * as store from "./store";

const QUIET_MS = 16_000; // three beats of the hub; after that the link counts as down
const SLEPT_MS = 15_000; // a tick that comes this late means that the machine slept
const RETRY_MS = 3_000;
const TICK_MS = 1_000;
const SAY_VIEW_MS = 120; // scrolling changes what is in view many times a second

export type Link = "connecting" | "live" | "down";
export const link = signal<Link>("connecting");
export const downSinceMs = signal<number | null>(null);

/** What the present view shows; each view sets its own part and clears it when it goes. */
export const rowsInView = signal<readonly string[]>([]);
export const nodeInView = signal<string | null>(null);
export const jobsInView = signal(false);
const hidden = signal(document.hidden);

let source: EventSource | null = null;
let stream = "";
let seq = 0;
let heardMs = 0;
let tickedMs = 0;
let retry = 0;
let saying = 0;
let sayingNow = false;
let sayAgain = false;
let ticking = 0;
let running = false;
const waiting = new Map<string, Schemas["RowReadings"]>();

const HANDLERS: Record<string, (body: never) => void> = {
  snapshot: (body: Schemas["LiveBoard"]) => {
    waiting.clear();
    stream = body.stream;
    setClock(body.time_ms);
    store.setBoard(body);
    sayView();
    batch(() => {
      link.value = "live";
      downSinceMs.value = null;
    });
  },
  row: (body: Schemas["LiveRow"]) => store.setRow(body.id, body.row),
  readings: (body: Schemas["LiveReadings"]) => void waiting.set(body.readings.id, body.readings),
  node: (body: Schemas["LiveNode"]) => {
    if (body.id === nodeInView.peek()) store.wholeNode.value = body.node;
  },
  jobs: (body: Schemas["LiveJobs"]) => store.setJobs(body.jobs),
  job: (body: Schemas["LiveJob"]) => store.setJob(body.job),
  incidents: (body: Schemas["LiveIncidents"]) => {
    store.incidents.value = body.incidents;
  },
  beat: (body: Schemas["LiveBeat"]) => setClock(body.time_ms),
};

export function start(): void {
  if (running) return;
  running = true;
  tickedMs = Date.now();
  ticking = window.setInterval(tick, TICK_MS);
  open();
}

export function stop(): void {
  running = false;
  window.clearInterval(ticking);
  close();
  link.value = "connecting";
}

function open(): void {
  close();
  if (!running) return;
  heardMs = Date.now();
  seq = 0;
  const opened = (source = new EventSource("/api/v1/live?board=1"));
  for (const [name, handle] of Object.entries(HANDLERS)) {
    opened.addEventListener(name, (event) => {
      if (opened === source) take(name, (event as MessageEvent<string>).data, handle);
    });
  }
  // EventSource would come back by itself, but not after a refusal, and not always after sleep: one way for all.
  opened.onerror = () => {
    if (opened === source) fail();
  };
}

function close(): void {
  window.clearTimeout(retry);
  source?.close();
  source = null;
  stream = "";
}

function take(name: string, data: string, handle: (body: never) => void): void {
  const body = JSON.parse(data) as { seq: number };
  heardMs = Date.now();
  if (name !== "snapshot" && body.seq !== seq + 1) {
    open();
    return;
  }
  seq = body.seq;
  batch(() => handle(body as never));
}

function fail(): void {
  close();
  if (link.peek() !== "down") {
    batch(() => {
      link.value = "down";
      downSinceMs.value = Date.now();
    });
  }
  retry = window.setTimeout(() => void lookThenOpen(), RETRY_MS);
}

/** EventSource does not tell why it was refused; a request that does tells whether we are logged out. */
async function lookThenOpen(): Promise<void> {
  try {
    await request("get", "/api/v1/incidents");
  } catch {
    if (!running) return;
  }
  open();
}

function setClock(timeMs: number): void {
  store.offsetMs.value = timeMs - Date.now();
}

/** Once a second: ages, readings that gathered meanwhile, and whether the link still lives. One drawing for all. */
function tick(): void {
  const now = Date.now();
  const slept = now - tickedMs > SLEPT_MS;
  tickedMs = now;
  if (!hidden.peek()) {
    batch(() => {
      store.tick();
      for (const readings of waiting.values()) store.setReadings(readings);
      waiting.clear();
    });
  }
  if (source !== null && (slept || now - heardMs > QUIET_MS)) open();
  if (now - heardMs > QUIET_MS && link.peek() === "live") {
    link.value = "down";
    downSinceMs.value = heardMs;
  }
}

/** Tell the hub what is shown: it sends readings of nothing else. A page in the background shows no rows. */
function sayView(): void {
  window.clearTimeout(saying);
  saying = window.setTimeout(() => void sayViewNow(), SAY_VIEW_MS);
}

async function sayViewNow(): Promise<void> {
  // One after the other: two on their way at once may arrive in the wrong order.
  sayAgain = true;
  if (sayingNow) return;
  sayingNow = true;
  while (sayAgain) {
    sayAgain = false;
    // Not before the hub is told: it tells all jobs anew only to who did not see them, and a view may follow another.
    if (!jobsInView.peek()) store.jobs.value = null;
    if (stream === "") break;
    const shown = { nodes: hidden.peek() ? [] : [...rowsInView.peek()], node: nodeInView.peek(), jobs: jobsInView.peek() };
    try {
      await request("post", "/api/v1/live/{stream}/view", { path: { stream } }, shown);
    } catch {
      // The stream is over: its end is seen where it is read.
    }
  }
  sayingNow = false;
}

document.addEventListener("visibilitychange", () => {
  hidden.value = document.hidden;
});

effect(() => {
  const whole = nodeInView.value;
  void rowsInView.value;
  void hidden.value;
  if (store.wholeNode.peek()?.id !== whole) store.wholeNode.value = null;
  void jobsInView.value;
  sayView();
});
