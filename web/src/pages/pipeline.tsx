// One pipeline: its graph, its stages, its versions and what differs between two, its spec as written and with the defaults; run it,
// stop it, start it.
import { useState } from "preact/hooks";
import { get, post } from "../api/client";
import type { Pipeline } from "../api/schema";
import { name } from "../core/foreign";
import { counted, short } from "../core/format";
import { staleWords } from "../core/freshness";
import { go } from "../core/going";
import { useLoad } from "../core/load";
import { pathOf } from "../core/places";
import { prettyJson } from "../core/preview";
import { stagesInOrder } from "../core/runs";
import { may } from "../core/session";
import { Act } from "../parts/act";
import { Confirm } from "../parts/dialog";
import { Feeds } from "../parts/feeds";
import { Icon } from "../parts/icons";
import { Crumbs, Head, Part } from "../parts/page";
import { TextLines } from "../parts/preview";
import { SpecFields } from "../parts/specfields";
import { StaleBadge, StaleNote } from "../parts/stale";
import { VersionDiff, Versions } from "../parts/versions";
import { Age, Command, To } from "../parts/words";
import { Existing } from "./gone";

function Actions({ pipeline }: { pipeline: Pipeline }) {
  const [asked, ask] = useState<"run" | "stop" | null>(null);
  const [force, setForce] = useState(false);
  const [refusal, setRefusal] = useState("");
  const path = { project: pipeline.project, pipeline: pipeline.name };
  const label = pipeline.project === "default" ? pipeline.name : `${pipeline.project}/${pipeline.name}`;
  if (!may("writer", pipeline.project)) return null;
  const stopped = pipeline.state === "stopped";
  const start = async () => {
    setRefusal("");
    try {
      const started = await post("/api/v1/pipelines/{project}/{pipeline}/start", path);
      if (started.run) go(pathOf({ page: "run", run: started.run }));
    } catch (failure) {
      setRefusal(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <>
      {!stopped && <Act main onClick={() => ask("run")}><Icon of="again" />Run…</Act>}
      {stopped ? <Act main onClick={() => void start()}>Start</Act> : <Act onClick={() => ask("stop")}><Icon of="stop" />Stop</Act>}
      {refusal && <p class="small down" role="alert"><Icon of="failed" /> {refusal}</p>}
      {asked === "run" && (
        <Confirm title={`Run ${name(pipeline.name)} now?`} doIt="Run it" leave="Leave it" close={() => ask(null)}
          act={async () => { const made = await post("/api/v1/pipelines/{project}/{pipeline}/run", path, { force }); go(pathOf({ page: "run", run: made.run })); }}>
          <p>Its {counted(pipeline.stages.length, "stage")} look at what their inputs have now. What was computed before from the same is reused.</p>
          <label class="check"><input type="checkbox" checked={force} onChange={(event) => setForce(event.currentTarget.checked)} />Compute every datum again</label>
          <Command text={`pipelinectl run pipeline ${label}${force ? " --force" : ""}`} />
        </Confirm>)}
      {asked === "stop" && (
        <Confirm title={`Stop ${name(pipeline.name)}?`} doIt="Stop it" leave="Keep it going" close={() => ask(null)} act={async () => void (await post("/api/v1/pipelines/{project}/{pipeline}/stop", path))}>
          <p>Its running jobs end now, and new data sets off nothing until it is started. It keeps its version and its outputs.</p><Command text={`pipelinectl stop pipeline ${label}`} />
        </Confirm>)}
    </>
  );
}

// The version that the address names; 0: the current one.
function versionIn(query: URLSearchParams, key: string): number | undefined {
  const text = query.get(key) ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

function headline(pipeline: Pipeline): string {
  const { version, current } = pipeline;
  if (version !== current) return `${name(pipeline.name)} was this at version ${version}; its version is ${current} now.`;
  return pipeline.state === "stopped" ? `${name(pipeline.name)} is stopped at version ${version}.` : `${name(pipeline.name)} runs version ${version} of ${counted(pipeline.stages.length, "stage")}.`;
}

function Shown({ project, title, pipeline, query }: { project: string; title: string; pipeline: Pipeline; query: URLSearchParams }) {
  const view = query.get("view") ?? "";
  const of = { project, pipeline: title };
  const to = versionIn(query, "to");
  const from = versionIn(query, "from") ?? (to ? to - 1 : undefined);
  const older = pipeline.version === pipeline.current ? {} : { version: String(pipeline.version) };
  const origin = pipeline.origin;
  // a spec on one line, as a program writes it, is shown over lines
  const written = pipeline.spec && !pipeline.spec.trim().includes("\n") ? (prettyJson(pipeline.spec) ?? pipeline.spec) : (pipeline.spec ?? "");
  return (
    <>
      <Crumbs>{[<To place={{ page: "pipelines" }}>Pipelines</To>, <span>{project}</span>, <span>{name(pipeline.name)}</span>]}</Crumbs>
      <Head title={headline(pipeline)}
        lead={[<>{pipeline.version === pipeline.current ? "changed" : "set"} <Age us={pipeline.updated_us} sentence /></>, pipeline.source ? <><Icon of="git" /> source {name(pipeline.source)}</> : "set by hand", pipeline.stopped_by ? `stopped by ${name(pipeline.stopped_by)}` : null, staleWords(pipeline) ? <><Icon of="stale" /> {staleWords(pipeline)}</> : null]}
        acts={pipeline.version === pipeline.current ? <Actions pipeline={pipeline} /> : <To class="btn" place={{ page: "pipeline", ...of }}>Show version {pipeline.current}</To>} />
      <Feeds query={query} of={{ project, pipeline: title }} />
      <div class="cols">
        <div class="stack-wide">
          {from !== undefined && <VersionDiff of={of} from={from} to={to || pipeline.current} newest={pipeline.current} />}
          <Part id="spec" title="Spec" beside={<span class="tabs">
            <To place={{ page: "pipeline", ...of }} query={older} chosen={view !== "effective"}>as written</To>
            <To place={{ page: "pipeline", ...of }} query={{ ...older, view: "effective" }} chosen={view === "effective"}>with defaults</To></span>}>
            {view === "effective" ? <SpecFields of={pipeline} /> : <TextLines of={written} whole />}
          </Part>
        </div>
        <aside aria-label="About this pipeline">
          {origin && (
            <Part id="origin" title="Where the spec came from">
              <div class="panel pad stack"><p><b>{name(origin.message)}</b></p><dl class="kv"><dt>Source</dt><dd>{name(origin.source)}</dd><dt>File</dt><dd><code>{name(origin.path)}</code></dd><dt>Commit</dt><dd><span class="id" title={origin.commit}>{short(origin.commit)}</span> on {name(origin.branch)}</dd><dt>Author</dt><dd>{name(origin.author)}</dd></dl></div>
            </Part>)}
          <Versions of={of} shown={pipeline.version} />
          <Part id="stages" title="Stages">
            <ul class="rows panel">{stagesInOrder(pipeline).map((stage) => {
              const spec = (stage.spec ?? {}) as { description?: string; image?: string; run?: string[]; script?: string };
              const git = (stage.git as { head?: string } | null | undefined)?.head;
              return (
                <li key={stage.name}><Icon of="stage" /><div class="what"><b><To class="quiet" place={{ page: "repo", project, repo: stage.name }}>{name(stage.name)}</To></b>{stage.gpu && <> <span class="chip gpu">GPU</span></>}{" "}<StaleBadge of={stage.freshness} />
                  <StaleNote of={stage.freshness} />
                  <p class="small">reads {stage.inputs.map(name).join(", ") || "nothing"}</p>
                  <p class="small cut">{spec.image ? `${name(spec.image)} ` : ""}<code>{name((spec.run ?? []).join(" ").slice(0, 80) || (spec.script ?? "").slice(0, 80))}</code></p>
                  {stage.code && <p class="small">code <span class="id" title={stage.code}>{short(stage.code)}</span>{git ? <> · git <span class="id" title={git}>{short(git)}</span></> : null}</p>}</div></li>
              );
            })}</ul>
          </Part>
        </aside>
      </div>
    </>
  );
}

export function PipelinePage({ project, pipeline: title, query }: { project: string; pipeline: string; query: URLSearchParams }) {
  const version = versionIn(query, "version") ?? 0;
  const origins = query.get("view") === "effective";
  const loaded = useLoad(`pipeline ${project}/${title} ${version} ${origins}`, (signal) => get("/api/v1/pipelines/{project}/{pipeline}", { path: { project, pipeline: title }, query: { version, origins }, signal }), (event) => ["pipeline", "job", "commit"].includes(event.type));
  return <Existing of={loaded} what={`${version ? `version ${version} of ` : ""}pipeline ${name(title)} in ${name(project)}`}>{(pipeline) => <Shown project={project} title={title} pipeline={pipeline} query={query} />}</Existing>;
}
