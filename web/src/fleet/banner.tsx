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

/** Whether a line is of ways in that are broken, and not of nodes that ail. */
function ofWays(line: Schemas["BannerLineView"]): boolean {
  return incidents.peek()?.incidents.some((one) => one.cause === line.state) ?? false;
}

function Verdict({ line }: { line: Schemas["BannerLineView"] }) {
  const since = line.since_ms === null ? "" : `, since ${clock(line.since_ms, nowMs.peek())}`;
  return (
    <div class="banner" data-severity={line.severity}>
      <strong><span class="symbol" aria-hidden="true" />{`${ofWays(line) ? "Way in by SSH: " : ""}${line.headline}${since}`}</strong>
      {line.cause === "" ? null : <p><b>Why:</b> <Prose text={line.cause} /></p>}
      {line.remedy === "" ? null : <p><b>What to do:</b> <Prose text={line.remedy} /></p>}
      {line.nodes.length > 0 ? (
        <p class="small clip">
          <a href={link("/", { q: ofWays(line) ? "ssh:broken" : `why:${line.state}` })}>Show them</a>
          {line.nodes.slice(0, NAMED).map((node) => <span key={node.id}> · <a href={link(`/nodes/${node.id}`)}>{node.name}</a></span>)}
          {line.count > NAMED ? ` and ${line.count - NAMED} more` : null}
        </p>
      ) : null}
    </div>
  );
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
