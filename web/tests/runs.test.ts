import { describe, expect, it } from "vitest";
import type { Job, Run, WhyNode } from "../src/api/schema";
import { needOf } from "../src/core/needs";
import { factsOf, sentence } from "../src/core/provenance";
import { endsHeard, heardOf } from "../src/core/runfacts";
import { causeOf, changeWords, pushedRepo, retryOf, withJobs } from "../src/core/runs";

const job = (more: Partial<Job>): Job => ({
  run: "c41d7e90", project: "p", stage: "decode", pipeline: "street", state: "success", reason: "", warnings: [], datums: { total: 15, done: 11, reused: 0, failed: 4 },
  ms: {}, bytes: {}, output: "", created_us: 1, ...more,
} as unknown as Job);
const run = (more: Partial<Run>): Run => ({ id: "c41d7e90", state: "success", reason: "", message: "", cause: "push", created_us: 1, ...more } as Run);
const pushed = run({ jobs: [job({ inputs: [{ name: "photos", project: "p", repo: "photos", branch: "master", commit: "c41d7e90" }] as never }), job({ stage: "split", inputs: [{ name: "decode", project: "p", repo: "decode", commit: "c41d7e90" }] as never })] });

describe("what set a run off", () => {
  it("is the push to the repo that no stage of it writes", () => expect(pushedRepo(pushed)?.repo).toBe("photos"));
  it.each([
    [{}, null, "Something was pushed to photos"],
    [{}, { added: 1, modified: 0, deleted: 0, more: false }, "1 file was pushed to photos"],
    [{ author: "ana" }, { added: 3000, modified: 100, deleted: 20, more: false }, "ana pushed 3,120 files to photos"],
  ])("by %j of %j is: %s", (commit, change, words) => expect(causeOf(pushed, commit as never, change)).toBe(words));
  it.each([["pipeline", "street", "New version: street"], ["manual", "digits", "Run by hand: digits"], ["manual", "all jobs of run c41d7e90 again", "Rerun: all jobs of run c41d7e90 again"], ["delete", "", "Data was deleted"]])(
    "%s %s", (cause, message, words) => expect(causeOf(run({ cause, message }))).toBe(words));
});

describe("changes", () => {
  it.each([[{ added: 1, modified: 0, deleted: 0, more: false }, "+1 file"], [{ added: 0, modified: 3, deleted: 2, more: false }, "~3 −2 files"], [{ added: 1000, modified: 0, deleted: 0, more: true }, "over 1,000 files"], [{ added: 0, modified: 0, deleted: 0, more: false }, "no file"]])(
    "%j", (change, words) => expect(changeWords(change)).toBe(words));
});

describe("retries", () => {
  it("rerun what did not succeed", () => expect(retryOf("c41d7e90aa", [job({ state: "failure" })])).toMatchObject({ text: "Retry 4 failed", rerun: true }));
  it("run the stage again whose failed datums were left out", () => expect(retryOf("c41d7e90aa", [job({})])).toMatchObject({ rerun: false, command: "pipelinectl run pipeline p/street --stage decode" }));
  it("are not offered when nothing failed", () => expect(retryOf("c41d7e90", [job({ datums: { total: 1, done: 1, reused: 0, failed: 0 } })])).toBeNull());
});

describe("runs and their jobs", () => {
  const pipelines = [{ project: "p", name: "street", stages: [{ name: "decode" }, { name: "split" }] }] as never;
  it("come together in the order of the stages", () => expect(withJobs([run({})], [job({ stage: "split" }), job({})], pipelines)[0]!.jobs.map((one) => one.stage)).toEqual(["decode", "split"]));
});

describe("what needs somebody", () => {
  const need = (more: object) => needOf({ kind: "failed", project: "p", stage: "decode", run: "c41d7e90aa", since_us: 7, text: "", ...more });
  it.each([
    [{ text: "evaluate failed: datum x: exit code 1" }, "evaluate failed", "datum x: exit code 1."],
    [{ kind: "partly_failed", failed: 412, total: 120000 }, "decode failed on 412 of 120,000 datums", "The other 119,588 datums were kept and the run went on."],
    [{ kind: "waiting", text: "decode is waiting for 2 GPUs: 1 of 8 free" }, "decode waits for 2 GPUs: 1 of 8 free", "Run c41d7e90 cannot go on without it."],
    [{ kind: "source", text: "the specs of street are not accepted: line 41" }, "the specs of street are not accepted", "line 41."],
    [{ kind: "disk", text: "the disk of /d (store) is full: 1 MiB are free" }, "the disk of /d (store) is full", "1 MiB are free."],
    [{ kind: "one-to-come", text: "words" }, "words", ""],
  ])("%j", (more, title, text) => expect([need(more).title, need(more).text]).toEqual([title, text]));
});

describe("provenance", () => {
  const file = (repo: string, path: string, more: Partial<WhyNode> = {}): WhyNode => ({ project: "p", repo, path, commit: "c", ...more }) as WhyNode;
  const tree = file("infer", "/b1/p.csv", { stage: "infer", run: "c", inputs: [file("digits", "/b1.csv"), file("train", "", { files: 1, inputs: [file("train", "/m", { stage: "train", run: "c", inputs: [file("digits", "/b1.csv"), file("digits", "/b2.csv")] })] })] });
  it("counts each source once", () => expect(factsOf(tree).sources.map((one) => one.path)).toEqual(["/b1.csv", "/b2.csv"]));
  it("is a sentence", () => {
    expect(sentence("p.csv", factsOf(tree))).toBe("p.csv came from 2 files that were pushed, by 2 stages.");
    expect(sentence("b1.csv", factsOf(file("digits", "/b1.csv")))).toBe("b1.csv was pushed.");
  });
});

describe("what is read out", () => {
  const manual = (more: Partial<Run>) => run({ cause: "manual", message: "digits", ...more });
  it("of a run that goes on is what failed, and nothing else", () => {
    expect(heardOf(run({ state: "running" }), [job({ state: "running" }), job({ stage: "split" })], "decode is at 3 of 15 datums")).toBe("");
    expect(heardOf(run({ state: "running" }), [job({ state: "failure" }), job({ stage: "split", state: "running" })], "decode failed")).toBe("decode failed.");
  });
  it("of a run is its end", () => expect(heardOf(run({}), [job({})], "all 3 stages are done")).toBe("The run ended: all 3 stages are done."));
  it("of a list is what ended since the last look", () => {
    const before = new Map([["a", "running"], ["b", "running"], ["c", "success"]]);
    expect(endsHeard(before, [manual({ id: "a", state: "running" }), manual({ id: "c" }), manual({ id: "new" })])).toBe("");
    expect(endsHeard(before, [manual({ id: "a", state: "failure" })])).toBe("Run by hand: digits: Failed.");
    expect(endsHeard(before, [manual({ id: "a" }), manual({ id: "b" })])).toBe("Run by hand: digits: Done, and 1 more run ended.");
  });
});
