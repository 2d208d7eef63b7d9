// One run: what set it off, what it did and why, when it is done; stop, rerun, retry.
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../api/client";
import { listen } from "../api/events";
import type { Job, Pipeline, Run } from "../api/schema";
import { name } from "../core/foreign";
import { counted, duration, msBetween, number, percent, short, size } from "../core/format";
import { go } from "../core/going";
import { useLoad } from "../core/load";
import { lastLineOf, metricWords } from "../core/metrics";
import { now } from "../core/now";
import { pathOf } from "../core/places";
import { changeOf, heardOf, leftOf, setOff, withProgress } from "../core/runfacts";
import { changeWords, retryOf, sumDatums, waitReason, withJobs } from "../core/runs";
import { may } from "../core/session";
import { isWaiting, datumWords, isOver, jobState, runState, stateOf } from "../core/states";
import { Act } from "../parts/act";
import { DatumBar } from "../parts/bar";
import { Confirm } from "../parts/dialog";
import { useAnnounced } from "../parts/frame";
import { RetryDialog } from "../parts/retry";
import { RunGraph } from "../parts/rungraph";
import { Icon, StateWord } from "../parts/icons";
import { Crumbs, Head, Part } from "../parts/page";
import { Lanes } from "../parts/lanes";
import { Timeline } from "../parts/timeline";
import { Command, Id, Repo, Took, To, When } from "../parts/words";
import { Existing } from "./gone";

// How far it has come, as the second half of the headline.
export function progressOf(run: Run, jobs: Job[]): string {
  const failed = jobs.find((job) => job.state === "failure");
  if (failed) return `${name(failed.stage)} failed`;
  const partly = jobs.filter((job) => job.state === "success" && job.datums.failed > 0);
  if (isOver(run.state)) {
    if (run.superseded_by) return `a newer run took its place`;
    if (run.state === "killed") return "it was stopped";
    if (run.state === "unrunnable") return "it could not run";
    if (partly.length) return `${counted(partly[0]!.datums.failed, "datum")} failed in ${name(partly[0]!.stage)}`;
    if (jobs.length === 0) return "no stage had to run";
    return sumDatums(jobs).done === 0 ? "nothing had to be computed again" : jobs.length === 1 ? "its stage is done" : `all ${number(jobs.length)} stages are done`;
  }
  const working = jobs.find((job) => !isOver(job.state) && !isWaiting(job));
  if (working) {
    const { done, reused, failed: bad, total } = working.datums;
    return total > 1 ? `${name(working.stage)} is at ${number(done + reused + bad)} of ${counted(total, "datum")}` : `${name(working.stage)} is ${stateOf(working.state).word.toLowerCase()}`;
  }
  const waiting = jobs.find((job) => isWaiting(job) && !/for stage /.test(job.reason)) ?? jobs.find(isWaiting);
  return waiting ? `${name(waiting.stage)} waits ${waitReason(waiting)}` : "about to begin";
}

function WhyCell({ job }: { job: Job }) {
  return job.state === "unrunnable" || (job.state === "killed" && !job.started_us) ? <span class="faint">–</span> : <WhyFound job={job} />;
}

function WhyFound({ job }: { job: Job }) {
  const path = { project: job.project, stage: job.stage, run: job.run };
  const cause = useLoad(`cause ${job.project}/${job.stage}/${job.run} ${isOver(job.state)}`, (signal) => get("/api/v1/jobs/{project}/{stage}/{run}/cause", { path, signal }));
  if (cause.loading) return <span class="faint">…</span>;
  const found = cause.data;
  if (!found?.text) return <span class="faint">–</span>;
  // the sentence leads to what changed first
  const first = found.inputs.find((input) => input.project && input.repo && input.from && input.to && (input.added || input.changed || input.removed || input.more));
  const text = name(found.text);
  return first ? <To place={{ page: "diff", project: first.project!, repo: first.repo!, from: first.from!, to: first.to! }} class="quiet why-link">{text}</To> : <>{text}</>;
}

function DatumCell({ job }: { job: Job }) {
  if (isWaiting(job) && job.datums.done + job.datums.reused === 0) return <span class="muted">{waitReason(job)}</span>;
  if (job.state === "unrunnable" || (job.state === "failure" && job.datums.total === 0)) return <span class="muted">{name(job.reason)}</span>;
  const over = isOver(job.state);
  const line = over ? "" : metricWords(lastLineOf(job));
  const failed = job.datums.failed > 0;
  return (
    <>
      <DatumBar datums={job.datums} gpu={job.device === "gpu"} over={over} />
      <small>{datumWords(job.datums, over)}{!over && failed ? ` · ${number(job.datums.failed)} failed` : ""}{line ? ` · ${line}` : ""}</small>
    </>
  );
}

function StageRow({ job }: { job: Job }) {
  const state = jobState(job);
  return (
    <tr>
      <td><To class="main" row place={{ page: "job", project: job.project, stage: job.stage, run: job.run }}>{name(job.stage)}</To>
        {job.device === "gpu" && <> <span class="chip gpu">GPU</span></>}</td>
      <td><StateWord of={state} /></td>
      <td><DatumCell job={job} /><small class="narrow"><WhyCell job={job} /></small></td>
      <td class="p2 muted"><WhyCell job={job} /></td>
      <td class="num p2">{job.started_us ? <Took from={job.started_us} to={job.finished_us} /> : null}</td>
      <td class="num p3">{job.output ? <To class="quiet" place={{ page: "files", project: job.project, repo: job.stage, ref: job.output, path: "" }}>{size(bytesOf(job, "out"))}</To> : <span class="faint">–</span>}</td>
    </tr>
  );
}

function bytesOf(job: Job, which: string): number {
  return Number((job.bytes as Record<string, number>)[which] ?? 0);
}

function Cause({ run }: { run: Run }) {
  const pushed = run.cause === "push" ? run.pushed : undefined;
  const change = changeOf(run);
  return (
    <Part id="cause" title="What set it off">
      <div class="panel pad stack">
        {pushed ? (
          <>
            <p>{run.author ? <><b>{name(run.author)}</b> pushed to </> : "A push to "}<Repo project={pushed.project} repo={pushed.repo} branch={pushed.branch} /> at <When us={run.created_us} /></p>
            <p class="muted">{run.message ? `“${name(run.message)}”` : "without a message"}{change ? ` · ${changeWords(change)}, ${size(pushed.changed_bytes ?? 0)}` : ""}</p>
            <p class="acts">
              {pushed.parent && <To class="btn small" place={{ page: "diff", project: pushed.project, repo: pushed.repo, from: pushed.parent, to: run.id }}>See the diff</To>}
              <To class="btn small" place={{ page: "files", project: pushed.project, repo: pushed.repo, ref: run.id, path: "" }}>Browse the commit</To>
            </p>
          </>
        ) : (
          <>
            <p>{setOff(run)}, at <When us={run.created_us} /></p>
            {run.author && <p class="muted">by <b>{name(run.author)}</b>{run.agent ? ` with ${name(run.agent)}` : ""}</p>}
          </>
        )}
      </div>
    </Part>
  );
}

function notes(jobs: Job[]): { shape: "part" | "waiting"; text: string }[] {
  const out: { shape: "part" | "waiting"; text: string }[] = [];
  for (const job of jobs) {
    if (job.state === "success" && job.datums.failed > 0) out.push({ shape: "part", text: `${name(job.stage)} leaves failed datums out, so the run goes on without ${number(job.datums.failed)} of them.` });
    for (const warning of job.warnings) out.push({ shape: "waiting", text: `${name(job.stage)}: ${name(warning)}` });
  }
  return out;
}

const figureOf = (job: Job, key: string) => Number((job.ms as Record<string, number>)[key] ?? 0);

function TimeTable({ jobs }: { jobs: Job[] }) {
  const some = jobs.filter((job) => job.started_us && job.datums.done + job.datums.failed > 0);
  if (some.length === 0) return null;
  const gpu = some.some((job) => job.gpu);
  return (
    <div class="panel scroll" tabIndex={0} role="group" aria-label="Times of each stage">
      <table class="list" aria-label="Times of each stage">
        <thead><tr><th>Stage</th><th class="num">Workers waited</th><th class="num">Fetched</th><th class="num">Computed</th><th class="num">Uploaded</th><th class="num">Most memory</th>{gpu && <th>GPU</th>}</tr></thead>
        <tbody>{some.map((job) => (
          <tr key={job.stage}>
            <td>{name(job.stage)}</td>
            {["wait", "fetch", "compute", "upload"].map((key) => <td class="num" key={key}>{duration(figureOf(job, key))}</td>)}
            <td class="num">{job.mem_peak ? size(job.mem_peak) : "–"}</td>
            {gpu && <td>{job.gpu ? `held ${duration(job.gpu.held_ms)}, waited for data ${duration(job.gpu.waiting_ms)}, ${job.gpu.measured_ms ? `busy ${percent(job.gpu.used_ms ?? 0, job.gpu.measured_ms)}` : "use not measured"}` : "–"}</td>}
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

type Asked = "stop" | "rerun" | "retry" | null;

function Actions({ run, jobs }: { run: Run; jobs: Job[] }) {
  const [asked, ask] = useState<Asked>(null);
  const allowed = jobs.length > 0 && jobs.every((job) => may("writer", job.project, job.stage));
  if (!allowed) return null;
  const over = isOver(run.state);
  const retry = over ? retryOf(run.id, jobs) : null;
  const left = jobs.filter((job) => !isOver(job.state)).length;
  const again = async () => {
    const made = await post("/api/v1/runs/{run}/rerun", { run: run.id }, {});
    go(pathOf({ page: "run", run: made.run }));
  };
  const id = short(run.id);
  return (
    <>
      {retry && <Act onClick={() => ask("retry")}><Icon of="again" />{retry.text}</Act>}
      {over && <Act onClick={() => ask("rerun")}>Rerun…</Act>}
      {!over && <Act onClick={() => ask("stop")}><Icon of="stop" />Stop</Act>}
      {asked === "stop" && (
        <Confirm title={`Stop run ${id}?`} doIt="Stop run" leave="Keep it running" close={() => ask(null)} act={async () => void (await post("/api/v1/runs/{run}/stop", { run: run.id }))}>
          <p>{counted(left, "stage")} {left === 1 ? "ends" : "end"} now. What is done is kept and not done again.</p><Command text={`pipelinectl stop run ${id}`} />
        </Confirm>)}
      {asked === "retry" && retry && <RetryDialog retry={retry} run={run.id} close={() => ask(null)} />}
      {asked === "rerun" && (
        <Confirm title={`Run ${counted(jobs.length, "stage")} of run ${id} again?`} doIt="Rerun" leave="Leave it" close={() => ask(null)} act={again}>
          <p>A new run computes every datum again over the commits that this run read. Its results replace the present ones when they differ.</p><Command text={`pipelinectl rerun ${id}`} />
        </Confirm>)}
    </>
  );
}

// What the clock changes is drawn alone: the page around it is not drawn again each second.
function So({ from }: { from: number }) {
  return <>{duration(msBetween(from, null, now.value))}</>;
}

function Left({ run }: { run: Run }) {
  return <>{leftOf(run, now.value)}</>;
}

function Found({ run, pipelines, asGraph }: { run: Run; pipelines: Pipeline[]; asGraph: boolean }) {
  const [row] = withJobs([run], run.jobs ?? [], pipelines);
  const jobs = row!.jobs;
  const over = isOver(run.state);
  const done = jobs.filter((job) => isOver(job.state)).length;
  const toKnow = notes(jobs);
  useAnnounced(heardOf(run, jobs, progressOf(run, jobs)));
  return (
    <>
      <Crumbs>{[<To place={{ page: "runs" }}>Runs</To>, row!.pipelines.length ? <span>{row!.pipelines.map(name).join(", ")}</span> : null, <Id of={run.id} />]}</Crumbs>
      <Head title={`${setOff(run)}; ${progressOf(run, jobs)}.`} acts={<Actions run={run} jobs={jobs} />}
        lead={[
          <><StateWord of={runState(run, jobs)} />{over ? <> in <Took from={run.created_us} to={run.finished_us} /></> : <> for <So from={run.created_us} /></>}</>,
          <Left run={run} />,
          over ? <>began <When us={run.created_us} /></> : `${done} of ${counted(jobs.length, "stage")} ended`,
          run.superseded_by ? <>see <Id of={run.superseded_by} place={{ page: "run", run: run.superseded_by }} /></> : null,
        ]} />
      <div class="cols">
        <div>
          <Part id="stages" title="What ran, and why" beside={jobs.length > 0 && <span class="tabs">
            <To place={{ page: "run", run: run.id }} chosen={!asGraph}>List</To><To place={{ page: "run", run: run.id }} query={{ view: "graph" }} chosen={asGraph}>Graph</To></span>}>
            {asGraph && jobs.length > 0 ? <RunGraph jobs={jobs} /> : jobs.length === 0 ? <p class="panel empty">This run set off no job.</p> : (
              <div class="panel">
                <table class="list stages" aria-label="Stages of the run">
                  <thead><tr><th>Stage</th><th>State</th><th>Datums</th><th class="p2">Why it ran</th><th class="num p2">Took</th><th class="num p3">Wrote</th></tr></thead>
                  <tbody>{jobs.map((job) => <StageRow key={job.stage} job={job} />)}</tbody>
                </table>
              </div>)}
          </Part>
          {jobs.some((job) => job.started_us) && (
            <Part id="time" title="Where the time goes"><Timeline run={run} jobs={jobs} /><Lanes run={run} /><div class="after"><TimeTable jobs={jobs} /></div></Part>)}
        </div>
        <aside aria-label="About this run">
          <Cause run={run} />
          {toKnow.length > 0 && (
            <Part id="know" title="To know"><ul class="panel pad words stack">{toKnow.map((note) => <li key={note.text}><Icon of={note.shape} class={`state ${note.shape}`} />{note.text}</li>)}</ul></Part>)}
        </aside>
      </div>
    </>
  );
}

export function RunPage({ run, query }: { run: string; query: URLSearchParams }) {
  const concerns = (event: { type: string; data: Record<string, unknown> }) =>
    (event.type === "run" || event.type === "job") && String(event.data["run"] ?? event.data["id"] ?? "").startsWith(run.slice(0, 32));
  const loaded = useLoad(`run ${run}`, (signal) => get("/api/v1/runs/{run}", { path: { run }, signal }), concerns);
  const pipelines = useLoad("pipelines", async (signal) => (await get("/api/v1/pipelines", { query: { limit: 1000 }, signal })).pipelines, (event) => event.type === "pipeline");
  // datums that end are told: nothing is asked for them
  const [told, tell] = useState<Record<string, Record<string, unknown>>>({});
  useEffect(() => listen((event) => {
    if (event.type === "progress" && String(event.data["run"]).startsWith(run.slice(0, 32))) tell((before) => ({ ...before, [`${event.data["project"]}/${event.data["stage"]}`]: event.data }));
  }), [run]);
  return <Existing of={loaded} what={`run ${name(run)}`}>{(found) => <Found run={Object.values(told).reduce(withProgress, found)} pipelines={pipelines.data ?? []} asGraph={query.get("view") === "graph"} />}</Existing>;
}
