// Comma and tab separated text as rows, and what its columns hold.

const CELL_MAX = 4096;
const ROWS_MAX = 5000;

export interface Table {
  columns: string[];
  rows: string[][];
  whole: boolean; // false: there is more text, or more rows than are kept
}

// RFC 4180: quotes around cells, doubled inside. A cut text's last line is left out.
export function parseTable(text: string, separator: string, whole: boolean): Table | null {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  const endCell = () => {
    row.push(cell.length > CELL_MAX ? `${cell.slice(0, CELL_MAX)}…` : cell);
    cell = "";
  };
  const endRow = () => {
    endCell();
    rows.push(row);
    row = [];
  };
  let i = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  for (; i < text.length && rows.length <= ROWS_MAX; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[++i];
      else quoted = false;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === separator) endCell();
    else if (c === "\n") endRow();
    else if (c !== "\r" || text[i + 1] !== "\n") cell += c;
  }
  if (whole && i >= text.length && (cell || row.length)) endRow();
  const columns = rows.shift();
  if (!columns || columns.length < 2) return null; // one column is text
  return { columns, rows, whole: whole && i >= text.length };
}

export interface Column {
  numbers: boolean;
  words: string; // "0 – 179", "3 values"
  bins: number[]; // of numbers: how many in each of 12 equal parts; else empty
}

const BINS = 12;
const VALUES_MAX = 1000;

export function describe(rows: string[][], at: number): Column {
  const cells = rows.map((row) => row[at] ?? "").filter((cell) => cell !== "");
  const numbers = cells.map(Number);
  if (cells.length > 0 && numbers.every(Number.isFinite)) {
    const least = numbers.reduce((a, b) => Math.min(a, b), Infinity);
    const most = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
    const bins = Array.from({ length: BINS }, () => 0);
    if (most > least) for (const n of numbers) bins[Math.min(BINS - 1, Math.floor(((n - least) / (most - least)) * BINS))]!++;
    const show = (n: number) => (Number.isInteger(n) ? String(n) : n.toPrecision(3));
    return { numbers: true, words: most > least ? `${show(least)} – ${show(most)}` : show(least), bins: most > least ? bins : [] };
  }
  const values = new Set(cells.slice(0, VALUES_MAX)).size;
  return { numbers: false, words: values === 1 ? "1 value" : `${values} values`, bins: [] };
}
