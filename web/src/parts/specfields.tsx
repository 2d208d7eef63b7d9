// An effective spec field by field, each with where it comes from.
import type { Pipeline, Stage } from "../api/schema";
import { name, text as shownText } from "../core/foreign";
import { short } from "../core/format";
import { stagesInOrder } from "../core/runs";
import { ORIGINS, fieldsOf, originSentence } from "../core/versions";

function StageFields({ stage }: { stage: Stage }) {
  const fields = fieldsOf(stage.spec ?? {}, (stage.origins ?? {}) as Record<string, unknown>);
  return (
    <section class="stage-fields" aria-label={`Stage ${name(stage.name)}`}>
      <h3>{name(stage.name)}</h3>
      <p class="small muted">{originSentence(fields)}</p>
      <div class="panel table-box" tabIndex={0} role="region" aria-label={`Fields of ${name(stage.name)}`}>
        <table class="list fields" aria-label={`Fields of ${name(stage.name)}`}>
          <thead><tr><th scope="col">Field</th><th scope="col">Value</th><th scope="col">Comes from</th></tr></thead>
          <tbody>{fields.map((field) => {
            const origin = ORIGINS[field.origin] ?? { word: field.origin, also: field.origin };
            return (
              <tr key={field.path}>
                <td><code class="wrap">{name(field.path)}</code></td>
                <td><code class="wrap">{shownText(field.value)}</code></td>
                <td><span class={field.origin === "stage" ? "chip ok" : field.origin === "language" ? "chip" : "chip data"} title={origin.also}><span aria-hidden="true">{origin.word}</span><span class="visually-hidden">{origin.also}</span></span></td>
              </tr>
            );
          })}</tbody>
        </table>
      </div>
    </section>
  );
}

export function SpecFields({ of }: { of: Pipeline }) {
  return (
    <>
      {of.origin && <p class="small muted">What is written is in <code>{name(of.origin.path)}</code> at commit <span class="id" title={of.origin.commit}>{short(of.origin.commit)}</span> of {name(of.origin.source)}.</p>}
      {stagesInOrder(of).map((stage) => <StageFields key={stage.name} stage={stage} />)}
    </>
  );
}
