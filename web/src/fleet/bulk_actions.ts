// What can be done to several nodes at once: first what would happen at each, then the doing, node by node.

import { api, sentence } from "../api";
import type { Role } from "../session";
import type { NodeRow } from "../store";

/** What would happen at one node. */
export interface Planned {
  row: NodeRow;
  says: string;
  /** The exact commands or the diff; empty for none. */
  exactly: string;
  /** Does it; what came of it, or a failure. */
  act: () => Promise<Outcome>;
}

export interface Outcome {
  ok: boolean;
  says: string;
}

export interface Plan {
  planned: Planned[];
  /** Nodes it cannot be done to, and why. */
  passedOver: { row: NodeRow; why: string }[];
}

export interface BulkAction {
  name: string;
  verb: string;
  least: Role;
  danger: boolean;
  plan: (rows: readonly NodeRow[]) => Promise<Plan>;
}

/** The hub takes previews and logins of its own one after the other; a few at once is what it likes. */
const AT_ONCE = 4;

export const BULK_ACTIONS: readonly BulkAction[] = [
  {
    name: "Look after them by SSH",
    verb: "Look now",
    least: "operator",
    danger: false,
    plan: (rows) => Promise.resolve(split(rows, (row) => (row.fallback === "none" ? "it has no way in by SSH" : ""), look)),
  },
  { name: "Restart their agents by SSH", verb: "Restart them", least: "operator", danger: false, plan: (rows) => previewed(rows, restart) },
  { name: "Install the hub's SSH key", verb: "Install it", least: "operator", danger: false, plan: (rows) => previewed(rows, installKey) },
  {
    name: "Revoke them",
    verb: "Revoke them for good",
    least: "operator",
    danger: true,
    plan: (rows) => Promise.resolve(split(rows, () => "", revoke)),
  },
];

function split(rows: readonly NodeRow[], why: (row: NodeRow) => string, make: (row: NodeRow) => Planned): Plan {
  const passedOver = rows.map((row) => ({ row, why: why(row) })).filter((one) => one.why !== "");
  const left = new Set(passedOver.map((one) => one.row.id));
  return { planned: rows.filter((row) => !left.has(row.id)).map(make), passedOver };
}

/** A preview of the hub's for each node; one where there is nothing for the hub to do is passed over with the reason. */
async function previewed(rows: readonly NodeRow[], make: (row: NodeRow) => Promise<Planned | string>): Promise<Plan> {
  const plan: Plan = { planned: [], passedOver: [] };
  await eachOf(rows, async (row) => {
    try {
      const made = await make(row);
      if (typeof made === "string") plan.passedOver.push({ row, why: made });
      else plan.planned.push(made);
    } catch (error) {
      plan.passedOver.push({ row, why: sentence(error) });
    }
  });
  return plan;
}

/** A few at once, all in the end. */
export async function eachOf<T>(items: readonly T[], act: (item: T) => Promise<void>, atOnce = AT_ONCE): Promise<void> {
  const waiting = [...items];
  const worker = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}

function look(row: NodeRow): Planned {
  return {
    row,
    says: "looked at from its name to its clock; nothing there is changed",
    exactly: "",
    act: async () => {
      const ladder = await api.post("/api/v1/nodes/{id}/probe", {}, { path: { id: row.id } });
      return { ok: ladder.steps.every((step) => step.state !== "failed"), says: ladder.summary };
    },
  };
}

const restart = (row: NodeRow): Promise<Planned | string> => recovery(row, "restart-agent");
const installKey = (row: NodeRow): Promise<Planned | string> => recovery(row, "install-key");

async function recovery(row: NodeRow, action: string): Promise<Planned | string> {
  const preview = await api.post("/api/v1/nodes/{id}/recovery/preview", { action }, { path: { id: row.id } });
  const says = preview.effects.join(" ");
  if (preview.by_hand || (preview.commands.length === 0 && preview.diff === "")) return preview.effects[0] ?? says;
  return {
    row,
    says,
    exactly: [...preview.commands, preview.diff].filter((part) => part !== "").join("\n\n"),
    act: async () => {
      const done = await api.post("/api/v1/recovery", { token: preview.token });
      return { ok: done.ok, says: done.sentence };
    },
  };
}

function revoke(row: NodeRow): Planned {
  const proving = row.lights.proving.state === "proving" ? "it proves now: what it proves is lost; " : "";
  return {
    row,
    says: `${proving}its session ends at once, and it comes back only by a new enrolment`,
    exactly: "",
    act: async () => {
      await api.delete("/api/v1/nodes/{id}", { path: { id: row.id } });
      return { ok: true, says: "revoked" };
    },
  };
}
