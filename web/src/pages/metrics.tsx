// Which result of a stage is the best, and what made it so: curves over each other, the best value over a parameter, and a table with
// what differs first. And the list of the stages that have metrics.
import { useRef } from "preact/hooks";
import { get } from "../api/client";
import type { MetricCurve, MetricJobs } from "../api/schema";
import { download } from "../core/download";
import { name } from "../core/foreign";
import { counted, figure, number, short } from "../core/format";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { type Goal, type Result, bestPoint, chosenOf, csvOf, headlineOf, matching, metricsOf, paramsOf, parametersOf, ranked, resultsOf, scatterOf, valueText } from "../core/results";
import { jobState } from "../core/states";
import { Icon, StateWord } from "../parts/icons";
import { type Line, LineChart, Sample, Scatter } from "../parts/linechart";
import { Content, Crumbs, ErrorNote, Head, Part } from "../parts/page";
import { Rows, usePages } from "../parts/rows";
import { Age, To, When } from "../parts/words";

const DRAWN = 24; // curves of one chart
const PAGE = 50;
const ROW = 36;

type Curves = Record<string, { steps: number[]; values: number[] }>;

// Curves of what has ended do not change: they are kept.
function useCurves(project: string, stage: string, drawn: Result[], metric: string) {
  const kept = useRef(new Map<string, MetricCurve>());
  const load = async (one: Result, signal: AbortSignal): Promise<MetricCurve> => {
    const key = `${metric}/${one.run}/${one.datum}`;
    const known = kept.current.get(key);
    if (known) return known;
    const curve = await get("/api/v1/metrics/{project}/{stage}/curve", { path: { project, stage }, query: { metric, run: one.run, datum: one.datum }, signal });
    if (!one.live) kept.current.set(key, curve);
    return curve;
  };
  const key = drawn.map((one) => one.key + (one.live ? "+" : "")).join();
  return useLoad(`curves ${stage} ${metric} ${key}`, async (signal): Promise<Curves> =>
    metric ? Object.fromEntries(await Promise.all(drawn.map(async (one) => [one.key, await load(one, signal)] as const))) : {},
  (event) => event.type === "metric" && event.data["stage"] === stage && drawn.some((one) => one.live && one.run === event.data["run"]));
}

function Curve({ project, stage, drawn, metric, styles, best }: { project: string; stage: string; drawn: Result[]; metric: string; styles: Map<string, number>; best: string }) {
  const loaded = useCurves(project, stage, drawn, metric);
  return (
    <Content of={loaded} rows={6}>{(curves) => (
      <LineChart metric={metric} lines={drawn.map((result): Line => ({ result, style: styles.get(result.key) ?? 0, best: result.key === best, steps: curves[result.key]?.steps ?? [], values: curves[result.key]?.values ?? [] }))} />
    )}</Content>
  );
}

interface TableProps {
  project: string; stage: string; results: Result[]; drawn: Set<string>; styles: Map<string, number>; metric: string; goal: Goal; parameters: string[]; others: string[]; more: (() => void) | undefined;
  choose: (key: string, on: boolean) => void;
}

function Table({ project, stage, results, drawn, styles, metric, goal, parameters, others, more, choose }: TableProps) {
  const best = results[0] && bestPoint(results[0], metric, goal);
  return (
    <div class="panel scroll" tabIndex={0} role="group" aria-label="Results">
      <Rows label="Results" rows={results} rowHeight={ROW} columns={6 + parameters.length + others.length} more={more}
        head={<tr><th><span class="visually-hidden">Drawn</span></th><th>Run</th>{parameters.map((key) => <th key={key} class="num">{name(key)}</th>)}<th class="num">best {name(metric)}</th><th class="num p2">at step</th>
          {others.map((key) => <th key={key} class="num p3">last {name(key)}</th>)}<th class="num p3">Lines</th><th class="num p2">When</th></tr>}
        row={(one, i) => {
          const point = bestPoint(one, metric, goal);
          const job = { state: one.state, datums: { total: 0, reused: 0, done: 0, failed: 0 }, reason: "" };
          return (
            <tr key={one.key} data-drawn={drawn.has(one.key)}>
              <td class="nowrap"><label class="check"><input type="checkbox" aria-label={`draw ${one.key}`} checked={drawn.has(one.key)} onChange={(event) => choose(one.key, event.currentTarget.checked)} /></label></td>
              <td class="nowrap">{drawn.has(one.key) && <Sample style={styles.get(one.key) ?? 0} best={i === 0} />} <To class="main" row place={{ page: "job", project, stage, run: one.run }} query={{ datum: one.datum.slice(0, 12) }}><span class="mono">{one.key}</span></To>
                {one.state === "success" ? null : <> <StateWord of={jobState(job as never)} /></>}</td>
              {parameters.map((key) => <td key={key} class="num" title={valueText(paramsOf(one)[key])}>{valueText(paramsOf(one)[key]).slice(0, 40)}</td>)}
              <td class="num">{point ? <b>{figure(point.value)}</b> : "–"} <span class="faint delta">{point && best ? (i === 0 ? "best" : point.value === best.value ? "the same" : `${point.value >= best.value ? "+" : "−"}${figure(Math.abs(point.value - best.value))}`) : ""}</span></td>
              <td class="num p2">{point ? figure(point.step) : "–"}</td>
              {others.map((key) => <td key={key} class="num p3">{(({ last }) => (last ? figure(last.value) : "–"))(one.figures.find((candidate) => candidate.name === key) ?? { last: undefined })}</td>)}
              <td class="num p3">{number(one.lines)}</td>
              <td class="num p2"><When us={one.created_us} /></td>
            </tr>
          );
        }} />
    </div>
  );
}

function Notes({ results }: { results: Result[] }) {
  const broken = results.filter((one) => one.broken > 0);
  const sum = broken.reduce((all, one) => all + one.broken, 0);
  return (
    <>
      {sum > 0 && <p class="small faint after">{counted(sum, "line")} of {counted(broken.length, "result")} {sum === 1 ? "was" : "were"} no JSON object and {sum === 1 ? "is" : "are"} left out: {broken.slice(0, 3).map((one) => one.key).join(", ")}{broken.length > 3 ? " …" : ""}.</p>}
      {results.some((one) => one.cut) && <p class="small faint after">Of jobs with very many lines only the newest 200,000 count.</p>}
      {results.some((one) => one.more_datums) && <p class="small faint after">Of a job with very many datums 200 are listed.</p>}
    </>
  );
}

function Compared({ project, stage, query, first, all, more }: { project: string; stage: string; query: URLSearchParams; first: MetricJobs; all: MetricJobs["results"]; more: (() => void) | undefined }) {
  const results = resultsOf(all);
  const metrics = metricsOf(results);
  const metric = query.get("metric") ?? first.metric;
  const goal: Goal = (query.get("goal") ?? (first.lower.includes(metric) ? "min" : "max")) === "min" ? "min" : "max";
  const q = query.get("q") ?? "";
  const ranking = ranked(matching(results, q), metric, goal);
  const chosen = chosenOf(ranking, query.get("runs") ?? "");
  const drawn = chosen.slice(0, DRAWN);
  const styles = new Map(drawn.map((one, i) => [one.key, i]));
  const { differ, same } = parametersOf(ranking);
  const whole = query.get("all") === "1";
  const x = query.get("x") ?? differ[0] ?? "";
  const scatter = x ? scatterOf(ranking, metric, goal, x) : { spots: [], categories: [] };
  const others = metrics.filter((one) => one !== metric);
  const second = query.get("and") ?? others[0] ?? "";
  const live = results.filter((one) => one.live).length;
  const best = ranking[0]?.key ?? "";
  const choose = (key: string, on: boolean) => {
    const keys = new Set(chosen.map((one) => one.key));
    if (on) keys.add(key);
    else keys.delete(key);
    setQuery({ runs: [...keys].join(",") || "none" });
  };
  const here = (changed: Record<string, string | undefined>) => ({ ...Object.fromEntries(query), ...changed });
  return (
    <>
      <Head title={headlineOf(stage, ranking, metric, goal, more ? results.length : 0)}
        lead={[<>{counted(results.length, "result")}{more ? " so far" : ""} of <To place={{ page: "repo", project, repo: stage }}>{name(stage)}</To></>, metric ? <>{goal === "max" ? "highest" : "lowest"} <b>{name(metric)}</b> first</> : null, live ? `${counted(live, "result")} live` : null]}
        acts={<button type="button" class="btn" onClick={() => download(csvOf(ranking, goal), "text/csv", `${stage}-metrics.csv`)}><Icon of="down" />CSV</button>} />
      {results.length === 0 ? <p class="panel empty">Lines of JSON that a command writes to metrics.jsonl in its output folder are compared here: {`{"step": 3, "loss": 0.2}`}.</p> : (
        <>
          <div class="filters" role="group" aria-label="Metric">
            <select aria-label="Metric" value={metric} onChange={(event) => setQuery({ metric: event.currentTarget.value, goal: undefined })}>{metrics.map((one) => <option key={one} value={one}>{name(one)}</option>)}</select>
            <select aria-label="Goal" value={goal} onChange={(event) => setQuery({ goal: event.currentTarget.value })}><option value="max">highest is best</option><option value="min">lowest is best</option></select>
            {differ.length > 1 && <select aria-label="Parameter of the plot" value={x} onChange={(event) => setQuery({ x: event.currentTarget.value })}>{differ.map((key) => <option key={key} value={key}>by {name(key)}</option>)}</select>}
            {others.length > 1 && <select aria-label="Second metric" value={second} onChange={(event) => setQuery({ and: event.currentTarget.value })}>{others.map((key) => <option key={key} value={key}>and {name(key)}</option>)}</select>}
            <span class="search"><Icon of="find" /><input type="search" aria-label="Filter results" placeholder="lr=0.1, a run, running" value={q} onInput={(event) => setQuery({ q: event.currentTarget.value })} /></span>
            {query.has("runs") && <button type="button" class="btn small" onClick={() => setQuery({ runs: undefined })}>The best again</button>}
          </div>
          <section class="charts" aria-label="Curves">
            <Curve project={project} stage={stage} drawn={drawn} metric={metric} styles={styles} best={best} />
            {second && <Curve project={project} stage={stage} drawn={drawn} metric={second} styles={styles} best={best} />}
            {scatter.spots.length > 1 && <Scatter metric={metric} parameter={x} spots={scatter.spots} categories={scatter.categories} styleOfKey={(key) => styles.get(key) ?? 0} best={best} />}
          </section>
          {chosen.length > DRAWN && <p class="small faint after">The first {DRAWN} of {number(chosen.length)} that are chosen are drawn.</p>}
          <Part id="table" title={differ.length ? "What differs" : "Results"}
            beside={differ.length > 0 && same.length > 0 ? <span class="tabs"><To place={{ page: "metrics", project, stage }} query={here({ all: undefined })} chosen={!whole}>Only what differs, {String(differ.length)}</To><To place={{ page: "metrics", project, stage }} query={here({ all: "1" })} chosen={whole}>All {String(differ.length + same.length)} parameters</To></span> : null}
            right={same.length > 0 && !whole ? <span class="p2">{counted(same.length, "parameter")} {same.length === 1 ? "is" : "are"} the same in all</span> : null}>
            <Table project={project} stage={stage} results={ranking} drawn={new Set(drawn.map((one) => one.key))} styles={styles} metric={metric} goal={goal} parameters={whole ? [...differ, ...same] : differ} others={others.slice(0, 3)} more={more} choose={choose} />
          </Part>
          <Notes results={results} />
        </>
      )}
    </>
  );
}

function StageMetrics({ project, stage, query }: { project: string; stage: string; query: URLSearchParams }) {
  const path = { project, stage };
  const load = (after?: string, signal?: AbortSignal) => get("/api/v1/metrics/{project}/{stage}/jobs", { path, query: { limit: PAGE, ...(after ? { after } : {}) }, signal });
  const loaded = useLoad(`results ${project}/${stage}`, (signal) => load(undefined, signal), (event) => ["metric", "job"].includes(event.type) && event.data["stage"] === stage);
  const data = loaded.data;
  const pages = usePages(`results ${project}/${stage}`, data && { items: data.results, next: data.next ?? undefined }, async (after) => (({ results, next }) => ({ items: results, next: next ?? undefined }))(await load(after)));
  return (
    <>
      <Crumbs>{[<To place={{ page: "metrics", project: "-", stage: "" }}>Metrics</To>, <span>{name(stage)}</span>]}</Crumbs>
      <Content of={loaded} rows={10}>{(first) => <Compared project={project} stage={stage} query={query} first={first} all={pages.items} more={pages.more} />}</Content>
      {pages.error && <ErrorNote error={pages.error} retry={pages.more} />}
    </>
  );
}

function Stages() {
  const load = (after?: string, signal?: AbortSignal) => get("/api/v1/metrics", { query: { limit: 200, ...(after ? { after } : {}) }, signal });
  const loaded = useLoad("metric stages", (signal) => load(undefined, signal), (event) => event.type === "job");
  const data = loaded.data;
  const pages = usePages("metric stages", data && { items: data.stages, next: data.next ?? undefined }, async (after) => (({ stages, next }) => ({ items: stages, next: next ?? undefined }))(await load(after)));
  return (
    <Content of={loaded} rows={8}>{() => (
      <>
        <Head title={pages.items.length === 0 ? "No stage wrote a metrics.jsonl yet." : `${counted(pages.items.length, "stage")}${pages.more ? " so far" : ""} wrote metrics.`} lead={["a line of JSON for each step, in the output folder"]} />
        {pages.items.length > 0 && (
          <div class="panel"><Rows label="Stages" rows={pages.items} rowHeight={52} columns={4} more={pages.more} head={<tr><th>Stage</th><th>Last line</th><th class="num p2">Run</th><th class="num">When</th></tr>}
            row={(one) => (
              <tr key={`${one.project}/${one.stage}`}>
                <td><To class="main" row place={{ page: "metrics", project: one.project, stage: one.stage }}>{name(one.stage)}</To><small>{name(one.project)} / {name(one.pipeline)}</small></td>
                <td>{Object.entries(one.jobs[0]!.line as Record<string, unknown>).filter(([, value]) => typeof value === "number").slice(0, 4).map(([key, value]) => `${name(key)} ${figure(value as number)}`).join(" · ")}</td>
                <td class="num p2"><To place={{ page: "run", run: one.jobs[0]!.run }}><span class="mono">{short(one.jobs[0]!.run)}</span></To></td>
                <td class="num"><Age us={one.jobs[0]!.created_us} /></td>
              </tr>
            )} /></div>)}
        {pages.error && <ErrorNote error={pages.error} retry={pages.more} />}
      </>
    )}</Content>
  );
}

export function MetricsPage({ project, stage, query }: { project: string; stage: string; query: URLSearchParams }) {
  return stage ? <StageMetrics project={project} stage={stage} query={query} /> : <Stages />;
}
