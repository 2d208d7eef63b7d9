// The graph of pipelines: repos as pills, stages as boxes with the pill of what they write; state by shape and words as well as colour.
import { memo } from "preact/compat";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { GraphDatums, StageState } from "../api/schema";
import { type Drawing, type Edge, HANG, type Node, inOrder, relatives, rounded } from "../core/drawing";
import { type Wishes, opened, queryOf } from "../core/folding";
import { name } from "../core/foreign";
import { age, counted, duration, msBetween, number, short, size } from "../core/format";
import { go, withQuery } from "../core/going";
import type { LiveStates } from "../core/live";
import { fit, widthOf } from "../core/measure";
import { now } from "../core/now";
import { type Place, href, pathOf } from "../core/places";
import type { Shape, State } from "../core/states";
import { type Area, EVERYTHING, NOTHING, areaAround, areaOf, areaToDraw, touches } from "../core/view";
import { widths } from "./bar";
import { shapeOf, StateWord } from "./icons";
import { To } from "./words";

const STATES: Record<string, State> = {
  none: { word: "has not run", shape: "not" },
  waiting: { word: "Waiting", shape: "waiting" },
  starting: { word: "Starting", shape: "starting" },
  running: { word: "Running", shape: "running" },
  finishing: { word: "Finishing", shape: "finishing" },
  done: { word: "Done", shape: "done" },
  failed: { word: "Failed", shape: "failed" },
  stopped: { word: "Stopped", shape: "stopped" },
  superseded: { word: "Superseded", shape: "stopped" },
  not_run: { word: "Not run", shape: "not" },
};

// A stage that has workers to start, but for which something is missing, waits.
function keyOf(stage: StageState | undefined): string {
  return stage?.state === "starting" && /^waiting /.test(stage.reason ?? "") ? "waiting" : (stage?.state ?? "none");
}

export function stageState(stage: StageState | undefined): State {
  if (stage?.state === "partly_failed") return { word: `${number(stage.datums?.failed ?? 0)} failed`, shape: "part" };
  return STATES[keyOf(stage)] ?? STATES["none"]!;
}

const RUNS = new Set(["starting", "running", "finishing"]);
const NONE: GraphDatums = { total: 0, done: 0, reused: 0, failed: 0 };

function lineOf(stage: StageState | undefined): { text: string; tone: string } {
  const { done, reused, failed, total } = stage?.datums ?? NONE;
  const reason = name(stage?.reason ?? "");
  switch (keyOf(stage)) {
    case "failed":
      return { text: failed ? `${number(failed)} of ${number(total)} failed` : reason, tone: "failc" };
    case "partly_failed":
      return { text: `${number(failed)} of ${number(total)} failed`, tone: "part" };
    case "done":
      return { text: total ? `${number(done)} ran · ${number(reused)} reused` : "nothing to do", tone: "" };
    case "waiting":
      return { text: `waits ${reason.replace(/^waiting (?=for|until|before)/, "")}`, tone: /for stage|for its turn/.test(reason) ? "" : "waiting" };
    case "not_run":
    case "stopped":
    case "superseded":
      return { text: reason || "stopped", tone: "" };
    case "none":
      return { text: stage?.stopped ? "its pipeline is stopped" : "has not run", tone: "" };
    default:
      return { text: `${number(done + reused + failed)} of ${counted(total, "datum")}`, tone: "" };
  }
}

function tookOf(stage: StageState | undefined): string {
  if (!stage?.started_us) return "";
  return duration(msBetween(stage.started_us, stage.finished_us, now.value));
}

function placeOfStage(project: string, stage: string, state: StageState | undefined): Place {
  return state?.run ? { page: "job", project, stage, run: state.run } : { page: "repo", project, repo: stage };
}

function Shape16({ of, x, y, size: px = 16, tone }: { of: Shape | "repo" | "stale" | "folder"; x: number; y: number; size?: number; tone: string }) {
  return <svg x={x} y={y} width={px} height={px} viewBox="0 0 16 16" class={`i ${tone}`}>{shapeOf(of)}</svg>;
}

// What is drawn of a node: out of view only its outline, which has its name and takes the focus.
interface NodeProps {
  node: Node;
  states: LiveStates;
  beside: string; // its neighbours, in words
  whole: boolean;
}

function RepoPill({ node, states, beside, whole }: NodeProps) {
  const commit = states.repo(node.key ?? "")?.commit;
  const read = states.refs?.get(node.key ?? "");
  const words = fit(commit ? `${counted(commit.files, "file")} · ${size(commit.bytes)}` : read ? `read at ${short(read)}` : states.refs ? "not read" : "no file yet", 114);
  const title = fit(name(node.name ?? ""), 114, 600, 13);
  const who = commit ? fit(`${commit.author ? `${name(commit.author)}, ` : ""}${age(commit.created_us, now.value)}`, 140) : "";
  const place: Place = commit || read ? { page: "files", project: node.project, repo: node.name ?? "", ref: read ?? node.branch ?? "master", path: "" } : { page: "repo", project: node.project, repo: node.name ?? "" };
  return (
    <a href={href(place)} aria-label={`${title} ${words} ${who}, repo ${name(node.name ?? "")}${beside}`} data-at={node.at}>
      <rect class="pill" x={node.x} y={node.y} width={node.w} height={node.h} rx={node.h / 2} />
      {whole && <>
        <Shape16 of="repo" x={node.x + 14} y={node.y + 14} tone="data-c" />
        <text class="name" x={node.x + 38} y={node.y + 19}>{title}</text>{" "}
        <text class="pilltext" x={node.x + 38} y={node.y + 35}>{words}</text>{" "}
        <text class="tiny" x={node.x + 14} y={node.y + node.h + 16}>{who}</text>
      </>}
    </a>
  );
}

// `written` is the commit that the run wrote which is shown.
function OutputPill({ node, stage, written }: { node: Node; stage: StageState | undefined; written: string | undefined }) {
  const commit = stage?.commit;
  if (!commit && !written) return null;
  const stale = Boolean(commit && stage?.stale);
  const text = fit(!commit ? short(written!) : stale ? age(commit.created_us, now.value) : counted(commit.files, "file"), 100);
  const w = Math.ceil(38 + widthOf(text));
  const x = node.x + node.w + HANG - w;
  const label = `${text}: repo ${name(node.name ?? "")}${commit ? `, ${counted(commit.files, "file")}` : ", as the run wrote it"}${stale ? ", out of date" : ""}`;
  return (
    <a href={href({ page: "files", project: node.project, repo: node.name ?? "", ref: written ?? node.branch ?? "master", path: "" })} aria-label={label}>
      <rect class={`pill ${stale ? "old" : ""}`} x={x} y={node.rail - 12} width={w} height="24" rx="12" />
      <Shape16 of={stale ? "stale" : "repo"} x={x + 9} y={node.rail - 7} size={14} tone={stale ? "faint-c" : "data-c"} />
      <text class={`pilltext ${stale ? "old" : ""}`} x={x + 28} y={node.rail + 4}>{text}</text>
    </a>
  );
}

function datumBar(datums: GraphDatums, gpu: boolean, runs: boolean, x: number, y: number, w: number) {
  const total = Math.max(1, datums.total);
  const left = runs ? Math.min(1, datums.total - datums.done - datums.reused - datums.failed) : 0;
  const pieces = [{ of: "fail", share: datums.failed / total }, { of: "done", share: datums.done / total }, { of: "reused", share: datums.reused / total }, { of: gpu ? "gpu" : "run", share: left / total }] as const;
  let at = x;
  return widths([...pieces]).map((width, i) => {
    const from = at;
    at += (width * w) / 100;
    return width > 0 ? <rect class={`b-${pieces[i]!.of}`} x={from} y={y} width={(width * w) / 100} height="4" /> : null;
  });
}

const BORDERS: Partial<Record<Shape, string>> = { part: "part", failed: "fail", running: "run", starting: "run", finishing: "run", waiting: "wait", stopped: "wait", not: "wait" };

function StageBox({ node, states, beside, whole }: NodeProps) {
  const stage = states.stage(node.key ?? "");
  const state = stageState(stage);
  const line = lineOf(stage);
  const took = tookOf(stage);
  const gpus = node.gpus ?? 0;
  const chip = gpus > 1 ? `${gpus} GPU` : "GPU";
  const chipW = gpus > 1 ? 46 : 38;
  const title = fit(name(node.name ?? ""), gpus ? 94 : 142, 600, 13);
  const words = fit(line.text, 164);
  // begins with what is seen, as speech input wants it
  const seen = [title, gpus ? chip : "", words, took].filter(Boolean).join(" ");
  const label = `${seen}, stage ${name(node.name ?? "")}, ${state.word}${words === line.text ? "" : `: ${line.text}`}${beside}`;
  const datums = stage?.datums ?? NONE;
  return (
    <>
      <a href={href(placeOfStage(node.project, node.name ?? "", stage))} aria-label={label} data-at={node.at}>
        <rect class={`box ${BORDERS[state.shape] ?? ""}`} x={node.x} y={node.y} width={node.w} height={node.h} rx="6" />
        {whole && <>
          <Shape16 of={state.shape} x={node.x + 10} y={node.y + 9} tone={`state ${state.shape}`} />
          <text class="name" x={node.x + 32} y={node.y + 21}>{title}</text>{" "}
          {gpus > 0 && <><rect class="gpuchip" x={node.x + node.w - chipW - 8} y={node.y + 8} width={chipW} height="18" rx="4" /><text class="gputext" x={node.x + node.w - chipW / 2 - 8} y={node.y + 21} text-anchor="middle">{chip}</text>{" "}</>}
          <text class={line.tone} x={node.x + 10} y={node.y + 39}>{words}</text>{" "}
          {datums.total > 0 && <><rect class="b-todo" x={node.x + 10} y={node.y + 46} width={node.w - 20} height="4" rx="2" />{datumBar(datums, stage?.device === "gpu", RUNS.has(keyOf(stage)), node.x + 10, node.y + 46, node.w - 20)}</>}
          <text class="tiny" x={node.x + 10} y={node.rail + 4}>{took}</text>
        </>}
      </a>
      {whole && <OutputPill node={node} stage={stage} written={states.refs?.get(node.key ?? "")} />}
    </>
  );
}

interface Sums {
  failed: number;
  partly: number;
  running: number;
}

function sumsOf(node: Node, states: LiveStates): Sums {
  const sums = { failed: 0, partly: 0, running: 0 };
  for (const key of node.members ?? []) {
    const stage = states.stage(key);
    if (stage?.state === "failed") sums.failed++;
    else if (stage?.state === "partly_failed") sums.partly++;
    else if (stage && RUNS.has(keyOf(stage))) sums.running++;
  }
  return sums;
}

// Several stages, repos or pipelines in one box: how many, and what is wrong with them. It opens.
function FoldedBox({ node, states, to, beside, whole }: NodeProps & { to: string }) {
  const { failed, partly, running } = sumsOf(node, states);
  const noun = node.kind === "repos" ? "repo" : "stage";
  const title = fit(counted(node.count, noun), node.w - 60, 600, 13);
  const words = fit(failed ? `${number(failed)} failed` : partly ? `${number(partly)} partly failed` : running ? `${number(running)} running` : name(node.pipeline ?? ""), node.w - 20);
  const shape: Shape | "repo" = node.kind === "repos" ? "repo" : failed ? "failed" : partly ? "part" : running ? "running" : "done";
  const box = node.kind === "repos" ? "pill" : `box ${failed ? "fail" : partly ? "part" : running ? "run" : ""}`;
  const rx = node.kind === "repos" ? node.h / 2 : 6;
  return (
    <a href={to} aria-label={`${title} ${words}${node.pipeline ? `, of pipeline ${name(node.pipeline)}` : ""}: unfold${beside}`} data-at={node.at} data-opens>
      <rect class={box} x={node.x + 4} y={node.y - 4} width={node.w} height={node.h} rx={rx} />
      <rect class={box} x={node.x} y={node.y} width={node.w} height={node.h} rx={rx} />
      {whole && <>
        <Shape16 of={shape} x={node.x + 10} y={node.y + 9} tone={shape === "repo" ? "data-c" : `state ${shape}`} />
        <text class="name" x={node.x + 32} y={node.y + 21}>{title}</text>{" "}
        <text x={node.x + (node.kind === "repos" ? 32 : 10)} y={node.y + 37}>{words}</text>
        <path class="opens" d={`M${node.x + node.w - 22} ${node.y + 17}h10m-5 -5v10`} />
      </>}
    </a>
  );
}

const MONO = 7; // px a character of the labels

// `to` is the stage that the edge leads to, if it is one.
function EdgePath({ edge, to, states, hot, dim }: { edge: Edge; to: string | undefined; states: LiveStates; hot: boolean; dim: boolean }) {
  const state = to ? keyOf(states.stage(to)) : "none";
  const tone = hot ? "hot" : RUNS.has(state) ? "live" : state === "waiting" ? "wait" : "";
  const [x, y] = edge.points[edge.points.length - 1]!;
  const points: [number, number][] = [...edge.points.slice(0, -1), [x - 6, y]];
  // on the longest level piece, if there is room
  let best = { from: 0, length: 0, y: 0 };
  for (let i = 1; i < edge.points.length; i++) {
    const [[ax, ay], [bx, by]] = [edge.points[i - 1]!, edge.points[i]!];
    if (ay === by && bx - ax > best.length) best = { from: ax, length: bx - ax, y: ay };
  }
  const w = edge.label.length * MONO;
  const shown = edge.label && best.length >= w + 24;
  return (
    <g class={dim ? "dim" : ""}>
      {edge.label && <title>{name(edge.label)}</title>}
      <path class={`edge ${tone}`} d={rounded(points)} />
      <path class={`head ${tone}`} d={`M${x} ${y}l-7 -4v8z`} />
      {shown && <><rect class="under" x={best.from + best.length / 2 - w / 2 - 3} y={best.y - 8} width={w + 6} height="16" /><text class="label mono" x={best.from + best.length / 2} y={best.y + 4} text-anchor="middle">{name(edge.label)}</text></>}
    </g>
  );
}

const ZOOM_LEAST = 0.45;

// Arrows go along the edges, to the nearest where there is a choice.
function follow(drawing: Drawing, from: Node, key: string): Node | undefined {
  const nearest = (ids: number[]) => drawing.nodes.filter((node) => ids.includes(node.at)).sort((a, b) => Math.abs(a.y - from.y) - Math.abs(b.y - from.y))[0];
  if (key === "ArrowRight") return nearest(drawing.edges.filter((edge) => edge.from === from.at).map((edge) => edge.to));
  if (key === "ArrowLeft") return nearest(drawing.edges.filter((edge) => edge.to === from.at).map((edge) => edge.from));
  const column = drawing.nodes.filter((node) => node.layer === from.layer).sort((a, b) => a.y - b.y);
  const step = key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0;
  return step ? column[column.findIndex((node) => node.at === from.at) + step] : undefined;
}

// What a node reads and what reads it, in words for those who do not see the edges.
function neighbours(drawing: Drawing): Map<number, string> {
  const MOST = 4;
  const nameAt = new Map(drawing.nodes.map((node) => [node.at, name(node.name ?? counted(node.count, node.kind === "repos" ? "repo" : "stage"))]));
  const list = (names: string[]) => (names.length > MOST ? `${names.slice(0, MOST).join(", ")} and ${names.length - MOST} more` : names.join(", "));
  const reads = new Map<number, Set<string>>();
  const feeds = new Map<number, Set<string>>();
  const put = (map: Map<number, Set<string>>, at: number, other: number) => map.set(at, (map.get(at) ?? new Set()).add(nameAt.get(other) ?? ""));
  for (const edge of drawing.edges) {
    put(reads, edge.to, edge.from);
    put(feeds, edge.from, edge.to);
  }
  return new Map(drawing.nodes.map((node) => {
    const [from, to] = [[...(reads.get(node.at) ?? [])], [...(feeds.get(node.at) ?? [])]];
    return [node.at, `${from.length ? `, reads ${list(from)}` : ""}${to.length ? `, feeds ${list(to)}` : ""}`];
  }));
}

const Edges = memo(EdgePath);
const Stage = memo(StageBox);
const Pill = memo(RepoPill);
const Folded = memo(FoldedBox);

function Shown({ wishes, ...props }: NodeProps & { wishes: Wishes | undefined }) {
  const { node } = props;
  if (node.kind === "stage") return <Stage {...props} />;
  if (node.kind === "repo") return <Pill {...props} />;
  const wished = wishes && opened(wishes, node);
  const place: Place = node.pipeline ? { page: "pipeline", project: node.project, pipeline: node.pipeline } : { page: "pipelines" };
  return <Folded {...props} to={wished ? withQuery(queryOf(wished)) : href(place)} />;
}

const INSET = { x: 16, y: 14 }; // around a drawing

// The part of a drawing that is drawn in full: what is in sight, with a margin. It follows scrolling, zoom and the window's size.
function useArea(place: { current: SVGSVGElement | null }, drawing: Drawing, zoom: number, few: boolean): Area {
  const [area, setArea] = useState<Area>(few ? EVERYTHING : NOTHING);
  useLayoutEffect(() => {
    if (few) {
      setArea(EVERYTHING);
      return;
    }
    let frame = 0;
    const look = () => {
      frame = 0;
      const svg = place.current;
      if (!svg) return;
      const own = svg.getBoundingClientRect();
      const box = svg.parentElement!.getBoundingClientRect();
      const port = { left: Math.max(0, box.left), right: Math.min(innerWidth, box.right), top: 0, bottom: innerHeight };
      setArea((before) => areaToDraw(before, own, port, own.width / (drawing.w + 2 * INSET.x), INSET));
    };
    const soon = () => (frame ||= requestAnimationFrame(look));
    const resized = new ResizeObserver(soon);
    look();
    resized.observe(place.current!);
    addEventListener("scroll", soon, { passive: true, capture: true }); // the window, and what scrolls sideways within it
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
      removeEventListener("scroll", soon, { capture: true });
      removeEventListener("resize", soon);
    };
  }, [drawing, zoom, few]);
  return few ? EVERYTHING : area;
}

export interface Search {
  hits: Set<number>; // nodes that were found or hold what was found
  current: number | null;
}

// `few`: the page has so few nodes that all of them are drawn. `shutNode` is called for the key x on a node: its pipeline becomes one box.
export const Graph = memo(function Graph({ drawing, states, few, zoom = 0, wishes, search, shutNode }: {
  drawing: Drawing; states: LiveStates; few: boolean; zoom?: number; wishes?: Wishes; search?: Search | null; shutNode?: (node: Node) => void;
}) {
  const [focus, setFocus] = useState<number | null>(null);
  const place = useRef<SVGSVGElement>(null);
  const byAt = useMemo(() => new Map(drawing.nodes.map((node) => [node.at, node])), [drawing]);
  const ordered = useMemo(() => inOrder(drawing.nodes).map((node) => ({ node, area: areaOf(node) })), [drawing]);
  const edges = useMemo(() => drawing.edges.map((edge) => ({ edge, area: areaAround(edge.points), to: byAt.get(edge.to)?.kind === "stage" ? byAt.get(edge.to)!.key ?? undefined : undefined })), [drawing]);
  const beside = useMemo(() => neighbours(drawing), [drawing]);
  const related = useMemo(() => (focus !== null && byAt.has(focus) ? relatives(drawing.edges, focus) : null), [drawing, focus]);
  const [w, h] = [drawing.w + 2 * INSET.x, drawing.h + 24];
  const area = useArea(place, drawing, zoom, few);

  // one listener for all nodes: a graph may have thousands
  const nodeOf = (event: Event) => {
    const at = (event.target as Element).closest?.("[data-at]")?.getAttribute("data-at");
    return at ? byAt.get(Number(at)) : undefined;
  };
  const key = (event: KeyboardEvent) => {
    const node = nodeOf(event);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = follow(drawing, node, event.key);
    if (next) place.current?.querySelector<SVGAElement>(`[data-at="${next.at}"]`)?.focus();
    else if (event.key === "x" && shutNode && node.pipeline) shutNode(node);
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
  };
  const mark = (node: Node) => [related && !related.has(node.at) ? "dim" : search && !related && !search.hits.has(node.at) ? "dim" : "", search?.current === node.at ? "found" : ""].filter(Boolean).join(" ");
  const stages = drawing.nodes.filter((node) => node.kind === "stage").length;
  return (
    <div class="graph-scroll">
      <svg ref={place} class={`g ${zoom > 0 ? "sized" : ""}`} viewBox={`${-INSET.x} ${-INSET.y} ${w} ${h}`} {...(zoom > 0 ? { width: w * zoom, height: h * zoom } : {})} role="group"
        aria-label={`Graph of ${listed(drawing.pipelines.map((one) => name(one.name)))}: ${counted(stages, "stage")} drawn. Arrow keys follow the edges.`}
        style={zoom > 0 ? {} : { minWidth: `${Math.round(w * ZOOM_LEAST)}px`, maxWidth: `${Math.round(w * 1.05)}px` }}
        onPointerOver={(event) => setFocus(nodeOf(event)?.at ?? null)} onPointerLeave={() => setFocus(null)}
        onFocusIn={(event) => setFocus(nodeOf(event)?.at ?? null)} onFocusOut={() => setFocus(null)} onKeyDown={key}>
        {edges.map(({ edge, area: around, to }, i) => touches(area, around) && <Edges key={i} edge={edge} to={to} states={states} hot={Boolean(related?.has(edge.from) && related.has(edge.to))} dim={related !== null && !(related.has(edge.from) && related.has(edge.to))} />)}
        {ordered.map(({ node, area: around }) => <g class={mark(node)} key={`n${node.at}`}><Shown node={node} states={states} wishes={wishes} beside={beside.get(node.at) ?? ""} whole={touches(area, around)} /></g>)}
      </svg>
    </div>
  );
});

const NAMED = 6;

function listed(names: string[]): string {
  return names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${names.length - NAMED} more` : names.join(", ");
}

interface ListRow {
  key: string;
  gpu: boolean;
  reads: string[];
  inBox: boolean; // in a box, beside repos
}

function StageRow({ row, states }: { row: ListRow; states: LiveStates }) {
  const stage = states.stage(row.key);
  const [project = "", title = ""] = row.key.split("/");
  if (row.inBox && !stage) return null;
  return (
    <tr>
      <td><To class="main" row place={placeOfStage(project, title, stage)}>{name(title)}</To>{row.gpu && <> <span class="chip gpu">GPU</span></>}
        {row.reads.length > 0 && <small class="narrow">reads {row.reads.map(name).join(", ")}</small>}</td>
      <td><StateWord of={stageState(stage)} /><small>{lineOf(stage).text}{stage?.stale ? " · its repo is out of date" : ""}</small></td>
      <td class="p2 muted">{row.reads.map(name).join(", ") || "–"}</td>
      <td class="num p2">{tookOf(stage) || <span class="faint">–</span>}</td>
    </tr>
  );
}

const Row = memo(StageRow);

// The same as a list: what narrow screens get. Stages that are folded are in it, too.
export const StageList = memo(function StageList({ drawing, states }: { drawing: Drawing; states: LiveStates }) {
  const rows = useMemo(() => {
    const reads = new Map<number, Set<string>>();
    const nameAt = new Map(drawing.nodes.map((node) => [node.at, node.name ?? counted(node.count, node.kind === "repos" ? "repo" : "stage")]));
    for (const edge of drawing.edges) reads.set(edge.to, (reads.get(edge.to) ?? new Set()).add(nameAt.get(edge.from) ?? ""));
    return inOrder(drawing.nodes).flatMap((node): ListRow[] => (node.kind === "stage" ? [{ key: node.key!, gpu: Boolean(node.gpus), reads: [...(reads.get(node.at) ?? [])], inBox: false }]
      : (node.members ?? []).map((key) => ({ key, gpu: false, reads: [], inBox: true }))));
  }, [drawing]);
  return (
    <table class="list">
      <thead><tr><th>Stage</th><th>State</th><th class="p2">Reads</th><th class="num p2">Took</th></tr></thead>
      <tbody>{rows.map((row) => <Row key={row.key} row={row} states={states} />)}</tbody>
    </table>
  );
});

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

