// What the daemon found, as rows of the find dialog with the places that they lead to.
import type { Found } from "../api/schema";
import type { Sign } from "../parts/icons";
import { short } from "./format";
import { type Place, fileNamed } from "./places";

export interface Row {
  sign: Sign;
  text: string;
  more: string;
  place: Place;
}

const of = (project: string) => (project ? ` of ${project}` : "");

export function rowOf(one: Found): Row | null {
  const { project, name, id, text } = one;
  switch (one.kind) {
    case "pipeline":
      return { sign: "stage", text: name, more: `pipeline${of(project)}`, place: { page: "pipeline", project, pipeline: name } };
    case "stage":
      return { sign: "stage", text: name, more: `stage of ${text}, ${project}`, place: id ? { page: "job", project, stage: name, run: id } : { page: "repo", project, repo: name } };
    case "repo":
      return { sign: "repo", text: name, more: text === "input" ? `repo${of(project)}` : `output${of(project)}`, place: { page: "repo", project, repo: name } };
    case "run":
      return { sign: "again", text: id, more: `run, ${text}`, place: { page: "run", run: id } };
    case "job":
      return { sign: "stage", text: `${name}@${short(id)}`, more: `job${of(project)}, ${text}`, place: { page: "job", project, stage: name, run: id } };
    case "commit":
      return { sign: "repo", text: `${name}@${short(id)}`, more: text ? `commit${of(project)}, ${text}` : `commit${of(project)}`, place: { page: "files", project, repo: name, ref: id, path: "" } };
    default:
      return null; // of a newer daemon
  }
}

// A file is taken as it is written, above what was found.
export function rowsOf(found: Found[], text: string): Row[] {
  const rows = found.map(rowOf).filter((row): row is Row => row !== null);
  const file = fileNamed(text);
  return file?.page === "files" && file.path ? [{ sign: "file", text: text.trim(), more: "file", place: file }, ...rows] : rows;
}
