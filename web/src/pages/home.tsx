// The start page: does anything need me, what runs, what came in, and what feeds what.
import { useEffect } from "preact/hooks";
import { get } from "../api/client";
import type { Commit, Gpus, Job, Pipeline, Repo, Run, Status } from "../api/schema";
import { name } from "../core/foreign";
import { counted, number, size, spelled } from "../core/format";
import { useLoad } from "../core/load";
import { type Need, disksOf, needOf } from "../core/needs";
import { now } from "../core/now";
import { type Row, causeOfRow, ranWords, sumDatums, withJobs } from "../core/runs";
import { isOver, runState } from "../core/states";
import { setQuery } from "../core/going";
import { announce, needs as needsCount } from "../parts/frame";
import { Bar, datumPieces } from "../parts/bar";
import { Feeds } from "../parts/feeds";
import { RunBars } from "../parts/graph";
import { Icon } from "../parts/icons";
import { LastResults } from "../parts/lastresults";
import { Content, Head, Part } from "../parts/page";
import { Age, Command, Id, Took, To } from "../parts/words";

interface Facts {
  status: Status;
  runs: Run[];
  jobs: Job[];
  pipelines: Pipeline[];
  repos: Repo[];
  needs: Need[];
}

const RUNS = 200;
const JOBS = 2000;

async function load(signal: AbortSignal): Promise<Facts> {
  const [status, runs, jobs, pipelines, repos, listed] = await Promise.all([
    get("/api/v1/status", { signal }),
    get("/api/v1/runs", { query: { limit: RUNS }, signal }),
    get("/api/v1/jobs", { query: { limit: JOBS }, signal }),
    get("/api/v1/pipelines", { query: { limit: 1000 }, signal }),
    get("/api/v1/repos", { query: { limit: 10000 }, signal }),
    get("/api/v1/needs", { signal }),
  ]);
  return { status, runs: runs.runs, jobs: jobs.jobs, pipelines: pipelines.pipelines, repos: repos.repos, needs: listed.needs.map(needOf) };
}

function headline(needs: Need[], running: number): string {
  const first = needs.length === 0 ? "Nothing needs you." : `${spelled(needs.length)} ${needs.length === 1 ? "thing needs" : "things need"} you.`;
  const then = running === 0 ? "Nothing runs." : `${spelled(running)} ${running === 1 ? "run is" : "runs are"} under way.`;
  return `${first} ${then}`;
}

function facts(data: Facts, rows: Row[]): string[] {
  const gpus = (data.status.live as { gpus?: Gpus }).gpus;
  const capacity = (gpus?.gpus.length ?? 0) + (gpus?.nodes ?? []).reduce((sum, node) => sum + node.capacity, 0);
  const held = (gpus?.gpus ?? []).filter((gpu) => gpu.state !== "free").length + (gpus?.nodes ?? []).reduce((sum, node) => sum + node.allocated, 0);
  const disk = disksOf(data.status)[0];
  const day = rows.filter((row) => now.value * 1000 - row.run.created_us < 86400e6);
  const failed = day.filter((row) => row.run.state === "failure").length;
  return [
    capacity ? `${number(held)} of ${counted(capacity, "GPU")} ${held === 1 ? "is" : "are"} held` : "no GPU here",
    disk ? `${size(disk.free_bytes)} of ${size(disk.total_bytes)} free` : "",
    `${counted(day.length, "run")} in the last day${failed ? `, ${number(failed)} failed` : ""}`,
  ].filter(Boolean);
}

function Needs({ needs }: { needs: Need[] }) {
  if (needs.length === 0) return null;
  return (
    <Part id="needs" title="Needs you">
      <ul class="rows panel">
        {needs.map((need) => (
          <li key={need.key}>
            <Icon of={need.shape} class={`state ${need.shape}`} />
            <div class="what"><b><To class="main quiet" row place={need.place}>{need.title}</To></b><p>{need.text}</p></div>
            <div class="side">{need.sinceUs ? <Age us={need.sinceUs} /> : null}<To class="btn small" place={need.place} label={`${need.button}: ${need.title}`}>{need.button}</To></div>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function RunRow({ row }: { row: Row }) {
  const { run, jobs } = row;
  const sum = sumDatums(jobs);
  const over = jobs.filter((job) => isOver(job.state)).length;
  const state = runState(run, jobs);
  const words = isOver(run.state) ? ranWords(jobs) : `${over} of ${counted(jobs.length, "stage")} done · ${number(sum.done + sum.reused + sum.failed)} of ${counted(sum.total, "datum")}`;
  return (
    <tr>
      <td>
        <Icon of={state.shape} class={`state ${state.shape}`} /> <To class="main" row place={{ page: "run", run: run.id }}>{causeOfRow(run, row.pipelines)}</To>
        <small class="ind">{row.pipelines.map(name).join(", ") || run.cause} · <Id of={run.id} />{isOver(run.state) ? <> · {state.word}</> : null}</small>
      </td>
      <td><Bar pieces={datumPieces({ ...sum, leased: 0 }, false, true)} label={words} /><small>{words}</small></td>
      <td class="num p2">{isOver(run.state) ? <Age us={run.created_us} /> : <Took from={run.created_us} to={null} />}</td>
    </tr>
  );
}

function RunTable({ rows, label }: { rows: Row[]; label: string }) {
  return <div class="panel"><table class="list halves" aria-label={label}><tbody>{rows.map((row) => <RunRow key={row.run.id} row={row} />)}</tbody></table></div>;
}

// The newest commits of the repos that take pushes.
function NewData({ repos }: { repos: Repo[] }) {
  const inputs = repos.filter((repo) => repo.kind === "input" && repo.commit);
  const key = inputs.map((repo) => repo.commit).join();
  const commits = useLoad(`new ${key}`, async (signal) => {
    const loaded = await Promise.all(inputs.slice(0, 12).map((repo) =>
      get("/api/v1/repos/{project}/{repo}/commits/{ref}", { path: { project: repo.project, repo: repo.name, ref: repo.commit }, signal }).catch(() => null)));
    return loaded.filter((one): one is Commit => one !== null).sort((a, b) => (b.created_us ?? 0) - (a.created_us ?? 0)).slice(0, 5);
  });
  if (inputs.length === 0) return null;
  return (
    <Part id="new" title="New data" right={<To place={{ page: "data" }}>all repos</To>}>
      <div class="panel">
        <Content of={commits} rows={3}>{(list) => (
          <table class="list" aria-label="New data"><tbody>
            {list.map((commit) => (
              <tr key={`${commit.project}/${commit.repo}`}>
                <td><Icon of="repo" /> <To class="main" row place={{ page: "repo", project: commit.project, repo: commit.repo }}>{name(commit.repo)}</To>
                  <small class="ind">{commit.author ? `${name(commit.author)}: ` : ""}{commit.message ? name(commit.message) : "without a message"}</small></td>
                <td class="num">{counted(commit.files, "file")}<small>{commit.created_us ? <Age us={commit.created_us} /> : null}</small></td>
              </tr>
            ))}
          </tbody></table>
        )}</Content>
      </div>
    </Part>
  );
}

function Bars({ rows, pipeline }: { rows: Row[]; pipeline: { project: string; name: string } }) {
  const bars = barsOf(rows, pipeline);
  return <span class="right p2"><RunBars runs={bars} pipeline={name(pipeline.name)} /><span class="small faint">{counted(bars.length, "run")}</span></span>;
}

function barsOf(rows: Row[], pipeline: { project: string; name: string }) {
  return rows.filter((row) => row.jobs.some((job) => job.pipeline === pipeline.name && job.project === pipeline.project)).slice(0, 24).reverse()
    .map((row) => ({ id: row.run.id, shape: runState(row.run, row.jobs).shape, ms: ((row.run.finished_us ?? now.value * 1000) - row.run.created_us) / 1000 }));
}

function Pipelines({ data, rows, query, project }: { data: Facts; rows: Row[]; query: URLSearchParams; project: string }) {
  const asList = query.get("view") === "list";
  const projects = [...new Set(data.pipelines.map((pipeline) => pipeline.project))];
  const stopped = (one: { project: string; name: string }) => data.pipelines.some((pipeline) => pipeline.project === one.project && pipeline.name === one.name && pipeline.state === "stopped");
  return (
    <Feeds query={query} of={project ? { project } : {}}
      beside={<span class="tabs"><To place={{ page: "home" }} query={{ project }} class={asList ? "" : "on"}>Graph</To><To place={{ page: "home" }} query={{ project, view: "list" }} class={asList ? "on" : ""}>List</To></span>}
      right={projects.length > 1 && (
        <select aria-label="Project" value={project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
          <option value="">all projects</option>{projects.map((one) => <option key={one}>{one}</option>)}
        </select>)}
      titles={{ title: (one) => (
        <h3><To class="quiet" place={{ page: "pipeline", project: one.project, pipeline: one.name }}>{name(one.name)}</To>{" "}
          <span class="faint plain">{one.project} · version {one.version}{one.commit ? ` · ${one.commit.slice(0, 8)}` : ""}{stopped(one) ? " · stopped" : ""}</span></h3>), alone: (one) => <Bars rows={rows} pipeline={one} /> }} />
  );
}

function FirstUse({ repos }: { repos: Repo[] }) {
  const pushed = repos.some((repo) => repo.kind === "input" && repo.commit);
  return (
    <>
      <Head title="Three steps to the first result" lead={["nothing runs here yet"]} />
      <ol class="steps">
        <li><div><h2>Write a pipeline, and create it</h2><p class="muted">A JSON file that names the stages, what they read and what they run.</p><Command text="pipelinectl create pipeline -f pipeline.json" /></div></li>
        <li class={pushed ? "ok" : ""}><div><h2>Push data</h2><p class="muted">Every push is a commit, and sets off what reads it.</p><Command text="pipelinectl put file digits@master:/ -r -f FOLDER" /></div></li>
        <li><div><h2>See what came of it</h2><p class="muted">It appears here while it runs.</p><Command text="pipelinectl status" /></div></li>
      </ol>
    </>
  );
}

export function Home({ query }: { query: URLSearchParams }) {
  const project = query.get("project") ?? "";
  const loaded = useLoad("home", load, (event) => ["run", "job", "progress", "pipeline", "repo", "commit", "source", "store.low"].includes(event.type));
  const data = loaded.data;
  const needs = data?.needs ?? [];
  const worst = needs[0]?.title ?? "";
  useEffect(() => {
    needsCount.value = needs.length;
    if (worst) announce(worst);
  }, [needs.length, worst]);
  return (
    <Content of={loaded} rows={8}>{(facts_) => {
      if (facts_.pipelines.length === 0) return <FirstUse repos={facts_.repos} />;
      const rows = withJobs(facts_.runs, facts_.jobs, facts_.pipelines);
      const running = rows.filter((row) => !isOver(row.run.state));
      const ended = rows.filter((row) => isOver(row.run.state)).slice(0, running.length ? 3 : 5);
      return (
        <>
          <Head title={headline(needs, running.length)} lead={facts(facts_, rows)} />
          <div class="cols">
            <div>
              <Needs needs={needs} />
              {running.length > 0 && <Part id="run" title="Under way" right={<To place={{ page: "runs" }}>all runs</To>}><RunTable rows={running.slice(0, 6)} label="Under way" /></Part>}
              {ended.length > 0 && <Part id="ended" title="Ended last" {...(running.length ? {} : { right: <To place={{ page: "runs" }}>all runs</To> })}><RunTable rows={ended} label="Ended last" /></Part>}
            </div>
            <aside aria-label="Results and new data"><LastResults project={project} /><NewData repos={facts_.repos} /></aside>
          </div>
          <Pipelines data={facts_} rows={rows} query={query} project={project} />
        </>
      );
    }}</Content>
  );
}
