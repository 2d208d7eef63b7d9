// The lines that differ between two texts, by the longest common subsequence between the common beginning and end.

export type Side = "same" | "old" | "new";

export interface DiffLine {
  side: Side;
  text: string;
  old: number; // line number; 0: not in the old text
  new: number;
}

const CELLS_MAX = 4_000_000; // of the table of lengths

// null: the texts are too long to be compared line by line.
export function diffLines(before: string, after: string): DiffLine[] | null {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let endA = a.length;
  let endB = b.length;
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) {
    endA--;
    endB--;
  }
  const n = endA - from;
  const m = endB - from;
  if ((n + 1) * (m + 1) > CELLS_MAX) return null;
  const width = m + 1;
  const lengths = new Uint32Array((n + 1) * width);
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      lengths[i * width + j] = a[from + i] === b[from + j] ? lengths[(i + 1) * width + j + 1]! + 1 : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const out: DiffLine[] = [];
  for (let i = 0; i < from; i++) out.push({ side: "same", text: a[i]!, old: i + 1, new: i + 1 });
  let i = 0;
  let j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[from + i] === b[from + j]) {
      out.push({ side: "same", text: a[from + i]!, old: from + ++i, new: from + ++j });
    } else if (i < n && (j >= m || lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)) {
      out.push({ side: "old", text: a[from + i]!, old: from + ++i, new: 0 });
    } else {
      out.push({ side: "new", text: b[from + j]!, old: 0, new: from + ++j });
    }
  }
  for (let k = 0; endA + k < a.length; k++) out.push({ side: "same", text: a[endA + k]!, old: endA + k + 1, new: endB + k + 1 });
  return out;
}

export interface Fold {
  lines: DiffLine[];
  hidden: number; // equal lines that are left out before these
}

// Pieces around what differs, with so many equal lines around each.
export function folded(lines: DiffLine[], around = 3): Fold[] {
  const near = new Array<boolean>(lines.length).fill(false);
  lines.forEach((line, i) => {
    if (line.side !== "same") for (let k = Math.max(0, i - around); k <= Math.min(lines.length - 1, i + around); k++) near[k] = true;
  });
  const out: Fold[] = [];
  let hidden = 0;
  for (let i = 0; i < lines.length; i++) {
    if (!near[i]) {
      hidden++;
      continue;
    }
    const last = out[out.length - 1];
    if (last && hidden === 0) last.lines.push(lines[i]!);
    else out.push({ lines: [lines[i]!], hidden });
    hidden = 0;
  }
  if (hidden > 0) out.push({ lines: [], hidden });
  return out;
}

export interface SideRow {
  old: DiffLine | null;
  new: DiffLine | null;
}

// The same lines in two columns: what was replaced stands beside what replaced it.
export function sideBySide(lines: DiffLine[]): SideRow[] {
  const out: SideRow[] = [];
  let gone: DiffLine[] = [];
  let fresh: DiffLine[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, fresh.length); i++) out.push({ old: gone[i] ?? null, new: fresh[i] ?? null });
    gone = [];
    fresh = [];
  };
  for (const line of lines) {
    if (line.side === "old") gone.push(line);
    else if (line.side === "new") fresh.push(line);
    else {
      flush();
      out.push({ old: line, new: line });
    }
  }
  flush();
  return out;
}
