import { describe, expect, test } from "vitest";
import type { MetricResult } from "../src/api/schema";
import { apart, chosenOf, csvOf, headlineOf, labelOf, linePath, matching, parametersOf, ranked, resultsOf, scaleOf, scatterOf, styleOf, tickText, ticks, valueText } from "../src/core/results";

function result(run: string, params: Record<string, unknown>, loss: number[] = [], more: Partial<MetricResult> = {}): MetricResult {
  const point = (i: number) => ({ step: i, value: loss[i]! });
  const low = loss.indexOf(Math.min(...loss));
  const high = loss.indexOf(Math.max(...loss));
  return {
    run: run.padEnd(32, "0"), datum: "d".repeat(64), state: "success", as: "", output: "", version: 1, created_us: 1, gpu_ms: 0, paths: "", params: params as never, combination: {}, lines: loss.length, broken: 0, cut: false, more_datums: false,
    figures: loss.length ? [{ name: "loss", count: loss.length, last: point(loss.length - 1), min: point(low), max: point(high) }] : [], ...more,
  };
}

const SWEEP = resultsOf([result("aaaa", { lr: 0.1, k: 7 }, [3, 1, 2]), result("bbbb", { lr: 0.01, k: 7 }, [3, 0.5]), result("cccc", { lr: 1, k: 7 }), result("dddd", { lr: 0.1, k: 7, aug: "strong" }, [9], { state: "running" })]);

describe("results", () => {
  test("the best comes first, by the goal, and those without the metric last", () => {
    expect(ranked(SWEEP, "loss", "min").map((one) => one.key)).toEqual(["bbbb0000", "aaaa0000", "dddd0000", "cccc0000"]);
    expect(ranked(SWEEP, "loss", "max").map((one) => one.key)).toEqual(["dddd0000", "aaaa0000", "bbbb0000", "cccc0000"]);
  });

  test("several results of a run are told apart by their datum", () => {
    const list = resultsOf([result("aaaa", {}, [1], { datum: "1".repeat(64) }), result("aaaa", {}, [1], { datum: "2".repeat(64) }), result("bbbb", {}, [1])]);
    expect(list.map((one) => one.key)).toEqual(["aaaa0000.11111111", "aaaa0000.22222222", "bbbb0000"]);
  });

  test("parameters that differ are apart from those that do not; a missing one differs", () => {
    expect(parametersOf(SWEEP)).toEqual({ differ: ["lr", "aug"], same: ["k"] });
    expect(parametersOf(SWEEP.slice(0, 1))).toEqual({ differ: [], same: ["lr", "k"] });
    expect(parametersOf([])).toEqual({ differ: [], same: [] });
  });

  test("a filter takes words of run, state and parameters", () => {
    const keys = (q: string) => matching(SWEEP, q).map((one) => one.key.slice(0, 4));
    expect(keys("lr=0.1")).toEqual(["aaaa", "dddd"]);
    expect(keys("LR=0.1 running")).toEqual(["dddd"]);
    expect(keys("bbbb")).toEqual(["bbbb"]);
    expect(keys("")).toHaveLength(4);
  });

  test("without a choice the best and the live ones are drawn", () => {
    const many = resultsOf(Array.from({ length: 12 }, (_, i) => result(`${i}`.padStart(4, "e"), {}, [i], i === 11 ? { state: "running" } : {})));
    expect(chosenOf(ranked(many, "loss", "min"), "")).toHaveLength(9);
    expect(chosenOf(many, "eee30000,eee10000,nothing").map((one) => one.key)).toEqual(["eee10000", "eee30000"]);
  });

  test("headlines", () => {
    expect(headlineOf("train", ranked(SWEEP, "loss", "min"), "loss", "min")).toBe("Best loss is 0.5000: run bbbb0000, lr 0.01.");
    expect(headlineOf("train", SWEEP.slice(0, 1), "loss", "min")).toBe("loss reached 1 in run aaaa0000.");
    expect(headlineOf("train", ranked(SWEEP, "loss", "min"), "loss", "min", 50)).toBe("Best of the newest 50: loss is 0.5000: run bbbb0000, lr 0.01.");
    expect(headlineOf("tr\u202eain", [], "", "min")).toBe("tr\\u202eain wrote no metrics.jsonl.");
  });

  test("values of parameters are text that deceives nobody", () => {
    expect([valueText(0.0003), valueText("a\u202eb"), valueText([1, { a: null }]), valueText(true), valueText(null), valueText(undefined)]).toEqual(["0.0003", "a\\u202eb", '[1,{"a":null}]', "true", "null", "–"]);
  });

  test("a table for a spreadsheet has no formulas", () => {
    const text = csvOf(resultsOf([result("aaaa", { cmd: "=HYPERLINK(1)", note: 'a "b", c' }, [2, 1])]), "min");
    const [head, row] = text.split("\r\n");
    expect(head).toBe("run,datum,state,cmd,note,last loss,min loss,step of min loss");
    expect(row).toContain(`,'=HYPERLINK(1),"a ""b"", c",1,1,1`);
  });
});

describe("drawing", () => {
  test("the first 25 lines all differ, and those beside each other in colour and dashes", () => {
    const styles = Array.from({ length: 25 }, (_, i) => styleOf(i));
    expect(new Set(styles.map((one) => JSON.stringify(one))).size).toBe(25);
    for (let i = 1; i < 25; i++) expect(styles[i]!.colour).not.toBe(styles[i - 1]!.colour);
    expect(new Set(styles.slice(0, 5).map((one) => one.dash)).size).toBe(5);
  });

  test.each([
    [0, 1, [0, 0.5, 1]], [0.62, 0.89, [0.7, 0.8]], [1, 30, [10, 20, 30]], [-3, 5, [-2, 0, 2, 4]], [2, 2, [2]], [0, 1e-9, [0, 5e-10, 1e-9]], [1e15, 3e15, [1e15, 1.5e15, 2e15, 2.5e15, 3e15]],
  ])("ticks from %f to %f", (low, high, want) => expect(ticks(low, high)).toEqual(want));

  test.each([[0.8, "0.8"], [1000, "1,000"], [2.5e-7, "2.5e-7"], [0, "0"], [2e6, "2e6"], [-0.25, "-0.25"]])("tick %f", (value, want) => expect(tickText(value)).toBe(want));

  test("a label has the digits that tell results apart", () => {
    expect(labelOf(SWEEP[0]!)).toBe("aaaa00");
    expect(labelOf({ ...SWEEP[0]!, key: "aaaa0000.12345678" })).toBe("123456");
  });

  test("a scale of one value, or of none, has room", () => {
    expect(scaleOf([5], 0, 100).at(5)).toBe(50);
    expect(Number.isFinite(scaleOf([], 0, 100).at(0))).toBe(true);
    expect(scaleOf([0, 10], 100, 0).at(10)).toBe(0);
    expect(linePath([1, 2], [0, 10], scaleOf([1, 2], 0, 10), scaleOf([0, 10], 100, 0))).toBe("M0.0 100.0L10.0 0.0");
  });

  test("labels keep their distance and stay within the picture", () => {
    const moved = apart([50, 51, 10, 99, 100], 12, 100);
    const sorted = [...moved].sort((a, b) => a - b);
    sorted.forEach((place, i) => i > 0 && expect(place - sorted[i - 1]!).toBeGreaterThanOrEqual(12));
    expect(Math.max(...moved)).toBeLessThanOrEqual(100);
    expect(moved[2]).toBe(10);
  });

  test("few values lie at equal distances, words too; many numbers at their value", () => {
    const few = scatterOf(SWEEP, "loss", "min", "lr");
    expect(few.categories).toEqual(["0.01", "0.1"]);
    expect(few.spots.map((spot) => [spot.result.key.slice(0, 4), spot.x, spot.y])).toEqual([["aaaa", 1, 1], ["bbbb", 0, 0.5], ["dddd", 1, 9]]);
    expect(scatterOf(SWEEP, "loss", "min", "aug").categories).toEqual(["strong"]);
    const many = resultsOf(Array.from({ length: 12 }, (_, i) => result(`${i}`.padStart(4, "e"), { lr: i * 3 }, [i])));
    expect(scatterOf(many, "loss", "min", "lr")).toMatchObject({ categories: [], spots: expect.arrayContaining([expect.objectContaining({ x: 33, y: 11 })]) });
  });
});
