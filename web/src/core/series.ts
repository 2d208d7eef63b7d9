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
