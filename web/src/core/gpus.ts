// GPUs: numbers for the headline, curves of the last day, and the bars of the last hour.
import type { Gpu, GpuHistory, GpuNode, GpuSeries, Gpus, QueueEntry, Want } from "../api/schema";
import { name } from "./foreign";
import { counted, number, percent, size, spelled } from "./format";

export interface Numbers {
  all: number;
  held: number;
  computes: number;
  idle: number;
  free: number;
}

// The nodes that are shown beside the slots of this machine, whose own row says less than the slots.
export function nodesOf(gpus: Gpus): GpuNode[] {
  return gpus.nodes.filter((node) => gpus.gpus.length === 0 || node.node !== gpus.node);
}

export function numbersOf(gpus: Gpus): Numbers {
  const nodes = nodesOf(gpus);
  const holders = nodes.flatMap((node) => node.by);
  const all = gpus.gpus.length + nodes.reduce((sum, node) => sum + node.capacity, 0);
  const held = gpus.gpus.filter((gpu) => gpu.state !== "free").length + nodes.reduce((sum, node) => sum + node.allocated, 0);
  const idle = gpus.gpus.filter((gpu) => gpu.idle_since_us).length + holders.reduce((sum, by) => sum + (by.idle_since_us ? by.count : 0), 0);
  return { all, held, idle, computes: Math.max(0, held - idle), free: Math.max(0, all - held) };
}

// The span that the address asks for. The daemon keeps a day.
export interface Span {
  key: string;
  words: string;
  us: number;
}

const HOUR_US = 3_600_000_000;

export const SPANS: Span[] = [
  { key: "hour", words: "the last hour", us: HOUR_US },
  { key: "6h", words: "the last 6 hours", us: 6 * HOUR_US },
  { key: "day", words: "the last 24 hours", us: 24 * HOUR_US },
];

export const spanOf = (key: string | null): Span => SPANS.find((one) => one.key === key) ?? SPANS[SPANS.length - 1]!;

// The names of all nodes; this machine's own is "" if it has none.
export const nodeNames = (gpus: Gpus): string[] => [...new Set([...(gpus.gpus.length > 0 ? [gpus.node ?? ""] : []), ...nodesOf(gpus).map((node) => node.node)])].sort();

// What is left of the facts for one node, or all of them for "".
export function onNode(gpus: Gpus, node: string): Gpus {
  if (!node) return gpus;
  return { ...gpus, gpus: gpus.node === node ? gpus.gpus : [], nodes: gpus.nodes.filter((one) => one.node === node) };
}

export const seriesOn = (history: GpuHistory, node: string): GpuSeries[] => history.series.filter((one) => !node || one.node === node);

const are = (n: number) => (n === 1 ? "is" : "are");

export function headline(n: Numbers, waiting: QueueEntry[]): string {
  const first = waiting[0];
  const waits = !first ? "Nothing waits for one."
    : waiting.length === 1 ? `One stage waits for ${first.want.gpus === 1 ? "one" : number(first.want.gpus)}.`
    : `${spelled(waiting.length)} stages wait for one.`;
  if (n.all === 0) return first ? `No GPU here. ${waits}` : "No GPU here: stages that would like one use the CPU.";
  const idle = n.idle > 0 ? `, ${number(n.idle)} ${are(n.idle)} held idle` : "";
  return `${number(n.computes)} of ${counted(n.all, "GPU")} ${n.computes === 1 ? "computes" : "compute"}${idle}, ${number(n.free)} ${are(n.free)} free. ${waits}`;
}

// "2 × A100, 40 GiB each"
export function wantWords(want: Want): string {
  if (want.gpus === 0) return `${want.cpu_milli / 1000} CPU${want.memory_bytes ? `, ${size(want.memory_bytes)}` : ""}`;
  const of = (want.product ?? []).map((glob) => name(glob.replace(/^\*|\*$/g, "") || glob)).join(" or ");
  const more = [want.gpu_memory_mib ? `${size(want.gpu_memory_mib * 1048576)} each` : "", want.compute ? `compute ${want.compute}` : ""].filter(Boolean);
  return `${number(want.gpus)} ${of ? `× ${of}` : want.gpus === 1 ? "GPU" : "GPUs"}${more.length ? `, ${more.join(", ")}` : ""}`;
}

// A step of a curve: numbers of GPUs, on average over the time of which there is a record.
export interface Step {
  fromUs: number;
  toUs: number;
  known: boolean;
  capacity: number;
  computes: number;
  idle: number;
  busy: number | null; // per cent, where something measures it
}

const SURE = 0.02; // of a step must be recorded, or nothing is said of it

export function stepsOf(history: GpuHistory, series: GpuSeries[] = history.series): Step[] {
  const width = (history.to_us - history.from_us) / history.points;
  return history.known_ms.map((known, i) => {
    const sum = (of: (one: GpuSeries) => number[]) => series.reduce((total, one) => total + (of(one)[i] ?? 0), 0);
    const [held, idle, measured] = [sum((one) => one.held), sum((one) => one.idle), sum((one) => one.measured)];
    const fromUs = history.from_us + i * width;
    const at = { fromUs, toUs: fromUs + width };
    if (known * 1000 < width * SURE) return { ...at, known: false, capacity: 0, computes: 0, idle: 0, busy: null };
    return { ...at, known: true, capacity: sum((one) => one.capacity) / known, computes: Math.max(0, held - idle) / known, idle: idle / known, busy: measured > 0 ? (100 * sum((one) => one.busy)) / measured : null };
  });
}

// Steps joined to `n` longer ones, for the table of a curve.
export function joined(steps: Step[], n: number): Step[] {
  const each = Math.ceil(steps.length / n);
  const out: Step[] = [];
  for (let at = 0; at < steps.length; at += each) {
    const all = steps.slice(at, at + each);
    const known = all.filter((step) => step.known);
    const mean = (of: (step: Step) => number) => (known.length ? known.reduce((sum, step) => sum + of(step), 0) / known.length : 0);
    const measured = known.filter((step) => step.busy !== null);
    out.push({
      fromUs: all[0]!.fromUs, toUs: all[all.length - 1]!.toUs, known: known.length > 0, capacity: mean((step) => step.capacity), computes: mean((step) => step.computes), idle: mean((step) => step.idle),
      busy: measured.length ? measured.reduce((sum, step) => sum + step.busy!, 0) / measured.length : null,
    });
  }
  return out;
}

// "held 43 % of the last 24 hours", "held idle 17 %": of the time of which there is a record.
export function dayWords(history: GpuHistory): string[] {
  return totalWords(history.total);
}

// The same of some of the curves.
export function seriesWords(series: GpuSeries[]): string[] {
  const sum = (of: (one: GpuSeries) => number[]) => series.reduce((all, one) => all + of(one).reduce((total, ms) => total + ms, 0), 0);
  return totalWords({ capacity_ms: sum((one) => one.capacity), held_ms: sum((one) => one.held), idle_ms: sum((one) => one.idle), measured_ms: sum((one) => one.measured), busy_ms: sum((one) => one.busy) });
}

function totalWords({ capacity_ms: all, held_ms: held, idle_ms: idle, measured_ms: measured, busy_ms: busy }: Pick<GpuHistory["total"], "capacity_ms" | "held_ms" | "idle_ms" | "measured_ms" | "busy_ms">): string[] {
  if (all === 0) return [];
  return [
    `held ${percent(held, all)} of the recorded time`,
    held > 0 ? `of that idle ${percent(idle, held)}` : "",
    measured > 0 ? `measured busy ${percent(busy, measured)}` : "",
  ].filter(Boolean);
}

export function seriesOfSlot(history: GpuHistory, node: string, gpu: Gpu): GpuSeries[] {
  return history.series.filter((one) => one.slot === gpu.slot && one.node === node && one.product === gpu.product);
}

export function seriesOfNode(history: GpuHistory, node: GpuNode): GpuSeries[] {
  return history.series.filter((one) => one.slot == null && one.node === node.node && one.product === (node.product || node.resource));
}

// GPU-hours, or minutes when it was less.
export function gpuTime(ms: number): string {
  if (ms >= 3_600_000) return `${(ms / 3_600_000).toFixed(ms < 36_000_000 ? 1 : 0)} GPU-h`;
  return ms >= 60_000 ? `${Math.round(ms / 60_000)} GPU-min` : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} GPU-s`;
}
