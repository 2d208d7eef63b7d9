// The GPUs and what waits: who holds what, what is idle, what the last day was like, and what a stage waits for.
import { get } from "../api/client";
import type { Gpu, GpuHistory, GpuHolder, GpuNode, GpuStageTime, Gpus, Queue, QueueEntry } from "../api/schema";
import { name } from "../core/foreign";
import { age, counted, number, percent, size } from "../core/format";
import { SPANS, type Span, dayWords, gpuTime, headline, nodeNames, nodesOf, numbersOf, onNode, seriesOfNode, seriesOfSlot, seriesOn, seriesWords, spanOf, stepsOf, wantWords } from "../core/gpus";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { now } from "../core/now";
import { Bar } from "../parts/bar";
import { Day, Hour } from "../parts/gpubars";
import { Icon } from "../parts/icons";
import { Content, Head, Part } from "../parts/page";
import { Age, Id, To } from "../parts/words";

interface Facts {
  gpus: Gpus;
  queue: Queue;
  day: GpuHistory;
  hour: GpuHistory;
}

const STEPS = 96;
const HOUR_US = 3_600_000_000;

async function load(span: Span, signal: AbortSignal): Promise<Facts> {
  const [gpus, queue, day, hour] = await Promise.all([
    get("/api/v1/gpus", { signal }),
    get("/api/v1/queue", { signal }),
    get("/api/v1/gpus/history", { query: { px: STEPS, ...(span.key === "day" ? {} : { from: Math.round(now.value * 1000 - span.us) }) }, signal }),
    get("/api/v1/gpus/history", { query: { from: Math.round(now.value * 1000 - HOUR_US), px: 60 }, signal }),
  ]);
  return { gpus, queue, day, hour };
}

function Holder({ by }: { by: Partial<GpuHolder> | null | undefined }) {
  if (!by || (!by.stage && !by.pod)) return <b>Held</b>;
  if (!by.stage) return <><b>{name([by.namespace, by.pod].filter(Boolean).join("/"))}</b><p class="small">not ours</p></>;
  if (!by.run) return <b>{name(by.stage)}</b>;
  return <><b><To class="quiet" place={{ page: "job", project: by.project ?? "default", stage: by.stage, run: by.run }}>{name(by.stage)}</To></b><p class="small">run <Id of={by.run} place={{ page: "run", run: by.run }} /></p></>;
}

// What a held GPU does: "94 % busy", "idle 47 min", "computes", "held".
function Doing({ busy, idleSince, computing }: { busy: number | null; idleSince: number | null | undefined; computing: boolean }) {
  if (idleSince) return <span class="state waiting"><Icon of="idle" />idle {age(idleSince, now.value)}</span>;
  return <span class="state gpu-c"><Icon of="running" />{busy !== null ? `${Math.round(busy)} % busy` : computing ? "computes" : "held"}</span>;
}

function Slot({ gpu, node, hour }: { gpu: Gpu; node: string; hour: GpuHistory }) {
  const free = gpu.state === "free";
  const steps = stepsOf(hour, seriesOfSlot(hour, node, gpu));
  return (
    <div class={`slot ${free ? "free" : gpu.idle_since_us ? "idle" : ""}`}>
      <div class="slot-top"><span class="faint">GPU {gpu.slot}</span>
        {free ? <span class="state"><Icon of="free" />free</span> : <Doing busy={gpu.utilisation ?? null} idleSince={gpu.idle_since_us} computing={gpu.computing ?? false} />}</div>
      {free ? <b>Free</b> : <Holder by={gpu.by as Partial<GpuHolder> | undefined} />}
      <p class="small muted" title={name(gpu.product)}>{gpu.memory_mib ? `${gpu.used_mib != null ? `${size(gpu.used_mib * 1048576)} of ` : ""}${size(gpu.memory_mib * 1048576)} · ` : ""}{name(gpu.product)}</p>
      <Hour steps={steps} id={`hour-${gpu.slot}`} label={`GPU ${gpu.slot} in the last hour: ${hourWords(steps)}`} />
    </div>
  );
}

function hourWords(steps: ReturnType<typeof stepsOf>): string {
  const known = steps.filter((step) => step.known);
  const sum = (of: (step: (typeof known)[number]) => number) => Math.round(known.reduce((all, step) => all + of(step), 0));
  return known.length === 0 ? "no record" : `computed ${sum((step) => step.computes)} min, held idle ${sum((step) => step.idle)} min`;
}

function Node({ node, hour, at }: { node: GpuNode; hour: GpuHistory; at: number }) {
  const free = Math.max(0, node.capacity - node.allocated);
  const steps = stepsOf(hour, seriesOfNode(hour, node));
  const busy = (by: GpuHolder) => (typeof by.utilisation === "number" ? by.utilisation : null);
  return (
    <div class="node">
      <h3>{name(node.node)} <span class="faint">{number(node.capacity)} × {name(node.product || node.resource)} · {number(free)} free{node.unhealthy ? ` · ${number(node.unhealthy)} unhealthy` : ""}</span></h3>
      <Bar pieces={[{ of: "gpu", share: node.capacity ? node.allocated / node.capacity : 0 }]} label={`${node.allocated} of ${node.capacity} held`} />
      <div class="slots">
        {node.by.map((by, i) => (
          <div class={`slot ${by.idle_since_us ? "idle" : ""}`} key={i}>
            <div class="slot-top"><span class="faint">{counted(by.count, "GPU")}</span><Doing busy={busy(by)} idleSince={by.idle_since_us} computing={(by.computing ?? 0) > 0} /></div>
            <Holder by={by} />
            {by.used_mib != null && <p class="small muted">{size(by.used_mib * 1048576)} in use</p>}</div>))}
        {free > 0 && <div class="slot free"><div class="slot-top"><span class="faint">{counted(free, "GPU")}</span><span class="state"><Icon of="free" />free</span></div><b>Free</b></div>}
      </div>
      <div class="slot hour"><Hour steps={steps} id={`node-${at}`} label={`${name(node.node)} in the last hour: ${hourWords(steps)}`} /></div>
    </div>
  );
}

function Waits({ queue }: { queue: Queue }) {
  return (
    <div class="panel">{queue.queue.length === 0 ? <p class="empty">Nothing waits.</p> : (
      <table class="list" aria-label="What waits"><thead><tr><th>Stage</th><th class="p2">Wants</th><th>Since</th><th>Why it waits</th><th class="p2">What would let it start</th></tr></thead>
        <tbody>{queue.queue.map((entry) => <Wait key={`${entry.project}/${entry.stage} ${entry.run}`} entry={entry} />)}</tbody></table>)}</div>
  );
}

function Wait({ entry }: { entry: QueueEntry }) {
  const start = name(entry.start);
  return (
    <tr>
      <td><To class="main" row place={{ page: "job", project: entry.project, stage: entry.stage, run: entry.run }}>{name(entry.stage)}</To><small class="nowrap">run <Id of={entry.run} place={{ page: "run", run: entry.run }} /></small><small class="narrow">wants {wantWords(entry.want)}</small></td>
      <td class="p2 nowrap">{wantWords(entry.want)}</td>
      <td class="nowrap">{entry.since_us ? <Age us={entry.since_us} /> : "now"}</td>
      <td><span class="state waiting wrap"><Icon of="waiting" /><span>{name(entry.reason.replace(/^waiting (?=for|until|before)/, ""))}</span></span><small class="narrow">{start}</small></td>
      <td class="p2">{start}</td>
    </tr>
  );
}

function Spent({ rows, span }: { rows: GpuStageTime[]; span: Span }) {
  return (
    <Part id="spent" title="Where GPU time went" right={`${span.words}, every node`}>
      <div class="panel"><table class="list" aria-label="Where GPU time went"><thead><tr><th>Stage</th><th class="num">Held</th><th class="num">Computed</th></tr></thead>
        <tbody>{rows.slice(0, 12).map((row) => {
          const computed = Math.max(0, row.held_ms - row.idle_ms);
          return (
            <tr key={`${row.project ?? ""}/${row.stage ?? ""}`}><td>{row.stage ? <b>{name(row.stage)}</b> : <span class="muted">others</span>}</td><td class="num">{gpuTime(row.held_ms)}</td>
              <td class="num">{percent(computed, row.held_ms)}<Bar pieces={[{ of: "gpu", share: row.held_ms ? computed / row.held_ms : 0 }]} label={`computed ${percent(computed, row.held_ms)} of the time`} /></td></tr>
          );
        })}</tbody></table></div>
    </Part>
  );
}

function Filters({ names, node, span }: { names: string[]; node: string; span: Span }) {
  return (
    <div class="filters" role="group" aria-label="Filters">
      {(names.length > 1 || node) && (
        <select aria-label="Node" value={node} onChange={(event) => setQuery({ node: event.currentTarget.value })}>
          <option value="">all nodes</option>{[...new Set([...names, node])].filter(Boolean).map((one) => <option key={one} value={one}>{name(one)}</option>)}
        </select>)}
      {SPANS.map((one) => <button type="button" key={one.key} class={`chip ${one === span ? "on" : ""}`} aria-pressed={one === span} onClick={() => setQuery({ since: one.key === "day" ? undefined : one.key })}>{one.words}</button>)}
    </div>
  );
}

function Shown({ facts, node, span }: { facts: Facts; node: string; span: Span }) {
  const { queue, day, hour } = facts;
  const gpus = onNode(facts.gpus, node);
  const n = numbersOf(gpus);
  const nodes = nodesOf(gpus);
  const spent = day.stages.filter((row) => row.held_ms > 0);
  const series = seriesOn(day, node);
  const products = [...new Set([...gpus.gpus.map((gpu) => gpu.product), ...nodes.map((one) => one.product ?? "")])].filter(Boolean);
  const names = nodeNames(facts.gpus);
  const any = names.length > 0 || spent.length > 0;
  const unknown = node !== "" && !names.includes(node) && series.length === 0;
  return (
    <>
      <Head title={unknown ? `No node ${name(node)} has a GPU.` : `${node ? `${name(node)}: ` : ""}${headline(n, queue.queue.filter((entry) => entry.want.gpus > 0))}`}
        lead={[products.length ? products.map(name).join(", ") : null, gpus.driver ? `driver ${name(gpus.driver)}` : null, ...(node ? seriesWords(series) : dayWords(day)), gpus.not_measured ? `use is not measured: ${name(gpus.not_measured)}` : null]} />
      {(any || node) && <Filters names={names} node={node} span={span} />}
      <div class={any ? "cols" : ""}>
        <div>
          <Part id="waits" title="What waits" right={queue.hidden ? `${number(queue.hidden)} more that you may not see` : undefined}><Waits queue={queue} /></Part>
          {n.all > 0 && (
            <Part id="holds" title="Who holds what" right="the last hour, a bar a minute">
              <div class="panel">
                {gpus.gpus.length > 0 && <div class="node"><h3>{name(gpus.node || "this machine")} <span class="faint">{counted(gpus.gpus.length, "GPU")}</span></h3><div class="slots">{gpus.gpus.map((gpu) => <Slot key={gpu.slot} gpu={gpu} node={gpus.node ?? ""} hour={hour} />)}</div></div>}
                {nodes.map((one, i) => <Node key={`${one.node} ${one.resource} ${one.product}`} node={one} hour={hour} at={i} />)}
              </div>
            </Part>)}
        </div>
        {any && <aside aria-label={`GPUs in ${span.words}`}>
          <Part id="day" title={span.words.charAt(0).toUpperCase() + span.words.slice(1)}><div class="panel pad"><Day steps={stepsOf(day, series)} id="hatch-day" words={span.words} /></div></Part>
          {spent.length > 0 && <Spent rows={spent} span={span} />}
        </aside>}
      </div>
    </>
  );
}

// `?node=` shows one node, `?since=hour|6h|day` how far back the curve goes.
export function GpusPage({ query }: { query: URLSearchParams }) {
  const span = spanOf(query.get("since"));
  const loaded = useLoad(`gpus ${span.key}`, (signal) => load(span, signal), (event) => ["job", "gpu"].includes(event.type));
  return <Content of={loaded} rows={6}>{(facts) => <Shown facts={facts} node={query.get("node") ?? ""} span={span} />}</Content>;
}
