// How the graph is folded by hand, as the address has it; what a search finds in it; and what an event says of a stage.
import type { Job, StageState } from "../api/schema";
import type { Drawing, Node } from "./drawing";

// Boxes that are opened and shut, and nodes that are taken out of their boxes.
export interface Wishes {
  keep: string[]; // keys of nodes
  spread: string[]; // keys of nodes of which none that is alike folds
  open: string[]; // PROJECT/PIPELINE
  shut: string[];
}

const KINDS = ["keep", "spread", "open", "shut"] as const;
const MOST = 100; // the daemon takes no more of each

export function wishesOf(query: URLSearchParams): Wishes {
  const list = (kind: string) => (query.get(kind) ?? "").split(",").filter(Boolean).slice(-MOST);
  return { keep: list("keep"), spread: list("spread"), open: list("open"), shut: list("shut") };
}

// For setQuery: an empty list takes the word away.
export function queryOf(wishes: Wishes): Record<(typeof KINDS)[number], string> {
  return { keep: wishes.keep.join(","), spread: wishes.spread.join(","), open: wishes.open.join(","), shut: wishes.shut.join(",") };
}

const added = (list: string[], one: string) => [...list.filter((other) => other !== one), one].slice(-MOST);
const without = (list: string[], one: string) => list.filter((other) => other !== one);

export const taken = (wishes: Wishes, key: string): Wishes => ({ ...wishes, keep: added(wishes.keep, key) });

// Opens a box of several nodes. A box of several pipelines at once has none of its own and cannot be opened.
export function opened(wishes: Wishes, node: Node): Wishes | null {
  if (node.kind === "stages" || node.kind === "repos") return node.members?.[0] ? { ...wishes, spread: added(wishes.spread, node.members[0]) } : null;
  if (node.kind !== "pipelines" || !node.pipeline) return null;
  const pipeline = `${node.project}/${node.pipeline}`;
  return { ...wishes, open: added(wishes.open, pipeline), shut: without(wishes.shut, pipeline) };
}

// Shuts a pipeline to one box; what was taken out of it goes back in.
export function shut(wishes: Wishes, pipeline: string, drawings: Drawing[]): Wishes {
  const own = new Set<string>();
  for (const drawing of drawings) {
    for (const node of drawing.nodes) {
      if (`${node.project}/${node.pipeline}` !== pipeline) continue;
      if (node.key) own.add(node.key);
      for (const member of node.members ?? []) own.add(member);
    }
  }
  const others = (list: string[]) => list.filter((key) => !own.has(key));
  return { keep: others(wishes.keep), spread: others(wishes.spread), open: without(wishes.open, pipeline), shut: added(wishes.shut, pipeline) };
}

// ---- search

export interface Hit {
  key: string;
  at: number; // the node that shows it: itself, or the box that it lies in
  inside: boolean;
}

const named = (key: string) => key.slice(key.indexOf("/") + 1);

// Stages and repos with the text in their names, those that begin with it first; of equals, from left to right.
export function hitsOf(drawings: Drawing[], text: string): Hit[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const hits: (Hit & { rank: number; order: number })[] = [];
  const seen = new Set<string>();
  let order = 0;
  const take = (key: string, at: number, inside: boolean) => {
    const name = named(key).toLowerCase();
    const has = wanted.includes("/") ? key.toLowerCase().includes(wanted) : name.includes(wanted);
    if (!has || seen.has(`${at} ${key}`)) return;
    seen.add(`${at} ${key}`);
    hits.push({ key, at, inside, rank: name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2, order: order++ });
  };
  for (const drawing of drawings) {
    for (const node of [...drawing.nodes].sort((a, b) => a.layer - b.layer || a.y - b.y)) {
      if (node.key) take(node.key, node.at, false);
      for (const member of node.members ?? []) take(member, node.at, true);
    }
  }
  return hits.sort((a, b) => a.rank - b.rank || a.order - b.order).map(({ key, at, inside }) => ({ key, at, inside }));
}

// ---- events

const WORDS: Record<string, string> = { created: "waiting", success: "done", failure: "failed", killed: "stopped", unrunnable: "not_run" };
const RUNS = new Set(["starting", "running", "finishing"]);

const count = (counts: unknown, key: string): number => {
  const value = (counts as Record<string, unknown> | undefined)?.[key];
  return typeof value === "number" ? value : 0;
};

function wordOf(state: string, reason: string, failed: number): string {
  if (state === "success" && failed > 0) return "partly_failed";
  if (state === "starting" && reason.startsWith("waiting ")) return "waiting";
  if (state === "killed" && reason.startsWith("superseded by ")) return "superseded";
  return WORDS[state] ?? state;
}

// A stage as a job of it left it.
export function stageOfJob(job: Job): StageState {
  const { total, done, reused, failed } = job.datums;
  return {
    key: `${job.project}/${job.stage}`, project: job.project, name: job.stage, state: wordOf(job.state, job.reason, failed), stale: false, stopped: false, reason: job.reason, run: job.run,
    datums: { total, done, reused, failed }, ...(job.device ? { device: job.device } : {}), ...(job.started_us ? { started_us: job.started_us } : {}), ...(job.finished_us ? { finished_us: job.finished_us } : {}),
  };
}

// A stage after a job's event, or null if the event does not change it. A job that runs counts before one that waits behind it.
export function afterJob(before: StageState | undefined, event: Record<string, unknown>): StageState | null {
  const text = (key: string) => (typeof event[key] === "string" ? (event[key] as string) : "");
  if (!before || before.key !== `${text("project")}/${text("stage")}` || !text("state")) return null;
  const counts = event["counts"];
  const state = wordOf(text("state"), text("reason"), count(counts, "failed"));
  if (before.run !== text("run") && RUNS.has(before.state) && !RUNS.has(state)) return null;
  const datums = { total: count(counts, "total"), reused: count(counts, "reused"), done: count(counts, "done"), failed: count(counts, "failed") };
  const same = before.run === text("run");
  const { started_us: _started, finished_us: _finished, ...rest } = before;
  return { ...(same ? before : rest), state, reason: text("reason"), run: text("run"), datums };
}
