// What differs between two commits or two runs, in words.
import { name } from "./foreign";
import { counted, number } from "./format";

export interface Counts {
  added: number;
  changed: number;
  removed: number;
  bytes_before: number;
  bytes_after: number;
}

export const sumOf = (counts: Counts) => counts.added + counts.changed + counts.removed;

// "+3 ~1 −2 files", "over 1,000,000 files"
export function countWords(counts: Counts, more: boolean): string {
  const total = sumOf(counts);
  if (more) return `over ${number(total)} files`;
  if (total === 0) return "no file";
  const parts = [counts.added && `+${number(counts.added)}`, counts.changed && `~${number(counts.changed)}`, counts.removed && `−${number(counts.removed)}`].filter(Boolean);
  return `${parts.join(" ")} ${total === 1 ? "file" : "files"}`;
}

// "2 files are new, 1 changed in photos below /lisbon."
export function diffSentence(counts: Counts, more: boolean, repo: string, folder: string): string {
  const total = sumOf(counts);
  const where = folder && folder !== "/" ? ` below ${name(folder)}` : "";
  if (more) return `Over ${number(total)} files of ${name(repo)} differ${where}.`;
  if (total === 0) return `Nothing differs${where}: same tree.`;
  const are = (n: number) => (n === 1 ? "is" : "are");
  const parts = [
    counts.added && `${counted(counts.added, "file")} ${are(counts.added)} new`,
    counts.changed && (counts.added ? `${number(counts.changed)} changed` : `${counted(counts.changed, "file")} changed`),
    counts.removed && (counts.added || counts.changed ? `${number(counts.removed)} ${are(counts.removed)} gone` : `${counted(counts.removed, "file")} ${are(counts.removed)} gone`),
  ].filter(Boolean);
  return `${parts.join(", ")} in ${name(repo)}${where}.`;
}

// "3 repos differ between these two runs, after a push to photos; 2 are the same."
export function runsSentence(changed: number, more: boolean, same: number, pushed: string[]): string {
  if (changed === 0) return "Nothing differs between the data of these two runs.";
  const repos = `${more ? "Over " : ""}${counted(changed, "repo")} ${changed === 1 && !more ? "differs" : "differ"} between these two runs`;
  const first = pushed.length === 1 ? `, after a push to ${name(pushed[0]!)}` : pushed.length > 1 ? `, after pushes to ${number(pushed.length)} of them` : "";
  return `${repos}${first}${same ? `; ${number(same)} ${same === 1 ? "is" : "are"} the same` : ""}.`;
}
