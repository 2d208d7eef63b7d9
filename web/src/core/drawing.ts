// The graph as the daemon lays it out: one drawing for each band, which has the pipelines that read each other.
import { get } from "../api/client";
import type { Graph, GraphNode, GraphPipeline, GraphState } from "../api/schema";
import { LiveStates } from "./live";

export interface Node extends GraphNode {
  at: number; // its number in the graph, which edges name
}

export interface Edge {
  from: number;
  to: number;
  label: string; // the glob, or the files; "" for a whole repo and for several edges
  points: [number, number][];
}

// A band, with its upper left corner at 0, 0.
export interface Drawing {
  pipelines: GraphPipeline[];
  w: number;
  h: number;
  nodes: Node[];
  edges: Edge[];
}

export interface Picture {
  drawings: Drawing[];
  folded: boolean;
  bandsLeft: number; // bands that come after those of the picture
  states: LiveStates; // by PROJECT/NAME
}

export const HANG = 12; // the output port of a stage lies so far beyond its right side
const ROOM = 26; // below a band, for the author of a repo

function labelOf(edge: Graph["edges"][number]): string {
  if (edge.count !== 1) return "";
  if (edge.files?.length) return edge.files.length === 1 ? edge.files[0]!.replace(/^\//, "") : `${edge.files[0]!} …`;
  return edge.glob && edge.glob !== "/" ? edge.glob : "";
}

export function drawingsOf(graph: Graph): Drawing[] {
  const nodes = graph.nodes.map((node, at): Node => ({ ...node, at }));
  return graph.bands.map((band, number): Drawing => {
    const own = nodes.filter((node) => node.band === number).map((node) => ({ ...node, x: node.x - band.x, y: node.y - band.y, rail: node.rail - band.y }));
    const edges = graph.edges.filter((edge) => nodes[edge.to]!.band === number).map((edge): Edge => {
      const points: [number, number][] = [];
      for (let i = 0; i + 1 < edge.points.length; i += 2) points.push([edge.points[i]! - band.x, edge.points[i + 1]! - band.y]);
      return { from: edge.from, to: edge.to, label: labelOf(edge), points };
    });
    return { pipelines: band.pipelines, w: band.w, h: band.h + ROOM, nodes: own, edges };
  });
}

// From left to right, and from above: the order in which Tab goes.
export function inOrder(nodes: Node[]): Node[] {
  return [...nodes].sort((a, b) => a.layer - b.layer || a.y - b.y);
}

// What is asked for: one project or pipeline, and how it folds.
export interface Question {
  project?: string;
  pipeline?: string;
  keep?: string[];
  spread?: string[];
  open?: string[];
  shut?: string[];
  band?: number;
}

const kept = new Map<string, { graph: Graph; drawings: Drawing[] }>(); // the newest picture of each question
const KEPT = 20;

const states = new Map<string, LiveStates>(); // of each project and pipeline that was asked for

function statesOf(question: Question): LiveStates {
  const key = `${question.project ?? ""}/${question.pipeline ?? ""}`;
  const found = states.get(key) ?? new LiveStates();
  states.delete(key);
  states.set(key, found);
  if (states.size > KEPT) states.delete(states.keys().next().value!);
  return found;
}

// The drawings alone, for states that are not those of now.
export async function loadDrawings(question: Question, signal?: AbortSignal): Promise<Drawing[]> {
  return drawingsOf(await get("/api/v1/graph", { query: question, signal }));
}

// The state is asked for each time, the picture only when it is another one.
export async function loadPicture(question: Question, signal?: AbortSignal): Promise<Picture> {
  const key = JSON.stringify(question);
  const { project, pipeline } = question;
  const state: GraphState = await get("/api/v1/graph/state", { query: { ...(project ? { project } : {}), ...(pipeline ? { pipeline } : {}) }, signal });
  let found = kept.get(key);
  if (!found || found.graph.version !== state.version) {
    const graph = await get("/api/v1/graph", { query: question, signal });
    found = { graph, drawings: drawingsOf(graph) };
    kept.delete(key);
    kept.set(key, found);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value!);
  }
  const live = statesOf(question);
  if (!signal?.aborted) live.take(state);
  return { drawings: found.drawings, folded: found.graph.folded, bandsLeft: found.graph.bands_left, states: live };
}

// The path of an edge with round corners.
export function rounded(points: [number, number][], radius = 8): string {
  let path = `M${points[0]![0]} ${points[0]![1]}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i]!;
    const next = points[i + 1];
    if (!next) {
      path += `L${x} ${y}`;
      break;
    }
    const [px, py] = points[i - 1]!;
    const r = Math.min(radius, Math.hypot(x - px, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    path += `L${x - Math.sign(x - px) * r} ${y - Math.sign(y - py) * r}Q${x} ${y} ${x + Math.sign(next[0] - x) * r} ${y + Math.sign(next[1] - y) * r}`;
  }
  return path;
}

// A node with all that it was made from and all that is made from it.
export function relatives(edges: { from: number; to: number }[], id: number): Set<number> {
  const found = new Set([id]);
  const walk = (from: "from" | "to", to: "from" | "to") => {
    const next = new Map<number, number[]>();
    for (const edge of edges) {
      const list = next.get(edge[from]);
      if (list) list.push(edge[to]);
      else next.set(edge[from], [edge[to]]);
    }
    const seen = new Set([id]);
    const queue = [id];
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      for (const other of next.get(at) ?? []) {
        if (seen.has(other)) continue;
        seen.add(other);
        found.add(other);
        queue.push(other);
      }
    }
  };
  walk("to", "from");
  walk("from", "to");
  return found;
}

const FEW = 150; // nodes that are drawn wherever they are

// So few nodes that all of them are drawn in full, also those out of view.
export function areFew(drawings: Drawing[]): boolean {
  return drawings.reduce((sum, drawing) => sum + drawing.nodes.length, 0) <= FEW;
}
