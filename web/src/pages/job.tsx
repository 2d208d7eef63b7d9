// One stage of one run: what broke, whether it is one thing, and how to reproduce it; or what it did, when nothing failed.
import { useEffect, useRef, useState } from "preact/hooks";
import { fileAddress, get, post } from "../api/client";
import type { Attempt, FailureGroup, Failures, Job } from "../api/schema";
import { beforeOf, commonOf, endOf, headlineOf, lineThatMatters, pathOfDatum } from "../core/failures";
import { logLine, logText, middle, name } from "../core/foreign";
import { counted, duration, number, short, size } from "../core/format";
import { setQuery } from "../core/going";
import { pageKeys } from "../core/keys";
import { useLoad } from "../core/load";
import { inputsOf, retryOf } from "../core/runs";
import { may } from "../core/session";
import { isWaiting, datumWords, isOver, jobState } from "../core/states";
import { Act } from "../parts/act";
import { DatumBar } from "../parts/bar";
import { Curves } from "../parts/curves";
import { Confirm } from "../parts/dialog";
import { useAnnounced } from "../parts/frame";
import { RetryDialog } from "../parts/retry";
import { Icon, StateWord } from "../parts/icons";
import { Content, Crumbs, Head, Part } from "../parts/page";
import { Command, Id, Repo, Took, To, When } from "../parts/words";
import { Existing } from "./gone";

const LISTED = 200; // attempts that ended well or were lost
const FIRST = 12; // of them that are shown until more are asked for
const PICKED = 200; // datums of a group that are listed
const SOONEST_MS = 1000; // between two loads of all of it: each datum that ends is an event

interface Facts {
  job: Job;
  failures: Failures;
  others: Attempt[];
}

async function load(project: string, stage: string, run: string, signal: AbortSignal): Promise<Facts> {
  const path = { project, stage, run };
  const job = await get("/api/v1/jobs/{project}/{stage}/{run}", { path, signal });
  const list = (state: string, limit: number) => get("/api/v1/jobs/{project}/{stage}/{run}/datums", { path: { project, stage, run: job.run }, query: { state, limit }, signal }).then((page) => page.datums);
  const [failures, done, lost] = await Promise.all([
    get("/api/v1/jobs/{project}/{stage}/{run}/failures", { path: { project, stage, run: job.run }, signal }),
    job.datums.failed > 0 ? [] : list("success", LISTED), list("lost", LISTED),
  ]);
  return { job, failures, others: [...lost, ...done] };
}

function Ways({ failures, chosen }: { failures: Failures; chosen: FailureGroup }) {
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
    </Part>
  );
}

function pathHere(datum: string, group = ""): string {
  return `${location.pathname}?${group ? `group=${group}&` : ""}datum=${datum}`;
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
                <td>{attempt.attempt}</td>
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
  useEffect(() => pageKeys({ c: () => void navigator.clipboard?.writeText(tryLine) }), [tryLine]);
  return (
    <Content of={loaded} rows={8}>{(found) => {
      const last = found.attempts[found.attempts.length - 1];
      if (!last) return <p class="panel empty">No attempt at this datum is kept.</p>;
      const tail = last.tail ?? "";
      const matters = last.state === "success" ? null : tail ? lineThatMatters(logText(tail)).line : endOf(last);
      const ms = last.ms as { fetch?: number; compute?: number } | null;
      return (
        <div>
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
                <dt>Input</dt><dd><DatumInputs job={job} paths={last.paths ?? ""} /></dd>
                <dt>Id</dt><dd><span class="id" title={found.id}>{found.id.slice(0, 12)}</span></dd>
                <dt>Time</dt><dd>fetched in {duration(ms?.fetch ?? 0)}, computed {duration(ms?.compute ?? 0)}</dd>
              </dl></div>
          </div>
          <section class="first" aria-labelledby="h-try"><div class="bar-head"><h2 id="h-try">Try it here</h2></div><Command text={tryLine} /></section>
          <section aria-labelledby="h-out">
            <div class="bar-head"><h2 id="h-out">What it printed</h2><span class="faint">{tail ? "last lines" : ""}, attempt {last.attempt}</span>
              <span class="right"><To place={{ page: "log", project: job.project, stage: job.stage, run: job.run }} query={{ datum: found.id }}>whole log</To></span></div>
            {tail ? <LastLines tail={tail} failed={matters !== null} /> : <p class="panel empty">It printed nothing{last.state === "success" ? ", or its lines are in the whole log" : ""}.</p>}
          </section>
          <Attempts attempts={found.attempts} />
        </div>
      );
    }}</Content>
  );
}

function DatumList({ title, list, chosen, group = "" }: { title: string; list: { id: string; text: string; bytes: number }[]; chosen: string; group?: string }) {
  const [all, setAll] = useState(false);
  const shown = all ? list : list.slice(0, FIRST);
  const tree = useRef<HTMLUListElement>(null);
  useEffect(() => {
    if (all) tree.current?.querySelectorAll("a")[FIRST]?.focus(); // the button that had the focus is gone
  }, [all]);
  return (
    <Part id="datums" title={title}>
      <div class="panel"><ul ref={tree} class="tree">
        {shown.map((one) => (
          <li key={one.id}><a href={pathHere(one.id, group)} aria-current={one.id === chosen ? "true" : undefined}><Icon of="file" /><code>{middle(one.text, 30)}</code><span class="num">{size(one.bytes)}</span></a></li>
        ))}
      </ul>
        {shown.length < list.length && <p class="pad"><button type="button" class="btn small" onClick={() => setAll(true)}>{number(list.length - shown.length)} more</button></p>}
      </div>
    </Part>
  );
}

function Failed({ facts, query }: { facts: Facts; query: URLSearchParams }) {
  const { job, failures } = facts;
  const wanted = query.get("datum") ?? "";
  const group = failures.groups.find((one) => one.id === query.get("group")) ?? failures.groups.find((one) => wanted && one.datum.startsWith(wanted)) ?? failures.groups[0]!;
  const path = { project: job.project, stage: job.stage, run: job.run };
  const listed = useLoad(`failures ${job.stage} ${job.run} ${group.id} ${failures.failed}`, (signal) => get("/api/v1/jobs/{project}/{stage}/{run}/failures", { path, query: { group: group.id, limit: PICKED }, signal }));
  const datums = listed.data?.datums ?? [];
  const datum = datums.find((one) => wanted && one.id.startsWith(wanted))?.id ?? (wanted || group.datum);
  const step = (by: number) => {
    const next = datums[datums.findIndex((one) => one.id === datum) + by];
    if (next) setQuery({ group: group.id, datum: next.id });
  };
  useEffect(() => pageKeys({ n: () => step(1), p: () => step(-1) }));
  return (
    <div class="failing">
      <div>
        <Ways failures={failures} chosen={group} />
        <DatumList title={counted(group.count, "datum")} chosen={datum} group={group.id} list={datums.map((one) => ({ id: one.id, text: pathOfDatum(one.paths).split("/").pop() || one.paths, bytes: one.bytes ?? 0 }))} />
      </div>
      <OneDatum key={datum} job={job} id={datum} group={group} jobs={failures.jobs_examined} />
    </div>
  );
}

function Whole({ facts, wanted }: { facts: Facts; wanted: string }) {
  const { job, others } = facts;
  const list = [...new Map(others.map((attempt) => [attempt.id, attempt])).values()];
  const chosen = list.find((one) => wanted && one.id.startsWith(wanted)) ?? list[0];
  const over = isOver(job.state);
  return (
    <>
      <Curves project={job.project} stage={job.stage} run={job.run} live={!over} />
      <div class="panel pad after"><DatumBar datums={job.datums} gpu={job.device === "gpu"} over={over} /><p class="small muted after">{datumWords(job.datums, over)}</p></div>
      {chosen && (
        <section class="failing">
          <DatumList title="Datums that ran" chosen={chosen.id} list={list.map((one) => ({ id: one.id, text: one.paths ?? one.id, bytes: Number((one.bytes as { in?: number } | null)?.in ?? 0) }))} />
          <OneDatum key={chosen.id} job={job} id={chosen.id} />
        </section>)}
    </>
  );
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

function Shown({ facts, query }: { facts: Facts; query: URLSearchParams }) {
  const { job, failures } = facts;
  const wanted = query.get("datum") ?? "";
  useAnnounced(isOver(job.state) ? headlineOf(job) : job.datums.failed > 0 ? `Datums of ${name(job.stage)} failed.` : "");
  const others = facts.others.some((one) => wanted && one.id.startsWith(wanted));
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
      {failures.groups.length > 0 && !others ? <Failed facts={facts} query={query} /> : <Whole facts={facts} wanted={wanted} />}
    </>
  );
}

export function JobPage({ project, stage, run, query }: { project: string; stage: string; run: string; query: URLSearchParams }) {
  const loaded = useLoad(`job ${project}/${stage}/${run}`, (signal) => load(project, stage, run, signal),
    (event) => (event.type === "job" || event.type === "progress") && event.data["stage"] === stage && String(event.data["run"]).startsWith(run), SOONEST_MS);
  return <Existing of={loaded} what={`job of ${name(stage)} in run ${name(run)}`}>{(facts) => <Shown facts={facts} query={query} />}</Existing>;
}
