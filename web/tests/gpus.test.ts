import { describe, expect, it } from "vitest";
import type { Gpu, GpuHistory, GpuNode, Gpus, QueueEntry } from "../src/api/schema";
import { dayWords, gpuTime, headline, joined, numbersOf, seriesOfNode, seriesOfSlot, stepsOf, wantWords } from "../src/core/gpus";

const slot = (n: number, state: string, more = {}): Gpu => ({ slot: n, product: "A100", state, ...more });
const node = (more: Partial<GpuNode>): GpuNode => ({ node: "a", resource: "nvidia.com/gpu", capacity: 4, allocated: 0, by: [], ...more });
const gpus = (more: Partial<Gpus>): Gpus => ({ gpus: [], nodes: [], ...more });
const waits = (stage: string, n: number) => ({ stage, want: { gpus: n, cpu_milli: 0 } }) as QueueEntry;

describe("the headline", () => {
  const machine = numbersOf(gpus({ node: "m", gpus: [slot(0, "held"), slot(1, "held", { idle_since_us: 5 }), slot(2, "free")], nodes: [node({ node: "m", capacity: 3, allocated: 2 })] }));
  it("counts slots of a machine, not its row too", () => expect(machine).toEqual({ all: 3, held: 2, computes: 1, idle: 1, free: 1 }));
  it("counts nodes of a cluster", () => expect(numbersOf(gpus({ nodes: [node({ allocated: 3, by: [{ count: 2, idle_since_us: 5 }, { count: 1 }] }), node({ node: "b", capacity: 1, allocated: 2 })] }))).toEqual({ all: 5, held: 5, computes: 3, idle: 2, free: 0 }));
  it.each([
    [machine, [], "1 of 3 GPUs computes, 1 is held idle, 1 is free. Nothing waits for one."],
    [machine, [waits("embed", 2)], "1 of 3 GPUs computes, 1 is held idle, 1 is free. One stage waits for 2."],
    [{ all: 8, held: 8, computes: 8, idle: 0, free: 0 }, [waits("a", 1), waits("b", 1)], "8 of 8 GPUs compute, 0 are free. Two stages wait for one."],
    [{ all: 0, held: 0, computes: 0, idle: 0, free: 0 }, [], "No GPU here: stages that would like one use the CPU."],
    [{ all: 0, held: 0, computes: 0, idle: 0, free: 0 }, [waits("embed", 1)], "No GPU here. One stage waits for one."],
  ])("says %o", (n, list, text) => expect(headline(n, list)).toBe(text));
});

describe("what a stage wants", () => {
  it.each([
    [{ gpus: 1, cpu_milli: 0 }, "1 GPU"],
    [{ gpus: 2, cpu_milli: 0, product: ["*A100*", "*H100*"] }, "2 × A100 or H100"],
    [{ gpus: 2, cpu_milli: 0, gpu_memory_mib: 40960, compute: "8.0" }, "2 GPUs, 40 GiB each, compute 8.0"],
    [{ gpus: 0, cpu_milli: 1500, memory_bytes: 1 << 30 }, "1.5 CPU, 1 GiB"],
  ])("%o", (want, text) => expect(wantWords(want)).toBe(text));
});

const history: GpuHistory = {
  from_us: 0, to_us: 4_000_000, points: 4, known_ms: [1000, 500, 0, 1000],
  series: [
    { node: "m", product: "A", slot: 0, capacity: [1000, 500, 0, 1000], held: [1000, 250, 0, 0], used: [1000, 0, 0, 0], idle: [0, 250, 0, 0], measured: [0, 0, 0, 0], busy: [0, 0, 0, 0] },
    { node: "n", product: "B", capacity: [2000, 1000, 0, 2000], held: [500, 0, 0, 2000], used: [0, 0, 0, 0], idle: [0, 0, 0, 1000], measured: [500, 0, 0, 2000], busy: [250, 0, 0, 1000] },
  ],
  stages: [], total: { capacity_ms: 7500, held_ms: 3750, used_ms: 1000, idle_ms: 1250, measured_ms: 2500, busy_ms: 1250 },
};

describe("the curves", () => {
  const steps = stepsOf(history);
  it("are numbers of GPUs, on average", () => expect(steps.map((s) => [s.capacity, s.computes, s.idle, s.busy])).toEqual([[3, 1.5, 0, 50], [3, 0, 0.5, null], [0, 0, 0, null], [3, 1, 1, 50]]));
  it("say where nothing is known", () => expect(steps.map((s) => s.known)).toEqual([true, true, false, true]));
  it("are joined for the table", () => expect(joined(steps, 2).map((s) => [s.fromUs, s.toUs, s.known, s.computes, s.busy])).toEqual([[0, 2_000_000, true, 0.75, 50], [2_000_000, 4_000_000, true, 1, 50]]));
  it("are found for a slot and for a node", () => {
    expect(seriesOfSlot(history, "m", slot(0, "free", { product: "A" }))).toEqual([history.series[0]]);
    expect(seriesOfSlot(history, "m", slot(1, "free", { product: "A" }))).toEqual([]);
    expect(seriesOfNode(history, node({ node: "n", product: "B" }))).toEqual([history.series[1]]);
  });
  it("are summed up in words", () => expect(dayWords(history)).toEqual(["held 50 % of the recorded time", "of that idle 33 %", "measured busy 50 %"]));
  it("of no GPU say nothing", () => expect(dayWords({ ...history, total: { ...history.total, capacity_ms: 0 } })).toEqual([]));
  it.each([[1500, "1.5 GPU-s"], [45_000, "45 GPU-s"], [120_000, "2 GPU-min"], [5_400_000, "1.5 GPU-h"], [316_800_000, "88 GPU-h"]])("%d ms are %s", (ms, text) => expect(gpuTime(ms)).toBe(text));
});
