import { describe, expect, it } from "vitest";
import type { Graph } from "../src/api/schema";
import { drawingsOf, relatives, rounded } from "../src/core/drawing";

const box = { w: 184, h: 84, count: 1, project: "p", row: 0 };
const GRAPH: Graph = {
  version: "1", w: 400, h: 300, total: 4, folded: false, bands_left: 0,
  bands: [{ x: 0, y: 48, w: 400, h: 100, pipelines: [{ project: "p", name: "a", version: 1 }] }, { x: 0, y: 200, w: 400, h: 100, pipelines: [{ project: "p", name: "b", version: 2 }] }],
  nodes: [
    { ...box, kind: "stage", band: 0, key: "p/one", name: "one", x: 200, y: 48, rail: 114, layer: 1 }, { ...box, kind: "repo", band: 0, key: "p/in", name: "in", x: 0, y: 92, rail: 114, layer: 0 },
    { ...box, kind: "repo", band: 1, key: "p/other", name: "other", x: 0, y: 244, rail: 266, layer: 0 }, { ...box, kind: "stage", band: 1, key: "p/two", name: "two", x: 200, y: 200, rail: 266, layer: 1 },
  ],
  edges: [
    { from: 1, to: 0, count: 1, input: "in", glob: "/train/*.csv", points: [164, 114, 200, 114] },
    { from: 2, to: 3, count: 1, input: "other", glob: "/", files: ["/model.npz"], points: [164, 266, 200, 266] },
    { from: 2, to: 3, count: 3, points: [164, 266, 200, 266] },
  ],
};

describe("drawings of bands", () => {
  const drawings = drawingsOf(GRAPH);
  it("have their own corner", () => {
    expect(drawings[1]!.nodes.map((node) => [node.name, node.x, node.y, node.rail])).toEqual([["other", 0, 44, 66], ["two", 200, 0, 66]]);
    expect(drawings[1]!.edges[0]!.points).toEqual([[164, 66], [200, 66]]);
  });
  it("keep the numbers that edges name", () => expect(drawings[0]!.nodes.map((node) => node.at)).toEqual([0, 1]));
  it("label an edge by its glob or its files, several edges by nothing", () => expect(drawings.flatMap((one) => one.edges.map((edge) => edge.label))).toEqual(["/train/*.csv", "model.npz", ""]));
});

describe("relatives", () => {
  const edges = [[0, 1], [1, 2], [3, 2], [2, 4], [1, 5]].map(([from, to]) => ({ from: from!, to: to! }));
  it("are ancestors and descendants, not siblings", () => expect([...relatives(edges, 2)].sort()).toEqual([0, 1, 2, 3, 4]));
});

describe("round corners", () => {
  it("are no larger than half of the shorter side", () => expect(rounded([[0, 0], [4, 0], [4, 100]])).toBe("M0 0L2 0Q4 0 4 2L4 100"));
});
