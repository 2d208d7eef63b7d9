import { describe, expect, it } from "vitest";
import { seriesOf, thinned } from "../src/core/series";

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
