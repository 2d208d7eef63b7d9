// Find: stages, pipelines and repos by a part of their name, runs and commits by their id, jobs as STAGE@RUN, and files as REPO@REF:/PATH.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { name } from "../core/foreign";
import { type Row, rowsOf } from "../core/found";
import { go } from "../core/going";
import { useLoad } from "../core/load";
import { pathOf } from "../core/places";
import { Dialog } from "./dialog";
import { ErrorNote } from "./page";
import { Icon } from "./icons";

const SHOWN_MAX = 12;
const TYPED_MS = 120; // the daemon is asked when nothing was typed for so long
const TEXT_MAX = 200;

// Without a text, the pipelines.
async function ask(text: string, signal: AbortSignal): Promise<{ text: string; rows: Row[]; more: boolean }> {
  if (text) {
    const { found, more } = await get("/api/v1/find", { query: { q: text, limit: SHOWN_MAX }, signal });
    return { text, rows: rowsOf(found, text), more };
  }
  const { pipelines } = await get("/api/v1/pipelines", { query: { limit: SHOWN_MAX }, signal });
  return { text, rows: rowsOf(pipelines.map((one) => ({ kind: "pipeline", project: one.project, name: one.name, id: "", text: "" })), ""), more: false };
}

// The text after a pause in typing.
function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

export function FindDialog({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const settled = useSettled(text.trim().slice(0, TEXT_MAX));
  const answer = useLoad(`find ${settled}`, (signal) => ask(settled, signal));
  // until the next answer comes, the one before stays
  const kept = useRef(answer.data);
  kept.current = answer.data ?? kept.current;
  const rows = kept.current?.rows ?? [];
  const fresh = kept.current?.text === text.trim().slice(0, TEXT_MAX);
  const wanted = useRef(false); // Enter was pressed before the answer was there
  useEffect(() => field.current?.focus(), []);
  const open = (one: Row | undefined) => {
    if (!one) return;
    close();
    go(pathOf(one.place));
  };
  useEffect(() => {
    if (wanted.current && fresh) open(rows[0]);
    if (fresh) wanted.current = false;
  }, [fresh, rows]);
  const key = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(rows.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter" && fresh) open(rows[at]);
    else if (event.key === "Enter") wanted.current = true;
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find" close={close} wide>
      <input ref={field} type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-label="Find a stage, run, repo, pipeline, job or commit, or a file as REPO@REF:/PATH"
        aria-activedescendant={rows[at] ? `found-${at}` : undefined} placeholder="a name, an id, STAGE@RUN or REPO@REF:/PATH" autocomplete="off" spellcheck={false}
        value={text} onInput={(event) => { setText(event.currentTarget.value); setAt(0); }} onKeyDown={key} />
      {answer.error && <ErrorNote error={answer.error} retry={answer.reload} />}
      <ul id="found" role="listbox" aria-label="Found" class="found">
        {rows.map((one, i) => (
          <li id={`found-${i}`} key={i} role="option" aria-selected={i === at} onClick={() => open(one)} onPointerMove={() => setAt(i)}>
            <Icon of={one.sign} /><b>{name(one.text)}</b><span class="faint">{name(one.more)}</span>
          </li>
        ))}
      </ul>
      {answer.data?.more && <p class="muted small">There is more: type on.</p>}
      {answer.data && fresh && rows.length === 0 && <p class="muted">Nothing has “{name(text)}” in its name.</p>}
    </Dialog>
  );
}
