// One's own account and this browser; and what the hub is set to.

import { useState } from "preact/hooks";
import { api, type Schemas } from "../api";
import { useFetched } from "../components/fetched";
import { Form, text } from "../components/form";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import type { View } from "../router";
import { logOut, may, me } from "../session";
import { hub } from "../store";
import { type Theme, theme, THEMES } from "../theme";
import { stamp } from "../words";

const THEME_WORDS: Readonly<Record<Theme, string>> = { system: "as the system", light: "light", dark: "dark" };

function Settings() {
  return (
    <>
      <h1>Settings</h1>
      <div class="columns">
        <section aria-labelledby="you">
          <h2 id="you">You</h2>
          <dl class="facts">
            <div><dt>Name</dt><dd>{me.value?.name}</dd></div>
            <div><dt>Role</dt><dd>{me.value?.role}</dd></div>
            <div><dt>Hub</dt><dd>{`version ${hub.value?.version ?? ""}`}</dd></div>
          </dl>
          <fieldset>
            <legend>Colours</legend>
            {THEMES.map((one) => (
              <label key={one}><input type="radio" name="theme" checked={theme.value === one} onChange={() => (theme.value = one)} /> {THEME_WORDS[one]}</label>
            ))}
          </fieldset>
        </section>
        {me.value?.kind === "user" ? <Password /> : null}
      </div>
      {me.value?.session ? <Sessions /> : null}
      {may("operator") ? <OfTheHub /> : null}
    </>
  );
}

function Password() {
  const [done, setDone] = useState(false);
  const send = async (fields: FormData): Promise<void> => {
    setDone(false);
    if (text(fields, "new") !== text(fields, "again")) throw new Error("The two new passwords are not the same.");
    await api.post("/api/v1/me/password", { old: text(fields, "old"), new: text(fields, "new") });
    setDone(true);
  };
  return (
    <section aria-labelledby="password">
      <h2 id="password">Password</h2>
      <Form verb="Change it" send={send}>
        <input type="text" name="name" autocomplete="username" value={me.value?.name} hidden readOnly />
        <label>Present one<input name="old" type="password" autocomplete="current-password" required maxLength={256} /></label>
        <label>New one<input name="new" type="password" autocomplete="new-password" required minLength={10} maxLength={256} /></label>
        <label>The new one again<input name="again" type="password" autocomplete="new-password" required minLength={10} maxLength={256} /></label>
        <p class="small">Every other session of yours ends.</p>
        {done ? <p role="status"><State severity="ok">Changed.</State></p> : null}
      </Form>
    </section>
  );
}

function Sessions() {
  const sessions = useFetched((signal) => api.get("/api/v1/me/sessions", { signal }), [], null);
  const end = (id: string): void => void api.delete("/api/v1/me/sessions/{id}", { path: { id } }).finally(sessions.again);
  return (
    <section aria-labelledby="sessions">
      <div class="title">
        <h2 id="sessions">Where you are logged in</h2>
        <button type="button" class="quiet" onClick={() => void logOut(true)}>Log out everywhere</button>
      </div>
      <Refusal why={sessions.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Your sessions">
        <table class="stack">
          <thead><tr><th scope="col">Browser</th><th scope="col">From</th><th scope="col">Since</th><th scope="col">Last used</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {sessions.value?.sessions.map((one) => (
              <tr key={one.id}>
                <td data-label="Browser">{one.agent}{one.this ? <span class="small">this one</span> : null}</td>
                <td data-label="From">{one.remote}</td>
                <td data-label="Since" class="number">{stamp(one.opened_at_ms)}</td>
                <td data-label="Last used" class="number">{stamp(one.used_at_ms)}</td>
                <td>{one.this ? null : <button type="button" class="quiet" aria-label={`End the session from ${one.remote} of ${stamp(one.opened_at_ms)}`} onClick={() => end(one.id)}>End it</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function OfTheHub() {
  const settings = useFetched((signal) => api.get("/api/v1/settings", { signal }), [], null);
  const [changed, setChanged] = useState(false);
  const shown = (settings.value?.settings ?? []).filter((one) => !changed || one.source !== "default");
  return (
    <section aria-labelledby="hub-settings">
      <div class="title">
        <h2 id="hub-settings">What the hub is set to</h2>
        <label><input type="checkbox" checked={changed} onChange={(event) => setChanged(event.currentTarget.checked)} /> only what is not by default</label>
      </div>
      <p class="small">Set in the environment or on the command line of the hub, read when it starts.</p>
      <Refusal why={settings.error} />
      <div class="frame" tabIndex={0} role="group" aria-label="Settings of the hub">
        <table class="stack">
          <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">Default</th><th scope="col">From</th></tr></thead>
          <tbody>{shown.map((one) => <Setting key={one.name} one={one} />)}</tbody>
        </table>
        {settings.value !== null && shown.length === 0 ? <p class="empty">Everything is as by default.</p> : null}
      </div>
    </section>
  );
}

function Setting({ one }: { one: Schemas["SettingView"] }) {
  return (
    <tr>
      <td data-label="Setting"><code>{one.variable}</code><span class="small">{one.help}</span></td>
      <td data-label="Value"><code>{one.value}</code></td>
      <td data-label="Default"><code>{one.default}</code></td>
      <td data-label="From">{one.source === "default" ? one.source : <strong>{one.source}</strong>}</td>
    </tr>
  );
}

export const view: View = {
  path: "/settings",
  title: "Settings",
  nav: { label: "Settings", key: "s", order: 90 },
  draw: Settings,
};
