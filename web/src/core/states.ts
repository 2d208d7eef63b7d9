// The words and shapes of states: never a colour alone.
import { counted, number } from "./format";

export type Shape = "waiting" | "starting" | "running" | "finishing" | "done" | "part" | "failed" | "stopped" | "not" | "stale" | "free" | "idle";

export interface State {
  word: string;
  shape: Shape;
}

interface Counts {
  total: number;
  done: number;
  reused: number;
  failed: number;
}

const WORDS: Record<string, State> = {
  created: { word: "Waiting", shape: "waiting" },
  starting: { word: "Starting", shape: "starting" },
  running: { word: "Running", shape: "running" },
  finishing: { word: "Finishing", shape: "finishing" },
  success: { word: "Done", shape: "done" },
  failure: { word: "Failed", shape: "failed" },
  killed: { word: "Stopped", shape: "stopped" },
  unrunnable: { word: "Not run", shape: "not" },
};

export function stateOf(state: string): State {
  return WORDS[state] ?? { word: state, shape: "waiting" };
}

// True while the job does nothing because something is missing: its reason says what.
export function isWaiting(job: { state: string; reason: string }): boolean {
  return !isOver(job.state) && (job.state === "created" || /^waiting /.test(job.reason));
}

// A job that succeeded without some of its datums is not simply done, and one that waits for a GPU is not starting.
export function jobState(job: { state: string; reason: string; datums: Counts }): State {
  if (isWaiting(job)) return WORDS["created"]!;
  if (job.state === "success" && job.datums.failed > 0) return { word: `${number(job.datums.failed)} failed`, shape: "part" };
  return stateOf(job.state);
}

export function runState(run: { state: string; superseded_by?: string | null | undefined }, jobs: { datums: Counts }[]): State {
  if (run.superseded_by) return { word: `Superseded by ${run.superseded_by.slice(0, 8)}`, shape: "stopped" };
  const failed = run.state === "success" ? jobs.reduce((sum, job) => sum + job.datums.failed, 0) : 0;
  return failed > 0 ? { word: `Done, ${number(failed)} failed`, shape: "part" } : stateOf(run.state);
}

const OVER = new Set(["success", "failure", "killed", "unrunnable"]);

export function isOver(state: string): boolean {
  return OVER.has(state);
}

const SOURCES: Record<string, State> = {
  new: { word: "Not looked at yet", shape: "waiting" },
  following: { word: "In step", shape: "done" },
  invalid: { word: "Not accepted", shape: "failed" },
  unreachable: { word: "Not reached", shape: "failed" },
  paused: { word: "Paused", shape: "stopped" },
};

export function sourceState(state: string): State {
  return SOURCES[state] ?? { word: state, shape: "waiting" };
}

// "1 ran · 7 reused · 0 failed"
export function datumWords(datums: Counts, over: boolean): string {
  const words = `${number(datums.done)} ran · ${number(datums.reused)} reused · ${number(datums.failed)} failed`;
  if (over) return words;
  return `${number(datums.done + datums.reused + datums.failed)} of ${counted(datums.total, "datum")}`;
}
