// The addresses of the page, below the base path. Filters are in the query, a comma in a value is an "or".
import { BASE, escapePath } from "../api/client";

export type Place =
  | { page: "home" }
  | { page: "runs" }
  | { page: "run"; run: string }
  | { page: "job"; project: string; stage: string; run: string }
  | { page: "log"; project: string; stage: string; run: string }
  | { page: "data" }
  | { page: "repo"; project: string; repo: string }
  | { page: "files"; project: string; repo: string; ref: string; path: string }
  | { page: "diff"; project: string; repo: string; from: string; to: string }
  | { page: "rundiff"; from: string; to: string }
  | { page: "why"; project: string; repo: string; ref: string; path: string }
  | { page: "pipelines" }
  | { page: "pipeline"; project: string; pipeline: string }
  | { page: "check" }
  | { page: "gpus" }
  | { page: "metrics"; project: string; stage: string } // without a stage: the stages that have metrics
  | { page: "login" }
  | { page: "nothing"; path: string };

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // a "%" that is none
  }
}

// A path below the base, as in location.pathname: "/runs/c41d".
export function placeOf(path: string): Place {
  const [kind = "", ...rest] = path.replace(/^\/+/, "").replace(/\/+$/, "").split("/").map(decode);
  const [a = "", b = "", c = "", d = ""] = rest;
  const n = rest.length;
  switch (kind) {
    case "":
    case "ui":
      return { page: "home" };
    case "runs":
      return n === 0 ? { page: "runs" } : n === 1 ? { page: "run", run: a } : { page: "nothing", path };
    case "jobs":
      if (n === 3) return { page: "job", project: a, stage: b, run: c };
      return n === 4 && d === "log" ? { page: "log", project: a, stage: b, run: c } : { page: "nothing", path };
    case "data":
      if (n === 0) return { page: "data" };
      if (n === 2) return { page: "repo", project: a, repo: b };
      return n === 3 || d === "-" ? { page: "files", project: a, repo: b, ref: c, path: rest.slice(4).join("/") } : { page: "nothing", path };
    case "diff":
      if (n === 2) return { page: "rundiff", from: a, to: b };
      return n === 4 ? { page: "diff", project: a, repo: b, from: c, to: d } : { page: "nothing", path };
    case "why":
      return d === "-" ? { page: "why", project: a, repo: b, ref: c, path: rest.slice(4).join("/") } : { page: "nothing", path };
    case "pipelines":
      return n === 0 ? { page: "pipelines" } : n === 2 ? { page: "pipeline", project: a, pipeline: b } : { page: "nothing", path };
    case "check":
      return n === 0 ? { page: "check" } : { page: "nothing", path };
    case "gpus":
      return n === 0 ? { page: "gpus" } : { page: "nothing", path };
    case "metrics":
      return n === 2 || (n === 1 && a === "-") ? { page: "metrics", project: a, stage: b } : { page: "nothing", path };
    case "login":
      return { page: "login" };
    default:
      return { page: "nothing", path };
  }
}

// The path below the base of a place, and its query: "/runs/c41d?view=graph".
export function pathOf(place: Place, query: Record<string, string | undefined> = {}): string {
  const parameters = new URLSearchParams(Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]))).toString();
  return plainPath(place) + (parameters ? `?${parameters}` : "");
}

const join = (...segments: string[]) => `/${segments.map(encodeURIComponent).join("/")}`;

function plainPath(place: Place): string {
  switch (place.page) {
    case "home":
      return "/";
    case "run":
      return join("runs", place.run);
    case "job":
      return join("jobs", place.project, place.stage, place.run);
    case "log":
      return join("jobs", place.project, place.stage, place.run, "log");
    case "repo":
      return join("data", place.project, place.repo);
    case "files":
      return join("data", place.project, place.repo, place.ref) + (place.path ? `/-/${escapePath(place.path)}` : "/-/");
    case "diff":
      return join("diff", place.project, place.repo, place.from, place.to);
    case "rundiff":
      return join("diff", place.from, place.to);
    case "why":
      return `${join("why", place.project, place.repo, place.ref)}/-/${place.path ? escapePath(place.path) : ""}`;
    case "pipeline":
      return join("pipelines", place.project, place.pipeline);
    case "metrics":
      return place.stage ? join("metrics", place.project, place.stage) : "/metrics/-"; // "/metrics" is for a monitoring system
    case "nothing":
      return place.path;
    default:
      return `/${place.page}`;
  }
}

// For <a href>: with the base path.
export function href(place: Place, query: Record<string, string | undefined> = {}): string {
  return BASE.slice(0, -1) + pathOf(place, query);
}

// The path below the base of an address of this origin, or null if it is not one of the page's.
export function belowBase(pathname: string): string | null {
  return pathname.startsWith(BASE) ? `/${pathname.slice(BASE.length)}` : `${pathname}/` === BASE ? "/" : null;
}

// A place to go to after the login: only a path of this page, "/" otherwise. "//host" and "\" would lead elsewhere.
export function ownPath(to: string | null): string {
  return to && /^\/(?!\/)[^\\\u0000-\u0020]*$/.test(to) ? to : "/";
}

// [PROJECT/]REPO@REF:/PATH, as pipelinectl takes it.
export function fileNamed(text: string): Place | null {
  const match = /^(?:([\w-]+)\/)?([\w-]+)@([^:@\s]+)(?::\/?(.*))?$/.exec(text.trim());
  if (!match) return null;
  return { page: "files", project: match[1] ?? "default", repo: match[2]!, ref: match[3]!, path: match[4] ?? "" };
}

// What a place is called in the window's title.
export function titleOf(place: Place): string {
  switch (place.page) {
    case "home":
      return "pipelined";
    case "run":
      return `Run ${place.run.slice(0, 8)} · pipelined`;
    case "job":
      return `${place.stage} of ${place.run.slice(0, 8)} · pipelined`;
    case "log":
      return `Log of ${place.stage} · pipelined`;
    case "repo":
    case "diff":
      return `${place.repo} · pipelined`;
    case "files":
    case "why":
      return `${place.path.split("/").pop() || place.repo} · pipelined`;
    case "pipeline":
      return `${place.pipeline} · pipelined`;
    case "nothing":
      return "Nothing here · pipelined";
    case "rundiff":
      return `Runs ${place.from.slice(0, 8)} and ${place.to.slice(0, 8)} · pipelined`;
    case "metrics":
      return `${place.stage ? `Metrics of ${place.stage}` : "Metrics"} · pipelined`;
    case "check":
      return "Check a spec · pipelined";
    case "gpus":
      return "GPUs · pipelined";
    case "login":
      return "Sign in · pipelined";
    default:
      return `${place.page.charAt(0).toUpperCase()}${place.page.slice(1)} · pipelined`;
  }
}
