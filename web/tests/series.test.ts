import { describe, expect, test } from "vitest";
import { figuresOf, sparkPath, valuesOf } from "../src/core/series";

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
