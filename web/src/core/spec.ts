// A spec that is being written: where a mistake is in its text.

// The offset of a line and column, both from 1; columns count characters (code points), as the daemon does.
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let i = 1; i < line; i++) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  let chars = 1;
  let at = start;
  for (const one of text.slice(start)) {
    if (chars >= column || one === "\n") break;
    chars++;
    at += one.length;
  }
  return at;
}
