// What a job wrote to metrics.jsonl, a small curve for each figure: its last value, and how it came there.
import { get } from "../api/client";
import type { MetricLine } from "../api/schema";
import { name } from "../core/foreign";
import { counted, figure } from "../core/format";
import { useLoad } from "../core/load";
import { type Series, seriesOf } from "../core/series";
import { Part } from "./page";
import { To } from "./words";

const LINES_MAX = 10_000;
const SHOWN_MAX = 6;
const [W, H] = [264, 56];

function path(series: Series): string {
  const xs = series.points.map(([x]) => x);
  const ys = series.points.map(([, y]) => y);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const at = (value: number, from: number, to: number, size: number) => (to > from ? ((value - from) / (to - from)) * size : size / 2);
  return series.points.map(([x, y], i) => `${i ? "L" : "M"}${(2 + at(x, x0, x1, W - 8)).toFixed(1)} ${(H - 4 - at(y, y0, y1, H - 8)).toFixed(1)}`).join("");
}

function Curve({ series, live }: { series: Series; live: boolean }) {
  const line = path(series);
  const [first, last] = [series.points[0]![1], series.points[series.points.length - 1]![1]];
  const end = /([\d.]+) ([\d.]+)$/.exec(line);
  return (
    <li class="pad">
      <p><b>{figure(last)}</b> {name(series.key)} <span class="small faint">from {figure(first)}, {counted(series.points.length, "point")}</span></p>
      <svg class="curve" viewBox={`0 0 ${W} ${H}`} role="img" aria-label={`${name(series.key)}: ${figure(first)} to ${figure(last)}`}>
        <path d={line} />{live && end && <circle cx={end[1]!} cy={end[2]!} r="3" />}
      </svg>
    </li>
  );
}

export function Curves({ project, stage, run, live }: { project: string; stage: string; run: string; live: boolean }) {
  const loaded = useLoad(`metrics ${project}/${stage}/${run}`, async (signal): Promise<MetricLine[]> =>
    (await get("/api/v1/metrics/{project}/{stage}", { path: { project, stage }, query: { run, limit: LINES_MAX }, signal })).metrics,
  (event) => event.type === "metric" && event.data["stage"] === stage && event.data["run"] === run);
  const series = seriesOf(loaded.data ?? []).slice(0, SHOWN_MAX);
  if (series.length === 0) return null;
  return <Part id="curves" title={live ? "Figures so far" : "Figures"} right={<To place={{ page: "metrics", project, stage }}>compare with other runs</To>}><ul class="panel curves">{series.map((one) => <Curve key={one.key} series={one} live={live} />)}</ul></Part>;
}
