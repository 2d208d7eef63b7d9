// The timeline of a run's workers: which part of it is shown, and what a lane says in words.
import type { RunTimeline, TimelineLane } from "../api/schema";
import { name } from "./foreign";
import { counted, duration, percent } from "./format";

export interface View {
  from: number; // microseconds since 1970
  to: number;
}

const LEAST_US = 10_000; // a view is never narrower

// The view after a key: + and - around its middle, arrows by a quarter, 0 or Home for the whole. null: not a key of ours.
export function viewAfter(key: string, view: View, whole: View): View | null {
  const width = view.to - view.from;
  const middle = view.from + width / 2;
  const fit = (around: number, wide: number): View => {
    const clipped = Math.min(Math.max(wide, LEAST_US), whole.to - whole.from);
    const begin = Math.round(Math.min(Math.max(around - clipped / 2, whole.from), whole.to - clipped));
    return { from: begin, to: Math.round(begin + clipped) };
  };
  switch (key) {
    case "+":
    case "=":
      return fit(middle, width / 2);
    case "-":
      return fit(middle, width * 2);
    case "ArrowLeft":
      return fit(middle - width / 4, width);
    case "ArrowRight":
      return fit(middle + width / 4, width);
    case "0":
    case "Home":
      return whole;
    default:
      return null;
  }
}

const WORDS: Record<string, string> = {
  wait: "waited for a node", start: "started", fetch: "fetched", compute: "computed", upload: "uploaded", idle: "had no datum", idle_gpu: "held its GPU idle", work: "worked",
};
export const PHASES = Object.keys(WORDS);

// "worker 7 on gpu-a: computed 4 min, held its GPU idle 12 s"
export function laneWords(lane: TimelineLane): string {
  const ms = lane.ms as Record<string, number>;
  const did = PHASES.filter((phase) => (ms[phase] ?? 0) > 0).map((phase) => `${WORDS[phase]!.replace("its GPU", lane.gpus > 1 ? `its ${lane.gpus} GPUs` : "its GPU")} ${duration(ms[phase]!)}`);
  return `${laneName(lane)}: ${did.join(", ") || "nothing in this time"}`;
}

export function laneName(lane: TimelineLane): string {
  const id = lane.worker % 2 ** 32; // the number since the start of the daemon: the rest says which start it was
  return `${lane.pod ? name(lane.pod) : `worker ${id}`}${lane.node ? ` on ${name(lane.node)}` : ""}`;
}

// What the GPUs did in this time, as a sentence; "" if none was held.
export function gpuSentence(timeline: RunTimeline): string {
  const { held_ms: held, computing_ms: computing, idle_ms: idle } = timeline.gpu;
  if (held <= 0) return "";
  return `GPUs were held for ${duration(held)}: they computed ${percent(computing, held)} of it${idle > 0 ? ` and were idle for ${duration(idle)}` : ""}.`;
}

export function headlineOf(timeline: RunTimeline): string {
  const workers = timeline.stages.reduce((sum, stage) => sum + stage.workers, 0);
  const stages = timeline.stages.filter((stage) => stage.workers > 0).length;
  return workers === 0 ? "No worker has served this run yet." : `${counted(workers, "worker")} served ${counted(stages, "stage")}.`;
}

