// The stages of a run as a graph: what each did in this run, whatever has become of it since.
import { useLayoutEffect, useMemo } from "preact/hooks";
import type { Job } from "../api/schema";
import { areFew, type Drawing, loadDrawings } from "../core/drawing";
import { stageOfJob } from "../core/folding";
import { name } from "../core/foreign";
import { counted } from "../core/format";
import { LiveStates } from "../core/live";
import { useLoad } from "../core/load";
import { narrow } from "../core/narrow";
import { refsOf } from "../core/runs";
import { Graph, StageList } from "./graph";
import { Content } from "./page";

const PIPELINES = 20; // of a run, that are drawn

// What the run has a part in: the others are drawn faintly.
const partOf = (drawing: Drawing, keys: Set<string>) => new Set(drawing.nodes.filter((node) => (node.key ? keys.has(node.key) : node.members?.some((key) => keys.has(key)))).map((node) => node.at));

export function RunGraph({ jobs }: { jobs: Job[] }) {
  const pipelines = [...new Set(jobs.map((job) => `${job.project}/${job.pipeline}`))];
  const drawn = pipelines.slice(0, PIPELINES);
  const loaded = useLoad(`run graph ${drawn.join()}`, async (signal) => (await Promise.all(drawn.map((one) => {
    const [project = "", pipeline = ""] = one.split("/");
    return loadDrawings({ project, pipeline }, signal);
  }))).flat(), (event) => event.type === "pipeline");
  const refs = refsOf(jobs);
  const refsKey = JSON.stringify([...refs]);
  const states = useMemo(() => new LiveStates(refs), [refsKey]);
  useLayoutEffect(() => states.take({ stages: jobs.map(stageOfJob), repos: [] }), [states, jobs]);
  const keys = useMemo(() => new Set([...refs.keys(), ...jobs.map((job) => `${job.project}/${job.stage}`)]), [refsKey, jobs.length]);
  const searches = useMemo(() => (loaded.data ?? []).map((drawing) => ({ hits: partOf(drawing, keys), current: null })), [loaded.data, keys]);
  return (
    <Content of={loaded} rows={4}>{(drawings) => {
      const few = areFew(drawings);
      return (
        <div class="panel graph">
          {drawings.length === 0 && <p class="empty">The pipelines of this run are gone.</p>}
          {drawings.map((drawing, i) => (
            <div class="band" key={i}>
              {drawings.length > 1 && <div class="graph-title"><h3>{drawing.pipelines.map((one) => name(one.name)).join(", ")}</h3></div>}
              {narrow.value ? <StageList drawing={drawing} states={states} /> : <Graph drawing={drawing} states={states} few={few} search={searches[i] ?? null} />}
            </div>))}
          {pipelines.length > PIPELINES && <p class="pad small muted">and {counted(pipelines.length - PIPELINES, "more pipeline")}</p>}
        </div>
      );
    }}</Content>
  );
}
