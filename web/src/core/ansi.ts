// Colours of a terminal as classes: pieces of a line, each with the classes of the style sheet. All other controls are taken away or
// drawn as escapes.
import { text } from "./foreign";

export interface Piece {
  text: string;
  class: string;
}

const SEQUENCE = /\u001b(?:\[([0-9;:]*)([ -/]*[@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g; // CSI, OSC with its end, others of two bytes

function apply(codes: string, style: Set<string>, colour: { of: string }): void {
  const numbers = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i++) {
    const code = numbers[i]!;
    if (code === 0) {
      style.clear();
      colour.of = "";
    } else if (code === 1) style.add("ansi-bold");
    else if (code === 2) style.add("ansi-dim");
    else if (code === 4) style.add("ansi-line");
    else if (code === 22) ["ansi-bold", "ansi-dim"].forEach((one) => style.delete(one));
    else if (code === 24) style.delete("ansi-line");
    else if (code >= 30 && code <= 37) colour.of = `ansi-${code - 30}`;
    else if (code >= 90 && code <= 97) colour.of = `ansi-${code - 90}`;
    else if (code === 39) colour.of = "";
    else if (code === 38 || code === 48) {
      const fits = numbers[i + 1] === 5 && code === 38 && (numbers[i + 2] ?? 99) < 16;
      if (fits) colour.of = `ansi-${numbers[i + 2]! % 8}`;
      i += numbers[i + 1] === 5 ? 2 : numbers[i + 1] === 2 ? 4 : 0;
    }
  }
}

export function pieces(line: string): Piece[] {
  const out: Piece[] = [];
  const style = new Set<string>();
  const colour = { of: "" };
  let at = 0;
  const add = (part: string) => {
    if (part) out.push({ text: text(part), class: [...style, colour.of].filter(Boolean).join(" ") });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(line.slice(at, match.index));
    if (match[2] === "m") apply(match[1] ?? "", style, colour);
    at = match.index + match[0].length;
  }
  add(line.slice(at));
  return out;
}

export function plain(line: string): string {
  return pieces(line).map((one) => one.text).join("");
}
