// All runs, newest first: what set each off, what became of it, what it cost. What comes in waits behind "2 new".
import { useState } from "preact/hooks";
import { get } from "../api/client";
import type { Job, Pipeline, Run } from "../api/schema";
import { name } from "../core/foreign";
import { counted, spelled } from "../core/format";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { now } from "../core/now";
import { type Row, causeOfRow, ranWords, withJobs } from "../core/runs";
import { type Shape, type State, isOver, jobState, runState } from "../core/states";
import { Icon, StateWord } from "../parts/icons";
import { Content, ErrorNote, Head } from "../parts/page";
import { Rows, usePages } from "../parts/rows";
import { Id, Took, To, When } from "../parts/words";

const PAGE = 200;
const JOBS_MAX_PAGES = 5;
const GLYPHS_MAX = 24;

interface Loaded {
  items: Run[];
  jobs: Job[];
  next: string | undefined;
}

// A page of runs, and the jobs since the oldest of them.
async function loadPage(state: string, after: string | undefined, signal?: AbortSignal): Promise<Loaded> {
  const { runs, next } = await get("/api/v1/runs", { query: { limit: PAGE, state, ...(after ? { after } : {}) }, signal });
  const oldest = runs[runs.length - 1]?.created_us ?? 0;
  const jobs: Job[] = [];
  let at: string | null | undefined;
  for (let i = 0; i < JOBS_MAX_PAGES && runs.length > 0; i++) {
    const page = await get("/api/v1/jobs", { query: { limit: 2000, ...(at ? { after: at } : {}) }, signal });
    jobs.push(...page.jobs);
    at = page.next;
    if (!at || (page.jobs[page.jobs.length - 1]?.created_us ?? 0) < oldest) break;
  }
  return { items: runs, jobs, next: next ?? undefined };
}

const FILTERS: { key: string; text: string; shape: Shape; api: string }[] = [
  { key: "running", text: "running", shape: "running", api: "running" },
  { key: "failed", text: "failed", shape: "failed", api: "failure" },
  { key: "part", text: "partly failed", shape: "part", api: "success" },
  { key: "done", text: "done", shape: "done", api: "success" },
  { key: "stopped", text: "stopped", shape: "stopped", api: "killed" },
];

export function filterOf(state: State): string {
  if (state.shape === "part" || state.shape === "failed" || state.shape === "done" || state.shape === "stopped") return state.shape;
  return state.shape === "not" ? "failed" : "running";
}

const SINCE: Record<string, number> = { hour: 3600, day: 86400, week: 7 * 86400 };

export interface Wanted {
  states: string[];
  project: string;
  pipeline: string;
  since: string;
}

export function wantedOf(query: URLSearchParams): Wanted {
  return { states: (query.get("state") ?? "").split(",").filter(Boolean), project: query.get("project") ?? "", pipeline: query.get("pipeline") ?? "", since: query.get("since") ?? "" };
}

export function passes(row: Row, wanted: Wanted, nowUs: number): boolean {
  if (wanted.states.length > 0 && !wanted.states.includes(filterOf(runState(row.run, row.jobs)))) return false;
  if (wanted.pipeline && !row.pipelines.includes(wanted.pipeline)) return false;
  if (wanted.project && !row.jobs.some((job) => job.project === wanted.project)) return false;
  const seconds = SINCE[wanted.since];
  return !seconds || nowUs - row.run.created_us < seconds * 1e6;
}

function headline(rows: Row[]): string {
  const running = rows.filter((row) => !isOver(row.run.state)).length;
  const ended = rows.filter((row) => isOver(row.run.state)).slice(0, 40);
  const failed = ended.filter((row) => row.run.state === "failure").length;
  if (rows.length === 0) return "Nothing has run yet.";
  const first = running === 0 ? "Nothing runs" : `${spelled(running)} ${running === 1 ? "run is" : "runs are"} under way`;
  return ended.length === 0 ? `${first}.` : `${first}; ${failed === 0 ? "none" : failed} of the last ${ended.length} failed.`;
}

function Filters({ wanted, pipelines }: { wanted: Wanted; pipelines: Pipeline[] }) {
  const toggle = (key: string) => setQuery({ state: (wanted.states.includes(key) ? wanted.states.filter((one) => one !== key) : [...wanted.states, key]).join(",") });
  const projects = [...new Set(pipelines.map((pipeline) => pipeline.project))];
  return (
    <div class="filters" role="group" aria-label="Filters">
      {projects.length > 1 && (
        <select aria-label="Project" value={wanted.project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
          <option value="">all projects</option>{projects.map((one) => <option key={one}>{one}</option>)}
        </select>)}
      <select aria-label="Pipeline" value={wanted.pipeline} onChange={(event) => setQuery({ pipeline: event.currentTarget.value })}>
        <option value="">any pipeline</option>{[...new Set(pipelines.map((pipeline) => pipeline.name))].map((one) => <option key={one}>{one}</option>)}
      </select>
      <span class="sep" />
      {FILTERS.map((filter) => (
        <button type="button" key={filter.key} class={`chip ${wanted.states.includes(filter.key) ? "on" : ""}`} aria-pressed={wanted.states.includes(filter.key)} onClick={() => toggle(filter.key)}>
          <Icon of={filter.shape} class={`state ${filter.shape}`} />{filter.text}
        </button>
      ))}
      <span class="sep" />
      <select aria-label="Since" value={wanted.since} onChange={(event) => setQuery({ since: event.currentTarget.value })}>
        <option value="">since ever</option><option value="hour">in the last hour</option><option value="day">in the last day</option><option value="week">in the last week</option>
      </select>
    </div>
  );
}

function Glyphs({ jobs }: { jobs: Job[] }) {
  const words = jobs.map((job) => `${job.stage} ${jobState(job).word.toLowerCase()}`).join(", ");
  return (
    <span class="glyphs" role="img" aria-label={words} title={words}>
      {jobs.slice(0, GLYPHS_MAX).map((job) => <Icon key={job.stage} of={jobState(job).shape} class={`state ${jobState(job).shape}`} />)}
      {jobs.length > GLYPHS_MAX && <small>+{jobs.length - GLYPHS_MAX}</small>}
    </span>
  );
}

function RunRow({ row }: { row: Row }) {
  const { run, jobs } = row;
  return (
    <tr>
      <td><To class="main" row place={{ page: "run", run: run.id }}>{causeOfRow(run, row.pipelines)}</To>
        <small>{row.pipelines.map(name).join(", ") || run.cause} · <Id of={run.id} /></small></td>
      <td><StateWord of={runState(run, jobs)} /></td>
      <td class="p2"><Glyphs jobs={jobs} /></td>
      <td class="num p2 muted">{jobs.length ? ranWords(jobs) : "–"}</td>
      <td class="num p2"><Took from={run.created_us} to={run.finished_us} /></td>
      <td class="num"><When us={run.created_us} /></td>
    </tr>
  );
}

export function Runs({ query }: { query: URLSearchParams }) {
  const wanted = wantedOf(query);
  const api = wanted.states.length === 1 ? (FILTERS.find((filter) => filter.key === wanted.states[0])?.api ?? "") : "";
  const loaded = useLoad(`runs ${api}`, (signal) => loadPage(api, undefined, signal), (event) => ["run", "job"].includes(event.type));
  const pipelines = useLoad("pipelines", async (signal) => (await get("/api/v1/pipelines", { query: { limit: 1000 }, signal })).pipelines, (event) => event.type === "pipeline");
  const [jobs, setJobs] = useState<Job[]>([]);
  const pages = usePages<Run>(`runs ${api}`, loaded.data, async (after) => {
    const page = await loadPage(api, after);
    setJobs((before) => [...before, ...page.jobs]);
    return page;
  });
  // rows do not move: what came after the page was opened waits until it is asked for
  const [top, setTop] = useState<number | null>(null);
  return (
    <Content of={loaded} rows={10}>{(data) => {
      const newest = data.items[0]?.created_us ?? 0;
      if (top === null && newest) setTop(newest);
      const seen = new Set<string>();
      const all = withJobs(pages.items.filter((run) => !seen.has(run.id) && seen.add(run.id)), [...data.jobs, ...jobs], pipelines.data ?? []);
      const fresh = all.filter((row) => top !== null && row.run.created_us > top && passes(row, wanted, now.value * 1000));
      const rows = all.filter((row) => (top === null || row.run.created_us <= top) && passes(row, wanted, now.value * 1000));
      return (
        <>
          <Head title={headline(all)} lead={["newest first", `${counted(rows.length, "run")}${pages.more ? " so far" : ""}`]} />
          <div class="with-fresh">
            <Filters wanted={wanted} pipelines={pipelines.data ?? []} />
            {fresh.length > 0 && <button type="button" class="btn small" onClick={() => setTop(newest)}><Icon of="up" />{fresh.length} new</button>}
          </div>
          {pages.error && <ErrorNote error={pages.error} />}
          <div class="panel">
            {rows.length === 0
              ? <p class="empty">{all.length ? "No run is like that." : "A push, a new version of a pipeline or “pipelinectl run pipeline” sets a run off."}</p>
              : <Rows label="Runs" rows={rows} rowHeight={53} columns={6} more={pages.more} row={(row) => <RunRow key={row.run.id} row={row} />}
                  head={<tr><th>What set it off</th><th>State</th><th class="p2">Stages</th><th class="num p2">Datums</th><th class="num p2">Took</th><th class="num">When</th></tr>} />}
          </div>
        </>
      );
    }}</Content>
  );
}
