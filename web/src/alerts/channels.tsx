// Where notices go, and whether they arrive.

import { useState } from "preact/hooks";
import { api, type Schemas, sentence } from "../api";
import { Dialog } from "../components/dialog";
import { useFetched } from "../components/fetched";
import { Form, text } from "../components/form";
import { Refusal } from "../components/refusal";
import { State } from "../components/state";
import { visibleLine } from "../components/terminal_text";
import { may } from "../session";
import { stamp } from "../words";

type Channel = Schemas["ChannelView"];
const EVERY_MS = 5_000;

export function Channels() {
  const told = useFetched((signal) => api.get("/api/v1/alerts/channels", { signal }), [], EVERY_MS);
  const [making, setMaking] = useState(false);
  const [removing, setRemoving] = useState<Channel | null>(null);
  const done = () => {
    setMaking(false);
    setRemoving(null);
    told.again();
  };
  return (
    <section aria-labelledby="channels">
      <div class="title">
        <h2 id="channels">Notices go to</h2>
        {may("admin") ? <button type="button" onClick={() => setMaking(true)}>New channel</button> : null}
      </div>
      <Refusal why={told.error} />
      {told.value?.channels.length === 0 ? <p class="empty"><State severity="warn">Nowhere: an alert is seen here only.</State></p> : null}
      <div class="panels">
        {told.value?.channels.map((channel) => <One key={channel.id} channel={channel} remove={() => setRemoving(channel)} again={told.again} />)}
      </div>
      {told.value ? <Deadman deadman={told.value.deadman} /> : null}
      {making ? <NewChannel close={done} /> : null}
      {removing ? <Remove channel={removing} close={done} /> : null}
    </section>
  );
}

function One({ channel, remove, again }: { channel: Channel; remove: () => void; again: () => void }) {
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  const test = async () => {
    setBusy(true);
    setSaid("");
    try {
      const notice = await api.post("/api/v1/alerts/channels/{id}/test", undefined, { path: { id: channel.id } });
      setSaid(notice.state === "sent" ? "The test arrived, as the service says." : `The test did not arrive: ${notice.error}`);
    } catch (error) {
      setSaid(sentence(error));
    }
    setBusy(false);
    again();
  };
  return (
    <article class="panel" aria-label={channel.name}>
      <h3>{visibleLine(channel.name)}</h3>
      <p><How channel={channel} /></p>
      <p class="small mono">{visibleLine(channel.shown)}</p>
      <p class="small">{channel.severity} and more; made by {visibleLine(channel.created_by)}, {stamp(channel.created_at_ms)}</p>
      <p role="status">{visibleLine(said)}</p>
      <p class="buttons">
        {may("operator") ? <button type="button" class="quiet" disabled={busy} aria-label={`Send a test to ${channel.name}`} onClick={() => void test()}>Send a test</button> : null}
        {may("admin") ? <button type="button" class="quiet" aria-label={`Remove ${channel.name}`} onClick={remove}>Remove</button> : null}
      </p>
    </article>
  );
}

function How({ channel }: { channel: Channel }) {
  if (!channel.enabled) return <State severity="info">off</State>;
  if (channel.failed_at_ms !== null) return <State severity="bad">does not arrive since {stamp(channel.failed_at_ms)}: {visibleLine(channel.failure)}</State>;
  if (channel.delivered_at_ms === null) return <State severity="info">never used</State>;
  return <State severity="ok">last arrived {stamp(channel.delivered_at_ms)}</State>;
}

function Deadman({ deadman }: { deadman: Schemas["DeadmanView"] }) {
  if (!deadman.configured) return <p class="muted">Nobody misses this hub when it dies: PROVEWIRE_DEADMAN_URL names a service that would.</p>;
  return deadman.failure === "" ? (
    <p><State severity="ok">The dead-man's ping is answered{deadman.answered_at_ms === null ? "" : `, last ${stamp(deadman.answered_at_ms)}`}.</State></p>
  ) : (
    <p><State severity="bad">The dead-man's ping: {visibleLine(deadman.failure)}</State></p>
  );
}

function NewChannel({ close }: { close: () => void }) {
  const send = async (fields: FormData): Promise<void> => {
    const severity = text(fields, "severity") as Channel["severity"];
    await api.post("/api/v1/alerts/channels", { name: text(fields, "name").trim(), url: text(fields, "url").trim(), severity, enabled: true });
    close();
  };
  return (
    <Dialog title="New channel" close={close}>
      <Form verb="Make it" send={send}>
        <label>Name<input name="name" required maxLength={64} /></label>
        <label>Address<input name="url" type="password" autocomplete="off" required maxLength={2048} aria-describedby="url-help" /></label>
        <p class="small" id="url-help">As Apprise writes it: ntfys://ntfy.sh/topic, slack://…, mailtos://…, jsons://host/path. It is kept encrypted and never shown again.</p>
        <label>Tell alerts of<select name="severity"><option value="warning">warning and more</option><option value="critical">critical only</option><option value="info">everything</option></select></label>
      </Form>
    </Dialog>
  );
}

function Remove({ channel, close }: { channel: Channel; close: () => void }) {
  return (
    <Dialog title={`Remove ${channel.name}`} close={close}>
      <Form verb="Remove it" danger send={async () => { await api.delete("/api/v1/alerts/channels/{id}", { path: { id: channel.id } }); close(); }}>
        <p>No notice goes there any more; those that wait are dropped. Its address has to be given anew to have it back.</p>
      </Form>
    </Dialog>
  );
}
