import { describe, expect, it } from "vitest";
import type { GpuHistory, Gpus } from "../src/api/schema";
import { nodeNames, onNode, seriesOn, seriesWords, spanOf, stepsOf } from "../src/core/gpus";

const GPUS = {
  node: "here", gpus: [{ slot: 0, state: "free", product: "A100" }],
  nodes: [{ node: "here", capacity: 1, allocated: 0, by: [] }, { node: "b", capacity: 8, allocated: 2, by: [] }, { node: "a", capacity: 4, allocated: 0, by: [] }],
} as unknown as Gpus;
const series = (node: string, held: number) => ({ node, product: "A100", slot: null, capacity: [1000, 1000], held: [held, held], idle: [0, held / 2], measured: [0, 0], busy: [0, 0] });
const HISTORY = { from_us: 0, to_us: 2_000_000, points: 2, known_ms: [1000, 1000], series: [series("a", 1000), series("b", 500)], stages: [], total: {} } as unknown as GpuHistory;

describe("the page of one node", () => {
  it("is offered for each that has GPUs, once", () => expect(nodeNames(GPUS)).toEqual(["a", "b", "here"]));
  it("leaves the others out", () => {
    expect(onNode(GPUS, "b")).toMatchObject({ gpus: [], nodes: [{ node: "b" }] });
    expect(onNode(GPUS, "here")).toMatchObject({ gpus: [{ slot: 0 }], nodes: [{ node: "here" }] });
    expect(onNode(GPUS, "")).toBe(GPUS);
  });
  it("has the curves of the node alone", () => {
    expect(stepsOf(HISTORY, seriesOn(HISTORY, "b")).map((step) => step.computes)).toEqual([0.5, 0.25]);
    expect(seriesOn(HISTORY, "").length).toBe(2);
  });
  it("says in words what the node did", () => {
    expect(seriesWords(seriesOn(HISTORY, "b"))).toEqual(["held 50 % of the recorded time", "of that idle 25 %"]);
    expect(seriesWords([])).toEqual([]);
  });
});

describe("since", () => {
  it.each([["hour", "the last hour"], ["6h", "the last 6 hours"], ["day", "the last 24 hours"], [null, "the last 24 hours"], ["year", "the last 24 hours"]])("%s is %s", (key, words) => expect(spanOf(key).words).toBe(words));
});
