import { describe, expect, it } from "vitest";
import type { ProvenanceNode } from "../src/api/schema";
import { counted } from "../src/core/format";
import { BOX_H, BOX_W, type Graph, type Layout, hasBehind, headline, layOut, neighbour, visible, withPage } from "../src/core/provgraph";

const node = (key: string, level: number): ProvenanceNode => ({ key, level, repo: key, project: "p", commit: "c", files: 1 });
// a --> b --> root --> d --> e;  a --> root;  root --> e
const GRAPH: Graph = {
  root: "root", nodes: [node("a", -2), node("b", -1), node("root", 0), node("d", 1), node("e", 2)], levels: [],
  edges: [["a", "b"], ["b", "root"], ["a", "root"], ["root", "d"], ["d", "e"], ["root", "e"]].map(([from, to]) => ({ from: from!, to: to!, inputs: [] })),
};
const ALL = new Set(GRAPH.nodes.map((one) => one.key));

// A horizontal or vertical piece that runs through the inside of a box.
function covered(layout: Layout): string[] {
  const found: string[] = [];
  for (const wire of layout.wires) {
    for (let i = 1; i < wire.points.length; i++) {
      const [[ax, ay], [bx, by]] = [wire.points[i - 1]!, wire.points[i]!];
      expect(ax === bx || ay === by).toBe(true);
      for (const box of layout.boxes) {
        const apart = Math.max(ax, bx) <= box.x || Math.min(ax, bx) >= box.x + BOX_W || Math.max(ay, by) <= box.y || Math.min(ay, by) >= box.y + BOX_H;
        if (!apart) found.push(`${wire.from}-${wire.to} below ${box.node.key}`);
      }
    }
  }
  return found;
}

describe("the layout", () => {
  it("puts levels into columns from left to right", () => {
    const xs = layOut(GRAPH, ALL).boxes.map((box) => box.x);
    expect([...xs].sort((a, b) => a - b)).toEqual(xs);
    expect(new Set(xs).size).toBe(5);
  });
  it("draws no edge below a box, also in random graphs", () => {
    expect(covered(layOut(GRAPH, ALL))).toEqual([]);
    let seed = 7;
    const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
    for (let world = 0; world < 50; world++) {
      const nodes = Array.from({ length: 4 + random(20) }, (_, i) => node(`n${i}`, i === 0 ? 0 : random(9) - 4));
      const edges = nodes.flatMap((from) => nodes.filter((to) => from.level < to.level && random(4) === 0).map((to) => ({ from: from.key, to: to.key, inputs: [] })));
      const layout = layOut({ root: "n0", nodes, edges, levels: [] }, new Set(nodes.map((one) => one.key)));
      expect(covered(layout)).toEqual([]);
      for (const box of layout.boxes) expect(box.x >= 0 && box.y >= 0 && box.x + BOX_W <= layout.w && box.y + BOX_H <= layout.h).toBe(true);
    }
  });
  it("has a button below a column that has more", () => {
    const layout = layOut({ ...GRAPH, levels: [{ level: 1, commits: 40, shown: 1, next: "1/1" }, { level: 2, commits: 1, shown: 1 }] }, ALL);
    expect(layout.folds.map((fold) => fold.level.level)).toEqual([1]);
    expect(layout.folds[0]!.y + 28).toBeLessThanOrEqual(layout.h);
  });
});

describe("closing a commit", () => {
  it.each([
    [[], ["a", "b", "d", "e", "root"]],
    [["b"], ["a", "b", "d", "e", "root"]], // another way leads to a
    [["d"], ["a", "b", "d", "e", "root"]],
    [["root"], ["root"]],
  ])("%s leaves %s", (closed, left) => expect([...visible(GRAPH, new Set(closed))].sort()).toEqual(left));
  it("hides what only it leads to", () => {
    const graph = { ...GRAPH, edges: GRAPH.edges.filter((edge) => edge.to !== "e" || edge.from !== "root") };
    expect([...visible(graph, new Set(["d"]))].sort()).toEqual(["a", "b", "d", "root"]);
  });
  it("is offered where something is behind", () => expect(["a", "b", "root", "d", "e"].map((key) => hasBehind(GRAPH, key))).toEqual([false, true, true, true, false]));
});

describe("a later page", () => {
  it("is added to its level, each commit and edge once", () => {
    const first = { ...GRAPH, levels: [{ level: 1, commits: 3, shown: 1, next: "1/1" }] };
    const next = withPage(first, { nodes: [node("f", 1), node("d", 1)], edges: [{ from: "root", to: "f", inputs: ["x"] }, { from: "root", to: "d", inputs: [] }], levels: [{ level: 1, commits: 3, shown: 2 }] }, 1);
    expect(next.nodes.map((one) => one.key)).toEqual(["a", "b", "root", "d", "e", "f"]);
    expect(next.edges.length).toBe(GRAPH.edges.length + 1);
    expect(next.levels).toEqual([{ level: 1, commits: 3, shown: 3 }]);
  });
});

describe("arrow keys", () => {
  const layout = layOut(GRAPH, ALL);
  it.each([["root", "ArrowLeft", ["b"]], ["root", "ArrowRight", ["d"]], ["a", "ArrowLeft", [null]], ["e", "ArrowDown", [null]], ["e", "Enter", [null]]])("%s %s", (from, key, to) => expect(to).toContain(neighbour(layout, from, key)));
});

describe("the headline", () => {
  const levels = [{ level: -1, commits: 2, shown: 2 }, { level: 1, commits: 12345, shown: 20 }];
  it.each([
    ["up", levels, false, "m was made from 2 commits."],
    ["down", levels, false, "12,345 commits were made from m."],
    ["all", levels, false, "m was made from 2 commits; 12,345 commits were made from it."],
    ["all", [], false, "m was pushed; nothing was made from it."],
    ["down", [{ level: 1, commits: 1, shown: 1 }], true, "At least 1 commit was made from m."],
    ["down", [], false, "Nothing was made from m."],
  ])("%s", (dir, some, more, want) => expect(headline("m", { dir, levels: some, more }, counted)).toBe(want));
});
