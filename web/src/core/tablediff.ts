// What differs between two tables: rows by a key, the first column whose cells are unique in both, or else by their position.
import type { Table } from "./table";

export interface RowDiff {
  side: "old" | "new" | "changed";
  row: number; // of the new table, of a row that is gone of the old one; from 1
  old: string[] | null;
  new: string[] | null;
}

export interface TableDiff {
  columns: string[];
  key: number; // column that names the rows; -1: by position
  added: number;
  removed: number;
  changed: number;
  rows: RowDiff[]; // the first ROWS_MAX that differ, in the order of the new table; what is gone comes last
  more: boolean; // not all that differs is in rows
  gone: string[]; // columns that only the old table has
  fresh: Set<string>; // columns that only the new one has
}

const ROWS_MAX = 1000;

// The first column of both whose cells are all there and all different; -1: there is none.
export function keyOf(before: Table, after: Table): number {
  return after.columns.findIndex((column) => {
    const old = before.columns.indexOf(column);
    const now = after.columns.indexOf(column);
    const unique = (rows: string[][], at: number) => rows.every((row) => row[at]) && new Set(rows.map((row) => row[at])).size === rows.length;
    return old >= 0 && unique(before.rows, old) && unique(after.rows, now);
  });
}

export function diffTables(before: Table, after: Table): TableDiff {
  // cells of the old table in the order of the new one's columns
  const from = after.columns.map((column) => before.columns.indexOf(column));
  const key = keyOf(before, after);
  const arranged = before.rows.map((row) => from.map((at) => (at < 0 ? "" : (row[at] ?? ""))));
  const out: TableDiff = {
    columns: after.columns, key, added: 0, removed: 0, changed: 0, rows: [], more: false,
    gone: before.columns.filter((column) => !after.columns.includes(column)), fresh: new Set(after.columns.filter((column) => !before.columns.includes(column))),
  };
  const note = (one: RowDiff) => {
    out[one.side === "new" ? "added" : one.side === "old" ? "removed" : "changed"]++;
    if (out.rows.length < ROWS_MAX) out.rows.push(one);
    else out.more = true;
  };
  const left = new Map(arranged.map((row, i) => [key < 0 ? String(i) : row[key]!, i] as const));
  after.rows.forEach((row, i) => {
    const name = key < 0 ? String(i) : row[key]!;
    const at = left.get(name);
    left.delete(name);
    if (at === undefined) note({ side: "new", row: i + 1, old: null, new: row });
    else if (after.columns.some((_, k) => from[k]! >= 0 && arranged[at]![k] !== (row[k] ?? ""))) note({ side: "changed", row: i + 1, old: arranged[at]!, new: row });
  });
  for (const at of left.values()) note({ side: "old", row: at + 1, old: arranged[at]!, new: null });
  return out;
}

// "2 rows are new, 1 changed, by image", or that only columns differ.
export function tableWords(diff: TableDiff, whole: boolean): string {
  const rows = (n: number) => `${n.toLocaleString("en-US")} ${n === 1 ? "row" : "rows"}`;
  const parts = [diff.added && `${rows(diff.added)} new`, diff.changed && `${rows(diff.changed)} changed`, diff.removed && `${rows(diff.removed)} gone`].filter(Boolean);
  const columns = [diff.fresh.size && `new: ${[...diff.fresh].join(", ")}`, diff.gone.length && `gone: ${diff.gone.join(", ")}`].filter(Boolean);
  const how = diff.key < 0 ? "rows by position" : `rows by ${diff.columns[diff.key]}`;
  return `${parts.length ? parts.join(", ") : "No row differs"}${columns.length ? `; columns ${columns.join("; ")}` : ""} (${how}${whole ? "" : ", of the first part"})`;
}
