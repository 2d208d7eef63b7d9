// Versions of a pipeline: the list of them, and what differs between two.
import { get } from "../api/client";
import type { FieldChange, PipelineVersion, PipelineVersionDiff, VersionStageChange } from "../api/schema";
import { middle, name, text as shownText } from "../core/foreign";
import { counted, short } from "../core/format";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { type Place } from "../core/places";
import { againWords, byLines, changeWords, diffSentence, fieldAgain, valueText, whoOf } from "../core/versions";
import { TextDiff } from "./filediff";
import { Icon } from "./icons";
import { Content, Part } from "./page";
import { type Page, usePages } from "./rows";
import { Age, Id, To } from "./words";

const PAGE = 20;

export interface Which {
  project: string;
  pipeline: string;
}

async function versionsFrom(of: Which, after: string | undefined, signal?: AbortSignal): Promise<Page<PipelineVersion>> {
  const page = await get("/api/v1/pipelines/{project}/{pipeline}/versions", { path: { project: of.project, pipeline: of.pipeline }, query: { limit: PAGE, ...(after ? { after } : {}) }, ...(signal ? { signal } : {}) });
  return { items: page.versions, next: page.next ?? undefined };
}

function VersionRow({ of, version, shown }: { of: Which; version: PipelineVersion; shown: number }) {
  const place: Place = { page: "pipeline", ...of };
  const message = version.message.split("\n")[0] ?? "";
  return (
    <li>
      <Icon of={version.origin ? "git" : "file"} />
      <div class="what">
        <b><To place={place} query={version.current ? {} : { version: String(version.version) }} chosen={version.version === shown}>version {version.version}</To></b>{version.current && <span class="muted"> now</span>}
        <p class="small">{changeWords(version)}{message ? <> · {middle(message, 60)}</> : null}</p>
        <p class="small muted">{version.by ? `${whoOf(version.by)} ` : ""}{version.origin ? <>at <span class="id" title={version.origin.commit}>{short(version.origin.commit)}</span> of {name(version.origin.source)}</> : "by hand"}{version.run ? <> · run <Id of={version.run} place={{ page: "run", run: version.run }} /></> : null}</p>
        <p class="small"><To place={place} query={{ from: String(version.version - 1), to: String(version.version) }}>what it changed<span class="visually-hidden"> in version {version.version}</span></To></p>
      </div>
      <div class="side"><Age us={version.created_us} /></div>
    </li>
  );
}

export function Versions({ of, shown }: { of: Which; shown: number }) {
  const key = `versions ${of.project}/${of.pipeline}`;
  const loaded = useLoad(key, (signal) => versionsFrom(of, undefined, signal), (event) => event.type === "pipeline");
  const pages = usePages<PipelineVersion>(key, loaded.data, (after) => versionsFrom(of, after));
  return (
    <Part id="versions" title="Versions">
      <Content of={loaded} rows={4}>{() => (
        <>
          <ul class="rows panel">{pages.items.map((version) => <VersionRow key={version.version} of={of} version={version} shown={shown} />)}</ul>
          {pages.error && <p class="down">{pages.error.message}</p>}
          {pages.more && <p class="after"><button type="button" class="btn small" onClick={pages.more}>Older versions</button></p>}
        </>
      )}</Content>
    </Part>
  );
}

// ---- what differs between two

function Value({ of, side }: { of: unknown; side: "old" | "new" }) {
  const value = valueText(of);
  if (value === undefined) return <span class="faint">not set</span>;
  return side === "old" ? <s><code class="wrap">{shownText(value)}</code></s> : <code class="wrap">{shownText(value)}</code>;
}

function FieldRow({ stage, field, files }: { stage: string; field: FieldChange; files: VersionStageChange["files"] }) {
  const values = field.before !== undefined || field.after !== undefined;
  return (
    <tr>
      <td><code class="wrap">{name(field.field)}</code></td>
      <td>
        {values && !byLines(field) && <><span class="visually-hidden">before: </span><Value of={field.before} side="old" /> <span aria-hidden="true">→</span><span class="visually-hidden">after: </span> <Value of={field.after} side="new" /></>}
        {byLines(field) && <TextDiff before={valueText(field.before)!} after={valueText(field.after)!} beside={false} label={`What differs in ${name(field.field)} of ${name(stage)}`} />}
        {field.content && <span>{values ? "; " : ""}the content of the code differs{files ? `: ${files.changed.map((file) => name(file)).join(", ")}${files.count > files.changed.length ? ` and ${counted(files.count - files.changed.length, "more file", "more files")}` : ""}` : ""}</span>}
      </td>
      <td class={field.again === "none" ? "muted" : ""}>{fieldAgain(field.again)}</td>
    </tr>
  );
}

const CHANGE: Record<string, { sign: string; word: string; tone: string }> = {
  new: { sign: "+", word: "is new", tone: "add" },
  removed: { sign: "−", word: "is gone", tone: "del" },
  changed: { sign: "~", word: "changed", tone: "" },
  unchanged: { sign: "=", word: "is the same", tone: "" },
};

function StageDiff({ stage }: { stage: VersionStageChange }) {
  const change = CHANGE[stage.change] ?? { sign: "~", word: stage.change, tone: "" };
  const fields = stage.fields ?? [];
  return (
    <section class="stage-diff" aria-label={`Stage ${name(stage.stage)}`}>
      <h3><span aria-hidden="true" class={change.tone}>{change.sign}</span> {name(stage.stage)} {change.word}{stage.again ? <span class="muted">: {againWords(stage.again)}{(stage.because ?? []).length > 0 ? `, with ${stage.because!.map((one) => name(one)).join(", ")}` : ""}</span> : null}</h3>
      {fields.length > 0 && (
        <div class="panel table-box" tabIndex={0} role="region" aria-label={`Fields of ${name(stage.stage)} that differ`}>
          <table class="list fields" aria-label={`Fields of ${name(stage.stage)}`}>
            <thead><tr><th scope="col">Field</th><th scope="col">Before and after</th><th scope="col">What it does</th></tr></thead>
            <tbody>{fields.map((field) => <FieldRow key={field.field} stage={stage.stage} field={field} files={stage.files} />)}</tbody>
          </table>
        </div>)}
    </section>
  );
}

// A choice of a version: those around it may not be loaded, so that every number is offered up to a bound.
function Choice({ label, value, newest, least, name: key }: { label: string; value: number; newest: number; least: number; name: "from" | "to" }) {
  return (
    <label>{label} <input type="number" min={least} max={newest} value={value}
      onChange={(event) => { const n = Number(event.currentTarget.value); if (Number.isInteger(n) && n >= least && n <= newest) setQuery({ [key]: String(n) }); else event.currentTarget.value = String(value); }} /></label>
  );
}

function SpecTexts({ of, diff }: { of: Which; diff: PipelineVersionDiff }) {
  const text = async (version: number | undefined, signal: AbortSignal) =>
    version ? ((await get("/api/v1/pipelines/{project}/{pipeline}", { path: { project: of.project, pipeline: of.pipeline }, query: { version }, signal })).spec ?? "") : "";
  const from = diff.from?.version;
  const to = diff.to?.version;
  const loaded = useLoad(`specs ${of.project}/${of.pipeline} ${from} ${to}`, (signal) => Promise.all([text(from, signal), text(to, signal)]));
  return <Part id="texts" title="The spec as written"><Content of={loaded} rows={6}>{([before, after]) => (before === after ? <p class="panel empty">The text of the spec is the same.</p> : <TextDiff before={before} after={after} beside={false} label="What differs in the text of the spec" />)}</Content></Part>;
}

export function VersionDiff({ of, from, to, newest }: { of: Which; from: number; to: number; newest: number }) {
  const loaded = useLoad(`version diff ${of.project}/${of.pipeline} ${from} ${to}`, (signal) => get("/api/v1/pipelines/{project}/{pipeline}/diff", { path: { project: of.project, pipeline: of.pipeline }, query: { from, to }, signal }));
  return (
    <>
      <Part id="diff" title="What differs" right={<To class="btn small" place={{ page: "pipeline", ...of }}>Close</To>}>
        <p class="acts choices"><Choice label="From version" name="from" value={from} newest={newest} least={0} /> <Choice label="to version" name="to" value={to} newest={newest} least={1} /></p>
        <Content of={loaded} rows={5}>{(diff) => (
          <>
            <p role="status"><b>{diffSentence(diff)}</b></p>
            {diff.stages.map((stage) => <StageDiff key={stage.stage} stage={stage} />)}
            {diff.same > 0 && <p class="small muted">{counted(diff.same, "stage")} {diff.same === 1 ? "is" : "are"} the same.</p>}
          </>
        )}</Content>
      </Part>
      {loaded.data && <SpecTexts of={of} diff={loaded.data} />}
    </>
  );
}
