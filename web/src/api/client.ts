// The daemon's REST interface, typed by its own OpenAPI document (schema.d.ts). Requests carry the login cookie.
import type { paths } from "./schema";

// Where the daemon serves: "/" or the path below which a proxy shows it. Read from <base>, which the daemon sets by the depth of the
// request's path; the element is then taken away, so that "#main" is again a place of this page.
export const BASE = (() => {
  const base = typeof document === "undefined" ? "/" : new URL(document.baseURI).pathname;
  if (typeof document !== "undefined") document.querySelector("base")?.remove();
  return base.endsWith("/") ? base : `${base}/`;
})();

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field?: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Reply<O> = O extends { responses: { "2XX": { content: { "application/json": infer T } } } } ? T : unknown;
type Query<O> = O extends { parameters: { query?: infer Q } } ? Exclude<Q, undefined> : never;
type InPath<O> = O extends { parameters: { path: infer T } } ? T : undefined;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer T } } } ? T : undefined;

interface Given<O> {
  path?: InPath<O> | undefined;
  query?: Partial<Query<O>> | undefined;
  signal?: AbortSignal | undefined;
}

type QueryValues = Record<string, string | number | boolean | string[] | undefined | null>;

// Each segment of a file's path is escaped, its slashes stay.
export function escapePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

// The address of an API path whose {names} are filled in.
export function address(pattern: string, path: Record<string, string> = {}, query: QueryValues = {}): string {
  const filled = pattern.replace(/\{(\w+)\}/g, (_, key: string) => (key === "path" ? escapePath(path[key] ?? "") : encodeURIComponent(path[key] ?? "")));
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "" && one !== false) parameters.append(key, one === true ? "1" : String(one));
    }
  }
  const text = parameters.toString();
  return `${BASE}${filled.replace(/^\//, "")}${text ? `?${text}` : ""}`;
}

async function failure(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string; field?: string; hint?: string } };
    return new ApiError(response.status, error.code, error.message, error.field, error.hint);
  } catch {
    return new ApiError(response.status, "", `the daemon answered ${response.status} ${response.statusText}`);
  }
}

// Called when a request is answered with 401: the session has ended, or there was none.
let onSignedOut: () => void = () => {};
export function whenSignedOut(call: () => void): void {
  onSignedOut = call;
}

// A request by its address. Throws ApiError; status 0 means that no answer came.
export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "no_answer", "the daemon does not answer");
  }
  if (response.ok) return response;
  if (response.status === 401) onSignedOut();
  throw await failure(response);
}

export async function get<P extends PathsWith<"get">>(pattern: P, given: Given<Operation<P, "get">> = {}): Promise<Reply<Operation<P, "get">>> {
  const url = address(pattern, given.path as Record<string, string>, given.query as QueryValues);
  const response = await request(url, { headers: { Accept: "application/json" }, ...(given.signal ? { signal: given.signal } : {}) });
  return (await response.json()) as Reply<Operation<P, "get">>;
}

async function send(method: Method, pattern: string, path: unknown, query: unknown, body: unknown): Promise<unknown> {
  const url = address(pattern, path as Record<string, string>, query as QueryValues);
  const init: RequestInit = { method: method.toUpperCase(), headers: { Accept: "application/json", "Content-Type": "application/json" } };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await request(url, init);
  const text = await response.text();
  return text ? JSON.parse(text) : undefined;
}

export async function post<P extends PathsWith<"post">>(
  pattern: P,
  path: InPath<Operation<P, "post">>,
  body?: Body<Operation<P, "post">>,
): Promise<Reply<Operation<P, "post">>> {
  return (await send("post", pattern, path, {}, body)) as Reply<Operation<P, "post">>;
}

export async function remove<P extends PathsWith<"delete">>(pattern: P, path: InPath<Operation<P, "delete">>): Promise<void> {
  await send("delete", pattern, path, {}, undefined);
}

// Where the bytes of a file are.
export function fileAddress(project: string, repo: string, ref: string, path: string): string {
  return address("/api/v1/repos/{project}/{repo}/refs/{ref}/files/{path}", { project, repo, ref, path: path.replace(/^\//, "") });
}

// Where the files that a datum read are, as a zip archive.
export function inputsAddress(project: string, stage: string, run: string, datum: string): string {
  return address("/api/v1/jobs/{project}/{stage}/{run}/datums/{datum}/inputs", { project, stage, run, datum });
}
