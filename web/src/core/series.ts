// Figures of the lines of metrics.jsonl.

const NOT_SHOWN = new Set(["step", "epoch", "progress"]);

export const isShown = (key: string): boolean => !NOT_SHOWN.has(key);

// Names of the figures of the newest line that has some, results before the rest: "acc" and "loss" of the validation come first.
export function figuresOf(lines: unknown[]): string[] {
  const rank = (key: string) => (/^(val|test|eval)[_/-]?/i.test(key) ? 0 : /acc|f1|auc|score|loss|error/i.test(key) ? 1 : 2);
  for (const line of lines) {
    const found = Object.entries((line ?? {}) as Record<string, unknown>).filter(([key, value]) => isShown(key) && typeof value === "number" && Number.isFinite(value)).map(([key]) => key);
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
