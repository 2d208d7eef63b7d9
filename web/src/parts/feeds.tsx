// What feeds what: the graph with its search, its boxes that open and shut, its bands; or the same as a list. State changes are
// drawn when their event comes, before the daemon is asked again.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { listen } from "../api/events";
import type { GraphPipeline } from "../api/schema";
import { areFew, type Drawing, type Node, type Picture, type Question, loadPicture } from "../core/drawing";
import { type Hit, type Wishes, hitsOf, opened, queryOf, shut, taken, wishesOf } from "../core/folding";
import { name } from "../core/foreign";
import { counted, number } from "../core/format";
import { setQuery } from "../core/going";
import { usePageKeys } from "../core/keys";
import type { LiveStates } from "../core/live";
import { type Loaded, useLoad } from "../core/load";
import { narrow } from "../core/narrow";
import { Graph, type Search, StageList, stageState } from "./graph";
import { Content, Part } from "./page";

const BAND_NAMES = 6;
const BANDS = 500; // the daemon gives so many at once
const CONCERNS = ["run", "job", "pipeline", "repo", "commit"];

// The picture, whose states also hear events.
function usePicture(question: Question): Loaded<Picture> {
  const loaded = useLoad(`picture ${JSON.stringify(question)}`, (signal) => loadPicture(question, signal), (event) => CONCERNS.includes(event.type));
  const states = loaded.data?.states;
  useEffect(() => listen((event) => {
    if (event.type === "job") states?.hear(event.data);
  }), [states]);
  return loaded;
}

const smooth = (): ScrollBehavior => (matchMedia("(prefers-reduced-motion: no-preference)").matches ? "smooth" : "auto");

function centre(at: number): void {
  document.querySelector(`main [data-at="${at}"]`)?.scrollIntoView({ block: "center", inline: "center", behavior: smooth() });
}

// The field and what it found: typing goes to the first, arrows and Enter through them all; Enter takes one out of its box.
function SearchField({ drawings, states, wishes, tell }: { drawings: Drawing[]; states: LiveStates; wishes: Wishes; tell: (search: Search | null) => void }) {
  const [text, setText] = useState("");
  const [key, setKey] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const hits = useMemo(() => hitsOf(drawings, text), [drawings, text]);
  const index = Math.max(0, hits.findIndex((hit) => hit.key === key));
  const current: Hit | undefined = hits[index];
  usePageKeys({ s: () => field.current?.focus() }, []);
  useEffect(() => {
    tell(text.trim() ? { hits: new Set(hits.map((hit) => hit.at)), current: current?.at ?? null } : null);
    if (current) centre(current.at);
  }, [hits, current?.at, current?.key]);
  const step = (by: number) => setKey(hits[(index + by + hits.length) % hits.length]?.key ?? "");
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape" && text) {
      setText("");
      setKey("");
    } else if (event.key === "Enter" && current?.inside) {
      setKey(current.key);
      setQuery(queryOf(taken(wishes, current.key)));
    } else if ((event.key === "Enter" && !event.shiftKey) || event.key === "ArrowDown") step(1);
    else if (event.key === "Enter" || event.key === "ArrowUp") step(-1);
    else return;
    event.preventDefault();
  };
  const state = current && states.stage(current.key);
  const said = !text.trim() ? "" : !current ? "nothing found" : `${number(index + 1)} of ${number(hits.length)}`;
  return (
    <span class="graph-find">
      <input ref={field} type="text" class="small" placeholder="find a stage or repo" aria-label="Find a stage or repo in the graph: arrows go through what is found, Enter takes it out of its box"
        autocomplete="off" spellcheck={false} value={text} onInput={(event) => { setText(event.currentTarget.value); setKey(""); }} onKeyDown={pressed} />
      <span role="status" class="small faint">{said}<span class="visually-hidden">{current ? `: ${name(current.key)}${state ? `, ${stageState(state).word}` : ""}${current.inside ? ", in a box: Enter takes it out" : ""}` : ""}</span></span>
    </span>
  );
}

// What stands above a band: the title of each of its pipelines, and what follows that of the only one.
type Titles = { title: (pipeline: GraphPipeline) => ComponentChildren; alone: (pipeline: GraphPipeline) => ComponentChildren } | undefined;

function Band({ drawing, states, few, zoom, wishes, search, asList, titles, fold }: {
  drawing: Drawing; states: LiveStates; few: boolean; zoom: number; wishes: Wishes; search: Search | null; asList: boolean; titles: Titles;
  fold: (pipeline: string) => void;
}) {
  const boxes = new Map(drawing.nodes.filter((node) => node.kind === "pipelines" && node.pipeline).map((node) => [`${node.project}/${node.pipeline}`, node]));
  const shutNode = useCallback((node: Node) => fold(`${node.project}/${node.pipeline}`), [fold]);
  return (
    <>
      {titles && (
        <div class="graph-title">
          {drawing.pipelines.slice(0, BAND_NAMES).map((one) => {
            const box = boxes.get(`${one.project}/${one.name}`);
            const wished = box ? opened(wishes, box) : null;
            return (
              <span key={`${one.project}/${one.name}`} class="graph-name">
                {titles.title(one)}
                {!asList && <button type="button" class="btn tiny" aria-label={`${wished ? "Unfold" : "Fold"} ${name(one.name)}`} onClick={() => (wished ? setQuery(queryOf(wished)) : fold(`${one.project}/${one.name}`))}>{wished ? "unfold" : "fold"}</button>}
              </span>
            );
          })}
          {drawing.pipelines.length === 1 && titles.alone(drawing.pipelines[0]!)}
          {drawing.pipelines.length > BAND_NAMES && <span class="faint">and {counted(drawing.pipelines.length - BAND_NAMES, "more pipeline")}</span>}
        </div>
      )}
      {asList || narrow.value ? <StageList drawing={drawing} states={states} />
        : <Graph drawing={drawing} states={states} few={few} zoom={zoom} wishes={wishes} search={search} shutNode={shutNode} />}
    </>
  );
}

// An opened box is gone: the focus goes to the first node that came out of it.
function useFocusAfter(drawings: Drawing[]): (event: Event) => void {
  const wanted = useRef<string[]>([]);
  useEffect(() => {
    const keys = wanted.current;
    if (keys.length === 0) return;
    const nodes = drawings.flatMap((drawing) => drawing.nodes);
    const node = nodes.find((one) => Boolean(one.key) && keys.includes(one.key!)) ?? nodes.find((one) => one.members?.some((key) => keys.includes(key)));
    wanted.current = [];
    if (node) document.querySelector<SVGAElement>(`main [data-at="${node.at}"]`)?.focus();
  }, [drawings]);
  return (event: Event) => {
    const at = (event.target as Element).closest?.("[data-opens]")?.getAttribute("data-at");
    const node = at === null || at === undefined ? undefined : drawings.flatMap((drawing) => drawing.nodes).find((one) => one.at === Number(at));
    wanted.current = node?.members?.slice(0, 200) ?? [];
  };
}

function Drawings({ picture, question, query, wishes, titles, zoom, asList, search }: {
  picture: Picture; question: Question; query: URLSearchParams; wishes: Wishes; titles: Titles; zoom: number; asList: boolean; search: Search | null;
}) {
  const clicked = useFocusAfter(picture.drawings);
  const band = question.band ?? 0;
  const fold = useCallback((pipeline: string) => setQuery(queryOf(shut(wishes, pipeline, picture.drawings))), [wishes, picture.drawings]);
  const few = areFew(picture.drawings);
  return (
    <div onClickCapture={clicked}>
      {picture.drawings.map((drawing, i) => (
        <div key={drawing.pipelines.map((one) => `${one.project}/${one.name}`).slice(0, BAND_NAMES).join() || i} class="band">
          <Band drawing={drawing} states={picture.states} few={few} zoom={zoom} wishes={wishes} search={search} asList={asList} titles={titles} fold={fold} />
        </div>
      ))}
      {(band > 0 || picture.bandsLeft > 0) && (
        <p class="pad small acts">
          {band > 0 && <a class="btn small" href={`?${new URLSearchParams({ ...Object.fromEntries(query), band: String(Math.max(0, band - BANDS)) })}`}>Graphs before</a>}
          {picture.bandsLeft > 0 && <a class="btn small" href={`?${new URLSearchParams({ ...Object.fromEntries(query), band: String(band + BANDS) })}`}>{counted(picture.bandsLeft, "more graph")}</a>}
        </p>
      )}
    </div>
  );
}

export function questionOf(query: URLSearchParams, of: { project?: string; pipeline?: string }): Question {
  const wishes = wishesOf(query);
  const band = Math.floor(Number(query.get("band") ?? 0)) || 0;
  return {
    ...(of.project ? { project: of.project } : {}), ...(of.pipeline ? { pipeline: of.pipeline } : {}),
    ...Object.fromEntries(Object.entries(wishes).filter(([, list]) => list.length > 0)), ...(band > 0 ? { band } : {}),
  };
}

// `beside` and `right` stand in the head of the part.
export function Feeds({ query, of, titles, beside, right }: {
  query: URLSearchParams; of: { project?: string; pipeline?: string }; titles?: Titles; beside?: ComponentChildren; right?: ComponentChildren;
}) {
  const question = questionOf(query, of);
  const wishes = useMemo(() => wishesOf(query), [query.toString()]);
  const asList = query.get("view") === "list";
  const loaded = usePicture(question);
  // while another folding is loaded, the one before stays
  const kept = useRef<Picture>();
  kept.current = loaded.data ?? kept.current;
  const shown = loaded.data || !loaded.error ? { ...loaded, data: kept.current, loading: loaded.loading && !kept.current } : loaded;
  const [zoom, setZoom] = useState(0);
  const [search, setSearch] = useState<Search | null>(null);
  usePageKeys({ f: () => setZoom(0), "+": () => setZoom((z) => Math.min(2, (z || 0.9) + 0.15)), "-": () => setZoom((z) => Math.max(0.45, (z || 1) - 0.15)) }, []);
  return (
    <Part id="graph" title="What feeds what" beside={beside}
      right={<>
        {right}
        {!asList && shown.data && <span class="p2"><SearchField drawings={shown.data.drawings} states={shown.data.states} wishes={wishes} tell={setSearch} /></span>}
        {!asList && <span class="p2 acts">
          <button type="button" class="btn small" aria-label="Nearer" onClick={() => setZoom(Math.min(2, (zoom || 0.9) + 0.15))}>+</button>
          <button type="button" class="btn small" aria-label="Farther" onClick={() => setZoom(Math.max(0.45, (zoom || 1) - 0.15))}>−</button>
          <button type="button" class="btn small" onClick={() => setZoom(0)}>Fit <kbd aria-hidden="true">f</kbd></button></span>}
      </>}>
      <div class="panel graph">
        <Content of={shown} rows={4}>{(picture) => <Drawings picture={picture} question={question} query={query} wishes={wishes} titles={titles} zoom={zoom} asList={asList} search={search} />}</Content>
        <div class="graph-key legend p2">
          <span><svg viewBox="0 0 16 10" aria-hidden="true"><rect x=".5" y=".5" width="15" height="9" rx="2" fill="none" stroke="var(--edge)" /></svg>stage</span>
          <span><svg viewBox="0 0 16 10" aria-hidden="true"><rect x=".5" y=".5" width="15" height="9" rx="4.5" fill="var(--data-bg)" stroke="var(--data)" /></svg>repo</span>
          <span><svg viewBox="0 0 16 10" aria-hidden="true"><rect x=".5" y=".5" width="15" height="9" rx="4.5" fill="none" stroke="var(--edge)" stroke-dasharray="3 2" /></svg>out of date</span>
          <span><svg viewBox="0 0 16 10" aria-hidden="true"><path d="M0 5h16" stroke="var(--run)" stroke-width="2" /></svg>feeds what runs now</span>
          <span><svg class="bar key" viewBox="0 0 40 6" aria-hidden="true"><rect class="b-fail" width="6" height="6" /><rect class="b-done" x="6" width="12" height="6" /><rect class="b-reused" x="18" width="12" height="6" /></svg>failed, ran, reused, to do</span>
        </div>
      </div>
    </Part>
  );
}
