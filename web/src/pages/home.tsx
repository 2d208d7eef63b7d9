// The start page: does anything need me, what runs, what came in, and what feeds what.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { get } from "../api/client";
import type { Gpus, Pipeline, Repo, Run, Status } from "../api/schema";
import { name } from "../core/foreign";
import { numbersOf } from "../core/gpus";
import { counted, msBetween, number, size, spelled } from "../core/format";
import { rootsFirst, staleStages, whyOf } from "../core/freshness";
import { useLoad } from "../core/load";
import { type Need, disksOf, needOf } from "../core/needs";
import { now } from "../core/now";
import { datumsOf, rowState, setOff, stagesWords } from "../core/runfacts";
import { isOver } from "../core/states";
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
  runs: Run[]; // the newest
  moreRuns: boolean; // there are older ones
  running: Run[];
  moreRunning: boolean;
  pipelines: Pipeline[];
  pushed: Repo[]; // the input repos that were pushed to last
  needs: Need[];
}

const RUNS = 200;
const NEW_DATA = 5;
const CHANGES = ["run", "job", "pipeline", "repo", "commit", "source", "store.low"]; // events; `progress` is one, too, but not for the pipelines
const SOONEST_MS = 2000; // between two loads of all of it: each datum that ends is an event

// What each datum that ends may change.
async function load(signal: AbortSignal): Promise<Omit<Facts, "pipelines">> {
  const [status, runs, running, pushed, listed] = await Promise.all([
    get("/api/v1/status", { signal }),
    get("/api/v1/runs", { query: { limit: RUNS }, signal }),
    get("/api/v1/runs", { query: { limit: RUNS, state: "running" }, signal }),
    get("/api/v1/repos", { query: { pushed: true, limit: NEW_DATA }, signal }),
    get("/api/v1/needs", { signal }),
  ]);
  return { status, runs: runs.runs, moreRuns: Boolean(runs.next), running: running.runs, moreRunning: Boolean(running.next), pushed: pushed.repos, needs: listed.needs.map(needOf) };
}

// The pipelines, and which of their stages are out of date: a costly request, and the same after a datum as before it.
async function loadPipelines(signal: AbortSignal): Promise<Pipeline[]> {
  return (await get("/api/v1/pipelines", { query: { limit: 1000 }, signal })).pipelines;
}

function headline(needs: Need[], running: number, more: boolean): string {
  const first = needs.length === 0 ? "Nothing needs you." : `${spelled(needs.length)} ${needs.length === 1 ? "thing needs" : "things need"} you.`;
  const then = running === 0 ? "Nothing runs." : `${more ? `Over ${number(running)}` : spelled(running)} ${running === 1 ? "run is" : "runs are"} under way.`;
  return `${first} ${then}`;
}

function facts(data: Facts): ComponentChildren[] {
  const gpus = (data.status.live as { gpus?: Gpus }).gpus;
  const { all, held } = gpus ? numbersOf(gpus) : { all: 0, held: 0 };
  const disk = disksOf(data.status)[0];
  return [
    all ? `${number(held)} of ${counted(all, "GPU")} ${held === 1 ? "is" : "are"} held` : "no GPU here",
    disk ? `${size(disk.free_bytes)} of ${size(disk.total_bytes)} free` : "",
    <LastDay runs={data.runs} more={data.moreRuns} />,
  ].filter(Boolean);
}

// By the clock, and drawn alone: the page around it is not drawn again each second.
function LastDay({ runs, more }: { runs: Run[]; more: boolean }) {
  const day = runs.filter((run) => now.value * 1000 - run.created_us < 86400e6);
  const over = more && day.length === runs.length;
  const failed = day.filter((run) => run.state === "failure").length;
  return <>{over ? "over " : ""}{counted(day.length, "run")} in the last day{failed ? `, ${number(failed)} ${over ? `of the last ${number(day.length)} ` : ""}failed` : ""}</>;
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

const STALE_SHOWN = 5;

// Outputs that are out of date and that no run brings up to date: those with a reason of their own before those that only follow.
function OutOfDate({ pipelines }: { pipelines: Pipeline[] }) {
  const stages = rootsFirst(staleStages(pipelines, false));
  if (stages.length === 0) return null;
  return (
    <Part id="stale" title="Out of date">
      <ul class="rows panel">
        {stages.slice(0, STALE_SHOWN).map((one) => (
          <li key={`${one.project}/${one.stage}`}>
            <Icon of="stale" />
            <div class="what"><b><To class="main quiet" row place={{ page: "repo", project: one.project, repo: one.stage }}>{name(one.stage)}</To></b> <span class="muted">of {name(one.pipeline)}</span><p>{name(whyOf(one.of))}</p></div>
            <div class="side"><To class="btn small" place={{ page: "pipeline", project: one.project, pipeline: one.pipeline }} label={`See the pipeline of ${name(one.stage)}`}>See the pipeline</To></div>
          </li>
        ))}
        {stages.length > STALE_SHOWN && <li><div class="what muted">and {number(stages.length - STALE_SHOWN)} more: <To place={{ page: "data" }} query={{ stale: "1" }}>all of them</To></div></li>}
      </ul>
    </Part>
  );
}

function RunRow({ run }: { run: Run }) {
  const state = rowState(run);
  const pipelines = [...new Set((run.pipelines ?? []).map((one) => name(one.pipeline)))].join(", ");
  const words = isOver(run.state) ? datumsOf(run) : stagesWords(run);
  return (
    <tr>
      <td>
        <Icon of={state.shape} class={`state ${state.shape}`} /> <To class="main" row place={{ page: "run", run: run.id }}>{setOff(run)}</To>
        <small class="ind">{pipelines || run.cause} · <Id of={run.id} />{isOver(run.state) ? <> · {state.word}</> : null}</small>
      </td>
      <td><Bar pieces={run.datums ? datumPieces(run.datums, false, true) : []} label={words} /><small>{words}</small></td>
      <td class="num p2">{isOver(run.state) ? <Age us={run.created_us} /> : <Took from={run.created_us} to={null} />}</td>
    </tr>
  );
}

function RunTable({ runs, label }: { runs: Run[]; label: string }) {
  return <div class="panel"><table class="list halves" aria-label={label}><tbody>{runs.map((run) => <RunRow key={run.id} run={run} />)}</tbody></table></div>;
}

// The newest commits of the repos that take pushes.
function NewData({ pushed }: { pushed: Repo[] }) {
  const repos = pushed.filter((repo) => repo.commit);
  if (repos.length === 0) return null;
  return (
    <Part id="new" title="New data" right={<To place={{ page: "data" }}>all repos</To>}>
      <div class="panel">
        <table class="list" aria-label="New data"><tbody>
          {repos.map((repo) => (
            <tr key={`${repo.project}/${repo.name}`}>
              <td><Icon of="repo" /> <To class="main" row place={{ page: "repo", project: repo.project, repo: repo.name }}>{name(repo.name)}</To>
                <small class="ind">{repo.author ? `${name(repo.author)}: ` : ""}{repo.message ? name(repo.message) : "without a message"}</small></td>
              <td class="num">{counted(repo.files, "file")}<small>{repo.commit_us ? <Age us={repo.commit_us} /> : null}</small></td>
            </tr>
          ))}
        </tbody></table>
      </div>
    </Part>
  );
}

function Bars({ runs, pipeline }: { runs: Run[]; pipeline: { project: string; name: string } }) {
  const bars = barsOf(runs, pipeline);
  return <span class="right p2"><RunBars runs={bars} pipeline={name(pipeline.name)} /><span class="small faint">{counted(bars.length, "run")}</span></span>;
}

function barsOf(runs: Run[], pipeline: { project: string; name: string }) {
  return runs.filter((run) => run.pipelines?.some((one) => one.pipeline === pipeline.name && one.project === pipeline.project)).slice(0, 24).reverse()
    .map((run) => ({ id: run.id, shape: rowState(run).shape, ms: msBetween(run.created_us, run.finished_us, now.value) }));
}

function Pipelines({ data, query, project }: { data: Facts; query: URLSearchParams; project: string }) {
  const asList = query.get("view") === "list";
  const projects = [...new Set(data.pipelines.map((pipeline) => pipeline.project))];
  const stopped = (one: { project: string; name: string }) => data.pipelines.some((pipeline) => pipeline.project === one.project && pipeline.name === one.name && pipeline.state === "stopped");
  return (
    <Feeds query={query} of={project ? { project } : {}}
      beside={<span class="tabs"><To place={{ page: "home" }} query={{ project }} chosen={!asList}>Graph</To><To place={{ page: "home" }} query={{ project, view: "list" }} chosen={asList}>List</To></span>}
      right={projects.length > 1 && (
        <select aria-label="Project" value={project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
          <option value="">all projects</option>{projects.map((one) => <option key={one}>{one}</option>)}
        </select>)}
      titles={{ title: (one) => (
        <h3><To class="quiet" place={{ page: "pipeline", project: one.project, pipeline: one.name }}>{name(one.name)}</To>{" "}
          <span class="faint plain">{one.project} · version {one.version}{one.commit ? ` · ${one.commit.slice(0, 8)}` : ""}{stopped(one) ? " · stopped" : ""}</span></h3>), alone: (one) => <Bars runs={data.runs} pipeline={one} /> }} />
  );
}

function Step({ done, title, children }: { done: boolean; title: string; children: ComponentChildren }) {
  return <li class={done ? "ok" : ""}><div><h3>{title}{done && <span class="visually-hidden">: done</span>}</h3>{children}</div></li>;
}

// What leads to the first result, ticked off as it happens.
function Steps({ data }: { data: Facts }) {
  const input = data.pushed[0];
  return (
    <ol class="steps">
      <Step done={data.pipelines.length > 0} title="Write a pipeline, and create it"><p class="muted">A JSON file that names the stages, what they read and what they run.</p><Command text="pipelinectl create pipeline -f pipeline.json" /></Step>
      <Step done={Boolean(input?.commit)} title="Push data"><p class="muted">Every push is a commit, and sets off what reads it.</p>
        <Command text={`pipelinectl put file ${input ? `${input.project === "default" ? "" : `${input.project}/`}${input.name}` : "REPO"}@master:/ -r -f FOLDER`} /></Step>
      <Step done={data.runs.some((run) => isOver(run.state))} title="See what came of it"><p class="muted">It appears here while it runs.</p><Command text="pipelinectl status" /></Step>
    </ol>
  );
}

export function Home({ query }: { query: URLSearchParams }) {
  const project = query.get("project") ?? "";
  const rest = useLoad("home", load, (event) => event.type === "progress" || CHANGES.includes(event.type), SOONEST_MS);
  const pipelines = useLoad("home.pipelines", loadPipelines, (event) => CHANGES.includes(event.type), SOONEST_MS);
  const data = rest.data && pipelines.data && { ...rest.data, pipelines: pipelines.data };
  const loaded = { data, error: rest.error ?? pipelines.error, loading: rest.loading || pipelines.loading, reload: () => { rest.reload(); pipelines.reload(); } };
  const needs = data?.needs ?? [];
  const worst = needs[0]?.title ?? "";
  useEffect(() => {
    needsCount.value = needs.length;
    if (worst) announce(worst);
  }, [needs.length, worst]);
  return (
    <Content of={loaded} rows={8}>{(facts_) => {
      if (facts_.pipelines.length === 0) {
        return (
          <>
            <Head title="Three steps to the first result" lead={["nothing runs here yet"]} />
            <Part id="steps" title="What to do"><Steps data={facts_} /></Part>
          </>
        );
      }
      const first = !facts_.moreRuns && !facts_.runs.some((run) => isOver(run.state));
      const { running } = facts_;
      const ended = facts_.runs.filter((run) => isOver(run.state)).slice(0, running.length ? 3 : 5);
      return (
        <>
          <Head title={headline(needs, running.length, facts_.moreRunning)} lead={facts(facts_)} />
          {first && <Part id="steps" title="To the first result"><Steps data={facts_} /></Part>}
          <div class="cols">
            <div>
              <Needs needs={needs} />
              <OutOfDate pipelines={facts_.pipelines} />
              {running.length > 0 && <Part id="run" title="Under way" right={<To place={{ page: "runs" }}>all runs</To>}><RunTable runs={running.slice(0, 6)} label="Under way" /></Part>}
              {ended.length > 0 && <Part id="ended" title="Ended last" {...(running.length ? {} : { right: <To place={{ page: "runs" }}>all runs</To> })}><RunTable runs={ended} label="Ended last" /></Part>}
            </div>
            <aside aria-label="Results and new data"><LastResults project={project} /><NewData pushed={facts_.pushed} /></aside>
          </div>
          <Pipelines data={facts_} query={query} project={project} />
        </>
      );
    }}</Content>
  );
}
