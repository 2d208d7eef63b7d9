// What a job wrote to metrics.jsonl, a small curve for each figure: its last value, and how it came there.
import { get } from "../api/client";
import type { MetricCurve } from "../api/schema";
import { name } from "../core/foreign";
import { counted, figure } from "../core/format";
import { useLoad } from "../core/load";
import { isShown } from "../core/series";
import { Part } from "./page";
import { To } from "./words";

const SHOWN_MAX = 6;
const SOONEST_MS = 2000; // between two loads: each line that a job writes is an event
const [W, H] = [264, 56];

function path({ steps: xs, values: ys }: MetricCurve): string {
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const at = (value: number, from: number, to: number, size: number) => (to > from ? ((value - from) / (to - from)) * size : size / 2);
  return xs.map((x, i) => `${i ? "L" : "M"}${(2 + at(x, x0, x1, W - 8)).toFixed(1)} ${(H - 4 - at(ys[i]!, y0, y1, H - 8)).toFixed(1)}`).join("");
}

function Curve({ of, live }: { of: MetricCurve; live: boolean }) {
  const line = path(of);
  const [first, last] = [of.values[0]!, of.values[of.values.length - 1]!];
  const end = /([\d.]+) ([\d.]+)$/.exec(line);
  return (
    <li class="pad">
      <p><b>{figure(last)}</b> {name(of.metric)} <span class="small faint">from {figure(first)}, {counted(of.count, "point")}</span></p>
      <svg class="curve" viewBox={`0 0 ${W} ${H}`} role="img" aria-label={`${name(of.metric)}: ${figure(first)} to ${figure(last)}`}>
        <path d={line} />{live && end && <circle cx={end[1]!} cy={end[2]!} r="3" />}
      </svg>
    </li>
  );
}

// The curves of the first datum of a job: several would mix. A figure that came once only has none.
async function load(path: { project: string; stage: string }, run: string, signal: AbortSignal): Promise<MetricCurve[]> {
  const [first] = (await get("/api/v1/metrics/{project}/{stage}/jobs", { path, query: { run, limit: 1 }, signal })).results;
  const names = (first?.figures ?? []).map((one) => one.name).filter(isShown).slice(0, SHOWN_MAX);
  const curves = await Promise.all(names.map((metric) => get("/api/v1/metrics/{project}/{stage}/curve", { path, query: { metric, run, datum: first!.datum }, signal })));
  return curves.filter((one) => one.values.length > 1);
}

export function Curves({ project, stage, run, live }: { project: string; stage: string; run: string; live: boolean }) {
  const loaded = useLoad(`metrics ${project}/${stage}/${run}`, (signal) => load({ project, stage }, run, signal),
    (event) => event.type === "metric" && event.data["stage"] === stage && event.data["run"] === run, SOONEST_MS);
  const curves = loaded.data ?? [];
  if (curves.length === 0) return null;
  return <Part id="curves" title={live ? "Figures so far" : "Figures"} right={<To place={{ page: "metrics", project, stage }}>compare with other runs</To>}><ul class="panel curves">{curves.map((one) => <Curve key={one.metric} of={one} live={live} />)}</ul></Part>;
}
