// The last line that a running job wrote to metrics.jsonl, as the events tell it.
import { signal } from "@preact/signals";
import { listen } from "../api/events";
import { figure } from "./format";
import { name } from "./foreign";

const KEPT = 1000;
const FIGURES = 4;

export const lastLines = signal(new Map<string, Record<string, unknown>>());

const keyOf = (project: string, stage: string, run: string) => `${project}/${stage}/${run}`;

listen(({ type, data }) => {
  if (type !== "metric") return;
  const line = (data["line"] ?? data["data"] ?? {}) as Record<string, unknown>;
  const next = new Map(lastLines.value);
  next.set(keyOf(String(data["project"] ?? "default"), String(data["stage"]), String(data["run"])), line);
  if (next.size > KEPT) next.delete(next.keys().next().value!);
  lastLines.value = next;
});

// "step 7 · loss 0.4980 · val_acc 0.8610"
export function metricWords(line: Record<string, unknown> | undefined): string {
  const figures = Object.entries(line ?? {}).filter((pair): pair is [string, number] => typeof pair[1] === "number" && Number.isFinite(pair[1]));
  return figures.slice(0, FIGURES).map(([key, value]) => (key === "progress" ? `${Math.round(value * 100)} %` : `${name(key)} ${figure(value)}`)).join(" · ");
}

export function lastLineOf(job: { project: string; stage: string; run: string }): Record<string, unknown> | undefined {
  return lastLines.value.get(keyOf(job.project, job.stage, job.run));
}
