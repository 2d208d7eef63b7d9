// Failures in words.
import type { FailureGroup, Job } from "../api/schema";
import { middle, name } from "./foreign";
import { counted, number, size } from "./format";
import { waitReason } from "./runs";
import { isOver, isWaiting } from "./states";

// The line of a log that says what went wrong: the last line with an error's name, else the last one.
export function lineThatMatters(tail: string): { line: string; at: number } {
  const lines = tail.replace(/\s+$/, "").split("\n");
  for (let at = lines.length - 1; at >= 0; at--) {
    if (/^[\w.]*(Error|Exception|Interrupt|Exit|Warning)\b.*|\b(error|fatal|panic|killed|failed|denied|not found)\b/i.test(lines[at]!)) return { line: lines[at]!.trim(), at };
  }
  return { line: (lines[lines.length - 1] ?? "").trim(), at: lines.length - 1 };
}

// "photos=/lisbon/a.jpg" → "/lisbon/a.jpg"
export function pathOfDatum(paths: string): string {
  return paths.split(", ").map((one) => one.slice(one.indexOf("=") + 1)).find((path) => path !== "/") ?? "/";
}

// The values of a `params` input: {lr: 0.1, opt: "sgd"} → "lr=0.1, opt=sgd"
export function paramsWords(params: Record<string, unknown>): string {
  return Object.entries(params).map(([key, value]) => `${name(key)}=${typeof value === "string" ? name(value) : JSON.stringify(value)}`).join(", ");
}

// What all failures of a group have in common, as far as the daemon knows.
export function commonOf(group: FailureGroup): string[] {
  const out: string[] = [];
  if (group.folder && !/=\/$/.test(group.folder)) out.push(`all below ${middle(group.folder.replace("=", ":"), 60)}`);
  const [least, most] = [group.bytes_min, group.bytes_max];
  if (least != null && most != null) out.push(most === 0 ? "all inputs are empty" : least === most ? `each has ${size(least)} of input` : `each has ${size(least)} to ${size(most)} of input`);
  if (group.node) out.push(`all on ${middle(group.node, 40)}`);
  return out;
}

// Whether it has happened before, in the jobs of the stage that were looked at.
export function beforeOf(group: FailureGroup, jobs: number): string {
  if (jobs === 0) return "";
  const last = jobs === 1 ? "the job before" : `the last ${number(jobs)} jobs`;
  return group.jobs_before === 0 ? `no such failure in ${last}` : jobs === 1 ? "the same failure in the job before" : `the same failure in ${number(group.jobs_before)} of ${last}`;
}

// The cause of an attempt's end in words.
export function endOf(attempt: { state: string; exit_code: number; signal: number; oom: boolean; timed_out: boolean; reason: string }): string {
  if (attempt.oom) return attempt.reason || "killed: it needed more memory than it may have";
  if (attempt.timed_out) return attempt.reason || "timed out";
  if (attempt.state === "success") return "done";
  if (attempt.state === "lost") return attempt.reason || "lost with its worker";
  return attempt.reason || (attempt.signal ? `ended by signal ${attempt.signal}` : `exit code ${attempt.exit_code}`);
}

// What became of a job, or where it stands.
export function headlineOf(job: Job): string {
  const { total, failed, done, reused } = job.datums;
  const stage = name(job.stage);
  if (failed > 0) {
    const rest = done + reused;
    const kept = rest === 0 ? "none succeeded" : `the other ${number(rest)} ${rest === 1 ? "was" : "were"} kept`;
    return `${number(failed)} of ${counted(total, "datum")} failed in ${stage}; ${kept}.`;
  }
  if (job.state === "failure") return `${stage} failed.`;
  if (job.state === "unrunnable") return `${stage} did not run.`;
  if (job.state === "killed") return `${stage} was stopped.`;
  if (isWaiting(job)) return `${stage} waits ${waitReason(job)}.`;
  if (!isOver(job.state)) return `${stage} is at ${number(done + reused + failed)} of ${counted(total, "datum")}.`;
  if (total === 0) return `${stage} had nothing to do.`;
  return done === 0 ? `Nothing failed here: ${stage} reused all ${counted(total, "datum")}.` : `Nothing failed here: ${stage} ran ${counted(done, "datum")}${reused ? ` and reused ${number(reused)}` : ""}.`;
}
