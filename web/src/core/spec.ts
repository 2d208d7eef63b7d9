// A spec that is being written: where a mistake is in its text.

// The offset of a line and column, both from 1; columns count bytes of UTF-8, as the daemon does.
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let i = 1; i < line; i++) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  let bytes = 1;
  let at = start;
  for (const one of text.slice(start)) {
    if (bytes >= column || one === "\n") break;
    const code = one.codePointAt(0)!;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    at += one.length;
  }
  return at;
}
