// All pipelines with the state of their stages, and the git sources that they come from.
import { get } from "../api/client";
import type { GitSource, Job, Pipeline } from "../api/schema";
import { middle, name } from "../core/foreign";
import { counted, number, short } from "../core/format";
import { staleWords } from "../core/freshness";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { newestJobs } from "../core/needs";
import { stagesInOrder } from "../core/runs";
import { jobState, sourceState } from "../core/states";
import { Excerpt } from "../parts/excerpt";
import { useAnnounced } from "../parts/frame";
import { Icon } from "../parts/icons";
import { Content, Head, Part } from "../parts/page";
import { Rows } from "../parts/rows";
import { Age, Command, To } from "../parts/words";

interface Facts {
  pipelines: Pipeline[];
  jobs: Job[];
  moreJobs: boolean; // there are older ones
  sources: GitSource[];
}

async function load(signal: AbortSignal): Promise<Facts> {
  const [pipelines, jobs, sources] = await Promise.all([
    get("/api/v1/pipelines", { query: { limit: 1000 }, signal }),
    get("/api/v1/jobs", { query: { limit: 2000 }, signal }),
    get("/api/v1/sources", { query: { limit: 1000 }, signal }),
  ]);
  return { pipelines: pipelines.pipelines, jobs: jobs.jobs, moreJobs: Boolean(jobs.next), sources: sources.sources };
}

function headline({ pipelines, sources }: Facts): string {
  const stopped = pipelines.filter((one) => one.state === "stopped").length;
  const bad = sources.filter((one) => one.state === "invalid" || one.state === "unreachable");
  const first = pipelines.length === 0 ? "No pipeline yet" : `${counted(pipelines.length, "pipeline")} ${pipelines.length === 1 ? "follows its" : "follow their"} data${stopped ? `, ${number(stopped)} of them stopped` : ""}`;
  if (sources.length === 0) return `${first}.`;
  if (bad.length > 0) return `${first}; ${name(bad[0]!.name)} ${bad.length > 1 ? `and ${number(bad.length - 1)} more are not in step with their repositories` : "is not in step with its repository"}.`;
  const following = sources.filter((one) => one.state === "following").length;
  return following === sources.length ? `${first}; all sources are in step.` : `${first}; ${number(following)} of ${counted(sources.length, "source")} ${following === 1 ? "is" : "are"} in step.`;
}

function Glyphs({ pipeline, jobs, more }: { pipeline: Pipeline; jobs: Map<string, Job>; more: boolean }) {
  const states = stagesInOrder(pipeline).map((stage) => {
    const job = jobs.get(`${pipeline.project}/${stage.name}`);
    return { stage: stage.name, state: job ? jobState(job) : { word: more ? "Has not run lately" : "Has not run", shape: "not" as const } };
  });
  const words = states.map(({ stage, state }) => `${stage}: ${state.word}`).join(", ");
  return <span class="glyphs" role="img" aria-label={words} title={words}>{states.slice(0, 24).map(({ stage, state }) => <Icon key={stage} of={state.shape} class={`state ${state.shape}`} />)}</span>;
}

// The mistakes of a source whose specs are refused, each with the lines around it; the list of sources does not have them.
function Mistakes({ source }: { source: GitSource }) {
  const texts = source.errors?.length ? source.errors : [source.error].filter(Boolean);
  const loaded = useLoad(`source ${source.name} ${source.commit} ${source.looked_us ?? 0}`, (signal) => get("/api/v1/sources/{source}", { path: { source: source.name }, signal }));
  const problems = loaded.data?.state === "invalid" ? (loaded.data.problems ?? []) : [];
  if (problems.length > 0) return <>{problems.map((one) => <Excerpt key={`${one.path}:${one.line}:${one.column}:${one.text}`} of={one} />)}</>;
  return <>{texts.map((text) => <p key={text} class="down mono wrap">{name(String(text))}</p>)}</>;
}

function SourceRow({ source }: { source: GitSource }) {
  const mistakes = source.errors?.length ? source.errors : [source.error].filter(Boolean);
  return (
    <li>
      <Icon of={sourceState(source.state).shape} class={`state ${sourceState(source.state).shape}`} />
      <div class="what">
        <b>{name(source.name)}</b> <span class="muted">{sourceState(source.state).word}</span>
        <p class="small"><code>{middle(source.git, 80)}</code> {name(source.branch)}{source.path ? ` ${name(source.path)}` : ""}</p>
        {source.state === "invalid" ? <Mistakes source={source} /> : mistakes.map((text) => <p key={text} class="down mono wrap">{name(String(text))}</p>)}
        {(source.warnings ?? []).map((text) => <p key={String(text)} class="muted">{name(String(text))}</p>)}
        {(source.previews ?? []).map((preview) => <p key={preview.branch} class="muted">branch {name(preview.branch)} at <span class="id">{short(preview.commit)}</span> {preview.state === "success" ? "" : "is not valid: "}{name(preview.text)}</p>)}
      </div>
      <div class="side"><span>{source.applied ? <span class="id" title={source.applied}>{short(source.applied)}</span> : "nothing applied yet"}{source.subject && source.commit === source.applied ? ` ${middle(source.subject, 50)}` : ""}</span>{source.changed_us ? <Age us={source.changed_us} /> : null}</div>
    </li>
  );
}

// What is read out of the sources: those that are not in step, with why.
function sourcesHeard(sources: GitSource[]): string {
  const bad = sources.filter((one) => one.state === "invalid" || one.state === "unreachable");
  return bad.map((one) => `Source ${name(one.name)}: ${sourceState(one.state).word}.`).join(" ");
}

export function Pipelines({ query }: { query: URLSearchParams }) {
  const loaded = useLoad("pipelines page", load, (event) => ["pipeline", "job", "commit", "source"].includes(event.type));
  const project = query.get("project") ?? "";
  useAnnounced(loaded.data ? sourcesHeard(loaded.data.sources) || "All sources are in step." : "");
  return (
    <Content of={loaded} rows={8}>{(facts) => {
      const jobs = newestJobs(facts.jobs);
      const rows = facts.pipelines.filter((one) => !project || one.project === project);
      const projects = [...new Set(facts.pipelines.map((one) => one.project))];
      return (
        <>
          <Head title={headline(facts)} lead={[counted(facts.pipelines.reduce((sum, one) => sum + one.stages.length, 0), "stage")]}
            acts={<To class="btn" place={{ page: "check" }}>Check a spec</To>} />
          {projects.length > 1 && (
            <div class="filters"><select aria-label="Project" value={project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
              <option value="">all projects</option>{projects.map((one) => <option key={one}>{one}</option>)}</select></div>)}
          <div class="panel">
            {rows.length === 0 ? <div class="empty stack"><p>A pipeline is a JSON file that names stages, what they read and what they run.</p><Command text="pipelinectl create pipeline -f pipeline.json" /></div> : (
              <Rows label="Pipelines" rows={rows} rowHeight={53} columns={5} head={<tr><th>Pipeline</th><th>Stages</th><th class="p2">From</th><th class="num p2">Version</th><th class="num">Changed</th></tr>}
                row={(one) => (
                  <tr key={`${one.project}/${one.name}`}>
                    <td><To class="main" row place={{ page: "pipeline", project: one.project, pipeline: one.name }}>{name(one.name)}</To><small>{one.project}{one.state === "stopped" ? " · stopped" : ""}</small></td>
                    <td><Glyphs pipeline={one} jobs={jobs} more={facts.moreJobs} /><small>{staleWords(one) ? <><Icon of="stale" /> {staleWords(one)}</> : counted(one.stages.length, "stage")}</small></td>
                    <td class="p2 muted">{one.source ? <><Icon of="git" /> {name(one.source)}</> : "set by hand"}</td>
                    <td class="num p2">{one.version}</td>
                    <td class="num"><Age us={one.updated_us} /></td>
                  </tr>)} />)}
          </div>
          {facts.sources.length > 0 && <Part id="sources" title="Git sources"><ul class="rows panel">{facts.sources.map((source) => <SourceRow key={`${source.project}/${source.name}`} source={source} />)}</ul></Part>}
        </>
      );
    }}</Content>
  );
}
