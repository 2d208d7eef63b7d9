// When each stage waited and worked in a run. The same times are in the tables beside it.
import type { Job, Run } from "../api/schema";
import { name } from "../core/foreign";
import { clock, duration } from "../core/format";
import { now } from "../core/now";
import { waitReason } from "../core/runs";
import { isWaiting, isOver } from "../core/states";

const W = 1032;
const LEFT = 180;
const ROW = 26;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800].map((s) => s * 1000)];

// Round times for about six ticks between two moments (ms).
export function ticks(from: number, to: number): number[] {
  const step = STEPS.find((one) => (to - from) / one <= 7) ?? STEPS[STEPS.length - 1]!;
  const out: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) out.push(at);
  return out;
}

export function tickText(ms: number, span: number): string {
  const text = clock(ms * 1000, span);
  if (span < 8_000) return text.slice(3);
  return span < 600_000 ? text : text.slice(0, 5);
}

export function Timeline({ run, jobs }: { run: Run; jobs: Job[] }) {
  const over = isOver(run.state);
  const from = run.created_us / 1000;
  const end = over ? (run.finished_us ?? run.created_us) / 1000 : now.value;
  const to = from + Math.max(200, (end - from) * (over ? 1.02 : 1.06));
  const x = (ms: number) => LEFT + ((Math.min(Math.max(ms, from), to) - from) / (to - from)) * (W - LEFT);
  const h = 30 + jobs.length * ROW + 6;
  return (
    <div class="panel pad scroll" tabIndex={0} role="group" aria-label="Timeline">
      <svg class="tl" viewBox={`0 0 ${W} ${h}`} role="img" aria-label="Timeline of the run, stage by stage; the tables have the same times">
        {ticks(from, to).filter((at) => x(at) > LEFT + 20 && x(at) < W - 20 && (over || Math.abs(x(at) - x(end)) > 48)).map((at) => (
          <g key={at}><path class="grid" d={`M${x(at)} 24V${h}`} /><text x={x(at)} y="16" text-anchor="middle">{tickText(at, to - from)}</text></g>
        ))}
        {jobs.map((job, i) => {
          const y = 30 + i * ROW;
          const began = job.created_us / 1000;
          const started = job.started_us ? job.started_us / 1000 : isOver(job.state) ? (job.finished_us ?? job.created_us) / 1000 : end;
          const finished = job.finished_us ? job.finished_us / 1000 : end;
          const waited = x(started) - x(began);
          const words = job.started_us ? `${name(job.stage)}: waited ${duration(started - began)}, worked ${duration(finished - started)}` : `${name(job.stage)} waits ${waitReason(job)}`;
          return (
            <g key={job.stage}>
              <title>{words}</title>
              <text class="name" x="0" y={y + 12}>{name(job.stage).slice(0, 22)}</text>
              {waited > 2 && <rect class="p-wait" x={x(began)} y={y + 1} width={waited} height="13" rx="2" />}
              {!job.started_us && isWaiting(job) && waited > 140 && <text x={x(began) + 8} y={y + 12}>{`waits ${waitReason(job)}`.slice(0, Math.floor(waited / 7))}</text>}
              {job.started_us && <rect class={job.device === "gpu" ? "p-gpu" : "p-cpu"} x={x(started)} y={y} width={Math.max(1, x(finished) - x(started))} height="14" rx="2" />}
            </g>
          );
        })}
        {!over && <><path class="now" d={`M${x(end)} 20V${h}`} /><text class="nowtext" x={x(end)} y="16" text-anchor="end">now</text></>}
      </svg>
    </div>
  );
}
