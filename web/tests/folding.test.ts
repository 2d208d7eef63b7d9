import { describe, expect, it } from "vitest";
import type { StageState } from "../src/api/schema";
import type { Drawing, Node } from "../src/core/drawing";
import { afterJob, hitsOf, opened, queryOf, shut, taken, wishesOf } from "../src/core/folding";

const node = (at: number, more: Partial<Node>): Node => ({ at, kind: "stage", band: 0, project: "p", count: 1, x: 0, y: at * 100, w: 184, h: 84, rail: 66, layer: 0, row: 0, ...more });
const NODES = [
  node(0, { kind: "repo", key: "p/photos", name: "photos" }),
  node(1, { kind: "stages", pipeline: "street", count: 3, members: ["p/work-1", "p/work-2", "p/work-3"], layer: 1 }),
  node(2, { key: "p/merge", name: "merge", pipeline: "street", layer: 2 }),
  node(3, { kind: "pipelines", pipeline: "other", count: 9, members: ["p/merge-all", "p/last"], layer: 3 }),
];
const DRAWINGS: Drawing[] = [{ pipelines: [], w: 0, h: 0, nodes: NODES, edges: [] }];
const NONE = wishesOf(new URLSearchParams());

describe("folding by hand", () => {
  it("is in the address", () => {
    const wishes = wishesOf(new URLSearchParams("keep=p/a,p/b&shut=p/street&view=list"));
    expect(wishes).toEqual({ keep: ["p/a", "p/b"], spread: [], open: [], shut: ["p/street"] });
    expect(queryOf(wishes)).toEqual({ keep: "p/a,p/b", spread: "", open: "", shut: "p/street" });
  });
  it("opens a box of alike stages by one of them, a pipeline by its name", () => {
    expect(opened(NONE, NODES[1]!)).toEqual({ ...NONE, spread: ["p/work-1"] });
    expect(opened({ ...NONE, shut: ["p/other"] }, NODES[3]!)).toEqual({ ...NONE, open: ["p/other"] });
  });
  it("opens neither a stage nor a box of no pipeline", () => {
    expect(opened(NONE, NODES[2]!)).toBeNull();
    expect(opened(NONE, node(4, { kind: "pipelines", count: 9000 }))).toBeNull();
  });
  it("shuts a pipeline with what was taken out of it", () =>
    expect(shut({ keep: ["p/work-2", "p/last"], spread: ["p/work-1"], open: ["p/street"], shut: [] }, "p/street", DRAWINGS)).toEqual({ keep: ["p/last"], spread: [], open: [], shut: ["p/street"] }));
  it("asks for no more than the daemon takes", () => {
    let wishes = NONE;
    for (let i = 0; i < 120; i++) wishes = taken(wishes, `p/s${i}`);
    expect(wishes.keep.length).toBe(100);
    expect(wishes.keep.at(-1)).toBe("p/s119");
  });
});

describe("search in the graph", () => {
  const found = (text: string) => hitsOf(DRAWINGS, text).map((hit) => `${hit.key}${hit.inside ? ` in ${hit.at}` : ""}`);
  it("finds drawn nodes and those in boxes", () => expect(found("work")).toEqual(["p/work-1 in 1", "p/work-2 in 1", "p/work-3 in 1"]));
  it("puts the whole name first, then those that begin with it", () => expect(found("merge")).toEqual(["p/merge", "p/merge-all in 3"]));
  it("takes a project with a slash", () => expect(found("P/PHO")).toEqual(["p/photos"]));
  it("finds nothing by nothing", () => expect(found("  ")).toEqual([]));
});

describe("a job's event", () => {
  const stage = (more: Partial<StageState>): StageState => ({ key: "p/merge", project: "p", name: "merge", state: "done", stale: false, stopped: false, run: "r1", started_us: 5, finished_us: 9, ...more });
  const event = (more: object) => ({ run: "r1", project: "p", stage: "merge", state: "success", reason: "", counts: { total: 4, done: 3, failed: 1 }, ...more });
  it.each([
    [{ state: "running" }, "running"], [{ state: "created" }, "waiting"], [{ state: "success" }, "partly_failed"], [{ state: "success", counts: { total: 1, done: 1 } }, "done"],
    [{ state: "failure" }, "failed"], [{ state: "killed", reason: "superseded by run 1" }, "superseded"], [{ state: "killed", reason: "stopped by ada" }, "stopped"],
    [{ state: "unrunnable" }, "not_run"], [{ state: "starting", reason: "waiting for 1 GPU" }, "waiting"],
  ])("%o makes the stage %s", (more, state) => expect(afterJob(stage({}), event(more))?.state).toBe(state));
  it("of a run that waits does not hide one that runs", () => expect(afterJob(stage({ state: "running" }), event({ run: "r2", state: "created" }))).toBeNull());
  it("of a new run forgets the times of the old one", () => {
    const after = afterJob(stage({}), event({ run: "r2", state: "running" }));
    expect([after?.run, after?.started_us, after?.finished_us]).toEqual(["r2", undefined, undefined]);
  });
  it("of another stage, or of one that is not shown, changes nothing", () => expect(afterJob(stage({}), event({ stage: "x" })) ?? afterJob(undefined, event({}))).toBeNull());
});
