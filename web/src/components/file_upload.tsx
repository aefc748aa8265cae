// A file to the hub: its digest first, which is its name there, then the file itself; both tell how far they are.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiProblem, address, request, sentence } from "../api";
import { bytes, percent } from "../words";
import { digestOf, upload } from "./upload";
import { Trouble } from "./state";

type Stage =
  | { readonly at: "empty" }
  | { readonly at: "hashing" | "sending"; readonly share: number }
  | { readonly at: "there"; readonly sha256: string; readonly known: boolean }
  | { readonly at: "failed"; readonly why: string };

interface Props {
  label: string;
  accept: string;
  /** The digest once the file is at the hub; null while it is not. */
  uploaded: (sha256: string | null, file: File | null) => void;
}

export function FileUpload({ label, accept, uploaded }: Props) {
  const [stage, setStage] = useState<Stage>({ at: "empty" });
  const [file, setFile] = useState<File | null>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  const begin = async (chosen: File | null) => {
    running.current?.abort();
    const stop = new AbortController();
    running.current = stop;
    setFile(chosen);
    uploaded(null, chosen);
    setStage({ at: "empty" });
    if (chosen === null) return;
    const told = (next: Stage) => stop.signal.aborted || setStage(next);
    try {
      const sha256 = await digestOf(chosen, (share) => told({ at: "hashing", share }), stop.signal);
      const known = await isThere(sha256, stop.signal);
      if (!known) {
        told({ at: "sending", share: 0 });
        const path = address("/api/v1/artifacts/{sha256}", { path: { sha256 } });
        await upload(chosen, path, { "X-Provewire": "1" }, (share) => told({ at: "sending", share }), stop.signal);
      }
      told({ at: "there", sha256, known });
      if (!stop.signal.aborted) uploaded(sha256, chosen);
    } catch (error) {
      told({ at: "failed", why: sentence(error) });
    }
  };
  return (
    <div class="upload">
      <label>
        {label}
        <input
          type="file"
          accept={accept}
          required
          onChange={(event) => void begin(event.currentTarget.files?.[0] ?? null)}
        />
      </label>
      <Told stage={stage} file={file} />
    </div>
  );
}

function Told({ stage, file }: { stage: Stage; file: File | null }) {
  switch (stage.at) {
    case "empty":
      return null;
    case "failed":
      return <Trouble>{stage.why}</Trouble>;
    case "there":
      return (
        <p role="status" class="muted">
          {stage.known ? "It was at the hub already: " : "It is at the hub: "}
          <span class="mono">{stage.sha256}</span>
        </p>
      );
    default:
      return (
        <p role="status">
          {stage.at === "hashing" ? "Taking its digest" : "Sending it"}, {percent(stage.share)} of {bytes(file?.size)}{" "}
          <progress aria-label={stage.at} max={1} value={stage.share} />
        </p>
      );
  }
}

async function isThere(sha256: string, stop: AbortSignal): Promise<boolean> {
  try {
    await request("head", "/api/v1/artifacts/{sha256}", { path: { sha256 }, signal: stop });
    return true;
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 404) return false;
    throw error;
  }
}
