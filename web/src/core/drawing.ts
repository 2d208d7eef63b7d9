// The graph of one pipeline as boxes and paths, in the shape in which the daemon gives them: nodes with x, y, w, h and edges with points.
//
// Layers by the longest path, rows by the order of the spec. An edge to the next layer turns in the gap between both; a longer one runs
// in a lane of its own below all rows, so that no edge lies on a box. Edges of one node share their trunk.
import type { Pipeline } from "../api/schema";
import { stagesInOrder } from "./runs";

export interface Node {
  id: string; // PROJECT/NAME
  kind: "repo" | "stage";
  project: string;
  name: string;
  gpu: boolean;
  x: number;
  y: number;
  w: number;
  h: number;
  rail: number; // y of the output port
  layer: number;
}

export interface Edge {
  from: string;
  to: string;
  points: [number, number][];
}

export interface Drawing {
  w: number;
  h: number;
  nodes: Node[];
  edges: Edge[];
}

export const SIZES = { repoW: 164, repoH: 44, stageW: 184, stageH: 84, hang: 12, rail: 66, rowH: 128, gap: 44, lane: 12, port: 12, under: 20 };

interface Item {
  id: string;
  kind: "repo" | "stage";
  project: string;
  name: string;
  gpu: boolean;
  inputs: string[];
  layer: number;
  row: number;
}

function itemsOf(pipeline: Pipeline): Item[] {
  const own = new Set(pipeline.stages.map((stage) => stage.name));
  const id = (name: string) => (name.includes("/") ? name : `${pipeline.project}/${name}`);
  const items = new Map<string, Item>();
  for (const stage of stagesInOrder(pipeline)) {
    const inputs = stage.inputs.map(id).filter((input) => input !== id(stage.name));
    for (const input of inputs) {
      const [project = "", name = ""] = input.split("/");
      if (!(project === pipeline.project && own.has(name)) && !items.has(input)) {
        items.set(input, { id: input, kind: "repo", project, name, gpu: false, inputs: [], layer: 0, row: 0 });
      }
    }
    const layer = Math.max(0, ...inputs.map((input) => items.get(input)?.layer ?? 0)) + 1;
    items.set(id(stage.name), { id: id(stage.name), kind: "stage", project: pipeline.project, name: stage.name, gpu: stage.gpu, inputs, layer, row: 0 });
  }
  return [...items.values()];
}

// Rows: in each layer near the middle of what a node reads, the order kept.
function setRows(items: Item[]): void {
  const byId = new Map(items.map((item) => [item.id, item]));
  const layers: Item[][] = [];
  for (const item of items) (layers[item.layer] ??= []).push(item);
  for (const layer of layers) {
    if (!layer) continue;
    const wanted = (item: Item) => {
      const rows = item.inputs.map((input) => byId.get(input)!.row).sort((a, b) => a - b);
      return rows.length ? rows[Math.floor((rows.length - 1) / 2)]! : 0;
    };
    if (layer[0]!.layer > 0) layer.sort((a, b) => wanted(a) - wanted(b));
    let free = 0;
    for (const item of layer) {
      item.row = Math.max(free, item.layer > 0 ? wanted(item) : 0);
      free = item.row + 1;
    }
  }
}

function place(item: Item, columns: number[]): Node {
  const stage = item.kind === "stage";
  const top = item.row * SIZES.rowH;
  const rail = top + SIZES.rail;
  return {
    id: item.id, kind: item.kind, project: item.project, name: item.name, gpu: item.gpu, layer: item.layer, rail,
    x: columns[item.layer]!, y: stage ? top : rail - SIZES.repoH / 2, w: stage ? SIZES.stageW : SIZES.repoW, h: stage ? SIZES.stageH : SIZES.repoH,
  };
}

// y of the i-th of n input ports: one lies on the rail, the others above it.
function portY(node: Node, i: number, n: number): number {
  return node.rail - (n - 1 - i) * Math.min(SIZES.port, (SIZES.rail - 12) / Math.max(1, n - 1));
}

export function draw(pipeline: Pipeline): Drawing {
  const items = itemsOf(pipeline);
  setRows(items);
  const layers = Math.max(0, ...items.map((item) => item.layer));
  const columns = Array.from({ length: layers + 1 }, (_, layer) => (layer === 0 ? 0 : SIZES.repoW + SIZES.gap + (layer - 1) * (SIZES.stageW + SIZES.hang + SIZES.gap)));
  const nodes = items.map((item) => place(item, columns));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const rows = Math.max(0, ...items.map((item) => item.row)) + 1;
  const lanes = new Map<string, number>(); // of a node with long edges: its lane below the rows
  const edges: Edge[] = [];
  for (const item of items) {
    const to = byId.get(item.id)!;
    item.inputs.forEach((input, i) => {
      const from = byId.get(input)!;
      const x1 = from.x + from.w + (from.kind === "stage" ? SIZES.hang : 0);
      const y2 = portY(to, i, item.inputs.length);
      const entry = to.x - 16 - i * 6;
      if (to.layer - from.layer === 1) {
        edges.push({ from: input, to: item.id, points: from.rail === y2 ? [[x1, y2], [to.x, y2]] : [[x1, from.rail], [x1 + 14, from.rail], [x1 + 14, y2], [to.x, y2]] });
        return;
      }
      if (!lanes.has(input)) lanes.set(input, lanes.size);
      const laneY = rows * SIZES.rowH - SIZES.rowH + SIZES.stageH + SIZES.under + lanes.get(input)! * SIZES.lane;
      edges.push({ from: input, to: item.id, points: [[x1, from.rail], [x1 + 8, from.rail], [x1 + 8, laneY], [entry, laneY], [entry, y2], [to.x, y2]] });
    });
  }
  const w = Math.max(0, ...nodes.map((node) => node.x + node.w + SIZES.hang));
  const h = rows * SIZES.rowH - SIZES.rowH + SIZES.stageH + SIZES.under + lanes.size * SIZES.lane + 8;
  return { w, h, nodes, edges };
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
export function relatives(edges: Edge[], id: string): Set<string> {
  const found = new Set([id]);
  const walk = (from: "from" | "to", to: "from" | "to") => {
    const seen = new Set([id]);
    const queue = [id];
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      for (const edge of edges) {
        if (edge[from] !== at || seen.has(edge[to])) continue;
        seen.add(edge[to]);
        found.add(edge[to]);
        queue.push(edge[to]);
      }
    }
  };
  walk("to", "from");
  walk("from", "to");
  return found;
}
