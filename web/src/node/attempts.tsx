// Attempts to reach a node by SSH: cause, remedy, the whole of what ssh said, and the command to do it again.

import { useEffect, useState } from "preact/hooks";
import { useFetched } from "../components/fetched";
import { Remedy } from "../components/remedy";
import { State } from "../components/state";
import { RawText } from "../components/raw_text";
import { visibleLine } from "../components/terminal_text";
import { took } from "../components/waterfall";
import type { Attempt } from "./bodies";
import { attemptOf, attemptsOf } from "./calls";
import { Refusal } from "../components/refusal";
import { stamp } from "../words";

const EVERY_MS = 10_000;
const PAGE = 10;

export function Attempts({ nodeId, changes }: { nodeId: string; changes: number }) {
  const newest = useFetched((stop) => attemptsOf(nodeId, PAGE, "", stop), [nodeId, changes], EVERY_MS);
  const [older, setOlder] = useState<{ attempts: Attempt[]; next: string | null } | null>(null);
  const [why, setWhy] = useState("");
  useEffect(() => setOlder(null), [nodeId]);
  const shown = new Map<string, Attempt>();
  for (const one of [...(newest.value?.attempts ?? []), ...(older?.attempts ?? [])]) shown.set(one.id, one);
  const attempts = [...shown.values()];
  const next = older === null ? (newest.value?.next ?? null) : older.next;
  const more = async () => {
    if (next === null) return;
    try {
      const page = await attemptsOf(nodeId, PAGE, next);
      setOlder({ attempts: [...(older?.attempts ?? []), ...page.attempts], next: page.next });
    } catch (error) {
      setWhy((error as Error).message);
    }
  };
  return (
    <>
      <h3>Attempts</h3>
      <Refusal why={why || newest.error} />
      {newest.value !== null && attempts.length === 0 && <p class="empty">Nobody has tried yet.</p>}
      <div class="attempts">
        {attempts.map((attempt, index) => (
          <One key={attempt.id} attempt={attempt} first={index === 0} />
        ))}
      </div>
      {next !== null && (
        <button type="button" class="quiet" onClick={() => void more()}>
          Older
        </button>
      )}
    </>
  );
}

function One({ attempt, first }: { attempt: Attempt; first: boolean }) {
  const [open, setOpen] = useState(first && !attempt.way_works);
  const [whole, setWhole] = useState<Attempt | null>(null);
  const [why, setWhy] = useState("");
  useEffect(() => {
    if (!open || whole !== null) return;
    attemptOf(attempt.node, attempt.id).then(setWhole, (error: Error) => setWhy(error.message));
  }, [open]);
  const cause = attempt.cause.replaceAll("_", " ");
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <State severity={attempt.way_works ? (attempt.ok ? "ok" : "warn") : "bad"}>{cause}</State>{" "}
        <span class="muted number">
          {stamp(attempt.started_at_ms)} · {attempt.purpose} · {took(1000 * attempt.duration_s)}
        </span>
      </summary>
      <Refusal why={why} />
      {open && <Told attempt={whole ?? attempt} />}
    </details>
  );
}

function Told({ attempt }: { attempt: Attempt }) {
  const origin = attempt.origin;
  const by = [origin.asked_by, origin.asked_from].filter(Boolean).map(visibleLine).join(" from ");
  return (
    <>
      <Remedy text={attempt.remedy} />
      <dl class="facts">
        <Fact name="ssh ended" value={endOf(attempt)} />
        <Fact name="target" value={attempt.target} />
        <Fact name="asked for by" value={by} />
        <Fact name="note" value={attempt.note} />
        <Fact name="connection" value={attempt.fresh ? "a login of its own" : "one that stood already"} />
        {attempt.retry_of !== null && <Fact name="second try of" value={attempt.retry_of} />}
      </dl>
      {attempt.differs.length > 0 && (
        <div class="says">
          Since the last login that worked:
          <ul>
            {attempt.differs.map((line) => (
              <li key={line}>{visibleLine(line)}</li>
            ))}
          </ul>
        </div>
      )}
      <RawText title={`ssh said, ${attempt.stderr_bytes} bytes`} text={attempt.stderr} empty="nothing" />
      <RawText title={`The command printed, ${attempt.stdout_bytes} bytes`} text={attempt.stdout} />
      <RawText title="The login printed before" text={attempt.before} />
      <RawText title="Keys offered, from a login with -v" text={attempt.verbose} />
      <RawText
        title={`To do it again, on ${visibleLine(origin.host)} as ${visibleLine(origin.user)} (hub ${origin.version}, ${
          visibleLine(origin.ssh_version) || "no ssh"
        }, ${origin.fingerprints.map(visibleLine).join(", ") || "no key"})`}
        text={attempt.command}
      />
    </>
  );
}

function endOf(attempt: Attempt): string {
  const ended =
    attempt.exit_code !== null
      ? `code ${attempt.exit_code}`
      : attempt.signal !== null
        ? `signal ${attempt.signal}`
        : "it did not end by itself";
  return attempt.remote_exit_code === null ? ended : `${ended}; the command there with code ${attempt.remote_exit_code}`;
}

function Fact({ name, value }: { name: string; value: string }) {
  if (value === "") return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{visibleLine(value)}</dd>
    </div>
  );
}
