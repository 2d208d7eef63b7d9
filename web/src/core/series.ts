// Series of figures from the lines of metrics.jsonl.

export interface Series {
  key: string;
  points: [number, number][]; // x: the step, or the number of the line
}

const POINTS_MAX = 500;
const NOT_SHOWN = new Set(["step", "epoch", "progress"]);

// Of n points at most `most`, the last one among them.
export function thinned<T>(points: T[], most = POINTS_MAX): T[] {
  if (points.length <= most) return points;
  const every = points.length / most;
  const out = Array.from({ length: most }, (_, i) => points[Math.floor(i * every)]!);
  out[most - 1] = points[points.length - 1]!;
  return out;
}

// Those figures that have two points at least, in the order in which they first came. Only of the first datum: several would mix.
export function seriesOf(lines: { datum: string; line: unknown }[]): Series[] {
  const series = new Map<string, Series>();
  lines.filter((one) => one.datum === lines[0]!.datum).forEach(({ line }, i) => {
    const figures = (typeof line === "object" && line !== null ? line : {}) as Record<string, unknown>;
    const step = typeof figures["step"] === "number" ? figures["step"] : typeof figures["epoch"] === "number" ? figures["epoch"] : i;
    for (const [key, value] of Object.entries(figures)) {
      if (NOT_SHOWN.has(key) || typeof value !== "number" || !Number.isFinite(value)) continue;
      const one = series.get(key) ?? { key, points: [] };
      one.points.push([step, value]);
      series.set(key, one);
    }
  });
  return [...series.values()].filter((one) => one.points.length > 1).map((one) => ({ key: one.key, points: thinned(one.points) }));
}

// Names of the figures of the newest line that has some, results before the rest: "acc" and "loss" of the validation come first.
export function figuresOf(lines: unknown[]): string[] {
  const rank = (key: string) => (/^(val|test|eval)[_/-]?/i.test(key) ? 0 : /acc|f1|auc|score|loss|error/i.test(key) ? 1 : 2);
  for (const line of lines) {
    const found = Object.entries((line ?? {}) as Record<string, unknown>).filter(([key, value]) => !NOT_SHOWN.has(key) && typeof value === "number" && Number.isFinite(value)).map(([key]) => key);
    if (found.length > 0) return found.map((key, i) => ({ key, i })).sort((a, b) => rank(a.key) - rank(b.key) || a.i - b.i).map(({ key }) => key);
  }
  return [];
}

// The values of one figure, oldest first, of lines with the newest first.
export function valuesOf(lines: unknown[], key: string): number[] {
  return lines.map((line) => ((line ?? {}) as Record<string, unknown>)[key]).filter((value): value is number => typeof value === "number" && Number.isFinite(value)).reverse();
}

export function sparkPath(values: number[], width: number, height: number): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const y = (value: number) => (high > low ? 2 + ((high - value) / (high - low)) * (height - 4) : height / 2);
  return values.map((value, i) => `${i ? "L" : "M"}${(2 + (i / Math.max(1, values.length - 1)) * (width - 4)).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}
