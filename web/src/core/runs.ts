// Facts about runs and jobs that several pages say in words.
import type { Commit, FailureGroup, Failures, Job, Pipeline, Run } from "../api/schema";
import { name } from "./foreign";
import { counted, number } from "./format";
import { isOver } from "./states";

// A repo in which a run's push was made, if a push set it off: the commit has the run's id, and no stage of the run wrote it.
export function pushedRepo(run: Run): { project: string; repo: string; branch: string } | null {
  if (run.cause !== "push") return null;
  const written = new Set((run.jobs ?? []).map((job) => `${job.project}/${job.stage}`));
  for (const job of run.jobs ?? []) {
    for (const input of (job.inputs ?? []) as { project?: string; repo?: string; commit?: string; branch?: string }[]) {
      if (input.commit === run.id && input.repo && !written.has(`${input.project}/${input.repo}`)) {
        return { project: input.project ?? job.project, repo: input.repo, branch: input.branch ?? "master" };
      }
    }
  }
  return null;
}

export interface Change {
  added: number;
  modified: number;
  deleted: number;
  more: boolean; // there are further changes that were not counted
}

// "+3 ~1 −2", "+1 file", "over 1,000 files"
export function changeWords(change: Change): string {
  const { added, modified, deleted, more } = change;
  const total = added + modified + deleted;
  if (more) return `over ${number(total)} files`;
  if (total === 0) return "no file";
  const parts = [added && `+${number(added)}`, modified && `~${number(modified)}`, deleted && `−${number(deleted)}`].filter(Boolean);
  return `${parts.join(" ")} ${total === 1 ? "file" : "files"}`;
}

// What set a run off, as a sentence without its full stop.
export function causeOf(run: Run, commit?: Commit | null, change?: Change | null): string {
  const repo = pushedRepo(run);
  const message = name(run.message);
  switch (run.cause) {
    case "push": {
      const where = repo ? name(repo.repo) : "a repo";
      const total = change ? change.added + change.modified + change.deleted : 0;
      const files = change && total > 0 ? (change.more ? `over ${number(total)} files` : counted(total, "file")) : "";
      if (commit?.author) return `${name(commit.author)} pushed ${files ? `${files} ` : ""}to ${where}`;
      return files ? `${files} ${total === 1 ? "was" : "were"} pushed to ${where}` : `Something was pushed to ${where}`;
    }
    case "pipeline":
      return message ? `New version: ${message}` : "A pipeline has a new version";
    case "manual":
      return message ? (/again$/.test(message) ? `Rerun: ${message}` : `Run by hand: ${message}`) : "Run by hand";
    case "cron":
      return message ? `By the clock: ${message}` : "By the clock";
    case "delete":
      return message ? `Deleted: ${message}` : "Data was deleted";
    default:
      return message || "A run";
  }
}

export interface Row {
  run: Run;
  jobs: Job[]; // in the order of the stages, as far as they are known
  pipelines: string[];
}

// Puts jobs to their runs. A run whose jobs are not among these has none.
export function withJobs(runs: Run[], jobs: Job[], pipelines: Pipeline[]): Row[] {
  const order = new Map(pipelines.flatMap((pipeline) => pipeline.stages.map((stage, i) => [`${pipeline.project}/${stage.name}`, i] as const)));
  const place = (job: Job) => order.get(`${job.project}/${job.stage}`) ?? 0;
  const byRun = new Map<string, Job[]>();
  for (const job of jobs) {
    const list = byRun.get(job.run);
    if (list) list.push(job);
    else byRun.set(job.run, [job]);
  }
  return runs.map((run) => {
    const own = (byRun.get(run.id) ?? []).sort((a, b) => place(a) - place(b));
    return { run, jobs: own, pipelines: [...new Set(own.map((job) => job.pipeline))] };
  });
}

// Stages in an order in which each comes after what it reads.
export function stagesInOrder(pipeline: Pipeline): Pipeline["stages"] {
  const left = [...pipeline.stages];
  const names = new Set(left.map((stage) => stage.name));
  const placed = new Set<string>();
  const out: Pipeline["stages"] = [];
  while (left.length > 0) {
    const at = left.findIndex((stage) => stage.inputs.every((input) => !names.has(input) || placed.has(input) || input === stage.name));
    const [stage] = left.splice(Math.max(at, 0), 1); // a cycle, which the daemon refuses, would still end
    placed.add(stage!.name);
    out.push(stage!);
  }
  return out;
}

export function sumDatums(jobs: Job[]): { total: number; done: number; reused: number; failed: number } {
  const sum = { total: 0, done: 0, reused: 0, failed: 0 };
  for (const job of jobs) {
    sum.total += job.datums.total;
    sum.done += job.datums.done;
    sum.reused += job.datums.reused;
    sum.failed += job.datums.failed;
  }
  return sum;
}

// The daemon's sentence without the word that the state already says.
export function waitReason(job: Job): string {
  return name(job.reason.replace(/^waiting (?=for|until|before)/, ""));
}

export interface Inputs {
  name: string;
  project: string;
  repo: string;
  branch: string;
  commit: string;
  root?: string;
}

export function inputsOf(job: Job): Inputs[] {
  return ((job.inputs ?? []) as unknown as Inputs[]).filter((input) => Boolean(input.repo));
}

// The commits that the jobs read and wrote, by PROJECT/NAME. What a job of the run wrote counts before what was there.
export function refsOf(jobs: Job[]): Map<string, string> {
  const refs = new Map<string, string>();
  for (const job of jobs) {
    for (const input of inputsOf(job)) if (input.project && input.repo && input.commit) refs.set(`${input.project}/${input.repo}`, input.commit);
  }
  for (const job of jobs) if (job.output) refs.set(`${job.project}/${job.stage}`, job.output);
  return refs;
}

export interface Retry {
  text: string; // "Retry 412 failed"
  what: string; // what the new run does
  command: string;
  rerun: boolean; // repeats what did not succeed in the run; else runs the stage over what its inputs have now
  stage: Job;
}

// How what failed is tried again. A job that left its failed datums out has succeeded: a rerun of what failed would pass it by, while a
// run of its stage computes them again, for they have no result.
export function retryOf(run: string, jobs: Job[]): Retry | null {
  const bad = jobs.filter((job) => ["failure", "unrunnable", "killed"].includes(job.state));
  const failed = jobs.reduce((sum, job) => sum + job.datums.failed, 0);
  const text = failed > 0 ? `Retry ${number(failed)} failed` : `Retry ${counted(bad.length, "stage")}`;
  if (bad.length > 0) {
    return { text, rerun: true, stage: bad[0]!, command: `pipelinectl rerun ${run.slice(0, 8)} --failed`, what: `A new run computes what did not succeed in ${bad.map((job) => name(job.stage)).join(", ")}, over the commits that this run read. What succeeded is reused.` };
  }
  const partly = jobs.find((job) => job.datums.failed > 0);
  if (!partly) return null;
  const pipeline = partly.project === "default" ? partly.pipeline : `${partly.project}/${partly.pipeline}`;
  return { text, rerun: false, stage: partly, command: `pipelinectl run pipeline ${pipeline} --stage ${partly.stage}`, what: `A new run of ${name(partly.stage)} and the stages after it, over what its inputs have now: the datums that failed are computed again, the others are reused.` };
}

export interface GroupRetry {
  group: FailureGroup;
  text: string; // "Retry these 3"
  what: string; // what the new run does and what stays
  command: string;
}

// How the datums of one group are tried again, or why they alone cannot be; nothing where the group is all that failed.
export function groupRetryOf(job: Job, group: FailureGroup, failures: Failures): GroupRetry | string | null {
  const { total, done, reused, failed, recovered = 0 } = job.datums;
  if (!isOver(job.state) || failures.groups.length < 2) return null;
  if (failures.kept < failed + (recovered ?? 0)) return `Why the other ${number(failed + (recovered ?? 0) - failures.kept)} failed is not kept, so which of them belong to this group is not known: only all can be retried.`;
  if (done + reused + failed + (recovered ?? 0) < total) return `${name(job.stage)} ended before all its datums had run, so a new run would run more than this group: only all can be retried.`;
  const rest = failures.kept - group.count;
  const left = rest === 1 ? "The other datum that failed is not tried and stays as it is" : `The other ${number(rest)} that failed are not tried and stay as they are`;
  const end = job.state === "failure" ? `: as long as one of them fails, ${name(job.stage)} fails, but what succeeds now is kept and not done again.` : ", left out of what it writes.";
  const place = `${job.project === "default" ? "" : `${job.project}/`}${job.stage}@${job.run.slice(0, 8)}`;
  return {
    group,
    text: group.count === 1 ? "Retry this one" : `Retry these ${number(group.count)}`,
    what: `A new run tries ${group.count === 1 ? "this datum" : `these ${number(group.count)} datums`} of ${name(job.stage)} again, over what this job read. ${left}${end}`,
    command: `pipelinectl retry job ${place} --group ${group.id.slice(0, 8)}`,
  };
}
