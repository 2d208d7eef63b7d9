// The GPUs and what waits: who holds what, what is idle, and what a stage waits for.
import { get } from "../api/client";
import type { Gpu, GpuHolder, GpuNode, Gpus, Job } from "../api/schema";
import { name } from "../core/foreign";
import { counted, duration, number, percent, size, spelled } from "../core/format";
import { useLoad } from "../core/load";
import { waitReason } from "../core/runs";
import { isWaiting, isOver } from "../core/states";
import { Bar } from "../parts/bar";
import { Icon } from "../parts/icons";
import { Content, Head, Part } from "../parts/page";
import { Age, Id, To } from "../parts/words";

interface Facts {
  gpus: Gpus;
  jobs: Job[];
}

async function load(signal: AbortSignal): Promise<Facts> {
  const [gpus, jobs] = await Promise.all([get("/api/v1/gpus", { signal }), get("/api/v1/jobs", { query: { limit: 2000 }, signal })]);
  return { gpus, jobs: jobs.jobs };
}

interface Numbers {
  all: number;
  held: number;
  busy: number;
  measured: number;
}

const BUSY = 5; // per cent: less is idle

export function numbersOf(gpus: Gpus): Numbers {
  const slots = gpus.gpus;
  const held = slots.filter((gpu) => gpu.state !== "free").length;
  const measured = slots.filter((gpu) => gpu.utilisation != null);
  const nodes = gpus.nodes.filter((node) => node.node !== gpus.node || slots.length === 0);
  return {
    all: slots.length + nodes.reduce((sum, node) => sum + node.capacity, 0),
    held: held + nodes.reduce((sum, node) => sum + node.allocated, 0),
    busy: measured.filter((gpu) => (gpu.utilisation ?? 0) >= BUSY).length,
    measured: measured.length,
  };
}

function headline(n: Numbers, waiting: number): string {
  const waits = waiting === 0 ? "Nothing waits for one." : `${spelled(waiting)} ${waiting === 1 ? "stage waits" : "stages wait"} for one.`;
  if (n.all === 0) return waiting ? `No GPU here. ${waits}` : "No GPU here: stages that would like one use the CPU.";
  const free = n.all - n.held;
  const parts = n.measured > 0 ? `${number(n.busy)} of ${counted(n.all, "GPU")} ${n.busy === 1 ? "computes" : "compute"}, ${number(free)} ${free === 1 ? "is" : "are"} free` : `${number(n.held)} of ${counted(n.all, "GPU")} ${n.held === 1 ? "is" : "are"} held, ${number(free)} ${free === 1 ? "is" : "are"} free`;
  return `${parts}. ${waits}`;
}

function Holder({ by }: { by: { stage?: string | null; run?: string | null; project?: string | null; namespace?: string | null; pod?: string | null } | null | undefined }) {
  if (!by) return <b>held</b>;
  if (by.stage && by.run) return <><b><To class="quiet" place={{ page: "job", project: by.project ?? "default", stage: by.stage, run: by.run }}>{name(by.stage)}</To></b><p class="small">run <Id of={by.run} place={{ page: "run", run: by.run }} /></p></>;
  return <><b>{name([by.namespace, by.pod].filter(Boolean).join("/") || by.stage || "held")}</b><p class="small">not ours</p></>;
}

function Slot({ gpu }: { gpu: Gpu }) {
  const free = gpu.state === "free";
  const busy = gpu.utilisation ?? null;
  const idle = !free && busy !== null && busy < BUSY;
  return (
    <div class={`slot ${free ? "free" : idle ? "idle" : ""}`}>
      <div class="slot-top"><span class="faint">GPU {gpu.slot}</span>
        <span class={`state ${free ? "" : idle ? "waiting" : "gpu-c"}`}><Icon of={free ? "free" : idle ? "idle" : "running"} />{free ? "free" : busy === null ? "held" : idle ? "idle" : `${busy} % busy`}</span></div>
      {free ? <b>Free</b> : <Holder by={gpu.by as GpuHolder | undefined} />}
      <p class="small muted">{name(gpu.product)}{gpu.memory_mib ? ` · ${gpu.used_mib != null ? `${size(gpu.used_mib * 1048576)} of ` : ""}${size(gpu.memory_mib * 1048576)}` : ""}</p>
    </div>
  );
}

function Node({ node }: { node: GpuNode }) {
  const free = node.capacity - node.allocated;
  return (
    <div class="node">
      <h3>{name(node.node)} <span class="faint">{node.capacity} × {name(node.product || node.resource)} · {number(free)} free{node.unhealthy ? ` · ${number(node.unhealthy)} unhealthy` : ""}</span></h3>
      <Bar pieces={[{ of: "gpu", share: node.capacity ? node.allocated / node.capacity : 0 }]} label={`${node.allocated} of ${node.capacity} held`} />
      <div class="slots">
        {node.by.map((by, i) => (
          <div class="slot" key={i}><div class="slot-top"><span class="faint">{counted(by.count, "GPU")}</span></div><Holder by={by} />
            {by.used_mib != null && <p class="small muted">{size(by.used_mib * 1048576)} in use</p>}</div>))}
        {free > 0 && <div class="slot free"><div class="slot-top"><span class="faint">{counted(free, "GPU")}</span><span class="state"><Icon of="free" />free</span></div></div>}
      </div>
    </div>
  );
}

// Held and computed by stage, over the jobs that the list has.
function spentOf(jobs: Job[]): [string, { held: number; used: number; measured: number }][] {
  const stages = new Map<string, { held: number; used: number; measured: number }>();
  for (const job of jobs) {
    if (!job.gpu) continue;
    const sum = stages.get(job.stage) ?? { held: 0, used: 0, measured: 0 };
    sum.held += job.gpu.held_ms;
    sum.used += job.gpu.used_ms ?? 0;
    sum.measured += job.gpu.measured_ms;
    stages.set(job.stage, sum);
  }
  return [...stages].filter(([, sum]) => sum.held > 0).sort((a, b) => b[1].held - a[1].held).slice(0, 12);
}

function Spent({ rows }: { rows: ReturnType<typeof spentOf> }) {
  return (
    <Part id="spent" title="Where GPU time went" right="of the newest jobs">
      <div class="panel"><table class="list" aria-label="Where GPU time went"><thead><tr><th>Stage</th><th class="num">Held</th><th class="num">Computed</th></tr></thead>
        <tbody>{rows.map(([stage, sum]) => (
          <tr key={stage}><td><b>{name(stage)}</b></td><td class="num">{duration(sum.held)}</td>
            <td class="num">{sum.measured ? <>{percent(sum.used, sum.measured)}<Bar pieces={[{ of: "gpu", share: sum.used / sum.measured }]} label={`${percent(sum.used, sum.measured)} of the time computed`} /></> : "not measured"}</td></tr>
        ))}</tbody></table></div>
    </Part>
  );
}

export function GpusPage() {
  const loaded = useLoad("gpus", load, (event) => ["job", "worker"].includes(event.type));
  return (
    <Content of={loaded} rows={6}>{({ gpus, jobs }) => {
      const n = numbersOf(gpus);
      const spent = spentOf(jobs);
      const waiting = jobs.filter((job) => !isOver(job.state) && isWaiting(job));
      const forGpu = waiting.filter((job) => /\bGPU/.test(job.reason));
      const products = [...new Set([...gpus.gpus.map((gpu) => gpu.product), ...gpus.nodes.map((node) => node.product ?? "")])].filter(Boolean);
      return (
        <>
          <Head title={headline(n, forGpu.length)} lead={[products.length ? products.map(name).join(", ") : null, gpus.driver ? `driver ${name(gpus.driver)}` : null, gpus.not_measured ? `use is not measured: ${name(gpus.not_measured)}` : null]} />
          <div class={spent.length > 0 ? "cols" : ""}>
            <div>
              <Part id="waits" title="What waits">
                <div class="panel">{waiting.length === 0 ? <p class="empty">Nothing waits.</p> : (
                  <table class="list" aria-label="What waits"><thead><tr><th>Stage</th><th>Since</th><th>Why it waits</th></tr></thead>
                    <tbody>{waiting.map((job) => (
                      <tr key={`${job.stage} ${job.run}`}><td><To class="main" row place={{ page: "job", project: job.project, stage: job.stage, run: job.run }}>{name(job.stage)}</To><small>run <Id of={job.run} place={{ page: "run", run: job.run }} /></small></td>
                        <td><Age us={job.created_us} /></td><td><span class="state waiting wrap"><Icon of="waiting" /><span>{waitReason(job)}</span></span></td></tr>))}</tbody></table>)}</div>
              </Part>
              {n.all > 0 && (
                <Part id="holds" title="Who holds what">
                  <div class="panel">
                    {gpus.gpus.length > 0 && <div class="node"><h3>{name(gpus.node || "this machine")} <span class="faint">{counted(gpus.gpus.length, "GPU")}</span></h3><div class="slots">{gpus.gpus.map((gpu) => <Slot key={gpu.slot} gpu={gpu} />)}</div></div>}
                    {gpus.nodes.filter((node) => node.node !== gpus.node || gpus.gpus.length === 0).map((node) => <Node key={`${node.node} ${node.resource} ${node.product}`} node={node} />)}
                  </div>
                </Part>)}
            </div>
            {spent.length > 0 && <aside aria-label="GPU time"><Spent rows={spent} /></aside>}
          </div>
        </>
      );
    }}</Content>
  );
}
