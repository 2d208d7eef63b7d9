// The shapes of states and the signs of things, 16 x 16, drawn in the colour of the text around them.
import type { ComponentChildren } from "preact";
import type { Shape, State } from "../core/states";

export type Sign = "again" | "compare" | "copy" | "down" | "file" | "find" | "folder" | "git" | "repo" | "stage" | "stop" | "up" | "close" | "picture";

const cut = "var(--surface)";
const SHAPES: Record<Shape | Sign, ComponentChildren> = {
  waiting: <><circle cx="8" cy="8" r="6" /><path d="M8 4.8V8l2.3 1.4" /></>,
  starting: <circle cx="8" cy="8" r="6" stroke-dasharray="2.2 2.5" />,
  running: <><circle cx="8" cy="8" r="6" /><path d="M8 4.2a3.8 3.8 0 0 1 0 7.6z" fill="currentColor" stroke="none" /></>,
  finishing: <><circle cx="8" cy="8" r="6" /><path d="M8 8V4.2A3.8 3.8 0 1 1 4.2 8z" fill="currentColor" stroke="none" /></>,
  done: <><circle cx="8" cy="8" r="6.75" fill="currentColor" stroke="none" /><path d="M5 8.2l2.1 2.1L11 6.2" stroke={cut} /></>,
  part: <><path d="M8 1.8l6.6 11.9H1.4z" fill="currentColor" stroke="currentColor" /><path d="M8 6.2v3.4M8 11.7v.1" stroke={cut} /></>,
  failed: <><path d="M5.3 1.4h5.4l3.9 3.9v5.4l-3.9 3.9H5.3l-3.9-3.9V5.3z" fill="currentColor" stroke="none" /><path d="M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6" stroke={cut} /></>,
  stopped: <rect x="3" y="3" width="10" height="10" rx="1.5" fill="currentColor" stroke="none" />,
  not: <><circle cx="8" cy="8" r="6" /><path d="M4 12l8-8" /></>,
  stale: <path d="M13.5 8A5.5 5.5 0 1 1 11.6 3.8M13.5 2v3h-3" />,
  free: <circle cx="8" cy="8" r="6" stroke-dasharray="2.2 2.5" />,
  idle: <><circle cx="8" cy="8" r="6" /><path d="M6.3 5.8v4.4M9.7 5.8v4.4" /></>,
  again: <path d="M2.5 8A5.5 5.5 0 1 0 4.4 3.8M2.5 2v3h3" />,
  compare: <path d="M5 2v12M11 2v12M2 5l3-3 3 3M8 11l3 3 3-3" />,
  copy: <><rect x="5.5" y="5.5" width="8" height="8" rx="1" /><path d="M10.5 5.5v-3h-8v8h3" /></>,
  down: <path d="M8 2v8M4.8 7L8 10.2 11.2 7M2.5 13.5h11" />,
  file: <path d="M4 1.8h5.2L12.5 5v9.2H4zM9 2v3.3h3.3" />,
  find: <><circle cx="7" cy="7" r="4.7" /><path d="M10.6 10.6L14 14" /></>,
  folder: <path d="M1.8 12.8V3.6h4.3l1.5 1.8h6.6v7.4z" />,
  git: <><circle cx="4.5" cy="3.5" r="1.8" /><circle cx="4.5" cy="12.5" r="1.8" /><circle cx="11.5" cy="6" r="1.8" /><path d="M4.5 5.3v5.4M11.5 7.8c0 2.4-4 1.6-6 3.3" /></>,
  repo: <><ellipse cx="8" cy="4" rx="5" ry="2.1" /><path d="M3 4v8c0 1.2 2.2 2.1 5 2.1s5-.9 5-2.1V4" /></>,
  stage: <><rect x="2.5" y="3.5" width="11" height="9" rx="1.5" /><path d="M5.5 8h5" /></>,
  stop: <rect x="4" y="4" width="8" height="8" rx="1" />,
  up: <path d="M8 13V4M4.5 7.5L8 4l3.5 3.5" />,
  close: <path d="M4 4l8 8M12 4l-8 8" />,
  picture: <><rect x="2" y="3" width="12" height="10" rx="1" /><path d="M2.5 11l3.2-3.4 2.3 2.3 2.2-2.6 3.3 3.7" /></>,
};

// A sign beside its word: nothing for a screen reader.
export function Icon({ of, class: also = "" }: { of: Shape | Sign; class?: string }) {
  const spins = of === "running" || of === "starting" || of === "finishing";
  return (
    <svg class={`i ${spins ? "spin" : ""} ${also}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      {SHAPES[of]}
    </svg>
  );
}

// The shapes alone, for the graph.
export function shapeOf(of: Shape | Sign): ComponentChildren {
  return SHAPES[of];
}

export function StateWord({ of, children }: { of: State; children?: ComponentChildren }) {
  return (
    <span class={`state ${of.shape}`}>
      <Icon of={of.shape} />
      <span>{of.word}{children}</span>
    </span>
  );
}
