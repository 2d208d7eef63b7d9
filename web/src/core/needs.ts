// What needs somebody, found in what the API says today; the worst first, then the oldest.
import type { GitSource, Job, Status } from "../api/schema";
import { name } from "./foreign";
import { counted, number, size } from "./format";
import type { Place } from "./places";
import { waitReason } from "./runs";
import { isWaiting } from "./states";
import type { Shape } from "./states";

export interface Need {
  shape: Shape;
  title: string;
  text: string;
  sinceUs: number | null;
  button: string;
  place: Place;
  rank: number; // 0 is the worst
}

export const WAIT_TOLD_US = 300 * 1e6;

// The newest job of each stage. Jobs come newest first.
export function newestJobs(jobs: Job[]): Map<string, Job> {
  const newest = new Map<string, Job>();
  for (const job of jobs) {
    const key = `${job.project}/${job.stage}`;
    if (!newest.has(key) && !job.as) newest.set(key, job);
  }
  return newest;
}

function ofJob(job: Job, nowUs: number): Need | null {
  const place: Place = { page: "job", project: job.project, stage: job.stage, run: job.run };
  const { failed, total, done, reused } = job.datums;
  const stage = name(job.stage);
  if (job.state === "failure") {
    return { shape: "failed", title: `${stage} failed`, text: `${name(job.reason)}.`.replace(/\.\.$/, "."), sinceUs: job.finished_us ?? job.created_us, button: "See the failure", place, rank: 0 };
  }
  if (job.state === "success" && failed > 0) {
    const text = `The other ${counted(done + reused, "datum")} ${done + reused === 1 ? "was" : "were"} kept and the run went on.`;
    return { shape: "part", title: `${stage} failed on ${number(failed)} of ${counted(total, "datum")}`, text, sinceUs: job.finished_us ?? job.created_us, button: "See the failures", place, rank: 1 };
  }
  if (isWaiting(job) && nowUs - job.created_us > WAIT_TOLD_US && !/for stage |for its turn/.test(job.reason)) {
    return { shape: "waiting", title: `${stage} waits ${waitReason(job)}`.slice(0, 200), text: `Run ${job.run.slice(0, 8)} of ${name(job.pipeline)} cannot go on without it.`, sinceUs: job.created_us, button: "See the run", place: { page: "run", run: job.run }, rank: 2 };
  }
  return null;
}

function ofSource(source: GitSource): Need | null {
  if (source.state !== "invalid" && source.state !== "unreachable") return null;
  const mistakes = source.errors?.length ? source.errors : [source.error].filter(Boolean);
  const what = source.state === "invalid" ? "is not accepted" : "cannot be reached";
  return {
    shape: "failed", title: `Source ${name(source.name)} ${what}`, text: mistakes.slice(0, 2).map((text) => name(String(text))).join(" · "), sinceUs: source.changed_us ?? null,
    button: "See the source", place: { page: "pipelines" }, rank: 0,
  };
}

interface DiskPlace {
  of: string;
  path: string;
  state: string;
  free_bytes: number;
  total_bytes: number;
}

export function disksOf(status: Status): DiskPlace[] {
  const disk = status.disk as { places?: DiskPlace[] };
  return disk.places ?? [];
}

function ofDisk(disk: DiskPlace): Need | null {
  if (disk.state === "ok") return null;
  const text = disk.state === "full" ? "Pushes are refused until there is room; running jobs finish." : "Pushes are refused when it is full.";
  return { shape: disk.state === "full" ? "failed" : "waiting", title: `${name(disk.path)} has ${size(disk.free_bytes)} free of ${size(disk.total_bytes)}`, text, sinceUs: null, button: "See all repos", place: { page: "data" }, rank: 0 };
}

export function needsOf(given: { status: Status; jobs: Job[]; sources: GitSource[]; stages: Set<string>; nowUs: number }): Need[] {
  const jobs = [...newestJobs(given.jobs)].filter(([key]) => given.stages.has(key)).map(([, job]) => ofJob(job, given.nowUs));
  const all = [...disksOf(given.status).map(ofDisk), ...given.sources.map(ofSource), ...jobs];
  return all.filter((one): one is Need => one !== null).sort((a, b) => a.rank - b.rank || (a.sinceUs ?? 0) - (b.sinceUs ?? 0));
}
