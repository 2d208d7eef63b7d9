// What kind of preview a file gets, by its name and its first bytes; and the reading of them.
import { request } from "../api/client";
import { size } from "./format";
import { jsonError } from "./jsonplace";

export type Kind = "table" | "json" | "text" | "picture" | "audio" | "video" | "none";

export const FIRST_BYTES = 256 << 10;
export const PICTURE_MAX = 24 << 20;

const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp", svg: "image/svg+xml", ico: "image/x-icon" };
// as the daemon names their types (media_type.c)
const SOUND = new Set(["aac", "flac", "m4a", "mp3", "oga", "ogg", "opus", "wav", "weba"]);
const FILMS = new Set(["m4v", "mov", "mp4", "ogv", "webm"]);
const ARCHIVES: Record<string, string> = { npz: "NPZ archive", npy: "NumPy array", zip: "ZIP archive", gz: "gzip archive", tar: "tar archive", zst: "Zstandard archive", parquet: "Parquet table", pt: "PyTorch file", pth: "PyTorch file", onnx: "ONNX model", safetensors: "safetensors file", pkl: "pickle", h5: "HDF5 file", pdf: "PDF" };

export function extensionOf(path: string): string {
  return /\.([A-Za-z0-9]{1,12})$/.exec(path)?.[1]?.toLowerCase() ?? "";
}

export function pictureType(path: string): string | undefined {
  return PICTURES[extensionOf(path)];
}

// What plays by itself, by range.
export function mediaOf(path: string): "audio" | "video" | undefined {
  const extension = extensionOf(path);
  return SOUND.has(extension) ? "audio" : FILMS.has(extension) ? "video" : undefined;
}

// True if bytes are not text: a NUL, or many that are no UTF-8.
export function isBinary(bytes: Uint8Array): boolean {
  const some = bytes.subarray(0, 8192);
  if (some.includes(0)) return true;
  const text = new TextDecoder("utf-8").decode(some, { stream: true });
  let bad = 0;
  for (const c of text) if (c === "\ufffd") bad++;
  return bad > some.length / 50;
}

export function kindOf(path: string, bytes: Uint8Array): Kind {
  const extension = extensionOf(path);
  if (PICTURES[extension]) return "picture";
  const media = mediaOf(path);
  if (media) return media;
  if (isBinary(bytes)) return "none";
  if (extension === "csv" || extension === "tsv") return "table";
  return extension === "json" || extension === "ipynb" ? "json" : "text";
}

export function nothingToShow(path: string, bytes: number): string {
  return `${ARCHIVES[extensionOf(path)] ?? "Binary file"}, ${size(bytes)}: no preview`;
}

// The first bytes of a file.
export async function firstBytes(url: string, bytes: number, signal: AbortSignal, most = FIRST_BYTES): Promise<Uint8Array> {
  if (bytes === 0) return new Uint8Array();
  const response = await request(url, { signal, headers: { Range: `bytes=0-${Math.min(bytes, most) - 1}` } });
  return new Uint8Array(await response.arrayBuffer());
}

const TOKENS = /"(?:[^"\\]+|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g; // of a text that is JSON
const DEPTH_MAX = 64;

// JSON written over lines, with its numbers and texts as they are written; null if it is none, or nested too deeply.
export function prettyJson(text: string): string | null {
  if (jsonError(text)) return null;
  let out = "";
  let depth = 0;
  let opened = false; // nothing has come after { or [
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(TOKENS)) {
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (opened !== closes) out += line();
    opened = token === "{" || token === "[";
    if (opened && ++depth > DEPTH_MAX) return null;
    out += token === ":" ? ": " : token;
    if (token === ",") out += line();
  }
  return out;
}
