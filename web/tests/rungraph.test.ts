import { describe, expect, it } from "vitest";
import type { Job } from "../src/api/schema";
import { stageOfJob } from "../src/core/folding";
import { refsOf } from "../src/core/runs";

const job = (more: Partial<Job>): Job => ({
  run: "r1", project: "p", stage: "decode", pipeline: "street", state: "success", reason: "", warnings: [], datums: { total: 15, done: 11, reused: 0, failed: 4 }, ms: {}, bytes: {}, output: "", created_us: 1, ...more,
} as unknown as Job);
const input = (repo: string, commit: string, project = "p") => ({ name: repo, project, repo, branch: "master", commit });

describe("a run as a graph", () => {
  it("has the states that its jobs had", () => {
    expect(stageOfJob(job({ device: "gpu", started_us: 2, finished_us: 9 }))).toMatchObject({ key: "p/decode", state: "partly_failed", run: "r1", device: "gpu", started_us: 2, finished_us: 9, datums: { total: 15, done: 11, failed: 4 } });
    expect(stageOfJob(job({ state: "unrunnable", reason: "split failed" }))).toMatchObject({ state: "not_run", reason: "split failed" });
  });
  it("has the commits that were read and written, those of this run before older ones", () => {
    const jobs = [job({ inputs: [input("photos", "c1"), input("split", "old")] as never, output: "o1" }), job({ stage: "split", inputs: [input("decode", "o1"), input("labels", "c2", "q")] as never, output: "o2" })];
    expect([...refsOf(jobs)].sort()).toEqual([["p/decode", "o1"], ["p/photos", "c1"], ["p/split", "o2"], ["q/labels", "c2"]]);
  });
});
