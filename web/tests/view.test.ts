import { effect } from "@preact/signals";
import { describe, expect, it } from "vitest";
import type { StageState } from "../src/api/schema";
import { LiveStates } from "../src/core/live";
import { NOTHING, type Area, areaAround, areaOf, areaToDraw, touches } from "../src/core/view";

const area = (left: number, top: number, right: number, bottom: number): Area => ({ left, top, right, bottom });
const PORT = area(0, 0, 1000, 800);
const ORIGIN = { x: 0, y: 0 };

describe("the area that is drawn", () => {
  const drawing = (top: number) => area(0, top, 1000, top + 50_000);
  const first = areaToDraw(NOTHING, drawing(0), PORT, 1, ORIGIN);
  it("is what is in sight and a margin", () => expect(first).toEqual(area(-240, -240, 1240, 1040)));
  it("stays while it reaches far enough", () => expect(areaToDraw(first, drawing(-100), PORT, 1, ORIGIN)).toBe(first));
  it("moves on when its end comes near", () => expect(areaToDraw(first, drawing(-200), PORT, 1, ORIGIN)).toEqual(area(-240, -40, 1240, 1240)));
  it("is in units of the drawing, from its corner", () => expect(areaToDraw(NOTHING, drawing(100), PORT, 0.5, { x: 16, y: 14 })).toEqual(area(-496, -694, 2464, 1866)));
  it("shrinks after a zoom that would leave far too much in it", () => expect(areaToDraw(area(-9000, -9000, 9000, 9000), drawing(0), PORT, 1, ORIGIN)).toEqual(first));
  it("is nothing of a drawing far below, or of one that is not shown", () => {
    expect(areaToDraw(first, drawing(2000), PORT, 1, ORIGIN)).toBe(NOTHING);
    expect(areaToDraw(first, area(0, 0, 0, 0), PORT, 0, ORIGIN)).toBe(NOTHING);
  });
});

describe("what lies in an area", () => {
  it("is a node whose pill hangs into it", () => expect(touches(area(195, 0, 400, 400), areaOf({ x: 0, y: 10, w: 184, h: 84 }))).toBe(true));
  it("is an edge that passes through, though both ends lie outside", () => expect(touches(area(100, 0, 200, 50), areaAround([[0, 20], [300, 20]]))).toBe(true));
  it("is nothing of a drawing out of sight", () => expect(touches(NOTHING, areaOf({ x: 0, y: 0, w: 184, h: 84 }))).toBe(false));
});

describe("live states", () => {
  const stage = (name: string, more: Partial<StageState> = {}): StageState => ({ key: `p/${name}`, project: "p", name, state: "done", stale: false, stopped: false, run: "r1", ...more });
  const watched = () => {
    const live = new LiveStates();
    const drawn: Record<string, (string | undefined)[]> = { a: [], b: [] };
    for (const name of ["a", "b"]) effect(() => void drawn[name]!.push(live.stage(`p/${name}`)?.state));
    live.take({ stages: [stage("a"), stage("b")], repos: [] });
    return { live, drawn };
  };
  it("tell those who looked before the state came", () => expect(watched().drawn).toEqual({ a: [undefined, "done"], b: [undefined, "done"] }));
  it("tell of an event only those who look at its stage", () => {
    const { live, drawn } = watched();
    live.hear({ run: "r1", project: "p", stage: "a", state: "failure" });
    live.hear({ run: "r1", project: "p", stage: "unknown", state: "failure" });
    expect(drawn).toEqual({ a: [undefined, "done", "failed"], b: [undefined, "done"] });
  });
  it("tell nobody of what came again as it was, and of what is gone", () => {
    const { live, drawn } = watched();
    live.take({ stages: [stage("a")], repos: [] });
    expect(drawn).toEqual({ a: [undefined, "done"], b: [undefined, "done", undefined] });
  });
});
