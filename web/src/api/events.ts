// What happens in the daemon, heard once for all tabs of the browser.
//
//   tab that holds the lock "events" ──fetch /events?since=LAST──▶ BroadcastChannel ──▶ every tab's listeners
//        │ lost: again after 1, 2, 4 … 15 s, from the event after the last one
//        └ closed: another tab gets the lock and goes on from the last event that it heard
//
// Without locks (a page that is neither https nor on this machine) each tab follows for itself.
import { signal } from "@preact/signals";
import { ApiError, BASE, address, request } from "./client";
import { EventParser } from "./sse";

export interface Happening {
  type: string;
  data: Record<string, unknown>;
}

export interface Connection {
  live: boolean;
  since: number; // ms since 1970: when it went on or off
  heard: number; // ms since 1970: the last sign of life
  retryAt: number; // ms since 1970: the next try; 0 while one runs
}

const SILENT_MS = 40_000; // the daemon sends a comment every 15 s
const RETRY_MAX_MS = 15_000;

export const connection = signal<Connection>({ live: true, since: Date.now(), heard: Date.now(), retryAt: 0 });

type Listener = (happening: Happening) => void;
const listeners = new Set<Listener>();

// Calls for each event until the returned function is called. "again" is an event of our own: something may have been missed.
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

type Message = { event: Happening; id: string } | { connection: Connection };
const NAME = `pipelined-events ${BASE}`; // several daemons may be behind one host, each below a path of its own
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(NAME);
let last = "";

function tell(happening: Happening): void {
  for (const listener of [...listeners]) listener(happening);
}

// Something may have been missed: everything that is shown is loaded anew.
export function again(): void {
  tell({ type: "again", data: {} });
}

function take(message: Message): void {
  if ("connection" in message) {
    const before = connection.value;
    connection.value = message.connection;
    if (!before.live && message.connection.live) again();
    return;
  }
  last = message.id || last;
  tell(message.event);
}

function spread(message: Message): void {
  channel?.postMessage(message);
  take(message);
}

function parse(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function alive(): void {
  const now = Date.now();
  const { live, since } = connection.value;
  if (!live) spread({ connection: { live: true, since: now, heard: now, retryAt: 0 } });
  else connection.value = { live, since, heard: now, retryAt: 0 };
}

// Follows the stream until it ends or falls silent.
async function follow(stop: AbortSignal): Promise<void> {
  const silent = new AbortController();
  const end = () => silent.abort();
  let timer = setTimeout(end, SILENT_MS);
  stop.addEventListener("abort", end);
  try {
    const response = await request(address("/api/v1/events", {}, { since: last }), { headers: { Accept: "text/event-stream" }, signal: silent.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    alive();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(end, SILENT_MS);
      alive();
      for (const event of parser.push(value)) {
        if (event.type === "reset") last = "";
        spread({ event: { type: event.type === "reset" ? "again" : event.type, data: parse(event.data) }, id: event.id });
      }
    }
  } finally {
    clearTimeout(timer);
    stop.removeEventListener("abort", end);
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function keepFollowing(stop: AbortSignal): Promise<void> {
  let wait = 1000;
  while (!stop.aborted) {
    const began = Date.now();
    try {
      await follow(stop);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return; // the login begins anew
    }
    if (stop.aborted) return;
    if (Date.now() - began > 5000) wait = 1000;
    const { since, live, heard } = connection.value;
    spread({ connection: { live: false, since: live ? Date.now() : since, heard, retryAt: Date.now() + wait } });
    await pause(wait, stop);
    spread({ connection: { ...connection.value, retryAt: 0 } });
    wait = Math.min(wait * 2, RETRY_MAX_MS);
  }
}

let stopper: AbortController | null = null;

// Begins to follow, from what comes after event `newest` or after the last one heard; called again after each login.
export function startEvents(newest: number): void {
  stopper?.abort();
  last ||= String(newest);
  const mine = new AbortController();
  stopper = mine;
  if (channel) channel.onmessage = (message: MessageEvent<Message>) => take(message.data);
  if (navigator.locks && channel) {
    navigator.locks.request(NAME, { signal: mine.signal }, () => keepFollowing(mine.signal)).catch(() => {});
  } else {
    void keepFollowing(mine.signal);
  }
}
