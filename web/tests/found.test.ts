import { describe, expect, it } from "vitest";
import { rowOf, rowsOf } from "../src/core/found";
import { pathOf } from "../src/core/places";

const RUN = "c41d7e90".repeat(4);

describe("what was found", () => {
  it.each([
    ["pipeline", "street", "", "", "/pipelines/p/street", "pipeline of p"], ["stage", "decode", RUN, "street", `/jobs/p/decode/${RUN}`, "stage of street, p"],
    ["stage", "decode", "", "street", "/data/p/decode", "stage of street, p"], ["repo", "photos", "", "input", "/data/p/photos", "repo of p"],
    ["repo", "decode", "", "output", "/data/p/decode", "output of p"], ["job", "decode", RUN, "failure", `/jobs/p/decode/${RUN}`, "job of p, failure"],
    ["commit", "photos", RUN, "Lisbon", `/data/p/photos/${RUN}/-/`, "commit of p, Lisbon"],
  ])("a %s %s leads to its place", (kind, name, id, text, path, more) => {
    const row = rowOf({ kind, project: "p", name, id, text })!;
    expect([pathOf(row.place), row.more]).toEqual([path, more]);
  });
  it("of a run leads to the run", () => expect(pathOf(rowOf({ kind: "run", project: "", name: "", id: RUN, text: "push" })!.place)).toBe(`/runs/${RUN}`));
  it("of an unknown kind is left out", () => expect(rowsOf([{ kind: "comet", project: "p", name: "x", id: "", text: "" }], "x")).toEqual([]));
  it("puts a file as it is written above all", () => expect(rowsOf([], "photos@master:/a.jpg").map((row) => [row.sign, row.text])).toEqual([["file", "photos@master:/a.jpg"]]));
});
