// What the views of a node, of jobs and of circuits ask of the hub.

import { ApiProblem, address, api, request } from "../api";
import type * as bodies from "./bodies";

const of = (id: string, stop?: AbortSignal) => ({ path: { id }, ...(stop ? { signal: stop } : {}) });

/** A page of a listing: what comes after `after`, or the first. */
type Paged = { limit?: string; after?: string };
const paged = (limit: number, after: string): Paged => ({ limit: String(limit), ...(after === "" ? {} : { after }) });

// --- history, log, events

export function seriesOf(node: string, stop: AbortSignal): Promise<bodies.Series> {
  return api.get("/api/v1/nodes/{id}/series", of(node, stop));
}

export async function historyOf(
  node: string,
  patterns: readonly string[],
  fromMs: number,
  pointsMax: number,
  stop: AbortSignal,
): Promise<bodies.History> {
  const query = { series: patterns.join(","), from: Math.floor(fromMs), points_max: pointsMax };
  const answer = await request("get", "/api/v1/nodes/{id}/metrics", { ...of(node, stop), query });
  return (await answer.json()) as bodies.History;
}

export function logStream(node: string, query: URLSearchParams): string {
  const wanted = { ...Object.fromEntries(query), follow: "1", format: "sse" };
  return address("/api/v1/nodes/{id}/logs", { path: { id: node }, query: wanted });
}

const EVENTS_PAGE = 50;

export function eventsOf(node: string, stream: string, after: string, stop?: AbortSignal): Promise<bodies.NodeEvents> {
  const query = { ...paged(EVENTS_PAGE, after), ...(stream === "" ? {} : { stream }) };
  return api.get("/api/v1/nodes/{id}/events", { ...of(node, stop), query });
}

export async function sessionsOf(node: string, stop: AbortSignal): Promise<readonly bodies.Session[]> {
  return (await api.get("/api/v1/nodes/{id}/sessions", of(node, stop))).sessions;
}

// --- the way in by SSH

export function wayOf(node: string, stop: AbortSignal): Promise<bodies.Way> {
  return api.get("/api/v1/nodes/{id}/ssh", of(node, stop));
}

export function setTarget(node: string, target: string, hostKeys: string[]): Promise<bodies.Way> {
  return api.put("/api/v1/nodes/{id}/ssh", { target, host_keys: hostKeys, asked_by: "" }, of(node));
}

export function acceptSuggestion(node: string, hostKeys: boolean): Promise<bodies.Way> {
  return api.post("/api/v1/nodes/{id}/ssh/accept", { target: true, host_keys: hostKeys, asked_by: "" }, of(node));
}

export function attemptsOf(node: string, limit: number, after: string, stop?: AbortSignal): Promise<bodies.Attempts> {
  return api.get("/api/v1/nodes/{id}/ssh/attempts", { ...of(node, stop), query: paged(limit, after) });
}

export function attemptOf(node: string, attempt: string): Promise<bodies.Attempt> {
  return api.get("/api/v1/nodes/{id}/ssh/attempts/{attempt}", { path: { id: node, attempt } });
}

export function tryLogin(node: string): Promise<bodies.Attempt> {
  const body = { probe: "login", command: "", asked_by: "" };
  return api.post("/api/v1/nodes/{id}/ssh/attempts", body, of(node));
}

/** What the last look found; null if nobody ever looked. */
export async function ladderOf(node: string, stop: AbortSignal): Promise<bodies.Ladder | null> {
  try {
    return await api.get("/api/v1/nodes/{id}/ladder", of(node, stop));
  } catch (error) {
    if (error instanceof ApiProblem && error.code === "never_looked") return null;
    throw error;
  }
}

export function probe(node: string): Promise<bodies.Ladder> {
  return api.post("/api/v1/nodes/{id}/probe", { asked_by: "" }, of(node));
}

// --- repairs

export interface RecoveryOptions {
  readonly via_key?: string;
  readonly via_user?: string;
  readonly wheel?: string;
  readonly mend?: boolean;
}

export function doctor(node: string, { via_key = "", via_user = "" }: RecoveryOptions): Promise<bodies.Chart> {
  return api.post("/api/v1/nodes/{id}/ssh/doctor", { via_key, via_user, asked_by: "" }, of(node));
}

export function previewRecovery(
  node: string,
  action: string,
  { via_key = "", via_user = "", wheel = "", mend = false }: RecoveryOptions,
): Promise<bodies.RecoveryPreview> {
  const body = { action, via_key, via_user, wheel: action === "upgrade" ? wheel : "", mend, asked_by: "" };
  return api.post("/api/v1/nodes/{id}/recovery/preview", body, of(node));
}

export function recover(token: string): Promise<bodies.Recovered> {
  return api.post("/api/v1/recovery", { token, asked_by: "" });
}

export function hubKeys(stop: AbortSignal): Promise<bodies.HubKeys> {
  return api.get("/api/v1/ssh/keys", { signal: stop });
}

export function previewRotation(): Promise<bodies.RotationPreview> {
  return api.post("/api/v1/ssh/rotation/preview", undefined);
}

export function rotate(token: string): Promise<bodies.Rotation> {
  return api.post("/api/v1/ssh/rotation", { token, asked_by: "" });
}

// --- jobs and circuits

export function jobOf(id: string, stop: AbortSignal): Promise<bodies.Job> {
  return api.get("/api/v1/jobs/{id}", of(id, stop));
}

export function jobsOf(state: string, limit: number, after: string, stop?: AbortSignal): Promise<bodies.Jobs> {
  const query = { ...paged(limit, after), ...(state === "" ? {} : { state }) };
  return api.get("/api/v1/jobs", { query, ...(stop ? { signal: stop } : {}) });
}

export interface WantedJob {
  readonly circuit: string;
  readonly witness: string;
  readonly priority: number;
  readonly label: string;
}

/** Asking again with the same key makes no second job. */
export async function submitJob(job: WantedJob, key: string): Promise<bodies.Job> {
  const answer = await request("post", "/api/v1/jobs", { headers: { "Idempotency-Key": key } }, job);
  return (await answer.json()) as bodies.Job;
}

export function cancelJob(id: string): Promise<bodies.Job> {
  return api.post("/api/v1/jobs/{id}/cancel", undefined, of(id));
}

export async function circuitsOf(stop: AbortSignal): Promise<readonly bodies.Circuit[]> {
  const found: bodies.Circuit[] = [];
  let after: string | null = "";
  while (after !== null) {
    const page: bodies.Circuits = await api.get("/api/v1/circuits", { query: paged(500, after), signal: stop });
    found.push(...page.circuits);
    after = page.next;
  }
  return found;
}

export interface CircuitLeave {
  readonly node_labels: Readonly<Record<string, string>>;
}

/** Which nodes may get a circuit: those with all of these labels. */
export async function allowCircuit(id: string, leave: CircuitLeave): Promise<bodies.Circuit> {
  return (await (await request("patch", "/api/v1/circuits/{id}", of(id), leave)).json()) as bodies.Circuit;
}

export function registerCircuit(name: string, zkey: string): Promise<bodies.Circuit> {
  return api.post("/api/v1/circuits", { name, zkey });
}
