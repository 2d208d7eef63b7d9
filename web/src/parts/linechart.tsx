// Curves over each other, and values over one parameter, as own SVG: text that can be read out, colours of the theme, and a line
// style beside each colour. Loaded with the page of metrics only.
import { middle, name } from "../core/foreign";
import { figure } from "../core/format";
import { type Result, type Spot, apart, labelOf, linePath, scaleOf, styleOf, tickText, ticks } from "../core/results";

const [W, H, LEFT, RIGHT, TOP, FLOOR] = [496, 236, 56, 76, 12, 28];
const NARROW = 304; // the plot over a parameter

export interface Line {
  result: Result;
  style: number;
  best: boolean;
  steps: number[];
  values: number[];
}

function Axes({ x, y, right, xLabels }: { x: ReturnType<typeof scaleOf>; y: ReturnType<typeof scaleOf>; right: number; xLabels?: string[] }) {
  return (
    <>
      {ticks(y.low, y.high).map((at) => <g key={`y${at}`}><path class="grid" d={`M${LEFT} ${y.at(at).toFixed(1)}H${right}`} /><text x={LEFT - 8} y={y.at(at) + 4} text-anchor="end">{tickText(at)}</text></g>)}
      {xLabels
        ? xLabels.map((label, i) => <text key={`x${i}`} x={x.at(i)} y={H - 8} text-anchor="middle"><title>{label}</title>{middle(label, Math.max(4, Math.floor(34 / xLabels.length)))}</text>)
        : ticks(x.low, x.high, 5).map((at) => <text key={`x${at}`} x={x.at(at)} y={H - 8} text-anchor="middle">{tickText(at)}</text>)}
    </>
  );
}

// The style of a line, for tables and legends.
export function Sample({ style, best = false }: { style: number; best?: boolean }) {
  const { colour, dash } = styleOf(style);
  return <svg class="ch sample" viewBox="0 0 24 10" width="24" height="10" aria-hidden="true"><path class={`l c${colour} ${best ? "best" : ""}`} stroke-dasharray={dash} d="M0 5h24" /></svg>;
}

export function LineChart({ metric, lines }: { metric: string; lines: Line[] }) {
  const drawn = lines.filter((line) => line.values.length > 0);
  const x = scaleOf(drawn.flatMap((line) => [line.steps[0]!, line.steps[line.steps.length - 1]!, ...line.steps]), LEFT, W - RIGHT);
  const y = scaleOf(drawn.flatMap((line) => line.values), H - FLOOR, TOP, 0.05);
  const ends = drawn.map((line) => ({ x: x.at(line.steps[line.steps.length - 1]!), y: y.at(line.values[line.values.length - 1]!) }));
  const places = apart(ends.map((end) => end.y), 13, H - FLOOR);
  return (
    <figure class="panel pad">
      <figcaption><b>{name(metric)}</b> <span class="faint">by step</span></figcaption>
      {drawn.length === 0 ? <p class="muted after">No result that is drawn has {name(metric)}.</p> : (
        <svg class="ch" viewBox={`0 0 ${W} ${H}`} role="img" aria-label={`${name(metric)} by step of ${drawn.length} results; the table below has the values`}>
          <Axes x={x} y={y} right={W - RIGHT} />
          {drawn.map((line) => {
            const { colour, dash } = styleOf(line.style);
            return <path key={line.result.key} class={`l c${colour} ${line.best ? "best" : ""}`} stroke-dasharray={dash} d={linePath(line.steps, line.values, x, y)} />;
          })}
          {drawn.map((line, i) => (
            <g key={line.result.key}>
              {(line.result.live || line.values.length === 1) && <circle class={`f${styleOf(line.style).colour}`} cx={ends[i]!.x} cy={ends[i]!.y} r="3.5" />}
              <text class={line.best ? "val" : ""} x={W - RIGHT + 8} y={places[i]! + 4}>{labelOf(line.result)}{line.result.live ? " •" : ""}<title>{line.result.key}{line.result.live ? ", live" : ""}</title></text>
            </g>
          ))}
        </svg>
      )}
    </figure>
  );
}

export function Scatter({ metric, parameter, spots, categories, styleOfKey, best }: { metric: string; parameter: string; spots: Spot[]; categories: string[]; styleOfKey: (key: string) => number; best: string }) {
  const x = scaleOf(categories.length ? [-0.5, categories.length - 0.5] : spots.map((spot) => spot.x), LEFT, NARROW - 24, categories.length ? 0 : 0.05);
  const y = scaleOf(spots.map((spot) => spot.y), H - FLOOR, TOP, 0.08);
  return (
    <figure class="panel pad">
      <figcaption><b>best {name(metric)}</b> <span class="faint">by {name(parameter)}</span></figcaption>
      <svg class="ch" viewBox={`0 0 ${NARROW} ${H}`} role="img" aria-label={`Best ${name(metric)} by ${name(parameter)} of ${spots.length} results; the table below has the values`}>
        <Axes x={x} y={y} right={NARROW - 24} {...(categories.length ? { xLabels: categories } : {})} />
        {spots.map((spot) => {
          const [cx, cy, first] = [x.at(spot.x), y.at(spot.y), spot.result.key === best];
          return (
            <g key={spot.result.key}>
              <circle class={`f${styleOf(styleOfKey(spot.result.key)).colour}`} cx={cx} cy={cy} r={first ? 6 : 4}><title>{spot.result.key}: {figure(spot.y)}</title></circle>
              {(first || spots.length <= 12) && <text class={first ? "val" : ""} x={cx > NARROW - 90 ? cx - 9 : cx + 9} y={cy + 4} text-anchor={cx > NARROW - 90 ? "end" : "start"}>{first ? "best " : ""}{labelOf(spot.result)}</text>}
            </g>
          );
        })}
      </svg>
    </figure>
  );
}
