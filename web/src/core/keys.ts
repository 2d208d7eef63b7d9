// Keys that work everywhere: / find, g then a letter for a place, j k rows, Enter open, Esc close, ? the list of keys. Not while typing.
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { type Place, pathOf } from "./places";
import { go } from "./going";

export const finding = signal(false);
export const showingKeys = signal(false);
const KEPT = "pipelined-keys-off";
export const keysOn = signal(readKept());

function readKept(): boolean {
  try {
    return localStorage.getItem(KEPT) === null;
  } catch {
    return true; // storage is closed to this page
  }
}

export function turnKeys(on: boolean): void {
  keysOn.value = on;
  try {
    if (on) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, "1");
  } catch {
    // it holds until the page is closed
  }
}

const PLACES: Record<string, Place> = {
  h: { page: "home" },
  r: { page: "runs" },
  d: { page: "data" },
  p: { page: "pipelines" },
  g: { page: "gpus" },
  m: { page: "metrics", project: "-", stage: "" },
};

// Keys of the page that is shown, by their letter.
const own = new Map<string, () => void>();

// Gives the page its keys. They do what the page that is seen does: they are set with the drawing, not some time after it.
export function usePageKeys(keys: Record<string, () => void>, inputs?: unknown[]): void {
  useLayoutEffect(() => {
    for (const [key, call] of Object.entries(keys)) own.set(key, call);
    return () => {
      for (const [key, call] of Object.entries(keys)) if (own.get(key) === call) own.delete(key);
    };
  }, inputs);
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

// Moves the focus to the next or the previous row's link of the list that has it, or of the first list.
function row(step: number): void {
  const links = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  if (links.length === 0) return;
  const at = links.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next]!.focus();
}

let afterG = -Infinity; // when g was pressed, by the clock of events: the page may have been busy since

function pressed(event: KeyboardEvent): void {
  // also while typing, and with single keys turned off
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key === "k" && !document.querySelector("dialog[open]")) {
    finding.value = true;
    event.preventDefault();
    return;
  }
  if (!keysOn.value || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
  const place = event.timeStamp - afterG < 1500 ? PLACES[event.key] : undefined;
  afterG = -Infinity;
  if (place) go(pathOf(place));
  else if (event.key === "g") afterG = event.timeStamp;
  else if (event.key === "/") finding.value = true;
  else if (event.key === "?") showingKeys.value = true;
  else if (event.key === "j") row(1);
  else if (event.key === "k") row(-1);
  else if (own.has(event.key)) own.get(event.key)!();
  else return;
  event.preventDefault();
}

export function startKeys(): void {
  document.addEventListener("keydown", pressed);
}
