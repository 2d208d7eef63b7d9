// The page: what the address after # asks for, kept up to date by the daemon's events.
import * as api from "./api.js";
import { element, replace } from "./dom.js";
import * as views from "./views.js";

const LOG_KEPT_CHARACTERS = 1_000_000;
const REFRESH_AFTER_MS = 120; // events come in bursts: one look at the daemon for all of them

const part = (id) => document.getElementById(id);
const metrics = new Map(); // "project/stage/run" -> the newest line of metrics.jsonl
let pending = null;
let shown = null; // stops what the detail section follows

function notice(error) {
  const place = part("notice");
  place.hidden = !error;
  place.textContent = error ? error.message : "";
}

async function refreshLists() {
  const [pipelines, runs, jobs, sources] = await Promise.all([api.get("/pipelines"), api.get("/runs", { limit: 30 }),
    api.get("/jobs", { limit: 200 }), api.get("/sources")]);
  const newest = new Map();
  for (const job of jobs.jobs ?? []) {
    const key = `${job.project}/${job.stage}`;
    if (!newest.has(key)) newest.set(key, job); // newest first
  }
  replace(part("pipelines"), ...views.pipelines(pipelines.pipelines ?? [], (project, stage) => newest.get(`${project}/${stage}`)));
  part("sources-section").hidden = !sources.sources?.length;
  replace(part("sources"), views.sources(sources.sources ?? []));
  replace(part("runs"), views.runs(runs.runs ?? []));
}

async function refresh() {
  try {
    await refreshLists();
    await shown?.refresh?.();
    notice(null);
  } catch (error) {
    notice(error);
  }
}

function refreshStatus() {
  api.get("/status").then((status) => {
    part("daemon").textContent = views.daemon(status);
    part("disks").textContent = views.disks(status);
  }, notice);
}

function refreshSoon() {
  pending ??= setTimeout(() => {
    pending = null;
    refresh();
  }, REFRESH_AFTER_MS);
}

function changed(type, data) {
  if (type === "metric") {
    metrics.set(`${data.project ?? "default"}/${data.stage}/${data.run}`, data.line ?? data.data ?? data);
    if (metrics.size > 1000) metrics.delete(metrics.keys().next().value);
  }
  if (type === "store.low" || type === "reset") refreshStatus();
  refreshSoon();
}

function showRun(id) {
  const place = part("detail");
  return {
    async refresh() {
      const detail = await api.get(api.path("runs", id));
      replace(place, ...views.run(detail, (job) => metrics.get(`${job.project ?? "default"}/${job.stage}/${detail.id}`)));
    },
    stop() {},
  };
}

function showLog(project, stage, run) {
  const text = element("pre", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": `Log of ${stage}` });
  const end = element("p", { role: "status" }, "following …");
  const stopper = new AbortController();
  replace(part("detail"), element("h2", { tabindex: "-1" }, `Log of ${stage}, run `, element("a", { href: `#/run/${run}` }, run.slice(0, 8))), text, end,
    views.back());
  const take = (piece) => {
    const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    text.append(piece);
    if (text.textContent.length > LOG_KEPT_CHARACTERS) text.textContent = `[…]\n${text.textContent.slice(-LOG_KEPT_CHARACTERS / 2)}`;
    if (atEnd) text.scrollTop = text.scrollHeight;
  };
  api.followLog(project, stage, run, stopper.signal, take).then(
    () => { end.textContent = text.textContent ? "end of the log" : "nothing was printed"; },
    (error) => { if (error.name !== "AbortError") end.textContent = error.message; });
  return { stop: () => stopper.abort() };
}

// [PROJECT/]REPO@REF:/PATH -> the path of the request
export function whyRequest(file) {
  const match = /^(?:([^/@:]+)\/)?([^/@:]+)@([^:]+):\/?(.+)$/.exec(file.trim());
  if (!match) throw new Error(`“${file}” is not a file: write REPO@REF:/PATH, for example report@master:/report.json`);
  const [, project = "default", repo, ref, path] = match;
  return api.path("why", project, repo, ref, path.split("/"));
}

function showWhy(file) {
  part("why-file").value = file;
  return {
    async refresh() {
      const tree = await api.get(whyRequest(file));
      replace(part("detail"), element("h2", { tabindex: "-1" }, `Why ${file}`), element("div", { class: "why" }, views.why(tree)), views.back());
    },
    stop() {},
  };
}

function route() {
  const [kind, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (kind === "run" && rest[0]) return showRun(rest[0]);
  if (kind === "log" && rest.length === 3) return showLog(...rest);
  if (kind === "why" && rest[0]) return showWhy(rest[0]);
  return null;
}

async function navigate() {
  if (location.hash && !location.hash.startsWith("#/")) return; // the skip link
  shown?.stop();
  notice(null);
  const place = part("detail");
  place.replaceChildren();
  try {
    shown = route();
    place.hidden = !shown;
    await shown?.refresh?.();
    place.querySelector("h2")?.focus();
  } catch (error) {
    notice(error);
  }
}

function updateTimes() {
  for (const time of document.querySelectorAll("time[data-micros]")) time.textContent = views.ago(Number(time.dataset.micros));
}

function start() {
  part("why").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/why/${encodeURIComponent(part("why-file").value)}`;
  });
  window.addEventListener("hashchange", navigate);
  setInterval(updateTimes, 5000);
  api.follow(changed, (text, ok) => {
    part("live").textContent = ok ? `● ${text}` : `○ ${text}`;
  });
  refreshStatus();
  refresh();
  navigate();
}

start();
