// Who may log in, and as what.

import { useState } from "preact/hooks";
import { api, type Schemas } from "../api";
import { Dialog } from "../components/dialog";
import { Form, text } from "../components/form";
import { Once } from "../components/once";
import { More, usePages } from "../components/pages";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import type { View } from "../router";
import { me, type Role } from "../session";
import { stamp } from "../words";

const ROLES: readonly [Role, string][] = [["viewer", "viewer: reads"], ["operator", "operator: acts on nodes, jobs, SSH"], ["admin", "admin: says who may come in"]];
type User = Schemas["UserView"];

function Users() {
  const pages = usePages(async (after) => {
    const page = await api.get("/api/v1/users", { query: { after } });
    return { rows: page.users, next: page.next };
  });
  const [making, setMaking] = useState(false);
  const [changing, setChanging] = useState<User | null>(null);
  const [link, setLink] = useState("");
  const done = (): void => {
    setMaking(false);
    setChanging(null);
    pages.again();
  };
  return (
    <>
      <div class="title">
        <h1>Users</h1>
        <span class="buttons">
          <button type="button" class="quiet" onClick={() => void api.post("/api/v1/setup-links", undefined).then((made) => setLink(made.url))}>Link for a new admin</button>
          <button type="button" onClick={() => setMaking(true)}>New user</button>
        </span>
      </div>
      <Refusal why={pages.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Users">
        <table class="stack">
          <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">State</th><th scope="col">Last login</th><th scope="col">Password of</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {pages.rows?.map((user) => (
              <tr key={user.id}>
                <td data-label="Name" class="name">{user.name}{user.id === me.value?.id ? <span class="small">you</span> : null}</td>
                <td data-label="Role">{user.role}</td>
                <td data-label="State">{user.disabled_at_ms === null ? <State severity={user.sessions > 0 ? "ok" : "info"}>{user.sessions > 0 ? `logged in (${user.sessions})` : "may log in"}</State> : <State severity="warn">kept out since {stamp(user.disabled_at_ms)}</State>}</td>
                <td data-label="Last login" class="number">{user.last_login_at_ms === null ? "never" : stamp(user.last_login_at_ms)}</td>
                <td data-label="Password of" class="number">{stamp(user.password_at_ms)}</td>
                <td><button type="button" class="quiet" aria-label={`Change ${user.name}`} onClick={() => setChanging(user)}>Change</button></td>
              </tr>
            ))}
          </tbody>
        </table>
        {pages.rows?.length === 0 ? <p class="empty">There is no user yet; you came by a link or a token.</p> : null}
      </div>
      <More pages={pages} />
      {making ? <NewUser close={() => setMaking(false)} done={done} /> : null}
      {changing ? <ChangeUser user={changing} close={() => setChanging(null)} done={done} /> : null}
      {link !== "" ? <Dialog title="Link for a new admin" close={() => setLink("")}><Once what="link" secret={link} /></Dialog> : null}
    </>
  );
}

function RoleField({ role }: { role: Role }) {
  return <label>Role<select name="role">{ROLES.map(([one, word]) => <option key={one} value={one} selected={one === role}>{word}</option>)}</select></label>;
}

function NewUser({ close, done }: { close: () => void; done: () => void }) {
  const send = async (fields: FormData): Promise<void> => {
    await api.post("/api/v1/users", { name: text(fields, "name").trim(), role: text(fields, "role") as Role, password: text(fields, "password") });
    done();
  };
  return (
    <Dialog title="New user" close={close}>
      <Form verb="Let them in" send={send}>
        <label>Name<input name="name" required maxLength={64} autocomplete="off" autocapitalize="none" spellcheck={false} /></label>
        <RoleField role="viewer" />
        <label>Password<input name="password" type="password" required minLength={10} maxLength={256} autocomplete="new-password" /></label>
      </Form>
    </Dialog>
  );
}

function ChangeUser({ user, close, done }: { user: User; close: () => void; done: () => void }) {
  const path = { id: user.id };
  const change = async (body: Schemas["UserChange"]): Promise<void> => {
    await api.patch("/api/v1/users/{id}", body, { path });
    done();
  };
  const out = user.disabled_at_ms !== null;
  return (
    <Dialog title={`Change ${user.name}`} close={close}>
      <Form verb="Change the role" send={(fields) => change({ role: text(fields, "role") as Role })}><RoleField role={user.role as Role} /></Form>
      <Form verb="Set the password" send={(fields) => change({ password: text(fields, "password") })}>
        <label>New password; every session of theirs ends<input name="password" type="password" required minLength={10} maxLength={256} autocomplete="new-password" /></label>
      </Form>
      <Form verb={out ? "Let them in again" : "Keep them out"} danger={!out} send={() => change({ disabled: !out })}>
        <p>{out ? "They may log in again." : "They cannot log in, and every session of theirs ends now. They can be let in again."}</p>
      </Form>
      <Form verb="Forget them" danger send={async () => { await api.delete("/api/v1/users/{id}", { path }); done(); }}>
        <p>They are gone for good; what they did stays in the audit.</p>
      </Form>
    </Dialog>
  );
}

export const view: View = {
  path: "/users",
  title: "Users",
  nav: { label: "Users", key: "u", order: 70 },
  least: "admin",
  draw: Users,
};
