// A mistake in a spec with the lines around it, the place marked.
import type { SourceProblem } from "../api/schema";
import { name, text as shownText } from "../core/foreign";
import { markedLines } from "../core/versions";

export function Excerpt({ of }: { of: SourceProblem }) {
  return (
    <div class="excerpt">
      <p class="down wrap"><code>{name(of.path)}:{of.line}:{of.column}</code> {name(of.text)}</p>
      <div class="panel log preview-text" tabIndex={0} role="region" aria-label={`${name(of.path)} around line ${of.line}`}>
        {markedLines(of).map((line) => (
          <div key={line.number} class={line.meant ? "bad" : ""}>
            <span class="n" aria-hidden="true">{line.number}</span>{line.meant && <span class="visually-hidden">Line {line.number}, with the mistake: </span>}
            {shownText(line.before)}{line.mark && <mark>{shownText(line.mark)}</mark>}{shownText(line.after) || (line.before || line.mark ? "" : " ")}
          </div>
        ))}
      </div>
    </div>
  );
}
