// Results of a stage side by side: a result is one datum of one job, with its parameters and what its figures came to.
import type { MetricResult } from "../api/schema";
import { name } from "./foreign";
import { figure, number } from "./format";
import { isOver } from "./states";

export type Goal = "min" | "max";

export interface Result extends MetricResult {
  key: string; // for the address: the run, with the datum if the run has several results
  live: boolean;
}

const SHORT = 8;
export const CHOSEN = 8; // results that are drawn if the address names none

export const paramsOf = (one: MetricResult) => one.params as Record<string, unknown>;

export function resultsOf(list: MetricResult[]): Result[] {
  const perRun = new Map<string, number>();
  for (const one of list) perRun.set(one.run, (perRun.get(one.run) ?? 0) + 1);
  return list.map((one) => ({ ...one, key: one.run.slice(0, SHORT) + (perRun.get(one.run)! > 1 ? `.${one.datum.slice(0, SHORT)}` : ""), live: !isOver(one.state) }));
}

export function bestPoint(result: MetricResult, metric: string, goal: Goal): { step: number; value: number } | undefined {
  return result.figures.find((one) => one.name === metric)?.[goal];
}

// The best first; those without the metric last, in their order.
export function ranked<T extends MetricResult>(results: T[], metric: string, goal: Goal): T[] {
  const value = (one: T) => bestPoint(one, metric, goal)?.value;
  return results.map((one, i) => ({ one, i, at: value(one) })).sort((a, b) => {
    if (a.at === undefined || b.at === undefined) return Number(a.at === undefined) - Number(b.at === undefined) || a.i - b.i;
    return (goal === "max" ? b.at - a.at : a.at - b.at) || a.i - b.i;
  }).map(({ one }) => one);
}

// A value of a parameter as text.
export function valueText(value: unknown): string {
  return value === undefined ? "–" : name(typeof value === "string" ? value : typeof value === "number" ? String(value) : JSON.stringify(value) ?? "–");
}

// Names of all parameters: those that are not the same in all results, and the others.
export function parametersOf(results: MetricResult[]): { differ: string[]; same: string[] } {
  const names = [...new Set(results.flatMap((one) => Object.keys(one.params)))];
  const alike = (key: string) => new Set(results.map((one) => JSON.stringify(paramsOf(one)[key]))).size <= 1;
  return { differ: names.filter((key) => !alike(key)), same: names.filter(alike) };
}

export function metricsOf(results: MetricResult[]): string[] {
  return [...new Set(results.flatMap((one) => one.figures.map(({ name: of }) => of)))];
}

// Those whose run, state or parameters have the text: "lr=0.1", "c41d".
export function matching<T extends Result>(results: T[], q: string): T[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const all = (one: T) => [one.run, one.state, one.as, ...Object.entries(one.params).map(([key, value]) => `${key}=${valueText(value)}`)].join(" ").toLowerCase();
  return results.filter((one) => words.every((word) => all(one).includes(word)));
}

// Those that the address names, in the order of `ranking`; without any the best, and what is live.
export function chosenOf<T extends Result>(ranking: T[], named: string): T[] {
  const keys = new Set(named.split(",").filter(Boolean));
  if (keys.size > 0) return ranking.filter((one) => keys.has(one.key));
  return ranking.filter((one, i) => i < CHOSEN || one.live);
}

// How the n-th line is drawn. Lines of one colour differ in their dashes, and those beside each other in both.
const DASHES = [undefined, "7 3", "2 3", "9 3 2 3", "14 4"] as const;

export function styleOf(n: number): { colour: number; dash: string | undefined } {
  return { colour: (n % 5) + 1, dash: DASHES[(n + Math.floor(n / 5)) % DASHES.length] };
}

// Round numbers from `low` to `high`, about `count` of them.
export function ticks(low: number, high: number, count = 4): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough)!;
  const first = Math.ceil(low / step - 1e-9);
  const out: number[] = [];
  for (let i = first; i * step <= high + step * 1e-9 && out.length < 50; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

// "0.8", "1,000", "2.5e-7"
export function tickText(value: number): string {
  const size = Math.abs(value);
  if (value !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential().replace("e+", "e");
  return Number.isInteger(value) ? figure(value) : String(value);
}

// The few digits that tell a result from the others on a chart.
export const labelOf = (result: Result): string => (result.key.split(".")[1] ?? result.key).slice(0, 6);

export interface Scale {
  low: number;
  high: number;
  at: (value: number) => number;
}

// Maps values to places from `from` to `to`, with a little room around if `round`.
export function scaleOf(values: number[], from: number, to: number, room = 0): Scale {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!Number.isFinite(low)) [low, high] = [0, 1];
  const more = high > low ? (high - low) * room : Math.abs(high) * 0.1 || 1;
  if (room > 0 || high === low) [low, high] = [low - more, high + more];
  return { low, high, at: (value) => from + ((value - low) / (high - low)) * (to - from) };
}

export function linePath(steps: number[], values: number[], x: Scale, y: Scale): string {
  return steps.map((step, i) => `${i ? "L" : "M"}${x.at(step).toFixed(1)} ${y.at(values[i]!).toFixed(1)}`).join("");
}

// Moves labels apart that lie nearer than `gap`, downwards, and up again from the bottom. Takes places in any order.
export function apart(places: number[], gap: number, bottom: number): number[] {
  const order = places.map((_, i) => i).sort((a, b) => places[a]! - places[b]!);
  const out = [...places];
  order.forEach((i, n) => n > 0 && (out[i] = Math.max(out[i]!, out[order[n - 1]!]! + gap)));
  let limit = bottom;
  for (const i of order.reverse()) {
    out[i] = Math.min(out[i]!, limit);
    limit = out[i]! - gap;
  }
  return out;
}

export interface Spot {
  x: number; // the value, or the number of the category
  y: number;
  result: Result;
}

// Best values over one parameter: numbers lie at their value, or at equal distances if they are few or not all numbers.
export function scatterOf(results: Result[], metric: string, goal: Goal, parameter: string): { spots: Spot[]; categories: string[] } {
  const own = results.filter((one) => bestPoint(one, metric, goal) && paramsOf(one)[parameter] !== undefined);
  const value = (one: Result) => paramsOf(one)[parameter];
  const numbers = own.every((one) => typeof value(one) === "number");
  const distinct = [...new Set(own.map((one) => valueText(value(one))))];
  if (numbers) distinct.sort((a, b) => Number(a) - Number(b));
  const few = !numbers || distinct.length <= 8;
  const spots = own.map((one) => ({ result: one, y: bestPoint(one, metric, goal)!.value, x: few ? distinct.indexOf(valueText(value(one))) : (value(one) as number) }));
  return { spots, categories: few ? distinct : [] };
}

// As CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front.
export function csvOf(results: Result[], goal: Goal): string {
  const parameters = parametersOf(results);
  const params = [...parameters.differ, ...parameters.same];
  const metrics = metricsOf(results);
  const cell = (value: unknown) => {
    const text = value === undefined || value === null ? "" : typeof value === "string" ? (/^[=+\-@\t\r]/.test(value) ? `'${value}` : value) : typeof value === "number" ? String(value) : JSON.stringify(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const head = ["run", "datum", "state", ...params, ...metrics.flatMap((of) => [`last ${of}`, `${goal} ${of}`, `step of ${goal} ${of}`])];
  const rows = results.map((one) => [one.run, one.datum, one.state, ...params.map((key) => paramsOf(one)[key]),
    ...metrics.flatMap((of) => {
      const found = one.figures.find((candidate) => candidate.name === of);
      return [found?.last.value, found?.[goal].value, found?.[goal].step];
    })]);
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

// "Best val_acc is 0.8712: run 77aa01de, lr 0.0003." `of`: there are older results than these, which were not looked at; 0: there are none.
export function headlineOf(stage: string, ranking: Result[], metric: string, goal: Goal, of = 0): string {
  const best = ranking[0];
  const point = best && bestPoint(best, metric, goal);
  if (!best || !point) return `${name(stage)} wrote no metrics.jsonl.`;
  const with_ = parametersOf(ranking).differ.slice(0, 3).filter((key) => key in best.params).map((key) => `${name(key)} ${valueText(paramsOf(best)[key])}`);
  return ranking.length === 1 ? `${name(metric)} reached ${figure(point.value)} in run ${best.key}.` : `${of ? `Best of the newest ${number(of)}: ${name(metric)}` : `Best ${name(metric)}`} is ${figure(point.value)}: ${["run " + best.key, ...with_].join(", ")}.`;
}
