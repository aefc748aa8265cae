// The way in by SSH on the page: incidents before everything else, and what looking after a node found, rung by rung.
// Uses the drawing of page.js. Whatever a node said is put in as text, never as markup.
"use strict";

const STEP_KIND = { ok: "good", warning: "warn", failed: "bad", unknown: "off" };
const FALLBACK_KIND = { proved: "good", broken: "bad", unproved: "off", none: "off" };
const DAY_MS = 86400000;

const fallback = { incidents: null, node: null, asked: 0 };

function clock(ms) {
  const when = new Date(ms);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return Math.abs(hubNowMs() - ms) < DAY_MS ? time : `${when.toLocaleDateString()} ${time}`;
}

// --- incidents -------------------------------------------------------------------------------------------------

function drawIncidents(told) {
  fallback.incidents = told;
  const place = at("incidents");
  const banners = told.incidents.map((incident) => incidentBanner(incident, told));
  if (!told.incidents.length) banners.push(...told.problems.map((problem) => sideBanner(problem)));
  place.hidden = banners.length === 0;
  place.replaceChildren(...banners);
}

function incidentBanner(incident, { problems, notes }) {
  const banner = make("article", "banner");
  banner.dataset.kind = "bad";
  const more = incident.count - incident.nodes.length;
  const names = listed(incident.nodes.map((node) => node.name));
  banner.append(
    make("h2", "", `${incident.headline} since ${clock(incident.since_ms)}`),
    ...problems.flatMap((problem) => [
      make("p", "side", `This side: ${problem.sentence}, since ${clock(problem.since_ms)}`),
      make("p", "", problem.remedy),
    ]),
  );
  if (!problems.length) banner.append(make("p", "side", incident.ours ? "By its nature this lies on the hub's side." : "The hub found nothing wrong with its own side."));
  banner.append(make("p", "", incident.remedy), make("p", "small", more > 0 ? `${names}, and others` : names), make("p", "small", notes.join(" ")));
  return banner;
}

function sideBanner(problem) {
  const banner = make("article", "banner");
  banner.dataset.kind = "warn";
  banner.append(make("h2", "", `This side: ${problem.sentence}, since ${clock(problem.since_ms)}`), make("p", "", problem.remedy));
  return banner;
}

// --- a node's row ----------------------------------------------------------------------------------------------

function fallbackParts(node) {
  const way = node.fallback;
  const parts = [];
  if (way.provers) parts.push(make("p", "says", way.provers));
  if (node.state !== "online" && way.found !== null) parts.push(make("p", "says", `by ssh ${clock(way.looked_at_ms)}: ${way.found}`));
  if (way.via_ssh_at_ms !== null) parts.push(make("span", "small", `what stands here came via ssh, ${clock(way.via_ssh_at_ms)}`));
  const line = make("button", "reach small fallback", way.sentence);
  line.type = "button";
  line.dataset.reach = node.id; // reach.js shows the way in
  line.dataset.kind = FALLBACK_KIND[way.state] || "off";
  if (way.state === "broken" && way.remedy) line.title = way.remedy;
  parts.push(line);
  if (way.state !== "none") {
    const button = make("button", "link", "rung by rung …");
    button.type = "button";
    button.dataset.ladder = node.id;
    button.setAttribute("aria-label", `what looking after ${node.name} by ssh found`);
    parts.push(button);
  }
  return parts;
}

// --- the ladder ------------------------------------------------------------------------------------------------

async function showLadder(id, method) {
  const asked = (fallback.asked += 1);
  fallback.node = id;
  const node = nodes.get(id);
  const name = node ? node.name : id;
  at("ladder").hidden = false;
  say(at("ladder-title"), `${name} by ssh`);
  say(at("ladder-says"), method === "POST" ? "The hub looks after it now …" : "Reading …");
  at("ladder-steps").replaceChildren();
  at("ladder-look").disabled = true;
  if (method === "GET") at("ladder").scrollIntoView({ block: "nearest" });
  const found = await askLadder(id, method);
  if (asked !== fallback.asked) return; // another node was asked for meanwhile
  at("ladder-look").disabled = false;
  if (found.steps === undefined) {
    say(at("ladder-says"), found.detail);
    return;
  }
  const next = found.next_look_s === null ? "" : `; the hub looks again in ${duration(1000 * found.next_look_s)}`;
  say(at("ladder-says"), `${clock(found.at_ms)}, ${found.duration_s.toFixed(1)} s: ${found.summary}${next}`);
  at("ladder-steps").replaceChildren(...found.steps.map(stepLine));
}

async function askLadder(id, method) {
  const path = `/api/v1/nodes/${encodeURIComponent(id)}/${method === "POST" ? "probe" : "ladder"}`;
  const options = { method, headers: { Accept: "application/json" } };
  if (method === "POST") {
    options.headers["Content-Type"] = "application/json";
    options.body = "{}";
  }
  try {
    return await (await fetch(path, options)).json();
  } catch (error) {
    return { detail: `The hub does not answer: ${error}` };
  }
}

function stepLine(step) {
  const item = make("li");
  item.append(stateOf(step.rung, STEP_KIND[step.state] || "off"), make("span", "sentence", step.sentence));
  if (step.detail) {
    const more = make("details");
    more.append(make("summary", "", "what was said"), make("pre", "", step.detail));
    item.append(more);
  }
  return item;
}

at("nodes").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-ladder]");
  if (button) showLadder(button.dataset.ladder, "GET");
});
at("ladder-look").addEventListener("click", () => showLadder(fallback.node, "POST"));
at("ladder-close").addEventListener("click", () => {
  fallback.asked += 1;
  at("ladder").hidden = true;
});
