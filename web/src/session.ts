// Who is logged in, and what they may do. The hub decides; here only what would be refused is not offered.

import { signal } from "@preact/signals";
import { api, ApiProblem, onLoggedOut, type Schemas, sentence } from "./api";
import * as live from "./live";
import { forget } from "./store";

export type Role = "viewer" | "operator" | "admin";
const RANK: Readonly<Record<string, number>> = { viewer: 0, operator: 1, admin: 2 };
const RETRY_MS = 3_000;

export type Me = Schemas["Me"];

/** null: nobody; undefined: not known yet. */
export const me = signal<Me | null | undefined>(undefined);
/** Why it is not known who we are, or why we were logged out. */
export const said = signal("");

export function may(least: Role): boolean {
  const who = me.value;
  return !!who && (RANK[who.role] ?? -1) >= (RANK[least] ?? 0);
}

/** Both at once: whoever is not logged in hears nothing, and whoever is sees the fleet a round trip earlier. */
export async function begin(): Promise<void> {
  live.start();
  try {
    welcome(await api.get("/api/v1/me"));
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 401) return;
    said.value = sentence(error);
    window.setTimeout(() => void begin(), RETRY_MS);
  }
}

function welcome(who: Me): void {
  me.value = who;
  said.value = "";
  live.start();
}

export async function logIn(credentials: Schemas["LoginRequest"]): Promise<void> {
  welcome(await api.post("/api/v1/login", credentials));
}

export async function setUp(first: Schemas["SetupRequest"]): Promise<void> {
  welcome(await api.post("/api/v1/setup", first));
}

export async function logOut(everywhere = false): Promise<void> {
  try {
    await api.post(everywhere ? "/api/v1/logout-everywhere" : "/api/v1/logout", undefined);
  } finally {
    gone("");
  }
}

function gone(why: string): void {
  live.stop();
  forget();
  said.value = why;
  me.value = null;
}

onLoggedOut(() => {
  if (me.peek() !== null) gone(me.peek() ? "Your session is over; log in again." : "");
});
