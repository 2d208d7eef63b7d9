import { describe, expect, it, test } from "vitest";
import { figuresOf, seriesOf, sparkPath, thinned, valuesOf } from "../src/core/series";

const line = (line: unknown, datum = "a") => ({ datum, line });

describe("series of figures", () => {
  it("go by their step", () => expect(seriesOf([line({ step: 5, loss: 1 }), line({ step: 9, loss: 0.5 })])).toEqual([{ key: "loss", points: [[5, 1], [9, 0.5]] }]));
  it("leave out what is no figure, and what has one point only", () => expect(seriesOf([line({ a: "x", b: 1, c: NaN }), line({ a: 2, c: 1 }), line("broken"), line(null)])).toEqual([]));
  it("do not mix datums", () => expect(seriesOf([line({ a: 1 }), line({ a: 9 }, "b"), line({ a: 2 })])[0]!.points).toEqual([[0, 1], [1, 2]]));
  it("are thinned, the last point stays", () => {
    const points = thinned(Array.from({ length: 9999 }, (_, i) => i), 500);
    expect([points.length, points[0], points[499]]).toEqual([500, 0, 9998]);
  });
});

describe("last results", () => {
  test("figures of the validation come first, and what is no figure is left out", () => {
    expect(figuresOf([{ step: 1, lr: 0.1, loss: 1, val_acc: 0.5, note: "x", progress: 1 }])).toEqual(["val_acc", "loss", "lr"]);
    expect(figuresOf([{ step: 1 }, null, "text", { a: 1 }])).toEqual(["a"]);
    expect(figuresOf([])).toEqual([]);
  });

  test("values come oldest first", () => {
    expect(valuesOf([{ a: 3 }, { b: 1 }, { a: 1 }, { a: "2" }], "a")).toEqual([1, 3]);
    expect(sparkPath([1, 3], 96, 24)).toBe("M2.0 22.0L94.0 2.0");
    expect(sparkPath([5, 5, 5], 96, 24)).not.toContain("NaN");
  });
});
