// What needs somebody, as the daemon lists it, in the words of the page.
import type { Job, Need as Listed, Status } from "../api/schema";
import { name } from "./foreign";
import { counted, number } from "./format";
import type { Place } from "./places";
import type { Shape } from "./states";

export interface Need {
  key: string;
  shape: Shape;
  title: string;
  text: string;
  sinceUs: number | null;
  button: string;
  place: Place;
}

// "evaluate failed: exit code 1" → ["evaluate failed", "exit code 1."]
function split(text: string): [string, string] {
  const at = text.indexOf(": ");
  const shown = (part: string) => name(part);
  if (at < 0) return [shown(text), ""];
  return [shown(text.slice(0, at)), `${shown(text.slice(at + 2)).replace(/\.$/, "")}.`];
}

export function needOf(need: Listed): Need {
  const base = { key: `${need.kind} ${need.project}/${need.stage} ${need.text}`, sinceUs: need.since_us || null };
  const job: Place = { page: "job", project: need.project, stage: need.stage, run: need.run };
  const [title, text] = split(need.text);
  switch (need.kind) {
    case "failed":
      return { ...base, shape: "failed", title, text, button: "See the failure", place: job };
    case "partly_failed": {
      const [failed, total] = [need.failed ?? 0, need.total ?? 0];
      const rest = total - failed;
      const kept = `The other ${counted(rest, "datum")} ${rest === 1 ? "was" : "were"} kept and the run went on.`;
      return { ...base, shape: "part", title: `${name(need.stage)} failed on ${number(failed)} of ${counted(total, "datum")}`, text: rest > 0 ? kept : "The run went on without them.", button: "See the failures", place: job };
    }
    case "waiting":
      return { ...base, shape: "waiting", title: name(need.text.replace(/ is waiting (?=for|until|before)/, " waits ")), text: `Run ${need.run.slice(0, 8)} cannot go on without it.`, button: "See the run", place: { page: "run", run: need.run } };
    case "idle_gpu":
      return { ...base, shape: "idle", title: name(need.text.split(", while ")[0]!), text: `Meanwhile ${name(need.text.split(", while ")[1] ?? "")}.`, button: "See the GPUs", place: { page: "gpus" } };
    case "source":
      return { ...base, shape: "failed", title, text, button: "See the source", place: { page: "pipelines" } };
    default:
      return { ...base, shape: need.kind === "disk" ? "waiting" : "part", title, text, button: "See all repos", place: { page: "data" } };
  }
}

// The newest job of each stage. Jobs come newest first; those that write to a branch of their own do not count.
export function newestJobs(jobs: Job[]): Map<string, Job> {
  const newest = new Map<string, Job>();
  for (const job of jobs) {
    const key = `${job.project}/${job.stage}`;
    if (!newest.has(key) && !job.as) newest.set(key, job);
  }
  return newest;
}

interface DiskPlace {
  path: string;
  free_bytes: number;
  total_bytes: number;
}

export function disksOf(status: Status): DiskPlace[] {
  const disk = status.disk as { places?: DiskPlace[] };
  return disk.places ?? [];
}
