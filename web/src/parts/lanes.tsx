// What each worker of a run did: a lane a worker, in its phases; GPUs that were held idle are hatched.
import { useState } from "preact/hooks";
import { get } from "../api/client";
import type { Run, RunTimeline, TimelineStage } from "../api/schema";
import { name } from "../core/foreign";
import { clock, counted, duration } from "../core/format";
import { type View, gpuSentence, headlineOf, laneName, laneWords, viewAfter } from "../core/lanes";
import { useLoad } from "../core/load";
import { isOver } from "../core/states";
import { Hatch } from "./bar";
import { ErrorNote } from "./page";
import { tickText, ticks } from "./timeline";

const W = 1032;
const LEFT = 180;
const PITCH = 22;
const BAR = 14;

type X = (us: number) => number;

const CLASS: Record<string, string> = { wait: "p-wait", start: "p-start", fetch: "p-fetch", upload: "p-up", idle_gpu: "p-idle" };

function Stage({ stage, y, x }: { stage: TimelineStage; y: number; x: X }) {
  const crowd = stage.crowd ?? [];
  const most = Math.max(1, ...crowd.map((step) => step.workers));
  return (
    <g>
      <text class="name" x="0" y={y + 12}>{name(stage.stage).slice(0, 24)}</text>
      {crowd.length > 0 && (
        <g>
          <title>{`${counted(stage.workers, "worker")} of ${name(stage.stage)}, at most ${most} at once`}</title>
          {crowd.map((step) => {
            const wide = Math.max(1, x(step.to_us) - x(step.from_us));
            return <g key={step.from_us}><rect class="p-start" x={x(step.from_us)} y={y + BAR * (1 - step.workers / most)} width={wide} height={(BAR * step.workers) / most} /><rect class="p-cpu" x={x(step.from_us)} y={y + BAR * (1 - step.busy / most)} width={wide} height={(BAR * step.busy) / most} /></g>;
          })}
        </g>)}
      {stage.lanes.map((lane, i) => {
        const top = y + (i + 1) * PITCH;
        const busy = lane.gpus > 0 ? "p-gpu" : "p-cpu";
        return (
          <g key={`${lane.worker}/${lane.started_us}`} class="lane">
            <title>{laneWords(lane)}</title>
            <text class="who" x="12" y={top + 12}>{laneName(lane).slice(0, 26)}</text>
            {lane.spans.filter((span) => span.phase !== "idle").map((span) => (
              <rect key={span.from_us} data-phase={span.phase} class={CLASS[span.phase] ?? busy} x={x(span.from_us)} y={top} width={Math.max(1, x(span.to_us) - x(span.from_us))} height={BAR} />
            ))}
          </g>
        );
      })}
    </g>
  );
}

function Drawing({ timeline }: { timeline: RunTimeline }) {
  const { from_us: from, to_us: to } = timeline;
  const x: X = (us) => LEFT + ((Math.min(Math.max(us, from), to) - from) / (to - from)) * (W - LEFT);
  const began = (stage: TimelineStage) => stage.lanes[0]?.started_us ?? stage.crowd?.[0]?.from_us ?? 0;
  const stages = timeline.stages.filter((stage) => stage.workers > 0).sort((a, b) => began(a) - began(b));
  const tops: number[] = [];
  let h = 30;
  for (const stage of stages) {
    tops.push(h);
    h += (stage.lanes.length + 1) * PITCH + 6;
  }
  return (
    <svg class="tl lanes" viewBox={`0 0 ${W} ${h + 4}`} role="img" aria-label="Timeline of the workers; the table below has the same times">
      <Hatch id="hatch" wide={6} />
      {ticks(from / 1000, to / 1000).filter((at) => x(at * 1000) > LEFT + 20 && x(at * 1000) < W - 20).map((at) => (
        <g key={at}><path class="grid" d={`M${x(at * 1000)} 24V${h}`} /><text x={x(at * 1000)} y="16" text-anchor="middle">{tickText(at, (to - from) / 1000)}</text></g>
      ))}
      {stages.map((stage, i) => <Stage key={`${stage.project}/${stage.stage}`} stage={stage} y={tops[i]!} x={x} />)}
    </svg>
  );
}

function Table({ timeline }: { timeline: RunTimeline }) {
  const lanes = timeline.stages.flatMap((stage) => stage.lanes.map((lane) => ({ stage, lane })));
  if (lanes.length === 0) return null;
  const of = (lane: { ms: unknown }, ...phases: string[]) => duration(phases.reduce((sum, phase) => sum + ((lane.ms as Record<string, number>)[phase] ?? 0), 0));
  return (
    <details class="after">
      <summary>The same as a table</summary>
      <div class="scroll" tabIndex={0} role="group" aria-label="What each worker did">
        <table class="list" aria-label="What each worker did">
          <thead><tr><th>Stage</th><th>Worker</th><th class="num">Waited and started</th><th class="num">Fetched</th><th class="num">Computed</th><th class="num">Uploaded</th><th class="num">Idle</th><th>How it ended</th></tr></thead>
          <tbody>{lanes.map(({ stage, lane }) => (
            <tr key={`${lane.worker}/${lane.started_us}`}>
              <td>{name(stage.stage)}</td><td>{laneName(lane)}{lane.gpus > 0 ? ` · ${counted(lane.gpus, "GPU")}` : ""}</td>
              <td class="num">{of(lane, "wait", "start")}</td><td class="num">{of(lane, "fetch")}</td><td class="num">{of(lane, "compute", "work")}</td><td class="num">{of(lane, "upload")}</td><td class="num">{of(lane, "idle", "idle_gpu")}</td>
              <td class="muted">{name(lane.reason) || lane.state}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </details>
  );
}

const LEGEND: [string, string][] = [["p-start", "starts"], ["p-fetch", "fetches"], ["p-cpu", "computes"], ["p-gpu", "computes on a GPU"], ["p-up", "uploads"], ["p-idle", "holds a GPU idle"]];

export function Lanes({ run }: { run: Run }) {
  const over = isOver(run.state);
  const [view, look] = useState<View | null>(null);
  const query = view ? { from: view.from, to: view.to, px: W - LEFT } : { px: W - LEFT };
  const loaded = useLoad(`timeline ${run.id} ${over} ${view?.from ?? ""} ${view?.to ?? ""}`, (signal) => get("/api/v1/runs/{run}/timeline", { path: { run: run.id }, query, signal }),
    (event) => !over && (event.type === "job" || event.type === "progress") && event.data["run"] === run.id);
  const [last, keep] = useState<RunTimeline | null>(null);
  if (loaded.data && loaded.data !== last) keep(loaded.data);
  const timeline = loaded.data ?? last; // the picture stays while another part of it is on its way
  if (!timeline) return loaded.error ? <ErrorNote error={loaded.error} retry={loaded.reload} /> : null;
  const whole: View = { from: run.created_us, to: run.finished_us ?? timeline.now_us };
  const shown = view ?? whole;
  const act = (key: string) => {
    const next = viewAfter(key, shown, whole);
    if (next) look(next.from === whole.from && next.to === whole.to ? null : next);
    return next !== null;
  };
  const span = (shown.to - shown.from) / 1000;
  const words = gpuSentence(timeline);
  const inView = new Set(timeline.stages.flatMap((stage) => stage.lanes.flatMap((lane) => lane.spans.map((span) => CLASS[span.phase] ?? (lane.gpus > 0 ? "p-gpu" : "p-cpu")))));
  return (
    <div class="panel pad after">
      {loaded.error && <ErrorNote error={loaded.error} retry={loaded.reload} />}
      <p class="lanes-head"><span>{headlineOf(timeline)} {words}</span>
        <span class="right" role="group" aria-label="Zoom">
          <button type="button" class="btn small" onClick={() => act("-")} aria-label="Show more time">−</button>
          <button type="button" class="btn small" onClick={() => act("+")} aria-label="Show less time">+</button>
          <button type="button" class="btn small" onClick={() => act("0")} disabled={!view}>Whole run</button>
        </span></p>
      <div class="scroll" tabIndex={0} role="group" aria-label={`Workers from ${clock(shown.from, span)} to ${clock(shown.to, span)}; + and - zoom, arrows move, 0 shows the whole run`}
        onKeyDown={(event) => { if (!event.ctrlKey && !event.metaKey && !event.altKey && act(event.key)) event.preventDefault(); }}>
        <Drawing timeline={timeline} />
      </div>
      <p class="legend">{LEGEND.filter(([of]) => inView.has(of)).map(([of, text]) => <span key={of}><svg viewBox="0 0 16 10" aria-hidden="true"><rect class={of} x="0" y="0" width="16" height="10" /></svg>{text}</span>)}</p>
      {timeline.more && <p class="muted small">There are more workers or datums than are shown.</p>}
      <Table timeline={timeline} />
    </div>
  );
}
