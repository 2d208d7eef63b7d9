// What several pages say of repos.
import { get } from "../api/client";
import type { Commit, Pipeline } from "../api/schema";

// Stages that read the repo: [PROJECT/]STAGE.
export function readersOf(pipelines: Pipeline[], project: string, repo: string): { project: string; stage: string; pipeline: string }[] {
  return pipelines.flatMap((pipeline) => pipeline.stages
    .filter((stage) => stage.inputs.some((input) => input === `${project}/${repo}` || (input === repo && pipeline.project === project)))
    .map((stage) => ({ project: pipeline.project, stage: stage.name, pipeline: pipeline.name })));
}

export function writerOf(pipelines: Pipeline[], project: string, repo: string): { pipeline: string } | null {
  const pipeline = pipelines.find((one) => one.project === project && one.stages.some((stage) => stage.name === repo));
  return pipeline ? { pipeline: pipeline.name } : null;
}

const known = new Map<string, Promise<Commit | null>>();
const KEPT = 2000;

// A commit by its whole id does not change: each is asked for once.
export function commitOf(project: string, repo: string, id: string): Promise<Commit | null> {
  const key = `${project}/${repo}@${id}`;
  let commit = known.get(key);
  if (!commit) {
    commit = get("/api/v1/repos/{project}/{repo}/commits/{ref}", { path: { project, repo, ref: id } }).catch(() => {
      known.delete(key);
      return null;
    });
    known.set(key, commit);
    if (known.size > KEPT) known.delete(known.keys().next().value!);
  }
  return commit;
}
