// What the page shows, made from the daemon's JSON; pure apart from making elements.
import { element, table } from "./dom.js";

const SIGNS = { created: "○", starting: "◔", running: "◐", finishing: "◕", success: "✓", failure: "✗", killed: "■", unrunnable: "⊘",
  new: "○", following: "✓", invalid: "✗", unreachable: "⊘", paused: "■" };
const OVER = new Set(["success", "failure", "killed", "unrunnable"]);

// A state is a sign and its word; the colour only repeats them.
export function state(name) {
  const known = name in SIGNS ? name : "created";
  return element("span", { class: `state ${known}` }, element("span", { "aria-hidden": "true" }, `${SIGNS[known]} `), name ?? "");
}

export function ago(micros, now = Date.now()) {
  if (!micros) return "";
  const seconds = Math.max(0, Math.round(now / 1000 - micros / 1e6));
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  return `${seconds} s ago`;
}

function time(micros) {
  if (!micros) return "";
  const date = new Date(micros / 1000);
  return element("time", { datetime: date.toISOString(), title: date.toLocaleString(), "data-micros": micros }, ago(micros));
}

export function seconds(ms) {
  if (ms === undefined || ms === null) return "";
  return ms < 10_000 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 1000).toFixed(0)} s`;
}

function took(thing) {
  const from = thing.started_us ?? thing.created_us;
  if (!from) return "";
  return seconds(((thing.finished_us ?? Date.now() * 1000) - from) / 1000);
}

export function daemon(status) {
  return [`version ${status.version}`, status.executor && `executor ${status.executor}`, status.store && `store ${status.store}`]
    .filter(Boolean).join(" · ");
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; bytes >= 1023.95 && unit + 1 < units.length; unit++) bytes /= 1024;
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

// What is to be said of disks that run full; "" when none does.
export function disks(status) {
  return (status.disk?.places ?? []).filter((place) => place.state !== "ok")
    .map((place) => `${place.path} has ${size(place.free_bytes)} free of ${size(place.total_bytes)}: ${place.state === "full"
      ? "pushes are refused, running jobs finish" : `below ${size(place.full_bytes)} pushes are refused`}`).join("; ");
}

// Stages in columns: a stage stands right of everything that it reads.
export function layers(stages) {
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  const depths = new Map();
  const depth = (stage) => {
    if (!depths.has(stage.name)) {
      depths.set(stage.name, 0); // so that a cycle, which the daemon refuses, would still end
      const before = (stage.inputs ?? []).map((name) => byName.get(name)).filter(Boolean).map(depth);
      depths.set(stage.name, before.length ? Math.max(...before) + 1 : 0);
    }
    return depths.get(stage.name);
  };
  const columns = [];
  for (const stage of stages) (columns[depth(stage)] ??= []).push(stage);
  return columns;
}

function stageCard(stage, job) {
  return element("li", { class: "stage" },
    element("strong", {}, stage.name), stage.gpu ? element("span", { class: "tag" }, "GPU") : null,
    element("span", { class: "reads" }, `reads ${(stage.inputs ?? []).join(", ") || "nothing"}`),
    job ? state(job.state) : element("span", { class: "reads" }, "has not run"));
}

export function pipelines(list, newestJob) {
  if (list.length === 0) {
    return [element("p", { class: "empty" }, "No pipeline yet. ", element("code", {}, "pipelinectl create pipeline -f pipeline.json"))];
  }
  return list.map((pipeline) => element("article", { class: "pipeline" },
    element("h3", {}, pipeline.project === "default" ? pipeline.name : `${pipeline.project}/${pipeline.name}`,
      element("span", { class: "tag" }, `version ${pipeline.version}`),
      pipeline.source ? element("span", { class: "tag" }, `source ${pipeline.source}`) : null,
      pipeline.state === "stopped" ? element("span", { class: "tag" }, "stopped") : null),
    element("div", { class: "graph" }, layers(pipeline.stages ?? []).map((column) =>
      element("ul", {}, column.map((stage) => stageCard(stage, newestJob(pipeline.project, stage.name))))))));
}

// What a source says of its commit: its mistakes, else its warnings; and what its previews found.
function sourceNotes(source) {
  const mistakes = source.errors?.length ? source.errors : [source.error].filter(Boolean);
  const previews = (source.previews ?? []).map((preview) => `branch ${preview.branch} at ${preview.commit.slice(0, 8)} ${preview.state === "success" ? "" : "is not valid: "}${preview.text}`);
  return [mistakes.map((text) => element("div", { class: "mistake" }, text)),
    (source.warnings ?? []).map((text) => element("div", { class: "warning" }, `warning: ${text}`)),
    previews.map((text) => element("div", { class: "metric" }, text))];
}

export function sources(list) {
  const rows = list.map((source) => [
    [source.project === "default" ? source.name : `${source.project}/${source.name}`], [state(source.state)],
    [source.applied ? element("code", { title: source.applied }, source.applied.slice(0, 8)) : "", " ",
      source.commit === source.applied ? source.subject ?? "" : ""],
    [time(source.changed_us)], sourceNotes(source), [element("code", {}, source.git), source.branch ? ` ${source.branch}` : ""]]);
  return table("Git repositories that are followed", ["Source", "State", "Runs commit", "Since", "Notes", "Repository"], rows, "");
}

export function runs(list) {
  const rows = list.map((run) => [
    [element("a", { href: `#/run/${run.id}`, id: `run-${run.id}` }, run.id.slice(0, 8))],
    [state(run.state)], [time(run.created_us)], [took(run)], [run.reason || run.message || run.cause || ""]]);
  return table("Runs, newest first", ["Run", "State", "Since", "Took", "Reason"], rows,
    "Nothing has run yet: push something with “pipelinectl put file”.");
}

function datums(job) {
  const count = job.datums ?? {};
  const total = count.total ?? 0;
  const over = (count.done ?? 0) + (count.reused ?? 0) + (count.failed ?? 0);
  const words = [`${over} of ${total}`, count.reused ? `${count.reused} reused` : "", count.failed ? `${count.failed} failed` : ""];
  const bar = OVER.has(job.state) || !total ? null : element("progress", { max: total, value: over, "aria-label": `${job.stage}: datums` });
  return [words.filter(Boolean).join(", "), bar];
}

function metricNote(line) {
  if (!line) return null;
  const note = Object.entries(line).filter(([, value]) => typeof value === "number").slice(0, 4)
    .map(([key, value]) => (key === "progress" ? `${Math.round(value * 100)} %` : `${key} ${value}`));
  return element("div", { class: "metric" }, note.join(" · "));
}

// What the GPUs' time went for; what nothing measured is not 0.
function gpuNote(gpu) {
  if (!gpu) return null;
  const use = gpu.measured_ms ? `busy ${Math.floor((gpu.used_ms * 100) / gpu.measured_ms)} %` : "use not measured";
  return element("div", {}, `GPU held ${seconds(gpu.held_ms)}, waiting for data ${seconds(gpu.waiting_ms)}, ${use}`);
}

export function run(detail, metricOf) {
  const rows = (detail.jobs ?? []).map((job) => [
    [job.stage, job.device === "gpu" ? element("span", { class: "tag" }, "GPU") : null],
    [state(job.state), metricNote(OVER.has(job.state) ? null : metricOf(job))],
    datums(job), [took(job)],
    [["wait", "fetch", "compute", "upload", "held"].filter((key) => job.ms?.[key] !== undefined).map((key) => `${key} ${seconds(job.ms[key])}`).join(", "), gpuNote(job.gpu)],
    [job.reason ?? "", (job.warnings ?? []).map((warning) => element("div", { class: "warning" }, `warning: ${warning}`))],
    [element("a", { href: `#/log/${encodeURIComponent(job.project ?? "default")}/${encodeURIComponent(job.stage)}/${detail.id}`,
      id: `log-${job.stage}`, "aria-label": `log of ${job.stage}` }, "log")]]);
  return [
    element("h2", { tabindex: "-1" }, `Run ${detail.id.slice(0, 8)} `, state(detail.state)),
    element("p", {}, [detail.reason, detail.message].filter(Boolean).join(" · "), " ", element("code", { class: "id" }, detail.id)),
    table(`Jobs of run ${detail.id.slice(0, 8)}`, ["Stage", "State", "Datums", "Took", "Of that", "Reason", "Log"], rows, "This run set off no job."),
    back()];
}

export function back() {
  return element("p", {}, element("a", { href: "#/" }, "close"));
}

// The tree that "why" answers: whatever is a list or an object below a node is a branch of it.
export function why(node) {
  const scalars = [], branches = [];
  for (const [key, value] of Object.entries(node ?? {})) {
    if (value === null || value === "") continue;
    if (typeof value === "object") branches.push([key, [value].flat()]);
    else scalars.push([key, value]);
  }
  const names = scalars.map(([key, value]) => element("span", { class: "fact" }, element("b", {}, `${key} `), value));
  const below = branches.filter(([, list]) => list.length).map(([key, list]) => element("li", {}, element("b", {}, key),
    element("ul", {}, list.map((item) => element("li", {}, item !== null && typeof item === "object" ? why(item) : item)))));
  return element("div", {}, names, below.length ? element("ul", {}, below) : null);
}
