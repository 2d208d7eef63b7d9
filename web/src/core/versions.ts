// Versions of a pipeline in words: what each changed, what differs between two, and where the fields of an effective spec come from.
import type { FieldChange, PipelineVersion, PipelineVersionDiff, VersionStageChange } from "../api/schema";
import { name } from "./foreign";
import { counted, number } from "./format";

// "1 stage is new, 2 changed"; "no stage changed" of a version that only its file changed.
export function changeWords(version: Pick<PipelineVersion, "new" | "changed" | "removed" | "stages">): string {
  const parts = [
    [version.new, "new"],
    [version.changed, "changed"],
    [version.removed, "removed"],
  ].filter(([n]) => n) as [number, string][];
  if (parts.length === 0) return "no stage changed";
  return parts.map(([n, word], i) => (i === 0 ? `${counted(n, "stage")} ${word}` : `${number(n)} ${word}`)).join(", ");
}

// Whoever set a version: "Ada <ada@example.org>" is Ada.
export function whoOf(by: string): string {
  return name(by.replace(/ <[^>]*>$/, ""));
}

const numbered = (version: { version: number } | null | undefined) => (version ? `version ${version.version}` : "nothing");

// "2 stages differ between version 3 and version 4; all datums of train run anew."
export function diffSentence(diff: Pick<PipelineVersionDiff, "from" | "to" | "stages">): string {
  const differ = diff.stages.filter((stage) => stage.change !== "unchanged");
  const between = `between ${numbered(diff.from)} and ${numbered(diff.to)}`;
  if (differ.length === 0) return `No stage differs ${between}.`;
  const all = diff.stages.filter((stage) => stage.again === "all");
  const some = diff.stages.filter((stage) => stage.again === "some");
  const few = (list: VersionStageChange[]) => (list.length > 3 ? counted(list.length, "stage") : list.map((stage) => name(stage.stage)).join(", "));
  const anew = all.length ? `all datums of ${few(all)} run anew${some.length ? `, and some of ${few(some)}` : ""}` : some.length ? `some datums of ${few(some)} run anew` : "nothing runs anew";
  return `${counted(differ.length, "stage")} ${differ.length === 1 ? "differs" : "differ"} ${between}; ${anew}.`;
}

export function againWords(again: string | null | undefined): string {
  return { all: "all its datums run anew", some: "datums whose key is new run anew", none: "nothing runs anew" }[again ?? ""] ?? "";
}

// Of one field.
export function fieldAgain(again: string): string {
  return { all: "runs all anew", some: "may run some anew", none: "runs nothing anew" }[again] ?? again;
}

// A value as it stands in a spec; undefined: there is none. A text over lines stays over lines.
export function valueText(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string" && value.includes("\n")) return value;
  const line = JSON.stringify(value);
  return line.length > 100 && typeof value === "object" ? JSON.stringify(value, null, 1) : line;
}

// True if the two values of a field are better compared line by line.
export function byLines(field: FieldChange): boolean {
  const before = valueText(field.before);
  const after = valueText(field.after);
  return before !== undefined && after !== undefined && (before.includes("\n") || after.includes("\n"));
}

// Where a field comes from.
export const ORIGINS: Record<string, { word: string; also: string }> = {
  stage: { word: "written", also: "written in the stage" },
  spec: { word: "spec's defaults", also: "from the defaults of the spec" },
  project: { word: "project", also: "from the defaults of the project" },
  cluster: { word: "cluster", also: "from the defaults of the cluster" },
  language: { word: "language", also: "the default of the language" },
  unknown: { word: "a default", also: "from a default of the language, the project or the cluster; the version does not say which" },
};

export interface Field {
  path: string;
  value: string;
  origin: string;
}

// As the daemon writes a path (json_position.h).
function keyed(path: string, key: string): string {
  if (/^[\w-]+$/.test(key)) return path ? `${path}.${key}` : key;
  return `${path}["${key.replace(/["\\]/g, "\\$&").replace(/[\u0000-\u001f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}"]`;
}

// The fields of an effective spec in their order, with their origins; what is written comes first.
export function fieldsOf(spec: unknown, origins: Record<string, unknown>): Field[] {
  const out: Field[] = [];
  const walk = (value: unknown, path: string) => {
    const origin = path && Object.hasOwn(origins, path) ? origins[path] : undefined;
    if (typeof origin === "string") out.push({ path, value: valueText(value) ?? "null", origin });
    else if (Array.isArray(value)) value.forEach((inner, i) => walk(inner, `${path}[${i}]`));
    else if (value && typeof value === "object") for (const [key, inner] of Object.entries(value)) walk(inner, keyed(path, key));
  };
  walk(spec, "");
  const rank = (field: Field) => Object.keys(ORIGINS).indexOf(field.origin);
  return out.map((field, i) => ({ field, i })).sort((a, b) => rank(a.field) - rank(b.field) || a.i - b.i).map(({ field }) => field);
}

// "12 fields are written, 3 come from the project's defaults, 9 from the language."
export function originSentence(fields: Field[]): string {
  const count = (origin: string) => fields.filter((field) => field.origin === origin).length;
  const parts = [
    count("stage") && `${counted(count("stage"), "field")} ${count("stage") === 1 ? "is" : "are"} written here`,
    count("spec") && `${number(count("spec"))} from the spec's defaults`,
    count("project") && `${number(count("project"))} from the project's`,
    count("cluster") && `${number(count("cluster"))} from the cluster's`,
    count("language") && `${number(count("language"))} from the language`,
    count("unknown") && `${number(count("unknown"))} from a default that is not recorded`,
  ].filter(Boolean);
  return `${parts.join(", ")}.`;
}

export interface MarkedLine {
  number: number;
  before: string;
  mark: string; // "" where the line is not the one that is meant
  after: string;
  meant: boolean;
}

// The lines around a mistake; `mark` counts characters, as the daemon does.
export function markedLines(problem: { first: number; line: number; mark: number; lines: string[] }): MarkedLine[] {
  return problem.lines.map((line, i) => {
    const at = problem.first + i;
    const chars = [...line];
    if (at !== problem.line) return { number: at, before: line, mark: "", after: "", meant: false };
    return { number: at, before: chars.slice(0, problem.mark - 1).join(""), mark: chars[problem.mark - 1] ?? " ", after: chars.slice(problem.mark).join(""), meant: true };
  });
}
