// Who is signed in, and what this person may do.
import { computed, signal } from "@preact/signals";
import { BASE, ApiError, address, get, remove, request, whenSignedOut } from "../api/client";
import { again, startEvents } from "../api/events";
import type { WhoAmI } from "../api/schema";

export type Session =
  | { state: "asking" }
  | { state: "in"; who: WhoAmI }
  | { state: "out"; ended: boolean } // ended: the page was used before
  | { state: "unreachable"; error: string };

export const session = signal<Session>({ state: "asking" });

export const userName = computed(() => (session.value.state === "in" ? session.value.who.name : ""));

const RANK: Record<string, number> = { reader: 1, writer: 2, admin: 3 };

// True if one of the person's roles over this repo (or its project, or everything) is at least `role`.
export function may(role: "reader" | "writer" | "admin", project: string, repo?: string): boolean {
  if (session.value.state !== "in") return false;
  const scopes = new Set(["", project, ...(repo ? [`${project}/${repo}`] : [])]);
  return session.value.who.roles.some((one) => scopes.has(one.scope) && (RANK[one.role] ?? 0) >= RANK[role]!);
}

// Asks who this is; begins to follow events when somebody is signed in.
export async function askWho(): Promise<void> {
  try {
    // the newest event is known before anything is loaded: what happens until the stream has begun is told by it afterwards
    const [who, events] = await Promise.all([get("/api/v1/whoami"), get("/api/v1/events", { query: { limit: 1 } })]);
    session.value = { state: "in", who };
    startEvents(events.last);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return; // whenSignedOut has said so
    session.value = { state: "unreachable", error: error instanceof Error ? error.message : String(error) };
  }
}

whenSignedOut(() => {
  if (session.value.state !== "out") session.value = { state: "out", ended: session.value.state === "in" };
});

// The address of a login link made with the token, which itself is kept nowhere. Throws ApiError.
async function linkFor(token: string, to: string): Promise<string> {
  const response = await request(address("/api/v1/login-links"), {
    method: "POST",
    credentials: "omit",
    headers: { Authorization: `Bearer ${token}`, Accept: "application/json" },
  });
  const { url } = (await response.json()) as { url: string };
  const code = new URL(url).searchParams.get("token") ?? "";
  return `${BASE}login?${new URLSearchParams({ token: code, to })}`;
}

// Signs in, and leads to a page.
export async function signIn(token: string, to: string): Promise<void> {
  location.assign(await linkFor(token, to));
}

// Signs in again without leaving the page: what was typed, and a push that goes on, stay.
export async function signInHere(token: string): Promise<void> {
  await request(await linkFor(token, "/healthz")); // it leads on to something small
  await askWho();
  again();
}

export async function signOut(): Promise<void> {
  await remove("/api/v1/login-sessions/{id}", { id: "current" });
  location.assign(BASE);
}
