// The start page's last results: of each stage with metrics the chosen figure of its newest job, the change since the job before,
// and how it went over the last jobs. Which figure is chosen is kept in this browser.
import { signal } from "@preact/signals";
import { BASE, get } from "../api/client";
import type { MetricStage } from "../api/schema";
import { name } from "../core/foreign";
import { figure } from "../core/format";
import { useLoad } from "../core/load";
import { figuresOf, sparkPath, valuesOf } from "../core/series";
import { Part } from "./page";
import { To } from "./words";

const SHOWN = 6;
const KEPT = `pipelined-metrics ${BASE}`;

function readKept(): Record<string, string> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    return typeof kept === "object" && kept !== null ? (kept as Record<string, string>) : {};
  } catch {
    return {}; // storage is closed to this page, or was filled by another
  }
}
const chosen = signal(readKept());

function choose(stage: string, metric: string): void {
  chosen.value = { ...chosen.value, [stage]: metric };
  try {
    localStorage.setItem(KEPT, JSON.stringify(chosen.value));
  } catch {
    // it holds until the page is closed
  }
}

function One({ of }: { of: MetricStage }) {
  const key = `${of.project}/${of.stage}`;
  const names = figuresOf(of.jobs.map((job) => job.line));
  const metric = names.includes(chosen.value[key] ?? "") ? chosen.value[key]! : names[0];
  if (!metric) return null;
  const values = valuesOf(of.jobs.map((job) => job.line), metric);
  const [newest, before] = [values[values.length - 1]!, values[values.length - 2]];
  const change = before === undefined ? "" : newest === before ? "as before" : `${newest > before ? "+" : "−"}${figure(Math.abs(newest - before))}`;
  return (
    <li>
      <div class="what"><b><To class="main quiet" row place={{ page: "metrics", project: of.project, stage: of.stage }} query={{ metric }}>{name(of.stage)}</To></b>
        <p class="small"><select aria-label={`Metric of ${of.stage}`} value={metric} onChange={(event) => choose(key, event.currentTarget.value)}>{names.map((one) => <option key={one} value={one}>{name(one)}</option>)}</select></p></div>
      <div class="side"><b>{figure(newest)}</b><small class="faint">{change}</small>
        {values.length > 1 && <svg class="spark" viewBox="0 0 96 24" role="img" aria-label={`${name(metric)} of the last ${values.length} jobs`}><path d={sparkPath(values, 96, 24)} /></svg>}</div>
    </li>
  );
}

export function LastResults({ project }: { project: string }) {
  const loaded = useLoad("last results", (signal_) => get("/api/v1/metrics", { query: { limit: 200 }, signal: signal_ }), (event) => event.type === "job");
  const stages = (loaded.data?.stages ?? []).filter((one) => (!project || one.project === project) && figuresOf(one.jobs.map((job) => job.line)).length > 0);
  if (stages.length === 0) return null;
  const newest = [...stages].sort((a, b) => b.jobs[0]!.created_us - a.jobs[0]!.created_us).slice(0, SHOWN);
  return (
    <Part id="results" title="Last results" right={<To place={{ page: "metrics", project: "-", stage: "" }}>all metrics</To>}>
      <ul class="rows panel results">{newest.map((one) => <One key={`${one.project}/${one.stage}`} of={one} />)}</ul>
    </Part>
  );
}
