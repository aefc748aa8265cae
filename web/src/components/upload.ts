// A file's digest, and the file to the hub under it; both in pieces, so that a key of gigabytes fits.

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

const PIECE_BYTES = 4 * 1024 * 1024;

/** Between 0 and 1. */
export type Progress = (share: number) => void;

/** The SHA-256 of a file, in lower-case hex. The browser's own would need the whole file in memory, and TLS. */
export async function digestOf(file: Blob, progress: Progress, stop: AbortSignal): Promise<string> {
  const hash = sha256.create();
  for (let at = 0; at < file.size; at += PIECE_BYTES) {
    stop.throwIfAborted();
    hash.update(new Uint8Array(await file.slice(at, at + PIECE_BYTES).arrayBuffer()));
    progress(Math.min(1, (at + PIECE_BYTES) / file.size));
  }
  progress(1);
  return bytesToHex(hash.digest());
}

/** An upload's refusal, in the hub's own words where there are any. */
export class UploadFailed extends Error {}

/** Send a file. `fetch` does not tell how far an upload is; this does. */
export function upload(
  file: Blob,
  path: string,
  headers: Readonly<Record<string, string>>,
  progress: Progress,
  stop: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () =>
      request.status >= 200 && request.status < 300 ? resolve() : reject(new UploadFailed(refusalOf(request)));
    request.onerror = () => reject(new UploadFailed("the connection broke while the file was sent; send it again"));
    request.onabort = () => reject(new DOMException("the upload was stopped", "AbortError"));
    stop.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}

function refusalOf(request: XMLHttpRequest): string {
  try {
    const told = (JSON.parse(request.responseText) as { detail?: unknown }).detail;
    if (typeof told === "string") return told;
  } catch {
    // no problem document: the status alone has to do
  }
  return `the hub answered ${request.status}`;
}
