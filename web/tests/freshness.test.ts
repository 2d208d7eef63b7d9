import { describe, expect, it } from "vitest";
import type { Freshness, Pipeline } from "../src/api/schema";
import { badgeOf, isStale, rootsFirst, staleStages, staleWords, whyOf } from "../src/core/freshness";

const fresh = (state: string, text = "", why: string[] = []): Freshness => ({ state, text, why, command: text ? "pipelinectl run pipeline lab" : "" });
const current = fresh("current");
const stale = fresh("stale", "out of date: 22 datums, code changed in run 9ab2f1c4", ["code"]);
const updating = fresh("updating", "out of date: input in changed in run 9ab2f1c4; being brought up to date by run 9ab2f1c4", ["input"]);
const pipeline = (...stages: (Freshness | undefined)[]): Pipeline => ({
  project: "p", name: "lab", version: 1, current: 1, created_us: 1, updated_us: 1, source: "", state: "running",
  stages: stages.map((freshness, i) => ({ name: `s${i}`, branch: "master", inputs: [], gpu: false, ...(freshness ? { freshness } : {}) })),
});

describe("what is out of date", () => {
  it.each([["current", current, false], ["stale", stale, true], ["updating", updating, true], ["empty", fresh("empty"), false], ["unknown", undefined, false], ["none", null, false]] as const)(
    "%s", (_, of, expected) => expect(isStale(of)).toBe(expected));
  it("has a badge with one word for each state", () => expect([stale, updating].map(badgeOf)).toEqual(["out of date", "being updated"]));
  it("gives the reason without the state", () => expect(whyOf(stale)).toBe("22 datums, code changed in run 9ab2f1c4"));
  it("lists stages, with or without those that a run mends", () => {
    const all = [pipeline(current, stale), pipeline(updating, undefined)];
    expect(staleStages(all).map((one) => one.stage)).toEqual(["s1", "s0"]);
    expect(staleStages(all, false)).toEqual([{ project: "p", pipeline: "lab", stage: "s1", of: stale }]);
  });
  it("puts reasons before what follows from them", () => {
    const follows = fresh("stale", "out of date: its input s1 is out of date (code)", ["upstream"]);
    expect(rootsFirst(staleStages([pipeline(follows, stale, follows, updating)])).map((one) => one.stage)).toEqual(["s1", "s3", "s0", "s2"]);
  });
  it.each([[[current], ""], [[stale], "1 of 1 stage is out of date"], [[stale, current, updating], "2 of 3 stages are out of date"]] as const)(
    "counts the stages of a pipeline", (stages, words) => expect(staleWords(pipeline(...stages))).toBe(words));
});
