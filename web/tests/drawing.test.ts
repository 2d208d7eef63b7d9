import { describe, expect, it } from "vitest";
import type { Pipeline } from "../src/api/schema";
import { type Drawing, draw, relatives, rounded } from "../src/core/drawing";

function pipeline(stages: Record<string, string[]>): Pipeline {
  return { project: "p", name: "x", version: 1, created_us: 0, updated_us: 0, source: "", state: "running", stages: Object.entries(stages).map(([name, inputs]) => ({ name, branch: "master", inputs, gpu: false })) };
}

const STREET = { evaluate: ["train-vit", "split"], decode: ["photos"], split: ["decode", "labels"], "train-vit": ["split"], export: ["evaluate", "train-vit", "photos"], embed: ["split"], segment: ["photos", "q/other"] };

// Where two pieces of a path run, a box has no business to be.
function crossed(drawing: Drawing): string[] {
  const out: string[] = [];
  for (const edge of drawing.edges) {
    for (let i = 1; i < edge.points.length; i++) {
      const [ax, ay] = edge.points[i - 1]!;
      const [bx, by] = edge.points[i]!;
      for (const node of drawing.nodes) {
        const inside = Math.max(ax, bx) > node.x + 1 && Math.min(ax, bx) < node.x + node.w - 1 && Math.max(ay, by) > node.y + 1 && Math.min(ay, by) < node.y + node.h - 1;
        if (inside) out.push(`${edge.from} → ${edge.to} over ${node.id}`);
      }
    }
  }
  return out;
}

describe("a drawing", () => {
  const drawing = draw(pipeline(STREET));
  const layer = new Map(drawing.nodes.map((node) => [node.name, node.layer]));
  it("has a node for each stage and each repo that no stage writes", () => expect([...layer.keys()].sort()).toEqual(["decode", "embed", "evaluate", "export", "labels", "other", "photos", "segment", "split", "train-vit"]));
  it("has one edge for each input", () => expect(drawing.edges).toHaveLength(12));
  it("puts a stage right of all that it reads", () => {
    for (const edge of drawing.edges) expect(layer.get(edge.from.split("/")[1]!)!).toBeLessThan(layer.get(edge.to.split("/")[1]!)!);
  });
  it("draws right angles only", () => {
    for (const edge of drawing.edges) for (let i = 1; i < edge.points.length; i++) {
      const [[ax, ay], [bx, by]] = [edge.points[i - 1]!, edge.points[i]!];
      expect(ax === bx || ay === by).toBe(true);
    }
  });
  it("lays no edge on a box", () => expect(crossed(drawing)).toEqual([]));
  it("lays no box on a box", () => {
    for (const a of drawing.nodes) for (const b of drawing.nodes) if (a !== b) expect(a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h).toBe(false);
  });
  it("keeps all inside", () => {
    for (const node of drawing.nodes) expect(node.x >= 0 && node.y >= 0 && node.x + node.w <= drawing.w && node.y + node.h <= drawing.h).toBe(true);
    for (const edge of drawing.edges) for (const [x, y] of edge.points) expect(x >= 0 && y >= 0 && x <= drawing.w && y <= drawing.h).toBe(true);
  });
  it("lays a thousand stages out at once", () => {
    const stages: Record<string, string[]> = {};
    for (let i = 0; i < 1000; i++) stages[`s${i}`] = i < 10 ? ["in"] : [`s${i - 10}`, `s${i - 7}`];
    expect(draw(pipeline(stages)).nodes).toHaveLength(1001);
  });
  it("ends with a stage that reads itself", () => expect(draw(pipeline({ a: ["a", "b"] })).nodes).toHaveLength(2));
});

describe("relatives", () => {
  const { edges } = draw(pipeline(STREET));
  it("are ancestors and descendants, not siblings", () => expect([...relatives(edges, "p/train-vit")].sort()).toEqual(["p/decode", "p/evaluate", "p/export", "p/labels", "p/photos", "p/split", "p/train-vit"]));
});

describe("round corners", () => {
  it("are no larger than half of the shorter side", () => expect(rounded([[0, 0], [4, 0], [4, 100]])).toBe("M0 0L2 0Q4 0 4 2L4 100"));
});
