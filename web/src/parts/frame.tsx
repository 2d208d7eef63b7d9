// What is around every page: the bar with the places, the find field, the connection, the person; the banner when nothing answers.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { connection } from "../api/events";
import { clock, duration } from "../core/format";
import { finding, keysOn, showingKeys, turnKeys } from "../core/keys";
import { now } from "../core/now";
import { offline } from "../core/offline";
import { type Place, href as linkOf } from "../core/places";
import { session, signOut, userName } from "../core/session";
import { Dialog } from "./dialog";
import { FindDialog } from "./find";
import { Icon } from "./icons";
import { To } from "./words";

// How many things need somebody: set by the start page.
export const needs = signal(0);

// What is read out: what needs somebody, at most one sentence in five seconds. Of several that come sooner the newest is said then.
export const said = signal("");
const SAY_MS = 5000;
let lastSaid = -Infinity;
let waits: ReturnType<typeof setTimeout> | undefined;

export function announce(text: string): void {
  clearTimeout(waits);
  waits = setTimeout(() => {
    lastSaid = Date.now();
    said.value = text;
  }, Math.max(0, lastSaid + SAY_MS - Date.now()));
}

// Announces a sentence when it changes while the page is shown; the first one is what the page was opened with. "" says nothing.
export function useAnnounced(text: string): void {
  const before = useRef<string | null>(null);
  useEffect(() => {
    if (text && before.current !== null && before.current !== text) announce(text);
    before.current = text;
  }, [text]);
}

const PLACES: { text: string; place: Place; pages: Place["page"][] }[] = [
  { text: "Home", place: { page: "home" }, pages: ["home"] },
  { text: "Runs", place: { page: "runs" }, pages: ["runs", "run", "job", "log"] },
  { text: "Data", place: { page: "data" }, pages: ["data", "repo", "files", "diff", "why"] },
  { text: "Pipelines", place: { page: "pipelines" }, pages: ["pipelines", "pipeline", "check"] },
  { text: "GPUs", place: { page: "gpus" }, pages: ["gpus"] },
  { text: "Metrics", place: { page: "metrics", project: "-", stage: "" }, pages: ["metrics"] },
];

function Brand() {
  return (
    <To class="brand" place={{ page: "home" }}>
      <svg viewBox="0 0 26 16" aria-hidden="true">
        <rect x="1" y="4.5" width="9" height="7" rx="3.5" fill="var(--data-bg)" stroke="var(--data)" stroke-width="1.5" />
        <path d="M10 8h5" stroke="currentColor" stroke-width="1.5" />
        <rect x="15.5" y="3" width="9" height="10" rx="1.5" fill="none" stroke="currentColor" stroke-width="1.5" />
      </svg>
      pipelined
    </To>
  );
}

function Live() {
  return <span class={`live ${offline.value ? "off" : ""}`}>{offline.value ? "no answer" : "live"}</span>;
}

function Person() {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const away = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !place.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("keydown", away);
    document.addEventListener("pointerdown", away);
    return () => {
      document.removeEventListener("keydown", away);
      document.removeEventListener("pointerdown", away);
    };
  }, [open]);
  const roles = session.value.state === "in" ? session.value.who.roles : [];
  return (
    <div ref={place} class="me">
      <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>{userName}</button>
      {open && (
        <div class="panel menu stack">
          <p><b>{userName}</b></p>
          <ul class="muted">{roles.map((role) => <li>{role.role} of {role.scope || "everything"}</li>)}</ul>
          <p><button type="button" class="btn small" onClick={() => { setOpen(false); showingKeys.value = true; }}>Keys</button></p>
          <p><button type="button" class="btn small" onClick={() => void signOut()}>Sign out</button></p>
        </div>
      )}
    </div>
  );
}

// Shown when nothing was heard for three seconds.
function Banner() {
  if (!offline.value) return null;
  const { since, heard, retryAt } = connection.value;
  const gone = now.value - since;
  const next = Math.max(0, Math.ceil((retryAt - now.value) / 1000));
  return (
    <div class="banner" role="status">
      <Icon of="waiting" class="state waiting" />
      <div>
        <b>No answer from the daemon for {duration(Math.floor(gone / 1000) * 1000)}.</b> What you see is from {clock(heard * 1000)}.{" "}
        Nothing can be run, stopped or changed meanwhile. {next > 0 ? `Trying again in ${next} s.` : "Trying again."}
      </div>
    </div>
  );
}

const KEYS: [string, string][] = [
  ["/ or Ctrl k", "find a stage, run, repo, pipeline, job, commit or file"],
  ["g then h r d p g m", "home, runs, data, pipelines, GPUs, metrics"],
  ["j k", "next and previous row"],
  ["Enter", "open what has the focus"],
  ["Esc", "close"],
  ["?", "this list"],
  ["f + -", "graph: all of it, nearer, farther; logs: follow"],
  ["s", "graph: find a stage or repo in it"],
  ["\u2190 \u2192 \u2191 \u2193 x", "graph: along the edges, up and down; fold the pipeline"],
  ["n p c", "failures: next, previous, copy the try command"],
];

function KeysDialog() {
  return (
    <Dialog title="Keys" close={() => (showingKeys.value = false)}>
      <dl class="kv">{KEYS.map(([key, what]) => <><dt><kbd>{key}</kbd></dt><dd>{what}</dd></>)}</dl>
      <label class="check"><input type="checkbox" checked={keysOn.value} onChange={(event) => turnKeys(event.currentTarget.checked)} />Single keys do something</label>
      <div class="acts"><button type="button" class="btn" autofocus onClick={() => (showingKeys.value = false)}>Close</button></div>
    </Dialog>
  );
}

// Fragment links would leave the page where a proxy's base is: the focus is moved by hand.
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

export function Frame({ place, children }: { place: Place; children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <header class="top">
        <Brand />
        <nav aria-label="Main">
          {PLACES.map((one) => (
            <a key={one.text} href={linkOf(one.place)} {...(one.pages.includes(place.page) ? { "aria-current": "page" as const } : {})}>
              {one.text}
              {one.text === "Home" && needs.value > 0 ? <span class="dot"><span class="visually-hidden">, </span>{needs.value}<span class="visually-hidden"> need you</span></span> : null}
            </a>
          ))}
        </nav>
        <button type="button" class="find" aria-label="Find a run, repo, pipeline or file" onClick={() => (finding.value = true)}>
          <Icon of="find" /><span>Find a run, repo, pipeline or file</span><kbd aria-hidden="true">/</kbd>
        </button>
        <Live />
        <Person />
      </header>
      <main class="page" id="main" tabIndex={-1}>
        <Banner />
        {children}
      </main>
      <div class="visually-hidden" aria-live="polite">{said}</div>
      {finding.value && <FindDialog close={() => (finding.value = false)} />}
      {showingKeys.value && <KeysDialog />}
    </>
  );
}

