// Which lines of a long log are drawn and which must be loaded. Lines count from 1 and have one height. An element cannot be as high
// as ten million lines are: above MAX_PX a place of the scroll bar stands for a share of the log.

export const LINE_PX = 20;
export const MAX_PX = 8_000_000;
export const AROUND = 60; // lines drawn above and below the view
export const PAGE = 200; // lines that are asked for at once

export const heightOf = (total: number): number => Math.min(total * LINE_PX, MAX_PX);

// The line at the upper edge of the view, from 0 on, with its fraction.
export function topLine(scrollTop: number, total: number, view: number): number {
  if (total * LINE_PX <= MAX_PX) return Math.max(0, scrollTop) / LINE_PX;
  const share = Math.min(1, Math.max(0, scrollTop) / Math.max(1, MAX_PX - view));
  return share * Math.max(0, total - view / LINE_PX);
}

// Where the scroll bar must be for that line, from 0 on, to be at the upper edge.
export function scrollFor(line: number, total: number, view: number): number {
  if (total * LINE_PX <= MAX_PX) return Math.max(0, line * LINE_PX);
  const most = Math.max(1, total - view / LINE_PX);
  return Math.min(1, Math.max(0, line / most)) * (MAX_PX - view);
}

export interface Drawn {
  from: number; // first line drawn, from 1
  to: number; // last line drawn
  above: number; // px of room above it
  below: number;
}

export function drawnOf(scrollTop: number, total: number, view: number): Drawn {
  const top = topLine(scrollTop, total, view);
  const from = Math.max(1, Math.floor(top) + 1 - AROUND);
  const to = Math.min(total, Math.ceil(top + view / LINE_PX) + AROUND);
  const above = Math.max(0, Math.min(scrollTop, MAX_PX) - (top - (from - 1)) * LINE_PX);
  return { from, to, above, below: Math.max(0, heightOf(total) - above - (to - from + 1) * LINE_PX) };
}

// The first lines from..to that are not there, a little more than is missing so that pages are whole; null: all are.
export function missing(have: { has: (line: number) => boolean }, from: number, to: number, total: number): { line: number; limit: number } | null {
  for (let line = from; line <= to; line++) {
    if (have.has(line)) continue;
    let limit = 1;
    while (limit < PAGE && line + limit <= total && !have.has(line + limit)) limit++;
    return { line, limit };
  }
  return null;
}

// Forgets lines far from the view when there are more than `most`.
export function forget<T>(lines: Map<number, T>, from: number, to: number, most: number): void {
  if (lines.size <= most) return;
  for (const line of lines.keys()) if (line < from - most / 4 || line > to + most / 4) lines.delete(line);
}

// "#L123" → 123; 0: it names no line.
export function lineOfHash(hash: string): number {
  const found = /^#L([1-9]\d{0,14})$/.exec(hash);
  return found ? Number(found[1]) : 0;
}
