// All runs, newest first: what set each off, what became of it, what it cost. What comes in waits behind "2 new".
import { useEffect, useReducer, useRef } from "preact/hooks";
import { get } from "../api/client";
import { listen } from "../api/events";
import type { Pipeline, Run } from "../api/schema";
import { name } from "../core/foreign";
import { counted } from "../core/format";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { now } from "../core/now";
import { FILTERS, type Wanted, askedOf, datumsOf, endsHeard, leftOf, pushWords, rowState, runsHeadline, setOff, stageCount, stagesOf, wantedOf } from "../core/runfacts";
import { FRESH_MAX, RunList } from "../core/runlist";
import { announce } from "../parts/frame";
import { Icon, StateWord } from "../parts/icons";
import { ErrorNote, Head, Skeleton } from "../parts/page";
import { Rows } from "../parts/rows";
import { Id, Took, To, When } from "../parts/words";

const PAGE = 200;
const TOGETHER_MS = 300; // what changes within that time is asked for at once

interface Listed {
  list: RunList;
  error: Error | undefined;
  retry: () => void;
  loading: boolean;
  more: (() => void) | undefined;
  seen: (from: number, to: number) => void;
  showFresh: () => void;
}

// The list of runs for a filter, kept up to date by events: a row that changes is asked for alone.
function useRuns(key: string, asked: ReturnType<typeof askedOf>): Listed {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const kept = useRef<{ key: string; list: RunList; busy: Set<string>; error?: Error | undefined; failed: string }>({ key: "", list: new RunList(), busy: new Set(), failed: "" });
  if (kept.current.key !== key) kept.current = { key, list: new RunList(), busy: new Set(), failed: "" };
  const mine = kept.current;

  const load = async (after: string) => {
    const { list, busy } = mine;
    if (busy.has(after)) return;
    busy.add(after);
    try {
      const page = await get("/api/v1/runs", { query: { ...asked, limit: PAGE, ...(after ? { after } : {}) } });
      if (mine.list !== list) return; // it began anew meanwhile
      if (after === "" && list.length > 0) list.catchUp(page.runs, page.next ?? undefined);
      else list.put(after, page.runs, page.next ?? undefined);
      mine.error = undefined;
      // a page may be empty although there are more: the daemon looks at so many runs only
      if (page.runs.length === 0 && page.next && kept.current === mine) void load(page.next);
    } catch (error) {
      mine.error = error instanceof Error ? error : new Error(String(error));
      mine.failed = after;
    }
    busy.delete(after);
    if (kept.current === mine) draw(0);
  };

  useEffect(() => {
    const changed = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      timer = undefined;
      const ids = [...changed].slice(0, PAGE);
      for (const id of ids) changed.delete(id);
      const old = ids.filter((id) => mine.list.has(id));
      const unknown = ids.filter((id) => !mine.list.has(id));
      try { // a row that is shown stays, whatever has become of it; a new one comes only if it is asked for
        for (const [some, filter] of [[old, {}], [unknown, asked]] as const) {
          if (some.length > 0) mine.list.take((await get("/api/v1/runs", { query: { ...filter, ids: some.join(","), limit: PAGE } })).runs);
        }
        if (kept.current === mine) draw(0);
      } catch {
        // without an answer the banner says so, and "again" follows
      }
      if (changed.size > 0) soon();
    };
    const soon = () => (timer ??= setTimeout(() => void ask(), TOGETHER_MS));
    void load("");
    const unlisten = listen((event) => {
      if (event.type === "again") {
        void load("");
        for (const one of mine.list.going()) changed.add(one);
        if (changed.size > 0) soon();
      }
      const id = event.type === "run" ? event.data["id"] : event.type === "job" || event.type === "progress" ? event.data["run"] : undefined;
      if (typeof id !== "string") return;
      changed.add(id);
      soon();
    });
    return () => {
      clearTimeout(timer);
      unlisten();
    };
  }, [key]);

  return {
    list: mine.list, error: mine.error, retry: () => void load(mine.failed), loading: mine.list.next === "" && !mine.error,
    more: mine.list.next ? () => void load(mine.list.next!) : undefined,
    seen: (from, to) => mine.list.missing(from, to).forEach((after) => void load(after)),
    showFresh: () => {
      if (mine.list.gap) {
        Object.assign(mine, { list: new RunList(), busy: new Set() });
        void load("");
      } else mine.list.showFresh();
      draw(0);
    },
  };
}

function Filters({ wanted, pipelines, authors }: { wanted: Wanted; pipelines: Pipeline[]; authors: string[] }) {
  const toggle = (key: string) => setQuery({ state: (wanted.states.includes(key) ? wanted.states.filter((one) => one !== key) : [...wanted.states, key]).join(",") });
  const projects = [...new Set(pipelines.map((pipeline) => pipeline.project))];
  const people = [...new Set([...authors, ...(wanted.by ? wanted.by.split(",") : [])])].sort();
  return (
    <div class="filters" role="group" aria-label="Filters">
      {projects.length > 1 && (
        <select aria-label="Project" value={wanted.project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
          <option value="">all projects</option>{projects.map((one) => <option key={one}>{one}</option>)}
        </select>)}
      <select aria-label="Pipeline" value={wanted.pipeline} onChange={(event) => setQuery({ pipeline: event.currentTarget.value })}>
        <option value="">any pipeline</option>{[...new Set(pipelines.map((pipeline) => pipeline.name))].map((one) => <option key={one}>{one}</option>)}
      </select>
      <select aria-label="By" value={wanted.by} onChange={(event) => setQuery({ by: event.currentTarget.value })}>
        <option value="">by anybody</option>{people.map((one) => <option key={one} value={one}>by {name(one)}</option>)}
      </select>
      <span class="sep" />
      {FILTERS.map((filter) => (
        <button type="button" key={filter.key} class={`chip ${wanted.states.includes(filter.key) ? "on" : ""}`} aria-pressed={wanted.states.includes(filter.key)} onClick={() => toggle(filter.key)}>
          <Icon of={filter.shape} class={`state ${filter.shape}`} />{filter.text}
        </button>
      ))}
      <span class="sep" />
      <select aria-label="Since" value={wanted.since} onChange={(event) => setQuery({ since: event.currentTarget.value })}>
        <option value="">since ever</option><option value="hour">in the last hour</option><option value="day">in the last day</option><option value="week">in the last week</option>
      </select>
    </div>
  );
}

function Glyphs({ run }: { run: Run }) {
  const stages = stagesOf(run);
  const more = stageCount(run) - stages.length;
  const words = stages.map((one) => `${name(one.stage)} ${one.state.word.toLowerCase()}`).join(", ") + (more > 0 ? `, and ${more} more` : "");
  return (
    <span class="glyphs" role="img" aria-label={words || "no stage"} title={words}>
      {stages.map((one) => <Icon key={one.stage} of={one.state.shape} class={`state ${one.state.shape}`} />)}
      {more > 0 && <small>+{more}</small>}
    </span>
  );
}

function RunRow({ run }: { run: Run | null }) {
  if (!run) return <tr class="room" aria-hidden="true"><td colSpan={6} style={{ height: "53px" }} /></tr>;
  const pipelines = [...new Set((run.pipelines ?? []).map((one) => name(one.pipeline)))].join(", ") || run.cause;
  const left = leftOf(run, now.value);
  return (
    <tr data-run={run.id}>
      <td class="one-line"><To class="main" row place={{ page: "run", run: run.id }}>{setOff(run)}</To>
        <small>{pipelines} · <Id of={run.id} />{pushWords(run) ? ` · ${pushWords(run)}` : ""}</small></td>
      <td><StateWord of={rowState(run)} /></td>
      <td class="p2"><Glyphs run={run} /></td>
      <td class="num p2 muted">{datumsOf(run)}</td>
      <td class="num p2"><Took from={run.created_us} to={run.finished_us} />{left && <small>{left.replace(/, by .*/, "")}</small>}</td>
      <td class="num"><When us={run.created_us} /></td>
    </tr>
  );
}

export function Runs({ query }: { query: URLSearchParams }) {
  const wanted = wantedOf(query);
  const key = JSON.stringify(wanted);
  const { list, error, retry, loading, more, seen, showFresh } = useRuns(key, askedOf(wanted, Date.now()));
  const states = useRef(new Map<string, string>());
  useEffect(() => {
    const heard = endsHeard(states.current, list.first());
    states.current = new Map(list.first().map((run) => [run.id, run.state]));
    if (heard) announce(heard);
  });
  const pipelines = useLoad("pipelines", async (signal) => (await get("/api/v1/pipelines", { query: { limit: 1000 }, signal })).pipelines, (event) => event.type === "pipeline");
  if (loading) return <Skeleton rows={10} />;
  if (error && list.next === "") return <ErrorNote error={error} retry={retry} />;
  const filtered = key !== JSON.stringify(wantedOf(new URLSearchParams()));
  const first = list.first();
  return (
    <>
      <Head title={runsHeadline(first, list.length, filtered, more !== undefined)} lead={["newest first", `${counted(list.length, "run")}${more ? " so far" : ""}`]} />
      <div class="with-fresh">
        <Filters wanted={wanted} pipelines={pipelines.data ?? []} authors={first.flatMap((run) => (run.author ? [run.author] : []))} />
        {list.waiting > 0 && <button type="button" class="btn small fresh" onClick={showFresh}><Icon of="up" />{list.waiting}{list.waiting === FRESH_MAX ? " or more" : ""} new</button>}
      </div>
      {error && <ErrorNote error={error} retry={retry} />}
      <div class="panel">
        {list.length === 0 && !more
          ? <p class="empty">{filtered ? "No run is like that." : "A push, a new version of a pipeline or “pipelinectl run pipeline” sets a run off."}</p>
          : <Rows label="Runs" rows={list} rowHeight={53} columns={6} more={more} seen={seen} row={(run, i) => <RunRow key={run?.id ?? i} run={run} />}
              head={<tr><th>What set it off</th><th>State</th><th class="p2">Stages</th><th class="num p2">Datums</th><th class="num p2">Took</th><th class="num">When</th></tr>} />}
      </div>
    </>
  );
}
