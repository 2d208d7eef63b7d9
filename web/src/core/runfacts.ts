// What a row of the list of runs says, from the facts that the daemon gives with it.
import type { Job, Run } from "../api/schema";
import { name } from "./foreign";
import { counted, duration, number, size, spelled } from "./format";
import { type Change, causeOf, changeWords } from "./runs";
import { type State, isOver, jobState, runState } from "./states";

export function changeOf(run: Run): Change | null {
  const pushed = run.pushed;
  if (pushed?.added === undefined || pushed.added === null) return null;
  return { added: pushed.added, modified: pushed.changed ?? 0, deleted: pushed.removed ?? 0, more: Boolean(pushed.more) };
}

// "ana pushed 3,120 files to photos", "Run by hand: digits"
export function setOff(run: Run): string {
  const pushed = run.pushed;
  if (run.cause !== "push" || !pushed) return causeOf({ ...run, jobs: [] } as Run);
  const change = changeOf(run);
  const total = change ? change.added + change.modified + change.deleted : 0;
  const files = total > 0 ? (change!.more ? `over ${number(total)} files` : counted(total, "file")) : "";
  if (run.author) return `${name(run.author)} pushed ${files ? `${files} ` : ""}to ${name(pushed.repo)}`;
  return files ? `${files} ${total === 1 ? "was" : "were"} pushed to ${name(pushed.repo)}` : `Something was pushed to ${name(pushed.repo)}`;
}

// "photos@master +3 ~1 −2 files, 4.0 MiB"; who asked, of a run that nobody pushed for.
export function pushWords(run: Run): string {
  const pushed = run.pushed;
  if (!pushed) return run.author ? `by ${name(run.author)}` : "";
  const change = changeOf(run);
  const where = `${name(pushed.repo)}@${name(pushed.branch)}`;
  return change ? `${where} ${changeWords(change)}, ${size(pushed.changed_bytes ?? 0)}` : `${where}, ${counted(pushed.files, "file")} in all`;
}

export function rowState(run: Run): State {
  return runState(run, run.datums ? [{ datums: run.datums }] : []);
}

const NONE = { total: 0, done: 0, reused: 0 };

export function stagesOf(run: Run): { stage: string; state: State }[] {
  return (run.stages ?? []).map((one) => ({ stage: one.stage, state: jobState({ state: one.state, reason: one.reason, datums: { ...NONE, failed: one.failed } }) }));
}

export function stageCount(run: Run): number {
  return Object.values((run.states ?? {}) as Record<string, number>).reduce((sum, n) => sum + n, 0);
}

// "2 of 3 stages ended · 40 of 100 datums", of a run under way.
export function stagesWords(run: Run): string {
  const ended = Object.entries((run.states ?? {}) as Record<string, number>).reduce((sum, [state, n]) => sum + (isOver(state) ? n : 0), 0);
  const sum = run.datums;
  return `${number(ended)} of ${counted(stageCount(run), "stage")} ended${sum?.total ? ` · ${number(sum.done + sum.reused + sum.failed)} of ${counted(sum.total, "datum")}` : ""}`;
}

export function datumsOf(run: Run): string {
  const sum = run.datums;
  if (!sum || stageCount(run) === 0) return "–";
  if (sum.total === 0) return "nothing to do";
  if (!isOver(run.state)) return `${number(sum.done + sum.reused + sum.failed)} of ${number(sum.total)}`;
  return [`${number(sum.done)} ran`, `${number(sum.reused)} reused`, sum.failed ? `${number(sum.failed)} failed` : ""].filter(Boolean).join(" · ");
}

// "about 18 min left, by the last 5 runs"; "" if it is not known.
export function leftOf(run: Run, nowMs: number): string {
  const eta = run.eta;
  if (!eta || isOver(run.state)) return "";
  const left = eta.ends_us / 1000 - nowMs;
  return `${left > 0 ? `about ${duration(left)} left` : `longer than usual (${duration(eta.took_ms)})`}, by the last ${eta.runs} runs`;
}

// What is read out of a run while it is shown: a stage that failed, and its end.
export function heardOf(run: Run, jobs: Job[], progress: string): string {
  if (isOver(run.state)) return `The run ended: ${progress}.`;
  const failed = jobs.filter((job) => job.state === "failure").map((job) => name(job.stage));
  return failed.length > 0 ? `${failed.join(", ")} failed.` : "";
}

// What ended between two looks at a list of runs: the newest of them, and how many more. "" if none did.
export function endsHeard(before: Map<string, string>, runs: Run[]): string {
  const ended = runs.filter((run) => isOver(run.state) && before.has(run.id) && !isOver(before.get(run.id)!));
  const more = ended.length > 1 ? `, and ${counted(ended.length - 1, "more run")} ended` : "";
  return ended.length > 0 ? `${setOff(ended[0]!)}: ${rowState(ended[0]!).word}${more}.` : "";
}

// The job of a run with its numbers of datums as an event told them. Numbers do not go back: an answer that was on its way is older.
export function withProgress(run: Run, event: Record<string, unknown>): Run {
  const told = event["datums"] as { total: number; reused: number; done: number; failed: number } | undefined;
  if (!told || event["run"] !== run.id) return run;
  const ended = (one: { reused: number; done: number; failed: number }) => one.reused + one.done + one.failed;
  const jobs = (run.jobs ?? []).map((job) =>
    job.stage === event["stage"] && job.project === event["project"] && !isOver(job.state) && ended(told) >= ended(job.datums) ? { ...job, datums: { ...job.datums, ...told } } : job);
  return { ...run, jobs };
}

// The headline of a list of runs: of all, from the newest; of those that a filter lets through, only how many they are.
export function runsHeadline(runs: Run[], length: number, filtered: boolean, more: boolean): string {
  if (length === 0) return more ? "No run like that so far." : filtered ? "No run is like that." : "Nothing has run yet.";
  if (filtered) return `${counted(length, "run")} ${more ? "so far " : ""}like that.`;
  const running = runs.filter((run) => !isOver(run.state)).length;
  const ended = runs.filter((run) => isOver(run.state)).slice(0, 40);
  const failed = ended.filter((run) => run.state === "failure").length;
  const first = running === 0 ? "Nothing runs" : `${spelled(running)} ${running === 1 ? "run is" : "runs are"} under way`;
  return ended.length === 0 ? `${first}.` : `${first}; ${failed === 0 ? "none" : failed} of the last ${ended.length} failed.`;
}

// ---- filters

export interface Filter {
  key: string;
  text: string;
  shape: State["shape"];
  api: string;
}

export const FILTERS: Filter[] = [
  { key: "running", text: "running", shape: "running", api: "running" },
  { key: "failed", text: "failed", shape: "failed", api: "failure" },
  { key: "part", text: "partly failed", shape: "part", api: "partly_failed" },
  { key: "done", text: "done", shape: "done", api: "complete" },
  { key: "stopped", text: "stopped", shape: "stopped", api: "killed" },
];

const SINCE: Record<string, number> = { hour: 3600, day: 86400, week: 7 * 86400 };

export interface Wanted {
  states: string[];
  project: string;
  pipeline: string;
  by: string;
  since: string;
}

export function wantedOf(query: URLSearchParams): Wanted {
  const of = (key: string) => query.get(key) ?? "";
  return { states: of("state").split(",").filter(Boolean), project: of("project"), pipeline: of("pipeline"), by: of("by"), since: of("since") };
}

// The same as the daemon takes it.
export function askedOf(wanted: Wanted, nowMs: number): { state?: string; project?: string; pipeline?: string; by?: string; since?: number } {
  const state = FILTERS.filter((filter) => wanted.states.includes(filter.key)).map((filter) => filter.api).join(",");
  const seconds = SINCE[wanted.since];
  return {
    ...(state ? { state } : {}), ...(wanted.project ? { project: wanted.project } : {}), ...(wanted.pipeline ? { pipeline: wanted.pipeline } : {}),
    ...(wanted.by ? { by: wanted.by } : {}), ...(seconds ? { since: Math.round((nowMs - seconds * 1000) * 1000) } : {}),
  };
}
