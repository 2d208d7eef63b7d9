// The graph of a pipeline: repos as pills, stages as boxes with the pill of what they write; state by shape and words as well as colour.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Job, Pipeline, Repo } from "../api/schema";
import { type Drawing, type Edge, type Node, draw, relatives, rounded } from "../core/drawing";
import { name } from "../core/foreign";
import { counted, duration, number, size } from "../core/format";
import { go } from "../core/going";
import { fit, widthOf } from "../core/measure";
import { now } from "../core/now";
import { type Place, href, pathOf } from "../core/places";
import { stagesInOrder, waitReason } from "../core/runs";
import { isWaiting, isOver, jobState } from "../core/states";
import { datumPieces, widths } from "./bar";
import { shapeOf, StateWord } from "./icons";
import { To } from "./words";

export interface GraphState {
  job: (project: string, stage: string) => Job | undefined;
  repo: (project: string, repo: string) => Repo | undefined;
}

function lineOf(job: Job | undefined): { text: string; tone: string } {
  if (!job) return { text: "has not run", tone: "" };
  const { done, reused, failed, total } = job.datums;
  if (job.state === "failure") return { text: failed ? `${number(failed)} of ${number(total)} failed` : name(job.reason), tone: "failc" };
  if (job.state === "success" && failed) return { text: `${number(failed)} of ${number(total)} failed`, tone: "part" };
  if (job.state === "unrunnable") return { text: name(job.reason), tone: "" };
  if (job.state === "killed") return { text: "stopped", tone: "" };
  if (isOver(job.state)) return { text: `${number(done)} ran · ${number(reused)} reused`, tone: "" };
  if (isWaiting(job)) return { text: `waits ${waitReason(job)}`, tone: /for stage/.test(job.reason) ? "" : "waiting" };
  return { text: `${number(done + reused + failed)} of ${counted(total, "datum")}`, tone: "" };
}

function tookOf(job: Job | undefined): string {
  if (!job?.started_us) return "";
  return duration(((job.finished_us ?? now.value * 1000) - job.started_us) / 1000);
}

// An output is older than its input when the newest job of its stage did not write it.
export function isStale(job: Job | undefined): boolean {
  return job !== undefined && job.state !== "success";
}

function placeOfStage(node: Node, job: Job | undefined): Place {
  return job ? { page: "job", project: node.project, stage: node.name, run: job.run } : { page: "repo", project: node.project, repo: node.name };
}

function RepoPill({ node, repo, events }: { node: Node; repo: Repo | undefined; events: object }) {
  const words = fit(repo?.commit ? `${counted(repo.files, "file")} · ${size(repo.bytes)}` : "no file yet", 114);
  const title = fit(name(node.name), 114, 600, 13);
  const place: Place = repo?.branch ? { page: "files", project: node.project, repo: node.name, ref: repo.branch, path: "" } : { page: "repo", project: node.project, repo: node.name };
  return (
    <a href={href(place)} aria-label={`${title} ${words}, repo ${name(node.name)}`} data-node={node.id} {...events}>
      <rect class="pill" x={node.x} y={node.y} width={node.w} height={node.h} rx={node.h / 2} />
      <svg x={node.x + 14} y={node.y + 14} width="16" height="16" viewBox="0 0 16 16" class="i data-c">{shapeOf("repo")}</svg>
      <text class="name" x={node.x + 38} y={node.y + 19}>{title}</text>{" "}
      <text class="pilltext" x={node.x + 38} y={node.y + 35}>{words}</text>{" "}
    </a>
  );
}

function OutputPill({ node, job, repo }: { node: Node; job: Job | undefined; repo: Repo | undefined }) {
  if (!repo?.commit) return null;
  const stale = isStale(job);
  const text = fit(stale ? (job && isOver(job.state) ? "not new" : "older") : counted(repo.files, "file"), 100);
  const w = Math.ceil(38 + widthOf(text));
  const x = node.x + node.w + 12 - w;
  const label = `${text}: repo ${name(repo.name)}, ${counted(repo.files, "file")}${stale ? ", older than its input" : ""}`;
  return (
    <a href={href({ page: "files", project: node.project, repo: node.name, ref: repo.branch || "master", path: "" })} aria-label={label}>
      <rect class={`pill ${stale ? "old" : ""}`} x={x} y={node.rail - 12} width={w} height="24" rx="12" />
      <svg x={x + 9} y={node.rail - 7} width="14" height="14" viewBox="0 0 16 16" class={`i ${stale ? "faint-c" : "data-c"}`}>{shapeOf(stale ? "stale" : "repo")}</svg>
      <text class={`pilltext ${stale ? "old" : ""}`} x={x + 28} y={node.rail + 4}>{text}</text>{" "}
    </a>
  );
}

function StageBox({ node, job, repo, events }: { node: Node; job: Job | undefined; repo: Repo | undefined; events: object }) {
  const state = job ? jobState(job) : { word: "has not run", shape: "not" as const };
  const line = lineOf(job);
  const border = { done: "", part: "part", failed: "fail", running: "run", starting: "run", finishing: "run", waiting: "wait", stopped: "wait", not: "wait", stale: "", free: "", idle: "" }[state.shape];
  const pieces = job ? datumPieces(job.datums, node.gpu, isOver(job.state)) : [];
  let x = node.x + 10;
  const bars = widths(pieces).map((width, i) => {
    const at = x;
    x += width * 1.64;
    return width > 0 ? <rect class={`b-${pieces[i]!.of}`} x={at} y={node.y + 46} width={width * 1.64} height="4" /> : null;
  });
  const took = tookOf(job);
  const title = fit(name(node.name), node.gpu ? 98 : 142, 600, 13);
  const words = fit(line.text, 164);
  // begins with what is seen, as speech input wants it
  const seen = [title, node.gpu ? "GPU" : "", words, took].filter(Boolean).join(" ");
  const label = `${seen}, stage ${name(node.name)}, ${state.word}${words === line.text ? "" : `: ${line.text}`}`;
  return (
    <>
      <a href={href(placeOfStage(node, job))} aria-label={label} data-node={node.id} {...events}>
        
        <rect class={`box ${border}`} x={node.x} y={node.y} width={node.w} height={node.h} rx="6" />
        <svg x={node.x + 10} y={node.y + 9} width="16" height="16" viewBox="0 0 16 16" class={`i state ${state.shape}`}>{shapeOf(state.shape)}</svg>
        <text class="name" x={node.x + 32} y={node.y + 21}>{title}</text>{" "}
        {node.gpu && <><rect class="gpuchip" x={node.x + node.w - 46} y={node.y + 8} width="38" height="18" rx="4" /><text class="gputext" x={node.x + node.w - 27} y={node.y + 21} text-anchor="middle">GPU</text>{" "}</>}
        <text class={line.tone} x={node.x + 10} y={node.y + 39}>{words}</text>{" "}
        {job && job.datums.total > 0 && <><rect class="b-todo" x={node.x + 10} y={node.y + 46} width="164" height="4" rx="2" />{bars}</>}
        <text class="tiny" x={node.x + 10} y={node.y + 70}>{took}</text>{" "}
      </a>
      <OutputPill node={node} job={job} repo={repo} />
    </>
  );
}

function EdgePath({ edge, live, waits, dim, hot }: { edge: Edge; live: boolean; waits: boolean; dim: boolean; hot: boolean }) {
  const [x, y] = edge.points[edge.points.length - 1]!;
  const tone = hot ? "hot" : live ? "live" : waits ? "wait" : "";
  const points: [number, number][] = [...edge.points.slice(0, -1), [x - 6, y]];
  return (
    <g class={dim ? "dim" : ""}>
      <path class={`edge ${tone}`} d={rounded(points)} />
      <path class={`head ${tone}`} d={`M${x} ${y}l-7 -4v8z`} />
    </g>
  );
}

const ZOOM_LEAST = 0.45;

// Arrows go along the edges, in the order of the screen where there is a choice.
function follow(drawing: Drawing, id: string, key: string): string | null {
  const here = drawing.nodes.find((node) => node.id === id)!;
  const pick = (ids: string[]) => drawing.nodes.filter((node) => ids.includes(node.id)).sort((a, b) => Math.abs(a.y - here.y) - Math.abs(b.y - here.y))[0]?.id ?? null;
  if (key === "ArrowRight") return pick(drawing.edges.filter((edge) => edge.from === id).map((edge) => edge.to));
  if (key === "ArrowLeft") return pick(drawing.edges.filter((edge) => edge.to === id).map((edge) => edge.from));
  const column = drawing.nodes.filter((node) => node.layer === here.layer).sort((a, b) => a.y - b.y);
  const next = column[column.findIndex((node) => node.id === id) + (key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0)];
  return next && next.id !== id ? next.id : null;
}

export function Graph({ pipeline, state, zoom = 0 }: { pipeline: Pipeline; state: GraphState; zoom?: number }) {
  const drawing = useMemo(() => draw(pipeline), [pipeline]);
  const [focus, setFocus] = useState<string | null>(null);
  const place = useRef<SVGSVGElement>(null);
  const related = focus ? relatives(drawing.edges, focus) : null;
  const jobs = new Map(drawing.nodes.map((node) => [node.id, node.kind === "stage" ? state.job(node.project, node.name) : undefined]));
  const runs = (id: string) => {
    const job = jobs.get(id);
    return job !== undefined && !isOver(job.state) && !isWaiting(job);
  };
  const events = (node: Node) => ({
    onPointerEnter: () => setFocus(node.id),
    onPointerLeave: () => setFocus(null),
    onFocus: () => setFocus(node.id),
    onBlur: () => setFocus(null),
    onKeyDown: (event: KeyboardEvent) => {
      const next = event.key.startsWith("Arrow") ? follow(drawing, node.id, event.key) : null;
      if (!next) return;
      event.preventDefault();
      [...(place.current?.querySelectorAll<SVGAElement>("a[data-node]") ?? [])].find((one) => one.getAttribute("data-node") === next)?.focus();
    },
  });
  const [w, h] = [drawing.w + 32, drawing.h + 24];
  // 0 fits the panel, but never below the least zoom: then it scrolls
  const size = zoom > 0 ? { width: w * zoom, height: h * zoom } : {};
  return (
    <div class="graph-scroll">
      <svg ref={place} class={`g ${zoom > 0 ? "sized" : ""}`} viewBox={`-16 -14 ${w} ${h}`} {...size} role="group"
        aria-label={`Graph of pipeline ${name(pipeline.name)}: ${counted(pipeline.stages.length, "stage")}`}
        style={zoom > 0 ? {} : { minWidth: `${Math.round(w * ZOOM_LEAST)}px`, maxWidth: `${Math.round(w * 1.05)}px` }}>
        {drawing.edges.map((edge) => (
          <EdgePath edge={edge} live={runs(edge.to)} waits={Boolean(jobs.get(edge.to) && isWaiting(jobs.get(edge.to)!))}
            hot={related !== null && related.has(edge.from) && related.has(edge.to)} dim={related !== null && !(related.has(edge.from) && related.has(edge.to))} />
        ))}
        {drawing.nodes.map((node) => (
          <g class={related && !related.has(node.id) ? "dim" : ""} key={node.id}>
            {node.kind === "repo"
              ? <RepoPill node={node} repo={state.repo(node.project, node.name)} events={events(node)} />
              : <StageBox node={node} job={jobs.get(node.id)} repo={state.repo(node.project, node.name)} events={events(node)} />}
          </g>
        ))}
      </svg>
    </div>
  );
}

// The same as a list: what narrow screens and screen readers get.
export function StageList({ pipeline, state }: { pipeline: Pipeline; state: GraphState }) {
  return (
    <table class="list">
      <thead><tr><th>Stage</th><th>State</th><th class="p2">Reads</th><th class="num p2">Took</th></tr></thead>
      <tbody>
        {stagesInOrder(pipeline).map((stage) => {
          const job = state.job(pipeline.project, stage.name);
          const line = lineOf(job);
          return (
            <tr key={stage.name}>
              <td>
                {job
                  ? <To class="main" row place={{ page: "job", project: pipeline.project, stage: stage.name, run: job.run }}>{stage.name}</To>
                  : <To class="main" row place={{ page: "repo", project: pipeline.project, repo: stage.name }}>{stage.name}</To>}
                {stage.gpu && <> <span class="chip gpu">GPU</span></>}
                <small class="narrow">reads {stage.inputs.join(", ") || "nothing"}</small>
              </td>
              <td>{job ? <StateWord of={jobState(job)} /> : <span class="faint">has not run</span>}<small>{line.text}</small></td>
              <td class="p2 muted">{stage.inputs.join(", ") || "–"}</td>
              <td class="num p2">{tookOf(job) || <span class="faint">–</span>}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

// A bar for each of the newest runs, the oldest first: its height is how long it took.
export function RunBars({ runs, pipeline }: { runs: { id: string; shape: string; ms: number }[]; pipeline: string }) {
  const longest = Math.max(1, ...runs.map((run) => run.ms));
  const tone: Record<string, string> = { done: "b-done", part: "b-wait", failed: "b-fail", running: "b-run", starting: "b-run", finishing: "b-run" };
  const failed = runs.filter((run) => run.shape === "failed").length;
  const partly = runs.filter((run) => run.shape === "part").length;
  const words = [`The last ${counted(runs.length, "run")} of ${pipeline}`, failed ? `${failed} failed` : "none failed", partly ? `${partly} partly` : ""].filter(Boolean).join(", ");
  return (
    <svg class="hist" viewBox="0 0 144 20" width="144" height="20" role="img" aria-label={words}>
      <title>{words}</title>
      {runs.map((run, i) => {
        const h = 3 + Math.round((11 * run.ms) / longest);
        const x = (24 - runs.length + i) * 6;
        return (
          <g key={run.id}>
            <rect class={tone[run.shape] ?? "b-todo"} x={x} y={20 - h} width="4" height={h} onClick={() => go(pathOf({ page: "run", run: run.id }))} />
            {run.shape === "failed" && <path d={`M${x} ${15 - h}l4 4m0-4l-4 4`} stroke="var(--fail)" stroke-width="1.3" />}
          </g>
        );
      })}
    </svg>
  );
}

