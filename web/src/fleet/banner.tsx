// First of all: what is wrong, with how many, since when, and what to do. Nothing to click.

import type { Schemas } from "../api";
import { Prose } from "../components/prose";
import { link } from "../router";
import { incidents, loaded, nowMs, tally } from "../store";
import { clock, plural } from "../words";

const NAMED = 8;

export function Banner() {
  if (!loaded.value) return <p class="banner" data-severity="info">Waiting for the hub.</p>;
  const known = incidents.value;
  const lines = known?.banner ?? [];
  return (
    <section class="banners" aria-label="What is wrong" role="status">
      {lines.map((line) => <Verdict key={`${line.state} ${line.ours}`} line={line} />)}
      {known && known.notes.length > 0 ? <p class="notes">{known.notes.join(" ")}</p> : null}
      {known?.paused ? <p class="notes">The hub looks after nobody by SSH at this moment: {known.paused}.</p> : null}
      {lines.length === 0 ? <Summary /> : null}
    </section>
  );
}

function Verdict({ line }: { line: Schemas["BannerLineView"] }) {
  const more = line.count - NAMED;
  const since = line.since_ms === null ? "" : `, since ${clock(line.since_ms, nowMs.peek())}`;
  return (
    <div class="banner" data-severity={line.severity}>
      <strong><span class="symbol" aria-hidden="true" />{`${line.headline}${since}`}</strong>
      {line.cause === "" ? null : <p><Prose text={line.cause} /></p>}
      {line.remedy === "" ? null : <p class="do"><Prose text={line.remedy} /></p>}
      {line.nodes.length > 0 ? (
        <p class="small">
          {line.nodes.slice(0, NAMED).map((node, at) => <Named key={node.id} id={node.id} name={node.name} first={at === 0} />)}
          {more > 0 ? <> and <a href={link("/", { q: `is:${line.severity}` })}>{more} more</a></> : null}
        </p>
      ) : null}
    </div>
  );
}

function Named({ id, name, first }: { id: string; name: string; first: boolean }) {
  return <>{first ? "" : ", "}<a href={link(`/nodes/${id}`)}>{name}</a></>;
}

function Summary() {
  const { bad, warn, info, all } = tally.value;
  if (all === 0) {
    return (
      <p class="banner" data-severity="info">
        No node is enrolled. At the hub, <code>provewire enroll</code> prints a token; on the node,{" "}
        <code>provewire agent --hub ... --token-file ...</code> uses it.
      </p>
    );
  }
  if (bad > 0) return null;
  if (warn > 0) {
    return <p class="banner" data-severity="warn"><strong><span class="symbol" aria-hidden="true" />{`${plural(warn, "node")} of ${all} with a warning.`}</strong></p>;
  }
  const noted = info > 0 ? `; ${info} with a note` : "";
  return <p class="banner" data-severity="ok"><strong><span class="symbol" aria-hidden="true" />{`${all - info} of ${plural(all, "node")} well${noted}.`}</strong></p>;
}
