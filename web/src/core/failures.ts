// Failures, grouped by the line that matters.
import { middle } from "./foreign";

// The line of a log that says what went wrong: the last line with an error's name, else the last one.
export function lineThatMatters(tail: string): { line: string; at: number } {
  const lines = tail.replace(/\s+$/, "").split("\n");
  for (let at = lines.length - 1; at >= 0; at--) {
    if (/^[\w.]*(Error|Exception|Interrupt|Exit|Warning)\b.*|\b(error|fatal|panic|killed|failed|denied|not found)\b/i.test(lines[at]!)) return { line: lines[at]!.trim(), at };
  }
  return { line: (lines[lines.length - 1] ?? "").trim(), at: lines.length - 1 };
}

// The message with what differs from datum to datum blanked: paths, hex, numbers.
export function alike(message: string): string {
  return message
    .replace(/(['"`])(?:(?!\1).)*\1/g, "$1…$1")
    .replace(/(?:\/[\w.@%+~-]+)+\/?/g, "/…")
    .replace(/\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b/gi, "#")
    .replace(/\d[\d,.]*/g, "#");
}

export interface Failure {
  id: string;
  paths: string;
  reason: string;
  line: string;
  bytes: number;
  node: string;
}

export interface Way {
  key: string;
  line: string; // of the first
  kind: string; // "ValueError", "exit code 1"
  failures: Failure[];
  common: string[]; // what they have in common
}

// "photos=/lisbon/a.jpg" → "/lisbon/a.jpg"
export function pathOfDatum(paths: string): string {
  return paths.split(", ").map((one) => one.slice(one.indexOf("=") + 1)).find((path) => path !== "/") ?? "/";
}

export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1) || "/";
}

function commonOf(failures: Failure[]): string[] {
  if (failures.length < 2) return [];
  const out: string[] = [];
  const folders = failures.map((one) => folderOf(pathOfDatum(one.paths)));
  let shared = folders[0]!;
  while (shared.length > 1 && !folders.every((folder) => folder.startsWith(shared))) shared = folderOf(shared.slice(0, -1));
  if (shared !== "/") out.push(`all below ${middle(shared, 60)}`);
  if (failures.every((one) => one.bytes === 0)) out.push("all inputs are empty");
  const nodes = new Set(failures.map((one) => one.node));
  if (nodes.size === 1 && failures[0]!.node) out.push(`all on ${middle(failures[0]!.node, 40)}`);
  return out;
}

export function waysOf(failures: Failure[]): Way[] {
  const groups = new Map<string, Failure[]>();
  for (const failure of failures) {
    const key = alike(failure.line || failure.reason);
    const group = groups.get(key);
    if (group) group.push(failure);
    else groups.set(key, [failure]);
  }
  return [...groups].map(([key, list]) => {
    const kind = /^([\w.]+(?:Error|Exception|Interrupt))\b/.exec(list[0]!.line)?.[1] ?? list[0]!.reason;
    return { key, line: list[0]!.line || list[0]!.reason, kind, failures: list, common: commonOf(list) };
  }).sort((a, b) => b.failures.length - a.failures.length);
}

// The cause of an attempt's end in words.
export function endOf(attempt: { state: string; exit_code: number; signal: number; oom: boolean; timed_out: boolean; reason: string }): string {
  if (attempt.oom) return attempt.reason || "killed: it needed more memory than it may have";
  if (attempt.timed_out) return attempt.reason || "timed out";
  if (attempt.state === "success") return "done";
  if (attempt.state === "lost") return attempt.reason || "lost with its worker";
  return attempt.reason || (attempt.signal ? `ended by signal ${attempt.signal}` : `exit code ${attempt.exit_code}`);
}
