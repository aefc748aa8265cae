// The REST interface, typed by the hub's own OpenAPI document (schema.ts, made by `make page`).

import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

type Method = "get" | "post" | "put" | "delete" | "patch";
type PathsWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Good = 200 | 201 | 202;
type Json<R> = R extends { content: { "application/json": infer B } } ? B : never;
export type Answered<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { responses: infer R } ? Json<R[keyof R & Good]> : never;
type Sent<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { requestBody: { content: { "application/json": infer B } } } ? B : undefined;

export interface Where {
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The hub said no; its sentence is fit to be shown. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string | number,
    detail: string,
    readonly body: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

/** The hub did not answer at all. */
export class Unreachable extends Error {}

let loggedOut: () => void = () => undefined;

/** What to do when an answer says that there is no session any more. */
export function onLoggedOut(act: () => void): void {
  loggedOut = act;
}

export function address(path: string, where: Where = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(where.path?.[name] ?? ""));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(where.query ?? {})) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text === "" ? filled : `${filled}?${text}`;
}

/** One request. Every header a state-changing request by cookie needs goes with each. */
export async function request(method: string, path: string, where: Where = {}, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", "X-Provewire": "1", ...where.headers };
  const init: RequestInit = { method: method.toUpperCase(), headers, credentials: "same-origin", cache: "no-store" };
  if (body instanceof Blob) init.body = body;
  else if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  if (where.signal) init.signal = where.signal;
  let response: Response;
  try {
    response = await fetch(address(path, where), init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable("The hub does not answer; look whether it runs and can be reached.");
  }
  if (response.ok) return response;
  if (response.status === 401) loggedOut();
  throw await problemOf(response);
}

async function problemOf(response: Response): Promise<ApiProblem> {
  try {
    const body = (await response.json()) as Record<string, unknown>;
    const code = body["code"];
    return new ApiProblem(
      response.status,
      typeof code === "string" || typeof code === "number" ? code : "unknown",
      String(body["detail"] ?? response.statusText),
      body,
    );
  } catch {
    return new ApiProblem(response.status, "unknown", `The hub answered ${response.status} ${response.statusText}.`);
  }
}

async function json(response: Response): Promise<unknown> {
  return response.status === 204 ? undefined : await response.json();
}

export const api = {
  async get<P extends PathsWith<"get">>(path: P, where: Where = {}): Promise<Answered<P, "get">> {
    return (await json(await request("get", path, where))) as Answered<P, "get">;
  },
  async post<P extends PathsWith<"post">>(path: P, body: Sent<P, "post">, where: Where = {}): Promise<Answered<P, "post">> {
    return (await json(await request("post", path, where, body))) as Answered<P, "post">;
  },
  async put<P extends PathsWith<"put">>(path: P, body: Sent<P, "put"> | Blob, where: Where = {}): Promise<Answered<P, "put">> {
    return (await json(await request("put", path, where, body))) as Answered<P, "put">;
  },
  async patch<P extends PathsWith<"patch">>(path: P, body: Sent<P, "patch">, where: Where = {}): Promise<Answered<P, "patch">> {
    return (await json(await request("patch", path, where, body))) as Answered<P, "patch">;
  },
  async delete<P extends PathsWith<"delete">>(path: P, where: Where = {}): Promise<void> {
    await request("delete", path, where);
  },
};

/** Any failure as one sentence. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
