import { describe, expect, it } from "vitest";
import type { FailureGroup, Failures, Job } from "../src/api/schema";
import { groupRetryOf } from "../src/core/runs";
import { beforeOf, commonOf, endOf, headlineOf, lineThatMatters, paramsWords, pathOfDatum } from "../src/core/failures";

describe("the line that matters", () => {
  it.each([
    ["Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\nValueError: cannot identify\n", "ValueError: cannot identify", 2],
    ["reading\nPIL.UnidentifiedImageError: cannot identify image file 'a'\ncleaning up\n", "PIL.UnidentifiedImageError: cannot identify image file 'a'", 1],
    ["one\ntwo\nthree\n\n", "three", 2],
    ["", "", 0],
  ])("of %j is %j", (tail, line, at) => expect(lineThatMatters(tail)).toEqual({ line, at }));
});

describe("what failures have in common", () => {
  const group = { id: "1", message: "m", reason: "exit code 1", count: 3, folder: "photos=/lisbon/", node: "cpu-01", bytes_min: 0, bytes_max: 0, datum: "d", paths: "", jobs_before: 0, run_before: "" };
  it("is where they are, how large, and on which node", () => expect(commonOf(group)).toEqual(["all below photos:/lisbon/", "all inputs are empty", "all on cpu-01"]));
  it("is nothing where nothing is known", () => expect(commonOf({ ...group, folder: "photos=/", node: "", bytes_min: null, bytes_max: null })).toEqual([]));
  it.each([[0, 24, "no such failure in the last 24 jobs"], [3, 24, "the same failure in 3 of the last 24 jobs"], [0, 1, "no such failure in the job before"], [1, 1, "the same failure in the job before"], [0, 0, ""]])(
    "%d of %d jobs before: %s", (before, jobs, words) => expect(beforeOf({ ...group, jobs_before: before }, jobs)).toBe(words));
  it("names the path of a datum", () => expect(pathOfDatum("model=/, test=/b1.csv")).toBe("/b1.csv"));
  it("writes parameters", () => expect(paramsWords({ lr: 0.1, opt: "sgd", tall: [1, 2] })).toBe("lr=0.1, opt=sgd, tall=[1,2]"));
});

describe("how an attempt ended", () => {
  const attempt = { state: "failed", exit_code: 1, signal: 0, oom: false, timed_out: false, reason: "" };
  it.each([[{ ...attempt }, "exit code 1"], [{ ...attempt, signal: 9 }, "ended by signal 9"], [{ ...attempt, reason: "killed: used 4.0 GiB of memory limit 4Gi", oom: true }, "killed: used 4.0 GiB of memory limit 4Gi"], [{ ...attempt, state: "success", exit_code: 0 }, "done"]])(
    "%j", (given, words) => expect(endOf(given)).toBe(words));
});

describe("the headline of a job", () => {
  const job = (state: string, total: number, done: number, failed: number) => ({ stage: "decode", state, reason: "", datums: { total, done, failed, reused: total - done - failed } }) as Job;
  it.each([
    ["success", 1, 0, 1, "1 of 1 datum failed in decode; none succeeded."], ["failure", 15, 11, 4, "4 of 15 datums failed in decode; the other 11 were kept."], ["failure", 0, 0, 0, "decode failed."],
    ["success", 0, 0, 0, "decode had nothing to do."], ["success", 3, 0, 0, "Nothing failed here: decode reused all 3 datums."], ["running", 3, 1, 0, "decode is at 3 of 3 datums."],
  ])("%s, %i datums, %i ran, %i failed: %s", (state, total, done, failed, text) => expect(headlineOf(job(state, total, done, failed))).toBe(text));
});

describe("retrying one group", () => {
  const job = (more: object = {}, datums: object = {}) => ({ run: "c41d7e90aa", project: "vision", stage: "decode", state: "failure", ...more, datums: { total: 15, done: 10, reused: 1, failed: 4, ...datums } }) as unknown as Job;
  const group = (count: number) => ({ id: "5f1e2d3c00aa11bb", count }) as FailureGroup;
  const failures = (more: object = {}) => ({ failed: 4, kept: 4, groups: [group(3), group(1)], ...more }) as unknown as Failures;
  it("says what runs, what stays, and how to type it", () => expect(groupRetryOf(job(), group(3), failures())).toEqual({
    group: group(3), text: "Retry these 3",
    what: "A new run tries these 3 datums of decode again, over what this job read. The other datum that failed is not tried and stays as it is: as long as one of them fails, decode fails, but what succeeds now is kept and not done again.",
    command: "pipelinectl retry job vision/decode@c41d7e90 --group 5f1e2d3c",
  }));
  it("of a job that left them out keeps them left out", () => expect(groupRetryOf(job({ state: "success", project: "default" }), group(1), failures())).toMatchObject({
    text: "Retry this one", what: "A new run tries this datum of decode again, over what this job read. The other 3 that failed are not tried and stay as they are, left out of what it writes.", command: "pipelinectl retry job decode@c41d7e90 --group 5f1e2d3c" }));
  it("counts recovered datums among those that are known", () => expect(groupRetryOf(job({}, { failed: 3, recovered: 1 }), group(3), failures())).toMatchObject({ text: "Retry these 3" }));
  it.each([
    ["not all are kept", job({}, { total: 1015, failed: 1004 }), failures({ failed: 1004, kept: 1000 }), "Why the other 4 failed is not kept, so which of them belong to this group is not known: only all can be retried."],
    ["some never ran", job({}, { total: 20 }), failures(), "decode ended before all its datums had run, so a new run would run more than this group: only all can be retried."],
  ])("is refused where %s", (_, of, all, words) => expect(groupRetryOf(of, group(3), all)).toBe(words));
  it.each([["it still runs", job({ state: "running" }), failures()], ["all failed in one way", job(), failures({ groups: [group(4)] })]])("is not offered where %s", (_, of, all) => expect(groupRetryOf(of, group(3), all)).toBeNull());
});
