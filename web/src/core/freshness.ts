// Which outputs are out of date, and how it is said in few words. The daemon decides, and has the whole sentence.
import type { Freshness, Pipeline } from "../api/schema";
import { counted, number } from "./format";

export interface StaleStage {
  project: string;
  pipeline: string;
  stage: string;
  of: Freshness;
}

export function isStale(of: Freshness | null | undefined): of is Freshness {
  return of?.state === "stale" || of?.state === "updating";
}

// The word on a badge.
export function badgeOf(of: Freshness): string {
  return of.state === "updating" ? "being updated" : "out of date";
}

// "out of date: 22 datums, code changed in run 9ab2f1c4" → "22 datums, code changed in run 9ab2f1c4"
export function whyOf(of: Freshness): string {
  return of.text.replace(/^out of date: /, "");
}

// Stages whose output is out of date, in the order of their pipelines; without those that a run brings up to date if `mended` is false.
export function staleStages(pipelines: Pipeline[], mended = true): StaleStage[] {
  return pipelines.flatMap((pipeline) => pipeline.stages.flatMap((stage) =>
    isStale(stage.freshness) && (mended || stage.freshness.state === "stale") ? [{ project: pipeline.project, pipeline: pipeline.name, stage: stage.name, of: stage.freshness }] : []));
}

// "2 of 5 stages are out of date", "" if none is
export function staleWords(pipeline: Pipeline): string {
  const stale = staleStages([pipeline]).length;
  if (stale === 0) return "";
  return `${number(stale)} of ${counted(pipeline.stages.length, "stage")} ${stale === 1 ? "is" : "are"} out of date`;
}

// Stages with a reason of their own, then those that are out of date only because of what they read.
export function rootsFirst(stages: StaleStage[]): StaleStage[] {
  const follows = (one: StaleStage) => one.of.why.every((why) => why === "upstream");
  return [...stages.filter((one) => !follows(one)), ...stages.filter(follows)];
}
