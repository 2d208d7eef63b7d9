// A table of any size, a piece at a time by range: rows from a byte on, and where the rows after them begin.
import { request } from "../api/client";
import { parseTable } from "./table";

export const PIECE_BYTES = 256 * 1024;
export const PIECE_ROWS = 500; // most rows of a piece: all of them are drawn

export interface Piece {
  from: number; // byte of the first row
  to: number; // byte after the last whole row; the next piece begins there
  rows: string[][];
}

// Rows in bytes that begin with a row. Without a row that ends in them, all of the bytes are one row that is cut off.
export function piece(bytes: Uint8Array, from: number, separator: string, end: boolean): Piece {
  const text = new TextDecoder("utf-8", { ignoreBOM: true });
  const whole = wholeRows(bytes);
  const used = whole.rows === PIECE_ROWS || (!end && whole.bytes > 0) ? whole.bytes : bytes.length;
  const table = parseTable(`_${separator}_\n${text.decode(bytes.subarray(0, used))}`, separator, true);
  return { from, to: from + used, rows: table?.rows ?? [] };
}

// The rows that end in the bytes, at most those of a piece, and the bytes up to their end: line ends within quotes end no row.
export function wholeRows(bytes: Uint8Array): { rows: number; bytes: number } {
  let quoted = false;
  const whole = { rows: 0, bytes: 0 };
  for (let i = 0; i < bytes.length && whole.rows < PIECE_ROWS; i++) {
    if (bytes[i] === 0x22) quoted = !quoted;
    else if (bytes[i] === 0x0a && !quoted) {
      whole.rows++;
      whole.bytes = i + 1;
    }
  }
  return whole;
}

// Where the last rows begin, as many as a piece has.
export function lastRows(bytes: Uint8Array): number {
  let quoted = false;
  const begins = [0];
  for (let i = 0; i < bytes.length - 1; i++) {
    if (bytes[i] === 0x22) quoted = !quoted;
    else if (bytes[i] === 0x0a && !quoted) begins.push(i + 1);
  }
  return begins[Math.max(0, begins.length - PIECE_ROWS)]!;
}

// The byte after the first line end: where rows begin in bytes from the middle of a file. A line end within quotes is taken for one, too.
export function firstRow(bytes: Uint8Array): number {
  return bytes.indexOf(0x0a) + 1;
}

async function range(url: string, from: number, to: number, signal: AbortSignal): Promise<Uint8Array> {
  const response = await request(url, { signal, headers: { Range: `bytes=${from}-${to - 1}` } });
  return new Uint8Array(await response.arrayBuffer());
}

export async function readPiece(url: string, bytes: number, from: number, separator: string, signal: AbortSignal): Promise<Piece> {
  const to = Math.min(bytes, from + PIECE_BYTES);
  return piece(await range(url, from, to, signal), from, separator, to === bytes);
}

// The piece that begins with the first row after a byte: "half way"; of the end it has the last rows.
export async function readPieceNear(url: string, bytes: number, near: number, separator: string, signal: AbortSignal): Promise<Piece> {
  const begin = Math.max(0, Math.min(near, bytes - PIECE_BYTES));
  const to = Math.min(bytes, begin + PIECE_BYTES);
  const read = await range(url, begin, to, signal);
  const first = begin === 0 ? 0 : firstRow(read);
  const skip = near < bytes ? first : first + lastRows(read.subarray(first));
  return piece(read.subarray(skip), begin + skip, separator, to === bytes);
}
