// Find: runs, repos, pipelines and stages by a part of their name, and files as REPO@REF:/PATH.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { name } from "../core/foreign";
import { go } from "../core/going";
import { useLoad } from "../core/load";
import { type Place, fileNamed, pathOf } from "../core/places";
import { Dialog } from "./dialog";
import { ErrorNote } from "./page";
import { Icon, type Sign } from "./icons";

export interface Found {
  sign: Sign;
  text: string;
  more: string;
  place: Place;
}

const SHOWN_MAX = 12;
const RUN_ID = /^[0-9a-f]{4,32}$/;

async function everything(signal: AbortSignal): Promise<Found[]> {
  const [repos, pipelines, runs] = await Promise.all([
    get("/api/v1/repos", { query: { limit: 10000 }, signal }),
    get("/api/v1/pipelines", { query: { limit: 1000 }, signal }),
    get("/api/v1/runs", { query: { limit: 1000 }, signal }),
  ]);
  return [
    ...pipelines.pipelines.map((one): Found => ({ sign: "stage", text: one.name, more: `pipeline of ${one.project}`, place: { page: "pipeline", project: one.project, pipeline: one.name } })),
    ...repos.repos.map((one): Found => ({ sign: "repo", text: one.name, more: one.kind === "input" ? `repo of ${one.project}` : `output of ${one.project}`, place: { page: "repo", project: one.project, repo: one.name } })),
    ...runs.runs.map((one): Found => ({ sign: "again", text: one.id, more: `run, ${one.cause} ${one.message}`, place: { page: "run", run: one.id } })),
  ];
}

// Those that have the text, first those whose name begins with it.
export function matching(all: Found[], text: string): Found[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return all.filter((one) => one.sign !== "again").slice(0, SHOWN_MAX);
  const rank = (one: Found) => (one.text.toLowerCase() === wanted ? 0 : one.text.toLowerCase().startsWith(wanted) ? 1 : 2);
  const found = all.filter((one) => `${one.text} ${one.more}`.toLowerCase().includes(wanted)).sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN_MAX);
  const file = fileNamed(text);
  if (file?.page === "files") found.unshift({ sign: "file", text: text.trim(), more: "file", place: file });
  if (found.length === 0 && RUN_ID.test(wanted)) found.push({ sign: "again", text: wanted, more: "run with this id", place: { page: "run", run: wanted } });
  return found;
}

export function FindDialog({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const all = useLoad("find", everything);
  const found = matching(all.data ?? [], text);
  useEffect(() => field.current?.focus(), []);
  const open = (one: Found | undefined) => {
    if (!one) return;
    close();
    go(pathOf(one.place));
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") open(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find" close={close} wide>
      <input ref={field} type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-label="Find a run, repo, pipeline, or a file as REPO@REF:/PATH"
        aria-activedescendant={found[at] ? `found-${at}` : undefined} placeholder="a name, a run's id, or REPO@REF:/PATH" autocomplete="off" spellcheck={false}
        value={text} onInput={(event) => { setText(event.currentTarget.value); setAt(0); }} onKeyDown={key} />
      {all.error && <ErrorNote error={all.error} retry={all.reload} />}
      <ul id="found" role="listbox" aria-label="Found" class="found">
        {found.map((one, i) => (
          <li id={`found-${i}`} key={i} role="option" aria-selected={i === at} onClick={() => open(one)} onPointerMove={() => setAt(i)}>
            <Icon of={one.sign} /><b>{name(one.text)}</b><span class="faint">{name(one.more)}</span>
          </li>
        ))}
      </ul>
      {all.data && found.length === 0 && <p class="muted">Nothing has “{name(text)}” in its name.</p>}
    </Dialog>
  );
}
