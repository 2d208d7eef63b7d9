// One stage of one run: what broke, whether it is one thing, and how to reproduce it; or what it did, when nothing failed.
import { useState } from "preact/hooks";
import { fileAddress, get, inputsAddress, post } from "../api/client";
import type { Attempt, FailureGroup, Failures, Job } from "../api/schema";
import { beforeOf, commonOf, endOf, headlineOf, lineThatMatters, paramsWords, pathOfDatum } from "../core/failures";
import { logLine, logText, middle, name } from "../core/foreign";
import { counted, duration, number, short, size } from "../core/format";
import { setQuery } from "../core/going";
import { usePageKeys } from "../core/keys";
import { useLoad } from "../core/load";
import { groupRetryOf, inputsOf, retryOf } from "../core/runs";
import { may } from "../core/session";
import { isWaiting, datumWords, isOver, jobState } from "../core/states";
import { Act } from "../parts/act";
import { DatumBar } from "../parts/bar";
import { Curves } from "../parts/curves";
import { Confirm } from "../parts/dialog";
import { type DatumRow, DatumRows } from "../parts/datumrows";
import { useAnnounced } from "../parts/frame";
import { GroupRetryDialog, RetryDialog } from "../parts/retry";
import { Icon, StateWord } from "../parts/icons";
import { Content, Crumbs, ErrorNote, Head, Part } from "../parts/page";
import { usePages } from "../parts/rows";
import { Command, Id, Repo, Took, To, When } from "../parts/words";
import { Existing } from "./gone";

const PAGE = 200; // datums, or attempts, that are asked for at once
const SOONEST_MS = 1000; // between two loads of all of it: each datum that ends is an event

// Which datums are listed, by `state` in the address: the words of the daemon and those of people.
const STATES = [["failed", "failed"], ["success", "done"], ["lost", "lost with their worker"], ["reused", "reused"], ["all", "all"]] as const;
type Shown = (typeof STATES)[number][0];

interface Facts {
  job: Job;
  failures: Failures;
}

async function load(project: string, stage: string, run: string, signal: AbortSignal): Promise<Facts> {
  const job = await get("/api/v1/jobs/{project}/{stage}/{run}", { path: { project, stage, run }, signal });
  const failures = await get("/api/v1/jobs/{project}/{stage}/{run}/failures", { path: { project, stage, run: job.run }, signal });
  return { job, failures };
}

// What is listed: what the address says, else what failed, else what was done.
function shownOf(failures: Failures, query: URLSearchParams): Shown {
  const asked = STATES.map(([state]) => state).find((state) => state === query.get("state"));
  if (asked) return asked;
  const datum = query.get("datum");
  // how a datum ended that is named without its group is not known here: it may have succeeded
  if (datum && !query.get("group") && !failures.groups.some((group) => group.datum.startsWith(datum))) return "all";
  return failures.groups.length > 0 ? "failed" : "success";
}

function StateTabs({ facts: { job, failures }, shown }: { facts: Facts; shown: Shown }) {
  const there = (state: Shown) => (state === "failed" ? failures.groups.length > 0 : state !== "reused" || shown === state || job.datums.reused > 0);
  return (
    <span class="tabs" role="group" aria-label="Which datums">
      {STATES.filter(([state]) => there(state)).map(([state, words]) => (
        <a key={state} href={`${location.pathname}?state=${state}`} aria-current={state === shown ? "true" : undefined}>{words}</a>))}
    </span>
  );
}

function Ways({ facts, chosen }: { facts: Facts; chosen: FailureGroup }) {
  const { failures } = facts;
  const { groups } = failures;
  return (
    <Part id="ways" title={groups.length === 1 ? "One way it failed" : `${number(groups.length)} ways it failed`}>
      <ul class="rows panel pick">
        {groups.map((group) => (
          <li key={group.id} class={group === chosen ? "sel" : ""}>
            <b class="count">{number(group.count)}</b>
            <div class="what">
              <b><a class="main quiet" data-row href={pathHere(group.datum, group.id)} aria-current={group === chosen ? "true" : undefined}>{middle(group.message, 110)}</a></b>
              <p><code>{name(group.reason)}</code></p>
              {commonOf(group).slice(0, 2).map((text) => <p class="small" key={text}>{text}</p>)}
            </div>
          </li>
        ))}
      </ul>
      {failures.kept < failures.failed && <p class="small faint after">of the {number(failures.kept)} whose attempts are kept</p>}
      <RetryGroup key={chosen.id} facts={facts} group={chosen} />
    </Part>
  );
}

function pathHere(datum: string, group = "", state = ""): string {
  return `${location.pathname}?${state ? `state=${state}&` : ""}${group ? `group=${group}&` : ""}datum=${datum}`;
}

function DatumInputs({ job, paths }: { job: Job; paths: string }) {
  const inputs = inputsOf(job);
  return (
    <>{paths.split(", ").map((one) => {
      const at = one.indexOf("=");
      const input = inputs.find((input_) => input_.name === one.slice(0, at));
      const path = one.slice(at + 1);
      const file = path.replace(/^\//, "");
      return (
        <div key={one}>
          <Icon of="file" /> {input
            ? <To place={{ page: "files", project: input.project, repo: input.repo, ref: input.commit, path: file }}><code>{middle(`${input.repo}:${path}`, 70)}</code></To>
            : <code>{middle(one, 70)}</code>}
          {input && file && !file.endsWith("/") && <> <a class="small" download href={fileAddress(input.project, input.repo, input.commit, file)}>download</a></>}
        </div>
      );
    })}</>
  );
}

function LastLines({ tail, failed }: { tail: string; failed: boolean }) {
  const lines = tail.replace(/\n$/, "").split("\n").map(logLine);
  const bad = failed ? lineThatMatters(lines.join("\n")).at : -1;
  const from = Math.max(0, lines.length - 50);
  return (
    <div class="panel log" tabIndex={0} role="region" aria-label="The last lines that it printed">
      {lines.slice(from).map((line, i) => <div class={from + i === bad ? "bad" : ""}><span class="n" aria-hidden="true">{from + i + 1}</span>{line || " "}</div>)}
    </div>
  );
}

function Attempts({ attempts }: { attempts: Attempt[] }) {
  return (
    <Part id="attempts" title="Attempts">
      <div class="panel scroll" tabIndex={0} role="group" aria-label="Attempts">
        <table class="list" aria-label="Attempts">
          <thead><tr><th>Attempt</th><th>How it ended</th><th>Node</th><th class="num">Computed</th><th class="num">Most memory</th><th class="num">When</th></tr></thead>
          <tbody>{attempts.map((attempt) => {
            const ms = attempt.ms as { compute?: number } | null;
            const usage = attempt.rusage as { max_rss_kb?: number } | null;
            return (
              <tr key={`${attempt.attempt} ${attempt.fence}`}>
                <td>{attempt.attempt}{attempt.run && <> in run <Id of={attempt.run} place={{ page: "run", run: attempt.run }} /></>}</td>
                <td><Icon of={attempt.state === "success" ? "done" : attempt.state === "lost" ? "not" : "failed"} class={`state ${attempt.state === "success" ? "done" : attempt.state === "lost" ? "not" : "failed"}`} /> {name(endOf(attempt))}</td>
                <td>{name(attempt.pod ?? attempt.node ?? "–")}</td>
                <td class="num">{ms?.compute !== undefined ? duration(ms.compute) : "–"}</td>
                <td class="num">{usage?.max_rss_kb ? size(usage.max_rss_kb * 1024) : "–"}</td>
                <td class="num"><When us={attempt.finished_us} /></td>
              </tr>
            );
          })}</tbody>
        </table>
      </div>
    </Part>
  );
}

function OneDatum({ job, id, group, jobs = 0 }: { job: Job; id: string; group?: FailureGroup; jobs?: number }) {
  const path = { project: job.project, stage: job.stage, run: job.run, datum: id };
  const loaded = useLoad(`datum ${job.stage} ${job.run} ${id}`, (signal) => get("/api/v1/jobs/{project}/{stage}/{run}/datums/{datum}", { path, signal }));
  const tryLine = loaded.data?.try ?? "";
  usePageKeys({ c: () => void navigator.clipboard?.writeText(tryLine) }, [tryLine]);
  return (
    <Content of={loaded} rows={8}>{(found) => {
      const last = found.attempts[found.attempts.length - 1];
      if (!last) return <p class="panel empty">No attempt at this datum is kept.</p>;
      const tail = last.tail ?? "";
      const matters = last.state === "success" || last.state === "reused" ? null : tail ? lineThatMatters(logText(tail)).line : endOf(last);
      const ms = last.ms as { fetch?: number; compute?: number } | null;
      return (
        <div>
          {last.run && <p class="muted">This run did not try the datum again: it {last.state === "failed" ? "failed" : last.state === "lost" ? "was lost" : "was computed"} in run <Id of={last.run} place={{ page: "job", project: job.project, stage: job.stage, run: last.run }} />.</p>}
          {matters && (
            <section aria-labelledby="h-line">
              <div class="bar-head"><h2 id="h-line">The line that matters</h2><span class="right"><span class="chip fail">{middle(endOf(last), 60)}</span></span></div>
              <p class="that">{name(matters)}</p>
            </section>)}
          <div class="facts">
            {group && (
              <div><h3>{group.count > 1 ? `What the ${number(group.count)} have in common` : "This failure"}</h3>
                <ul class="muted">{[...(group.count > 1 ? commonOf(group) : []), beforeOf(group, jobs)].filter(Boolean).map((text) => <li key={text}>{text}</li>)}
                  {group.run_before && <li>last in run <Id of={group.run_before} place={{ page: "run", run: group.run_before }} /></li>}</ul></div>)}
            <div><h3>This datum</h3>
              <dl class="kv">
                <dt>Input</dt><dd><DatumInputs job={job} paths={last.paths ?? ""} />
                  {inputsOf(job).length > 0 && <p class="after"><a class="btn small" download href={inputsAddress(job.project, job.stage, job.run, found.id)}><Icon of="down" />Download inputs</a></p>}</dd>
                {last.params && <><dt>Parameters</dt><dd>{paramsWords(last.params as Record<string, unknown>)}</dd></>}
                <dt>Id</dt><dd><span class="id" title={found.id}>{found.id.slice(0, 12)}</span></dd>
                {last.state !== "reused" && <><dt>Time</dt><dd>fetched in {duration(ms?.fetch ?? 0)}, computed {duration(ms?.compute ?? 0)}</dd></>}
              </dl></div>
          </div>
          <section class="first" aria-labelledby="h-try"><div class="bar-head"><h2 id="h-try">Try it here</h2></div><Command text={tryLine} /></section>
          <section aria-labelledby="h-out">
            <div class="bar-head"><h2 id="h-out">What it printed</h2>{last.state !== "reused" && <span class="faint">{tail ? "last lines, " : ""}attempt {last.attempt}</span>}
              <span class="right"><To place={{ page: "log", project: job.project, stage: job.stage, run: last.run ?? job.run }} query={{ datum: found.id }}>whole log</To></span></div>
            {tail ? <LastLines tail={tail} failed={matters !== null} /> : <p class="panel empty">{last.state === "reused" ? "The attempt that computed it is not kept" : last.state === "success" ? "It printed nothing, or its lines are in the whole log" : "It printed nothing"}.</p>}
          </section>
          <Attempts attempts={found.attempts} />
        </div>
      );
    }}</Content>
  );
}

// The button that tries the datums of the group again, or why there is none.
function RetryGroup({ facts, group }: { facts: Facts; group: FailureGroup }) {
  const [asked, ask] = useState(false);
  const { job, failures } = facts;
  const retry = may("writer", job.project, job.stage) ? groupRetryOf(job, group, failures) : null;
  if (retry === null) return null;
  if (typeof retry === "string") return <p class="small muted after">{retry}</p>;
  return (
    <p class="after">
      <Act onClick={() => ask(true)}><Icon of="again" />{retry.text}</Act>
      {asked && <GroupRetryDialog retry={retry} job={job} close={() => ask(false)} />}
    </p>
  );
}

function Failed({ facts, query }: { facts: Facts; query: URLSearchParams }) {
  const { job, failures } = facts;
  const wanted = query.get("datum") ?? "";
  const group = failures.groups.find((one) => one.id === query.get("group")) ?? failures.groups.find((one) => wanted && one.datum.startsWith(wanted)) ?? failures.groups[0]!;
  const path = { project: job.project, stage: job.stage, run: job.run };
  const key = `failures ${job.project}/${job.stage} ${job.run} ${group.id}`;
  const ask = (after: string | undefined, signal?: AbortSignal) => get("/api/v1/jobs/{project}/{stage}/{run}/failures", { path, query: { group: group.id, limit: PAGE, ...(after ? { after } : {}) }, signal })
    .then((page) => ({ items: (page.datums ?? []).map((one): DatumRow => ({ key: one.id, id: one.id, text: pathOfDatum(one.paths).split("/").pop() || one.paths, bytes: one.bytes ?? 0 })), next: page.next ?? undefined }));
  const first = useLoad(key, (signal) => ask(undefined, signal), (event) => !isOver(job.state) && event.type === "progress" && event.data["stage"] === job.stage && event.data["run"] === job.run, SOONEST_MS);
  const pages = usePages(key, first.data, (after) => ask(after));
  const datum = pages.items.find((one) => wanted && one.id.startsWith(wanted))?.id ?? (wanted || group.datum);
  const step = (by: number) => {
    const at = pages.items.findIndex((one) => one.id === datum) + by;
    if (at >= pages.items.length - 1) pages.more?.();
    if (pages.items[at]) setQuery({ group: group.id, datum: pages.items[at].id });
  };
  usePageKeys({ n: () => step(1), p: () => step(-1) });
  return (
    <div class="failing">
      <div>
        <Ways facts={facts} chosen={group} />
        <DatumRows key={key} title={counted(group.count, "datum")} tabs={<StateTabs facts={facts} shown="failed" />} pages={pages} total={group.count} chosen={datum} to={(id) => pathHere(id, group.id)} />
        {(first.error ?? pages.error) && <ErrorNote error={(first.error ?? pages.error)!} retry={pages.more ?? first.reload} />}
      </div>
      <OneDatum key={datum} job={job} id={datum} group={group} jobs={failures.jobs_examined} />
    </div>
  );
}

// The kept attempts in one state, the datums whose results come from earlier runs, or all of them.
function Whole({ facts, query, shown }: { facts: Facts; query: URLSearchParams; shown: Shown }) {
  const { job } = facts;
  const wanted = query.get("datum") ?? "";
  const over = isOver(job.state);
  const path = { project: job.project, stage: job.stage, run: job.run };
  const key = `datums ${job.project}/${job.stage} ${job.run} ${shown}`;
  const ask = (after: string | undefined, signal?: AbortSignal) => get("/api/v1/jobs/{project}/{stage}/{run}/datums", { path, query: { limit: PAGE, ...(shown === "all" ? {} : { state: shown }), ...(after ? { after } : {}) }, signal })
    .then((page) => ({ items: page.datums.map(rowOf), next: page.next ?? undefined }));
  const first = useLoad(key, (signal) => ask(undefined, signal), (event) => !over && event.type === "progress" && event.data["stage"] === job.stage && event.data["run"] === job.run, SOONEST_MS);
  const pages = usePages(key, first.data, (after) => ask(after));
  const row = pages.items.find((one) => wanted && one.id.startsWith(wanted)) ?? (wanted ? undefined : pages.items[0]);
  const chosen = row?.id ?? wanted;
  const from = row?.reused; // the run that has its attempts
  const tabs = <StateTabs facts={facts} shown={shown} />;
  return (
    <>
      <Curves project={job.project} stage={job.stage} run={job.run} live={!over} />
      <div class="panel pad after"><DatumBar datums={job.datums} gpu={job.device === "gpu"} over={over} /><p class="small muted after">{datumWords(job.datums, over)}</p></div>
      {(first.error ?? pages.error) && <ErrorNote error={(first.error ?? pages.error)!} retry={pages.more ?? first.reload} />}
      <section class="failing">
        <DatumRows key={key} title={shown === "reused" ? "Datums reused" : shown === "all" ? "Datums" : "Datums that ran"} tabs={tabs} pages={pages} loading={first.loading} chosen={chosen} to={(id) => pathHere(id, "", shown)} />
        {chosen && (
          <div>
            {from && <p class="muted">Its result was reused; it was computed in run <Id of={from} place={{ page: "job", project: job.project, stage: job.stage, run: from }} />, as shown here.</p>}
            <OneDatum key={`${chosen} ${from ?? ""}`} job={from ? { ...job, run: from } : job} id={chosen} />
          </div>)}
      </section>
    </>
  );
}

function rowOf(attempt: Attempt): DatumRow {
  const states = { failed: "failed", lost: "lost with its worker", reused: "reused" } as Record<string, string>;
  return { key: `${attempt.id} ${attempt.attempt} ${attempt.fence}`, id: attempt.id, text: attempt.paths ?? attempt.id, bytes: Number((attempt.bytes as { in?: number } | null)?.in ?? 0), state: states[attempt.state], reused: attempt.state === "reused" ? attempt.run ?? undefined : undefined };
}

function Actions({ job }: { job: Job }) {
  const [asked, ask] = useState<"retry" | "stop" | null>(null);
  const log = <To class="btn" place={{ page: "log", project: job.project, stage: job.stage, run: job.run }}>Log of {name(job.stage)}</To>;
  if (!may("writer", job.project, job.stage)) return log;
  const over = isOver(job.state);
  const retry = over ? retryOf(job.run, [job]) : null;
  return (
    <>
      {retry && <Act main onClick={() => ask("retry")}><Icon of="again" />{retry.text}</Act>}
      {!over && <Act onClick={() => ask("stop")}><Icon of="stop" />Stop {name(job.stage)}</Act>}
      {log}
      {asked === "retry" && retry && <RetryDialog retry={retry} run={job.run} close={() => ask(null)} />}
      {asked === "stop" && (
        <Confirm title={`Stop ${name(job.stage)} of run ${short(job.run)}?`} doIt="Stop it" leave="Keep it running" close={() => ask(null)}
          act={async () => void (await post("/api/v1/jobs/{project}/{stage}/{run}/stop", { project: job.project, stage: job.stage, run: job.run }))}>
          <p>Datums that are done are kept and not done again; what reads {name(job.stage)} does not run.</p><Command text={`pipelinectl stop job ${job.stage}@${short(job.run)}`} />
        </Confirm>)}
    </>
  );
}

function JobShown({ facts, query }: { facts: Facts; query: URLSearchParams }) {
  const { job, failures } = facts;
  const shown = shownOf(failures, query);
  useAnnounced(isOver(job.state) ? headlineOf(job) : job.datums.failed > 0 ? `Datums of ${name(job.stage)} failed.` : "");
  return (
    <>
      <Crumbs>{[<To place={{ page: "runs" }}>Runs</To>, <span>{name(job.pipeline)}</span>, <Id of={job.run} place={{ page: "run", run: job.run }} />, <span>{name(job.stage)}</span>]}</Crumbs>
      <Head title={headlineOf(job)} acts={<Actions job={job} />}
        lead={[
          <StateWord of={jobState(job)} />,
          job.reason && !isWaiting(job) && job.state !== "success" ? name(job.reason) : null,
          job.started_us ? <Took from={job.started_us} to={job.finished_us} /> : null,
          <>writes <Repo project={job.project} repo={job.stage} branch={job.output || undefined} /></>,
          job.warnings[0] ? name(job.warnings[0]) : null,
        ]} />
      {failures.groups.length > 0 && shown === "failed" ? <Failed facts={facts} query={query} /> : <Whole facts={facts} query={query} shown={shown} />}
    </>
  );
}

export function JobPage({ project, stage, run, query }: { project: string; stage: string; run: string; query: URLSearchParams }) {
  const loaded = useLoad(`job ${project}/${stage}/${run}`, (signal) => load(project, stage, run, signal),
    (event) => (event.type === "job" || event.type === "progress") && event.data["stage"] === stage && String(event.data["run"]).startsWith(run), SOONEST_MS);
  return <Existing of={loaded} what={`job of ${name(stage)} in run ${name(run)}`}>{(facts) => <JobShown facts={facts} query={query} />}</Existing>;
}
