// Why a stage ran: what differs between what its job read and what the job read that wrote its output before.
import { get } from "../api/client";
import type { Job } from "../api/schema";
import { type Change, countChanges, inputsOf } from "./runs";

export interface Reason {
  input: string; // name of the input; "" for the code
  project: string;
  repo: string;
  from: string;
  to: string;
  change: Change | null; // null: it could not be counted
}

export interface WhyRan {
  first: boolean; // there was no output before
  code: boolean; // its code is another one
  inputs: Reason[]; // those that changed
}

const COUNTED_MAX = 1000;
const known = new Map<string, Promise<Job | null>>();

// Jobs that have ended do not change: each is asked for once.
function jobOf(project: string, stage: string, run: string): Promise<Job | null> {
  const key = `${project}/${stage}/${run}`;
  let job = known.get(key);
  if (!job) {
    job = get("/api/v1/jobs/{project}/{stage}/{run}", { path: { project, stage, run } }).catch(() => null);
    known.set(key, job);
    if (known.size > 500) known.delete(known.keys().next().value!);
  }
  return job;
}

export async function countDiff(project: string, repo: string, from: string, to: string, signal?: AbortSignal): Promise<Change | null> {
  try {
    const page = await get("/api/v1/repos/{project}/{repo}/diff", { path: { project, repo }, query: { from, to, limit: COUNTED_MAX }, signal });
    return countChanges(page.changes, Boolean(page.next));
  } catch {
    return null;
  }
}

export async function whyRan(job: Job, signal?: AbortSignal): Promise<WhyRan | null> {
  if (!job.base) return { first: true, code: false, inputs: [] };
  const before = await jobOf(job.project, job.stage, job.base);
  if (!before) return null;
  const old = new Map(inputsOf(before).map((input) => [input.name, input]));
  const changed = inputsOf(job).filter((input) => {
    const then = old.get(input.name);
    return !then || (then.commit !== input.commit && (!then.root || then.root !== input.root));
  });
  const inputs = await Promise.all(changed.map(async (input): Promise<Reason> => {
    const then = old.get(input.name);
    const change = then ? await countDiff(input.project, input.repo, then.commit, input.commit, signal) : null;
    return { input: input.name, project: input.project, repo: input.repo, from: then?.commit ?? "", to: input.commit, change };
  }));
  return { first: false, code: Boolean(job.code && before.code && job.code !== before.code), inputs };
}
