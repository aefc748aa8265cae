// Tokens: for programs, which act as a role; and for nodes, which may join.

import { useState } from "preact/hooks";
import { api, type Schemas } from "../api";
import { Dialog } from "../components/dialog";
import { Form, text } from "../components/form";
import { Once } from "../components/once";
import { More, usePages } from "../components/pages";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import type { View } from "../router";
import { may, type Role } from "../session";
import { nowMs } from "../store";
import { stamp } from "../words";

const DAY_S = 86_400;
const TTLS: readonly [string, number][] = [["1 day", DAY_S], ["30 days", 30 * DAY_S], ["90 days", 90 * DAY_S], ["1 year", 366 * DAY_S], ["for ever", 0]];
const NODE_TTLS: readonly [string, number][] = [["1 hour", 3600], ["1 day", DAY_S], ["7 days", 7 * DAY_S], ["30 days", 30 * DAY_S]];

function Tokens() {
  return (
    <>
      <h1>Tokens</h1>
      {may("admin") ? <Programs /> : null}
      <Nodes />
    </>
  );
}

function Programs() {
  const pages = usePages(async (after) => {
    const page = await api.get("/api/v1/tokens", { query: { after } });
    return { rows: page.tokens, next: page.next };
  });
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Schemas["ApiTokenView"] | null>(null);
  return (
    <section aria-labelledby="programs">
      <div class="title">
        <h2 id="programs">For programs</h2>
        <button type="button" onClick={() => setMaking(true)}>New token</button>
      </div>
      <Refusal why={pages.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Tokens for programs">
        <table class="stack">
          <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Role</th><th scope="col">Areas</th><th scope="col">Made</th><th scope="col">Last used</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {pages.rows?.map((token) => (
              <tr key={token.id}>
                <td data-label="Name" class="name">{token.name}</td>
                <td data-label="State"><Good token={token} /></td>
                <td data-label="Role">{token.role}</td>
                <td data-label="Areas">{token.areas.length === 0 ? "everything" : token.areas.join(", ")}</td>
                <td data-label="Made"><span class="number">{stamp(token.created_at_ms)}</span><span class="small">by {token.created_by}</span></td>
                <td data-label="Last used">{token.used_at_ms === null ? "never" : <><span class="number">{stamp(token.used_at_ms)}</span><span class="small">{token.used_from}</span></>}</td>
                <td>{token.revoked_at_ms === null ? <button type="button" class="quiet" aria-label={`Revoke the token ${token.name}`} onClick={() => setRevoking(token)}>Revoke</button> : null}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {pages.rows?.length === 0 ? <p class="empty">No program has a token. The hub's own admin token works without being listed here.</p> : null}
      </div>
      <More pages={pages} />
      {making ? <NewToken close={() => { setMaking(false); pages.again(); }} /> : null}
      {revoking ? (
        <Revoke
          what={`the token ${revoking.name}`}
          says={`Programs that use it are refused from then on. It acts as ${revoking.role}, ${revoking.used_at_ms === null ? "and was never used" : `and was last used ${stamp(revoking.used_at_ms)} from ${revoking.used_from}`}.`}
          act={() => api.delete("/api/v1/tokens/{id}", { path: { id: revoking.id } })}
          close={() => { setRevoking(null); pages.again(); }}
        />
      ) : null}
    </section>
  );
}

function Good({ token }: { token: Schemas["ApiTokenView"] }) {
  if (token.revoked_at_ms !== null) return <State severity="info">revoked</State>;
  if (!token.good) return <State severity="warn">expired</State>;
  return <State severity="ok">{token.expires_at_ms === null ? "good for ever" : `good until ${stamp(token.expires_at_ms)}`}</State>;
}

function NewToken({ close }: { close: () => void }) {
  const [made, setMade] = useState("");
  const send = async (fields: FormData): Promise<void> => {
    const ttl_s = Number(text(fields, "ttl"));
    const areas = text(fields, "areas").split(/[\s,]+/).filter((area) => area !== "");
    const body = { name: text(fields, "name").trim(), role: text(fields, "role") as Role, areas, ...(ttl_s > 0 ? { ttl_s } : {}) };
    setMade((await api.post("/api/v1/tokens", body)).token);
  };
  return (
    <Dialog title="New token for a program" close={close}>
      {made !== "" ? <Once what="token" secret={made} /> : (
        <Form verb="Make it" send={send}>
          <label>What it is for<input name="name" required maxLength={64} /></label>
          <label>Role<select name="role"><option value="viewer">viewer: reads</option><option value="operator">operator: acts on nodes, jobs, SSH</option><option value="admin">admin: everything</option></select></label>
          <label>Areas<input name="areas" placeholder="jobs artifacts" maxLength={500} aria-describedby="areas-help" /></label>
          <p class="small" id="areas-help">Tags of /api/v1/openapi.json it is held to; empty for everything its role opens.</p>
          <label>Good for<select name="ttl">{TTLS.map(([word, seconds]) => <option key={word} value={seconds} selected={seconds === 90 * DAY_S}>{word}</option>)}</select></label>
        </Form>
      )}
    </Dialog>
  );
}

function Nodes() {
  const pages = usePages(async (after) => {
    const page = await api.get("/api/v1/enroll-tokens", { query: { after } });
    return { rows: page.tokens, next: page.next };
  });
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Schemas["EnrollTokenView"] | null>(null);
  return (
    <section aria-labelledby="joining">
      <div class="title">
        <h2 id="joining">For nodes that join</h2>
        {may("admin") ? <button type="button" onClick={() => setMaking(true)}>New enrolment token</button> : null}
      </div>
      <Refusal why={pages.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Tokens for nodes that join">
        <table class="stack">
          <thead><tr><th scope="col">Made</th><th scope="col">State</th><th scope="col">Uses</th><th scope="col">Id</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {pages.rows?.map((token) => (
              <tr key={token.id}>
                <td data-label="Made" class="number">{stamp(token.created_at_ms)}</td>
                <td data-label="State"><Open token={token} /></td>
                <td data-label="Uses" class="number">{`${token.uses} of ${token.uses_max}`}</td>
                <td data-label="Id"><code>{token.id}</code></td>
                <td>{may("admin") && token.revoked_at_ms === null ? <button type="button" class="quiet" aria-label={`Revoke the enrolment token ${token.id}`} onClick={() => setRevoking(token)}>Revoke</button> : null}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {pages.rows?.length === 0 ? <p class="empty">No enrolment token was made yet.</p> : null}
      </div>
      <More pages={pages} />
      {making ? <NewEnrolment close={() => { setMaking(false); pages.again(); }} /> : null}
      {revoking ? (
        <Revoke
          what="the enrolment token"
          says={`No node can join with it any more; ${revoking.uses_max - revoking.uses} of its ${revoking.uses_max} uses were left. Nodes that joined stay.`}
          act={() => api.delete("/api/v1/enroll-tokens/{id}", { path: { id: revoking.id } })}
          close={() => { setRevoking(null); pages.again(); }}
        />
      ) : null}
    </section>
  );
}

function Open({ token }: { token: Schemas["EnrollTokenView"] }) {
  if (token.revoked_at_ms !== null) return <State severity="info">revoked</State>;
  if (token.uses >= token.uses_max) return <State severity="info">used up</State>;
  if (token.expires_at_ms <= nowMs.peek()) return <State severity="info">expired</State>;
  return <State severity="ok">good until {stamp(token.expires_at_ms)}</State>;
}

function NewEnrolment({ close }: { close: () => void }) {
  const [made, setMade] = useState("");
  const send = async (fields: FormData): Promise<void> => {
    const body = { uses: Number(text(fields, "uses")), ttl_s: Number(text(fields, "ttl")) };
    setMade((await api.post("/api/v1/enroll-tokens", body)).token);
  };
  return (
    <Dialog title="New enrolment token" close={close}>
      {made !== "" ? (
        <>
          <Once what="token" secret={made} />
          <p>On the node, with the token in a file: <code>{`provewire agent --hub ${location.origin} --token-file FILE`}</code></p>
        </>
      ) : (
        <Form verb="Make it" send={send}>
          <label>How many nodes may join with it<input name="uses" type="number" min={1} max={10_000} value={1} required /></label>
          <label>Good for<select name="ttl">{NODE_TTLS.map(([word, seconds]) => <option key={word} value={seconds}>{word}</option>)}</select></label>
        </Form>
      )}
    </Dialog>
  );
}

function Revoke({ what, says, act, close }: { what: string; says: string; act: () => Promise<void>; close: () => void }) {
  return (
    <Dialog title={`Revoke ${what}`} close={close}>
      <Form verb="Revoke it" danger send={async () => { await act(); close(); }}>
        <p>{says}</p>
      </Form>
    </Dialog>
  );
}

export const view: View = {
  path: "/tokens",
  title: "Tokens",
  nav: { label: "Tokens", key: "t", order: 60 },
  least: "operator",
  draw: Tokens,
};
