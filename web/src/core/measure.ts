// How wide text is in the page's font, for labels in drawings.

let context: CanvasRenderingContext2D | null | undefined;
let family = "";
let set = ""; // the context's font
const known = new Map<string, number>();
const KEPT = 20_000;

// In px, for text of 12 or 13 px in the page's font. Without a canvas, by the widest font in use.
export function widthOf(text: string, weight: 400 | 600 = 400, px = 12): number {
  const key = `${weight} ${px} ${text}`;
  let width = known.get(key);
  if (width !== undefined) return width;
  context ??= typeof document === "undefined" ? null : document.createElement("canvas").getContext("2d");
  if (context) {
    // asked once: the browser would compute the page's style again for each text while a drawing grows
    family ||= getComputedStyle(document.body).fontFamily;
    const font = `${weight} ${px}px ${family}`;
    if (font !== set) context.font = set = font;
    width = context.measureText(text).width;
  } else {
    width = text.length * px * 0.62;
  }
  if (known.size > KEPT) known.clear();
  known.set(key, width);
  return width;
}

// The text, ended by an ellipsis where it is wider than `most`.
export function fit(text: string, most: number, weight: 400 | 600 = 400, px = 12): string {
  if (widthOf(text, weight, px) <= most) return text;
  let [least, cut] = [0, text.length];
  while (least < cut) {
    const middle = Math.ceil((least + cut) / 2);
    if (widthOf(`${text.slice(0, middle)}…`, weight, px) <= most) least = middle;
    else cut = middle - 1;
  }
  return `${text.slice(0, least).trimEnd()}…`;
}
