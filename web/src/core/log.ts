// A log as it comes, in bounded memory: the newest lines are kept, the others are counted.
import { logLine } from "./foreign";

export const KEPT_LINES = 200_000;
const LINE_MAX = 16_384;

export class LogLines {
  lines: string[] = [];
  dropped = 0; // lines above the first that is kept
  bytes = 0;
  private rest = "";

  constructor(private readonly kept = KEPT_LINES) {}

  push(piece: string): void {
    this.bytes += piece.length;
    const parts = (this.rest + piece).split("\n");
    this.rest = parts.pop()!;
    if (this.rest.length > LINE_MAX) this.rest = this.rest.slice(this.rest.length - LINE_MAX); // a progress bar that never ends its line
    for (const part of parts) this.lines.push(logLine(part.slice(-LINE_MAX)));
    if (this.lines.length > this.kept * 1.1) {
      const over = this.lines.length - this.kept;
      this.lines.splice(0, over);
      this.dropped += over;
    }
  }

  // All lines, with the one that is not ended yet.
  get shown(): string[] {
    const last = logLine(this.rest);
    return last ? [...this.lines, last] : this.lines;
  }
}

const BAD = /\b(error|exception|traceback|fatal|panic|segmentation fault|killed)\b/i;

export function isBad(line: string): boolean {
  return BAD.test(line);
}

// The next line after `at` (before it with step -1) for which `fits` holds, around the end; -1: there is none.
export function nextLine(lines: string[], at: number, step: 1 | -1, fits: (line: string) => boolean): number {
  for (let i = 1; i <= lines.length; i++) {
    const place = (((at + step * i) % lines.length) + lines.length) % lines.length;
    if (fits(lines[place]!)) return place;
  }
  return -1;
}
