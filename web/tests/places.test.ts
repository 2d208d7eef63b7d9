import { describe, expect, it } from "vitest";
import { type Place, fileNamed, ownPath, pathOf, placeOf } from "../src/core/places";

const PLACES: [string, Place][] = [
  ["/", { page: "home" }],
  ["/runs", { page: "runs" }],
  ["/runs/c41d7e90", { page: "run", run: "c41d7e90" }],
  ["/jobs/vision/decode/c41d7e90", { page: "job", project: "vision", stage: "decode", run: "c41d7e90" }],
  ["/jobs/vision/decode/c41d7e90/log", { page: "log", project: "vision", stage: "decode", run: "c41d7e90" }],
  ["/data", { page: "data" }],
  ["/data/vision/photos", { page: "repo", project: "vision", repo: "photos" }],
  ["/data/vision/photos/master/-/", { page: "files", project: "vision", repo: "photos", ref: "master", path: "" }],
  ["/data/vision/photos/master%5E2/-/a%20b/%23c%3Fd%2525.txt", { page: "files", project: "vision", repo: "photos", ref: "master^2", path: "a b/#c?d%25.txt" }],
  ["/diff/vision/photos/aa/bb", { page: "diff", project: "vision", repo: "photos", from: "aa", to: "bb" }],
  ["/why/default/infer/master/-/", { page: "why", project: "default", repo: "infer", ref: "master", path: "" }],
  ["/why/default/infer/master/-/b1/predictions.csv", { page: "why", project: "default", repo: "infer", ref: "master", path: "b1/predictions.csv" }],
  ["/pipelines", { page: "pipelines" }],
  ["/pipelines/vision/street", { page: "pipeline", project: "vision", pipeline: "street" }],
  ["/gpus", { page: "gpus" }],
  ["/metrics/-", { page: "metrics", project: "-", stage: "" }],
  ["/metrics/vision/train-vit", { page: "metrics", project: "vision", stage: "train-vit" }],
];

describe("places", () => {
  it.each(PLACES)("%s leads there and back", (path, place) => {
    expect(placeOf(path)).toEqual(place);
    expect(placeOf(pathOf(place))).toEqual(place);
  });
  it.each(["/runs/a/b", "/jobs/a", "/data/a", "/data/a/b/c/d/e", "/why/a/b/c", "/foo"])("%s is nothing", (path) => expect(placeOf(path).page).toBe("nothing"));
  it("takes a broken escape as it is", () => expect(placeOf("/runs/%zz")).toEqual({ page: "run", run: "%zz" }));
  it("puts filters into the query", () => expect(pathOf({ page: "runs" }, { state: "failed,part", project: "" })).toBe("/runs?state=failed%2Cpart"));
});

describe("where a login may lead", () => {
  it.each([["/runs/c41d?view=graph", "/runs/c41d?view=graph"], ["//evil.example", "/"], ["https://evil.example", "/"], ["/\\evil.example", "/"], ["/a\nb", "/"], ["", "/"], [null, "/"]])(
    "%j leads to %s", (to, path) => expect(ownPath(to)).toBe(path));
});

describe("files by name", () => {
  it.each([
    ["report@master:/report.json", { page: "files", project: "default", repo: "report", ref: "master", path: "report.json" }],
    ["vision/photos@c41d7e90:lisbon/a b.jpg", { page: "files", project: "vision", repo: "photos", ref: "c41d7e90", path: "lisbon/a b.jpg" }],
    ["photos@master", { page: "files", project: "default", repo: "photos", ref: "master", path: "" }],
    ["photos", null],
  ])("%s", (text, place) => expect(fileNamed(text)).toEqual(place));
});
