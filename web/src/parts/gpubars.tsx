// What GPUs did, as bars: computing below, held idle hatched above. The same numbers stand in a table.
import { clock, number, percent } from "../core/format";
import { type Step, joined } from "../core/gpus";
import { Hatch } from "./bar";

const [W, H, LEFT, TOP] = [296, 152, 22, 6];
const BASE = 118;

function steps4(most: number): number[] {
  const step = Math.max(1, Math.ceil(most / 4));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

const hour = (us: number) => clock(us).slice(0, 5);

// `words`: "the last 24 hours".
export function Day({ steps, id, words }: { steps: Step[]; id: string; words: string }) {
  const most = Math.max(1, ...steps.map((step) => Math.ceil(Math.max(step.capacity, step.computes + step.idle) - 0.05)));
  const y = (gpus: number) => BASE - (gpus / most) * (BASE - TOP);
  const width = (W - LEFT) / steps.length;
  const known = steps.filter((step) => step.known);
  const mean = (of: (step: Step) => number) => (known.length ? known.reduce((sum, step) => sum + of(step), 0) / known.length : 0).toFixed(1);
  const title = words.charAt(0).toUpperCase() + words.slice(1);
  const label = known.length ? `${title}: on average ${mean((s) => s.computes)} of ${mean((s) => s.capacity)} GPUs computed and ${mean((s) => s.idle)} were held idle` : `${title}: nothing is recorded yet`;
  return (
    <>
      <svg class="day" viewBox={`0 0 ${W} ${H - 16}`} role="img" aria-label={label}>
        <Hatch id={id} />
        {steps4(most).map((n) => <g key={n}><path class="grid" d={`M${LEFT} ${y(n)}H${W}`} /><text x={LEFT - 6} y={y(n) + 4} text-anchor="end">{n}</text></g>)}
        {steps.map((step, i) => {
          const x = LEFT + i * width;
          const gap = width > 2.5 ? 0.6 : 0;
          return step.known && (
            <g key={i}>
              {step.computes > 0.004 && <rect class="p-gpu" x={x} width={width - gap} y={y(step.computes)} height={BASE - y(step.computes)} />}
              {step.idle > 0.004 && <rect fill={`url(#${id})`} x={x} width={width - gap} y={y(step.computes + step.idle)} height={y(step.computes) - y(step.computes + step.idle)} />}
            </g>
          );
        })}
        {steps.map((step, i) => !step.known && <rect key={i} class="unknown" x={LEFT + i * width} width={width} y={TOP} height={BASE - TOP} />)}
        <path class="axis" d={`M${LEFT} ${BASE}H${W}`} />
        {[0, 1, 2].map((n) => <text key={n} x={LEFT + ((W - LEFT) * n) / 3} y={BASE + 14} text-anchor={n === 0 ? "start" : "middle"}>{hour(steps[Math.floor((steps.length * n) / 3)]!.fromUs)}</text>)}
        <text x={W} y={BASE + 14} text-anchor="end">now</text>
      </svg>
      <p class="legend small muted"><svg viewBox="0 0 16 9" aria-hidden="true"><rect class="p-gpu" width="16" height="9" rx="2" /></svg>computes <svg viewBox="0 0 16 9" aria-hidden="true"><rect fill={`url(#${id})`} width="16" height="9" rx="2" /></svg>held, idle <svg viewBox="0 0 16 9" aria-hidden="true"><rect class="unknown" width="16" height="9" rx="2" /></svg>no record</p>
      <DayTable steps={steps} />
    </>
  );
}

// The table behind the curve: of a day, an hour a row.
function DayTable({ steps }: { steps: Step[] }) {
  return (
    <details class="behind"><summary>As a table</summary>
      <table class="list" aria-label="GPUs over time"><thead><tr><th>From</th><th class="num">Compute</th><th class="num">Idle</th><th class="num">Of</th><th class="num">Busy</th></tr></thead>
        <tbody>{joined(steps, 24).reverse().map((step) => (
          <tr key={step.fromUs}><td>{hour(step.fromUs)}</td>{step.known ? <><td class="num">{step.computes.toFixed(1)}</td><td class="num">{step.idle.toFixed(1)}</td><td class="num">{number(Math.round(step.capacity))}</td><td class="num">{step.busy === null ? "–" : percent(step.busy, 100)}</td></> : <td class="muted" colSpan={4}>no record</td>}</tr>
        ))}</tbody></table>
    </details>
  );
}

// The last hour of one card, a bar a minute: its height is how busy it was, or how much of the minute it computed.
export function Hour({ steps, id, label }: { steps: Step[]; id: string; label: string }) {
  const width = 120 / steps.length;
  return (
    <svg class="s" viewBox="0 0 120 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <Hatch id={id} wide={3.5} />
      <path class="axis" d="M0 23.5H120" />
      {steps.map((step, i) => {
        const of = Math.max(step.capacity, 1e-9);
        const share = step.busy !== null && step.computes > 0 ? Math.min(1, step.busy / 100) : Math.min(1, step.computes / of);
        const idle = Math.min(1, step.idle / of);
        return step.known && (
          <g key={i}>
            {idle > 0.02 && <rect fill={`url(#${id})`} x={i * width} width={width} y={23 - 22 * Math.max(idle, share)} height={22 * Math.max(idle, share)} />}
            {step.computes > 0 && share > 0.005 && <rect class="p-gpu" x={i * width} width={width * 0.8} y={23 - 22 * share} height={22 * share} />}
          </g>
        );
      })}
    </svg>
  );
}
