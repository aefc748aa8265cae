// One node's way in by SSH, in a dialog: where it leads, whether it was proved, and what was said at the last attempts.
// What ssh and nodes say is put in as text, never as markup.
"use strict";

(() => {
  const AGAIN_MS = 5000;
  const SHOWN = 10;
  const KIND = { proved: "good", broken: "bad", unproved: "warn", none: "off" };

  const dialog = at("reach");
  const open = { id: null, attempts: new Map(), timer: 0 };

  async function ask(path, options = {}) {
    const answer = await fetch(`/api/v1/nodes/${encodeURIComponent(open.id)}/ssh${path}`, {
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      ...options,
    });
    const told = answer.status === 204 ? {} : await answer.json();
    if (!answer.ok) throw new Error(told.detail || `HTTP ${answer.status}`);
    return told;
  }

  const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) });

  function pair(list, label, ...content) {
    const value = make("dd");
    value.append(...content);
    list.append(make("dt", "", label), value);
  }

  function keys(items, none) {
    return items.length ? items.map((key) => `${key.key.split(" ")[0]} ${key.fingerprint}`).join("\n") : none;
  }

  function drawWay(way) {
    say(at("reach-title"), `Way in to ${way.name} by SSH`);
    const list = make("dl", "facts");
    pair(list, "State", stateOf(way.fallback.sentence, KIND[way.fallback.state] || "off"));
    if (way.fallback.remedy) pair(list, "What to do", make("p", "says", way.fallback.remedy));
    pair(list, "Target", way.target === null ? "none" : `${way.target} (by ${way.source})`);
    pair(list, "Host keys", make("p", "says", keys(way.host_keys, "none is pinned, so no login is possible")));
    const suggested = way.suggested;
    if (suggested !== null) pair(list, "The node says", suggested.target);
    if (way.host_keys_differ) {
      const warning = make("p", "says bad", `The node says other host keys than those pinned:\n${keys(suggested.host_keys, "none")}`);
      pair(list, "Careful", warning);
    }
    at("reach-way").replaceChildren(list);
    at("reach-try").hidden = way.target === null;
    at("reach-accept").hidden = suggested === null || suggested.target === way.target;
    say(at("reach-accept"), suggested === null ? "" : `Accept ${suggested.target}`);
  }

  function block(parent, title, text) {
    if (!text) return;
    parent.append(make("h3", "", title), make("pre", "", text));
  }

  function drawAttempt(body, attempt) {
    const list = make("dl", "facts");
    pair(list, "Cause", attempt.cause.replaceAll("_", " "));
    if (attempt.remedy) pair(list, "What to do", make("p", "says", attempt.remedy));
    const ended = attempt.exit_code === null ? (attempt.signal === null ? "did not end by itself" : `signal ${attempt.signal}`) : `code ${attempt.exit_code}`;
    pair(list, "ssh ended", attempt.remote_exit_code === null ? ended : `${ended}; the command there with code ${attempt.remote_exit_code}`);
    pair(list, "Target", attempt.target);
    pair(list, "Asked for", [attempt.origin.asked_by, attempt.origin.asked_from].filter(Boolean).join(" from "));
    if (attempt.note) pair(list, "Note", attempt.note);
    if (attempt.differs.length) pair(list, "Differs", make("p", "says", attempt.differs.join("\n")));
    body.replaceChildren(list);
    block(body, `ssh said (${attempt.stderr_bytes} bytes)`, attempt.stderr || "nothing");
    block(body, "The command printed", attempt.stdout);
    block(body, "The login printed before", attempt.before);
    block(body, "Keys offered, from a login with -v", attempt.verbose);
    const origin = attempt.origin;
    const by = `hub ${origin.version}, ${origin.ssh_version || "no ssh"}, key ${origin.fingerprints.join(", ") || "none"}`;
    block(body, `To do it again, on ${origin.host} as ${origin.user} (${by})`, attempt.command);
  }

  function entryOf(attempt, opened) {
    const details = make("details");
    const summary = make("summary");
    const when = new Date(attempt.started_at_ms).toLocaleString();
    const said = `${when} · ${attempt.purpose} · ${attempt.cause.replaceAll("_", " ")} · ${duration(1000 * attempt.duration_s)}`;
    summary.append(stateOf(said, attempt.way_works ? (attempt.ok ? "good" : "warn") : "bad"));
    const body = make("div");
    details.append(summary, body);
    drawAttempt(body, attempt);
    let whole = false;
    details.addEventListener("toggle", async () => {
      if (!details.open || whole) return;
      whole = true;
      try {
        drawAttempt(body, await ask(`/attempts/${attempt.id}`));
      } catch (error) {
        whole = false;
        say(at("reach-said"), error.message);
      }
    });
    details.open = opened;
    return details;
  }

  function drawAttempts(attempts) {
    const place = at("reach-attempts");
    for (const attempt of attempts.slice().reverse()) {
      if (open.attempts.has(attempt.id)) continue;
      const entry = entryOf(attempt, attempt === attempts[0]);
      open.attempts.set(attempt.id, entry);
      place.prepend(entry);
    }
    at("reach-empty").hidden = attempts.length > 0;
  }

  async function refresh() {
    window.clearTimeout(open.timer);
    const id = open.id;
    try {
      const [way, listed] = await Promise.all([ask(""), ask(`/attempts?limit=${SHOWN}`)]);
      if (open.id !== id || !dialog.open) return;
      drawWay(way);
      drawAttempts(listed.attempts);
    } catch (error) {
      if (open.id === id) say(at("reach-said"), error.message);
    }
    if (dialog.open) open.timer = window.setTimeout(refresh, AGAIN_MS);
  }

  async function act(button, saying, work) {
    button.disabled = true;
    say(at("reach-said"), saying);
    try {
      await work();
      say(at("reach-said"), "");
    } catch (error) {
      say(at("reach-said"), error.message);
    }
    button.disabled = false;
    await refresh();
  }

  at("nodes").addEventListener("click", (event) => {
    const button = event.target.closest("[data-reach]");
    if (button === null) return;
    open.id = button.dataset.reach;
    open.attempts.clear();
    at("reach-attempts").replaceChildren();
    at("reach-way").replaceChildren();
    say(at("reach-title"), "Way in by SSH");
    say(at("reach-said"), "");
    dialog.showModal();
    refresh();
  });
  at("reach-try").addEventListener("click", (event) =>
    act(event.currentTarget, "Logging in; this may take a while.", () => post("/attempts", { probe: "login" })));
  at("reach-accept").addEventListener("click", (event) => act(event.currentTarget, "", () => post("/accept", {})));
  at("reach-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => window.clearTimeout(open.timer));
})();
