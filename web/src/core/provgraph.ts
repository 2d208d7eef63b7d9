// A graph of commits in columns: what a commit was made from to its left, what was made from it to its right.
import type { Provenance, ProvenanceEdge, ProvenanceLevel, ProvenanceNode } from "../api/schema";

export const BOX_W = 184;
export const BOX_H = 72;
const FOLD_H = 28; // the button below a column that has more
const WIRE_H = 14; // the place in a column that an edge takes which passes it
const ROW_GAP = 20;
const LANE = 8;
const SIDE = 20; // between a box and the first lane
const PAD = 12;
const SWEEPS = 4;

export interface Graph {
  root: string;
  nodes: ProvenanceNode[];
  edges: ProvenanceEdge[];
  levels: ProvenanceLevel[];
}

export interface Box {
  node: ProvenanceNode;
  x: number;
  y: number;
}

export interface Wire {
  from: string;
  to: string;
  inputs: string[];
  points: [number, number][];
}

export interface Fold {
  level: ProvenanceLevel;
  x: number;
  y: number;
}

export interface Layout {
  boxes: Box[];
  wires: Wire[];
  folds: Fold[];
  w: number;
  h: number;
}

// Adds a later page of a level to what is there.
export function withPage(graph: Graph, page: Pick<Provenance, "nodes" | "edges" | "levels">, level: number): Graph {
  const known = new Set(graph.nodes.map((node) => node.key));
  const edgesKnown = new Set(graph.edges.map((edge) => `${edge.from} ${edge.to}`));
  const nodes = [...graph.nodes, ...page.nodes.filter((node) => !known.has(node.key))];
  const edges = [...graph.edges, ...page.edges.filter((edge) => !edgesKnown.has(`${edge.from} ${edge.to}`))];
  const turned = page.levels.find((one) => one.level === level);
  const levels = graph.levels.map((one) => (one.level === level && turned ? { ...turned, shown: one.shown + turned.shown } : one));
  return { root: graph.root, nodes, edges, levels };
}

// The commits that stay when some are closed: a closed commit hides what is behind it, seen from the root, unless another way leads there.
export function visible(graph: Graph, closed: ReadonlySet<string>): Set<string> {
  const level = new Map(graph.nodes.map((node) => [node.key, node.level]));
  const shown = new Set<string>([graph.root]);
  const queue = [graph.root];
  for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
    if (closed.has(at)) continue;
    const here = level.get(at) ?? 0;
    for (const edge of graph.edges) {
      const next = edge.from === at ? edge.to : edge.to === at ? edge.from : null;
      if (next === null || shown.has(next) || !level.has(next)) continue;
      const there = level.get(next)!;
      if (Math.abs(there) <= Math.abs(here) || there * here < 0) continue;
      shown.add(next);
      queue.push(next);
    }
  }
  return shown;
}

// Whether a commit has others behind it, seen from the root.
export function hasBehind(graph: Graph, key: string): boolean {
  const level = new Map(graph.nodes.map((node) => [node.key, node.level]));
  const here = level.get(key) ?? 0;
  return graph.edges.some((edge) => {
    const next = edge.from === key ? edge.to : edge.to === key ? edge.from : null;
    const there = next === null ? undefined : level.get(next);
    return there !== undefined && there * here >= 0 && Math.abs(there) > Math.abs(here);
  });
}

interface Slot {
  key: string; // of a commit; "" = an edge passes
  column: number;
  y: number;
  h: number;
}

interface Chain {
  edge: ProvenanceEdge;
  slots: Slot[]; // one a column, from the source to the target
}

// Puts a slot into each column that an edge passes, so that no edge lies below a box.
function chainsOf(edges: ProvenanceEdge[], boxes: Map<string, Slot>, columns: Slot[][]): Chain[] {
  return edges.map((edge) => {
    const from = boxes.get(edge.from)!;
    const to = boxes.get(edge.to)!;
    const slots = [from];
    for (let column = from.column + 1; column < to.column; column++) {
      const slot = { key: "", column, y: 0, h: WIRE_H };
      columns[column]!.push(slot);
      slots.push(slot);
    }
    slots.push(to);
    return { edge, slots };
  });
}

// Orders each column by the means of its neighbours, left to right and back.
function order(columns: Slot[][], chains: Chain[]): void {
  const lefts = new Map<Slot, Slot[]>();
  const rights = new Map<Slot, Slot[]>();
  const add = (to: Map<Slot, Slot[]>, slot: Slot, near: Slot) => (to.get(slot)?.push(near) ?? to.set(slot, [near]));
  for (const { slots } of chains) {
    for (let i = 1; i < slots.length; i++) {
      add(lefts, slots[i]!, slots[i - 1]!);
      add(rights, slots[i - 1]!, slots[i]!);
    }
  }
  const place = (column: Slot[]) => column.forEach((slot, i) => (slot.y = i));
  columns.forEach(place);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const near = sweep % 2 === 0 ? lefts : rights;
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const means = new Map(column.map((slot) => {
        const list = near.get(slot) ?? [slot];
        return [slot, list.reduce((sum, one) => sum + one.y, 0) / list.length];
      }));
      column.sort((a, b) => means.get(a)! - means.get(b)!);
      place(column);
    }
  }
}

const columnHeight = (column: Slot[]) => column.reduce((sum, slot) => sum + slot.h + ROW_GAP, -ROW_GAP);

export function layOut(graph: Graph, shown: ReadonlySet<string>): Layout {
  const nodes = graph.nodes.filter((node) => shown.has(node.key));
  const edges = graph.edges.filter((edge) => shown.has(edge.from) && shown.has(edge.to));
  const lowest = Math.min(0, ...nodes.map((node) => node.level));
  const highest = Math.max(0, ...nodes.map((node) => node.level));
  const columns: Slot[][] = Array.from({ length: highest - lowest + 1 }, () => []);
  const boxes = new Map<string, Slot>();
  for (const node of nodes) {
    const slot = { key: node.key, column: node.level - lowest, y: 0, h: BOX_H };
    boxes.set(node.key, slot);
    columns[slot.column]!.push(slot);
  }
  const chains = chainsOf(edges, boxes, columns);
  order(columns, chains);

  const folds = graph.levels.filter((level) => level.next && level.level >= lowest && level.level <= highest);
  const tallest = Math.max(...columns.map(columnHeight));
  for (const column of columns) {
    let y = PAD + (tallest - columnHeight(column)) / 2;
    for (const slot of column) {
      slot.y = y;
      y += slot.h + ROW_GAP;
    }
  }
  // a gap is as wide as it has trunks: edges that leave one slot share theirs
  const trunks = columns.map((_, i) => [...new Set(chains.flatMap(({ slots }) => slots.filter((slot, k) => slot.column === i && k + 1 < slots.length)))].sort((a, b) => a.y - b.y));
  const xs: number[] = [];
  let x = PAD;
  for (let i = 0; i < columns.length; i++) {
    xs.push(x);
    x += BOX_W + 2 * SIDE + Math.max(1, trunks[i]!.length) * LANE;
  }
  const middle = (slot: Slot) => slot.y + slot.h / 2;
  const wires = chains.map(({ edge, slots }): Wire => {
    const points: [number, number][] = [[xs[slots[0]!.column]! + BOX_W, middle(slots[0]!)]];
    for (let k = 0; k + 1 < slots.length; k++) {
      const [a, b] = [slots[k]!, slots[k + 1]!];
      const lane = xs[a.column]! + BOX_W + SIDE + trunks[a.column]!.indexOf(a) * LANE;
      points.push([lane, middle(a)], [lane, middle(b)], [xs[b.column]! + (k + 2 < slots.length ? BOX_W : 0), middle(b)]);
    }
    return { from: edge.from, to: edge.to, inputs: edge.inputs, points: straight(points) };
  });
  const bottom = (column: Slot[]) => Math.max(PAD, ...column.map((slot) => slot.y + slot.h));
  const placed = folds.map((level): Fold => ({ level, x: xs[level.level - lowest]!, y: bottom(columns[level.level - lowest]!) + 8 }));
  return {
    boxes: nodes.map((node) => ({ node, x: xs[boxes.get(node.key)!.column]!, y: boxes.get(node.key)!.y })), wires, folds: placed,
    w: xs[xs.length - 1]! + BOX_W + PAD, h: Math.max(PAD + tallest, ...placed.map((fold) => fold.y + FOLD_H)) + PAD,
  };
}

// Leaves out points that lie on the line between their neighbours.
function straight(points: [number, number][]): [number, number][] {
  return points.filter((point, i) => {
    const [before, after] = [points[i - 1], points[i + 1]];
    return !before || !after || !((before[0] === point[0] && point[0] === after[0]) || (before[1] === point[1] && point[1] === after[1]));
  });
}

// The commit that an arrow key leads to: along an edge, or up and down in its column.
export function neighbour(layout: Layout, key: string, arrow: string): string | null {
  const at = layout.boxes.find((box) => box.node.key === key);
  if (!at) return null;
  const near = (boxes: Box[]) => boxes.sort((a, b) => Math.abs(a.x - at.x) - Math.abs(b.x - at.x) || Math.abs(a.y - at.y) - Math.abs(b.y - at.y))[0]?.node.key ?? null;
  const linked = (side: "from" | "to") => layout.boxes.filter((box) => layout.wires.some((wire) => wire[side] === key && wire[side === "from" ? "to" : "from"] === box.node.key));
  if (arrow === "ArrowRight") return near(linked("from"));
  if (arrow === "ArrowLeft") return near(linked("to"));
  if (arrow === "ArrowDown") return near(layout.boxes.filter((box) => box.x === at.x && box.y > at.y));
  if (arrow === "ArrowUp") return near(layout.boxes.filter((box) => box.x === at.x && box.y < at.y));
  return null;
}

// "model.npz came from 3 commits of 2 repos; 12 commits were made from it."
export function headline(what: string, answer: Pick<Provenance, "dir" | "levels" | "more">, counted: (n: number, noun: string) => string): string {
  const sum = (side: (level: number) => boolean) => answer.levels.filter((one) => side(one.level)).reduce((n, one) => n + one.commits, 0);
  const up = sum((level) => level < 0);
  const down = sum((level) => level > 0);
  const least = answer.more ? "at least " : "";
  const from = up ? `${what} was made from ${least}${counted(up, "commit")}` : `${what} was pushed`;
  const into = down ? `${least}${counted(down, "commit")} ${down === 1 ? "was" : "were"} made from it` : "nothing was made from it";
  return answer.dir === "up" ? `${from}.` : answer.dir === "down" ? `${into.charAt(0).toUpperCase()}${into.slice(1)}.`.replace(/ it\.$/, ` ${what}.`) : `${from}; ${into}.`;
}
