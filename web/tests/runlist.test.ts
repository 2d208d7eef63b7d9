import { describe, expect, it } from "vitest";
import type { Run } from "../src/api/schema";
import { gpuSentence, laneWords, viewAfter } from "../src/core/lanes";
import { askedOf, changeOf, datumsOf, leftOf, pushWords, rowState, runsHeadline, setOff, stagesWords, wantedOf, withProgress } from "../src/core/runfacts";
import { FRESH_MAX, KEPT, RunList } from "../src/core/runlist";

const run = (n: number, more: object = {}): Run => ({ id: n.toString(16).padStart(32, "0"), state: "success", reason: "", message: "", cause: "push", created_us: n, ...more }) as Run;
const page = (from: number, count = 200) => Array.from({ length: count }, (_, i) => run(from - i));

describe("a list of runs", () => {
  const long = (pages: number) => {
    const list = new RunList();
    for (let i = 0; i < pages; i++) list.put(i === 0 ? "" : `k${i}`, page(1_000_000 - i * 200), `k${i + 1}`);
    return list;
  };
  it("keeps the first page and those near the view", () => {
    const list = long(5000);
    expect(list.length).toBe(1_000_000);
    expect(list.held).toBe((KEPT + 1) * 200);
    expect(list.slice(0, 2).map((one) => one?.created_us)).toEqual([1_000_000, 999_999]);
    expect(list.slice(400_000, 400_002)).toEqual([null, null]);
  });
  it("says where the pages begin that a view needs, and takes them back", () => {
    const list = long(100);
    expect(list.missing(1_990, 2_010)).toEqual(["k9", "k10"]);
    list.put("k9", page(1_000_000 - 9 * 200), "k10");
    expect(list.missing(1_990, 2_010)).toEqual(["k10"]);
    expect(list.slice(1_999, 2_001).map((one) => one?.created_us ?? null)).toEqual([998_001, null]);
    expect(list.next).toBe("k100");
  });
  it("changes a row where it is, and lets new ones wait", () => {
    const list = long(1);
    list.take([run(1_000_000, { state: "running" }), run(1_000_001), run(5)]);
    expect(list.length).toBe(200);
    expect(list.slice(0, 1)[0]!.state).toBe("running");
    expect(list.waiting).toBe(1); // the one from long ago is not new: it is further down
    list.showFresh();
    expect([list.length, list.waiting, list.slice(0, 1)[0]!.created_us]).toEqual([201, 0, 1_000_001]);
  });
  it("does not grow by what waits", () => {
    const list = long(1);
    list.take(Array.from({ length: 500 }, (_, i) => run(1_000_001 + i)));
    expect([list.waiting, list.gap]).toEqual([FRESH_MAX, true]);
  });
  it("catches up without moving a row, and shows no run twice", () => {
    const list = long(2);
    list.take([run(1_000_001)]);
    list.catchUp([run(1_000_003), run(1_000_002), ...page(1_000_001, 198)], "k");
    expect([list.length, list.waiting, list.gap, list.slice(0, 1)[0]!.created_us]).toEqual([400, 3, false, 1_000_000]);
    list.showFresh();
    const shown = list.slice(0, list.length).map((one) => one!.id);
    expect([shown.length, new Set(shown).size]).toEqual([403, 403]);
  });
  it("knows that runs are missing when none of the newest is known", () => {
    const list = long(1);
    list.catchUp(page(2_000_000), "k");
    expect([list.gap, list.length]).toEqual([true, 200]);
  });
  it("forgets what waits when it comes with a page", () => {
    const list = new RunList();
    list.take([run(7)]);
    list.put("", page(7, 3), undefined);
    expect([list.length, list.waiting]).toEqual([3, 0]);
  });
  it("says which runs may have changed", () => {
    const list = long(1);
    list.take([run(1_000_000, { state: "running" }), run(1_000_001, { state: "created" })]);
    expect(list.going()).toEqual([run(1_000_000).id, run(1_000_001).id]);
  });
});

const pushed = { project: "default", repo: "photos", branch: "master", commit: "c", parent: "p", files: 9, bytes: 99, added: 3000, changed: 100, removed: 20, changed_bytes: 4 << 20, more: false };

describe("a row", () => {
  it.each([
    [{ author: "ana", pushed }, "ana pushed 3,120 files to photos", "photos@master +3,000 ~100 −20 files, 4 MiB"],
    [{ pushed: { ...pushed, added: 1, changed: 0, removed: 0 } }, "1 file was pushed to photos", "photos@master +1 file, 4 MiB"],
    [{ author: "ana", pushed: { ...pushed, added: undefined } }, "ana pushed to photos", "photos@master, 9 files in all"],
    [{ cause: "manual", message: "digits", author: "ben" }, "Run by hand: digits", "by ben"],
    [{ cause: "cron", message: "night" }, "By the clock: night", ""],
  ])("%j", (more, first, second) => expect([setOff(run(1, more)), pushWords(run(1, more))]).toEqual([first, second]));
  it("says what of a push is not counted", () => expect(changeOf(run(1, { pushed: { ...pushed, added: undefined } }))).toBeNull());
  it.each([
    [{ datums: { total: 9, done: 1, reused: 8, failed: 0 }, states: { success: 2 } }, "1 ran · 8 reused"],
    [{ state: "running", datums: { total: 9, done: 1, reused: 2, failed: 1 }, states: { running: 1 } }, "4 of 9"],
    [{ states: {} }, "–"],
  ])("counts datums of %j", (more, words) => expect(datumsOf(run(1, more))).toBe(words));
  it("counts the stages of a run under way", () => expect(stagesWords(run(1, { state: "running", states: { success: 1, failure: 1, running: 1 }, datums: { total: 9, done: 1, reused: 2, failed: 1 } }))).toBe("2 of 3 stages ended · 4 of 9 datums"));
  it("is partly failed", () => expect(rowState(run(1, { datums: { total: 9, done: 8, reused: 0, failed: 1 } }))).toEqual({ word: "Done, 1 failed", shape: "part" }));
  it("says when it will be done", () => {
    const going = run(0, { state: "running", eta: { took_ms: 60_000, ends_us: 60_000_000, runs: 5, by: "" } });
    expect(leftOf(going, 42_000)).toBe("about 18 s left, by the last 5 runs");
    expect(leftOf(going, 70_000)).toBe("longer than usual (1 min), by the last 5 runs");
    expect(leftOf({ ...going, state: "success" }, 42_000)).toBe("");
  });
});

describe("progress", () => {
  const going = run(7, { state: "running", jobs: [{ project: "p", stage: "a", state: "running", datums: { total: 10, done: 2, reused: 0, failed: 0, workers: 1 } }] });
  const event = (done: number, more: object = {}) => ({ run: going.id, project: "p", stage: "a", datums: { total: 10, done, reused: 0, failed: 0 }, ...more });
  it.each([[event(5), 5], [event(1), 2], [event(5, { run: "other" }), 2], [event(5, { stage: "b" }), 2], [{}, 2]])("%j", (told, done) => expect(withProgress(going, told).jobs![0]!.datums).toMatchObject({ done, workers: 1 }));
});

describe("the headline of a list", () => {
  const runs = [run(9, { state: "running" }), ...Array.from({ length: 50 }, (_, i) => run(i, { state: i % 2 ? "success" : "failure" }))];
  it.each([
    [runs, 51, false, true, "One run is under way; 20 of the last 40 failed."], [runs.slice(1, 2), 1, false, false, "Nothing runs; 1 of the last 1 failed."], [runs.slice(0, 1), 1, false, false, "One run is under way."],
    [runs, 200, true, true, "200 runs so far like that."], [runs, 51, true, false, "51 runs like that."], [[], 0, true, false, "No run is like that."], [[], 0, true, true, "No run like that so far."], [[], 0, false, false, "Nothing has run yet."],
  ])("of %# says", (list, length, filtered, more, text) => expect(runsHeadline(list, length, filtered, more)).toBe(text));
});

describe("filters", () => {
  it.each([
    ["state=failed,part&pipeline=p&by=ana", { state: "failure,partly_failed", pipeline: "p", by: "ana" }],
    ["state=done&project=x&since=hour", { state: "complete", project: "x", since: 6_400_000_000 }],
    ["state=nonsense&since=ever", {}],
  ])("%s", (query, asked) => expect(askedOf(wantedOf(new URLSearchParams(query)), 10_000_000)).toEqual(asked));
});

describe("a timeline", () => {
  const whole = { from: 0, to: 1_000_000 };
  it.each([
    ["+", whole, { from: 250_000, to: 750_000 }], ["-", { from: 250_000, to: 750_000 }, whole], ["ArrowLeft", { from: 100_000, to: 500_000 }, { from: 0, to: 400_000 }],
    ["ArrowRight", { from: 500_000, to: 900_000 }, { from: 600_000, to: 1_000_000 }], ["0", { from: 1, to: 2 }, whole], ["+", { from: 0, to: 10_000 }, { from: 0, to: 10_000 }], ["x", whole, null],
  ])("%s of %j", (key, view, after) => expect(viewAfter(key, view, whole)).toEqual(after));
  const lane = { worker: 2 ** 32 + 7, state: "ended", pod: "", node: "gpu-a", started_us: 0, ended_us: 1, reason: "", tasks: 1, gpus: 2, ms: { compute: 240_000, idle_gpu: 12_000 }, spans: [] };
  it("says what a worker did", () => expect(laneWords(lane as never)).toBe("worker 7 on gpu-a: computed 4 min, held its 2 GPUs idle 12 s"));
  it("says what the GPUs did", () => {
    expect(gpuSentence({ gpu: { held_ms: 100_000, computing_ms: 75_000, idle_ms: 25_000 } } as never)).toBe("GPUs were held for 1 min 40 s: they computed 75 % of it and were idle for 25 s.");
    expect(gpuSentence({ gpu: { held_ms: 0, computing_ms: 0, idle_ms: 0 } } as never)).toBe("");
  });
});
