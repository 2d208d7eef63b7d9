// The spec checker: paste a spec, see its mistakes with line and column, what it would change, and the datums that it would give.
// Nothing is stored.
import { useRef, useState } from "preact/hooks";
import { post } from "../api/client";
import type { SpecChecked, SpecProblem } from "../api/schema";
import { name } from "../core/foreign";
import { counted, number } from "../core/format";
import { may } from "../core/session";
import { offsetOf } from "../core/spec";
import { Act } from "../parts/act";
import { Crumbs, ErrorNote, Head, Part } from "../parts/page";
import { To } from "../parts/words";

export function headlineOf(said: SpecChecked | null): string {
  if (!said) return "Paste a spec to see what it would do.";
  const mistakes = said.errors.length + said.more;
  if (mistakes > 0) return `${counted(mistakes, "mistake")} in the spec.`;
  if (said.refused) return "The spec is well formed, but the daemon would not take it as it is.";
  if (!said.changed) return `Nothing would change: ${name(said.pipeline ?? "")} has this spec already.`;
  return `The spec is good: it would be version ${said.version} of ${name(said.pipeline ?? "")}.`;
}

function Problems({ list, go, tone }: { list: SpecProblem[]; go: (problem: SpecProblem) => void; tone: string }) {
  return (
    <ul class="rows panel">
      {list.map((one) => (
        <li key={`${one.line}:${one.column}:${one.text}`}>
          <button type="button" class="btn small" data-row aria-label={`Line ${one.line}, column ${one.column}: go there`} onClick={() => go(one)}>{one.line}:{one.column}</button>
          <div class="what"><p class={`wrap ${tone}`}>{name(one.text)}</p></div>
        </li>
      ))}
    </ul>
  );
}

function Datums({ said }: { said: SpecChecked }) {
  const changes = new Map((said.stages ?? []).map((one) => [one.stage, one]));
  return (
    <div class="panel"><table class="list" aria-label="Stages of the spec">
      <thead><tr><th>Stage</th><th class="num">Datums</th><th>The first of them</th><th class="p2">Against now</th></tr></thead>
      <tbody>
        {(said.datums ?? []).map((one) => {
          const change = changes.get(one.stage);
          return (
            <tr key={one.stage}>
              <td><b>{name(one.stage)}</b></td>
              <td class="num">{one.datums === undefined || one.datums === null ? <span class="faint">–</span> : number(one.datums)}</td>
              <td>{one.why ? <span class="muted">{name(one.why)}</span> : (one.first ?? []).map((text) => <code key={text} class="block">{name(text)}</code>)}
                {(one.datums ?? 0) > (one.first ?? []).length && <small>and {number((one.datums ?? 0) - (one.first ?? []).length)} more</small>}</td>
              <td class="p2 muted">{change ? name(change.what || change.change) : "as it is"}{change?.again ? change.again.estimated ? `, about ${counted(change.again.datums, "datum")} to run` : `, ${number(change.again.datums)} of ${counted(change.again.of, "datum")} to run` : ""}</td>
            </tr>
          );
        })}
      </tbody>
    </table></div>
  );
}

export function CheckPage() {
  const [said, say] = useState<SpecChecked | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const forget = () => {
    say(null);
    setError(null);
  };
  // an answer that comes when the text has changed is about another text
  const check = async () => {
    if (busy) return;
    const spec = field.current?.value ?? "";
    const still = () => field.current?.value === spec;
    setBusy(true);
    try {
      const answer = await post("/api/v1/check", undefined, { spec });
      forget();
      if (still()) say(answer);
    } catch (failed) {
      forget();
      if (still()) setError(failed instanceof Error ? failed : new Error(String(failed)));
    }
    setBusy(false);
  };
  const go = (problem: SpecProblem) => {
    const area = field.current!;
    const at = offsetOf(area.value, problem.line, problem.column);
    area.focus();
    area.setSelectionRange(at, Math.min(area.value.length, at + 1));
    // the browser does not scroll to a selection: by lines of equal height
    area.scrollTop = Math.max(0, (problem.line - 4) * (area.scrollHeight / Math.max(1, area.value.split("\n").length)));
  };
  return (
    <>
      <Crumbs>{[<To place={{ page: "pipelines" }}>Pipelines</To>, <span>Check a spec</span>]}</Crumbs>
      <Head title={headlineOf(said)} lead={["nothing is stored"]} />
      {!may("writer", "") && <p class="muted">You may check specs of projects in which you may define pipelines.</p>}
      <p><label for="spec-text">Spec, as JSON</label></p>
      <textarea id="spec-text" ref={field} class="spec" rows={18} spellcheck={false} autocomplete="off" wrap="off" onInput={forget}
        onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); void check(); } }} />
      <p class="acts"><Act main disabled={busy} onClick={() => void check()}>Check <kbd aria-hidden="true">Ctrl Enter</kbd></Act></p>
      <div role="status" class="visually-hidden">{said ? headlineOf(said) : ""}</div>
      {error && <ErrorNote error={error} />}
      {said && said.errors.length > 0 && <Part id="mistakes" title="Mistakes"><Problems list={said.errors} go={go} tone="" />{said.more > 0 && <p class="muted">and {number(said.more)} more</p>}</Part>}
      {said?.refused && <div class="panel pad problem"><p>{name(said.refused)}</p></div>}
      {said && said.warnings.length > 0 && <Part id="warnings" title="Warnings"><Problems list={said.warnings} go={go} tone="muted" /></Part>}
      {said?.datums && <Part id="datums" title="The datums that it would give now"><Datums said={said} /></Part>}
    </>
  );
}
