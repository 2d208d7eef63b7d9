// What a stage printed: it opens at the end, whatever its size; only the lines near the view are loaded and drawn. Followed while it
// runs, searched by the daemon, with the next error by one key, and a link for each line.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, address, get } from "../api/client";
import { listen } from "../api/events";
import type { Attempt, Job, LogLine } from "../api/schema";
import { type Piece, pieces, plain } from "../core/ansi";
import { middle, name } from "../core/foreign";
import { counted, number, short, size } from "../core/format";
import { setQuery } from "../core/going";
import { usePageKeys } from "../core/keys";
import { useLoad } from "../core/load";
import { isBad } from "../core/log";
import { LINE_PX, PAGE, drawnOf, forget, lineOfHash, missing, scrollFor, topLine } from "../core/logview";
import { isOver, jobState } from "../core/states";
import { Icon, StateWord } from "../parts/icons";
import { Crumbs, ErrorNote, Head } from "../parts/page";
import { Id, To } from "../parts/words";
import { Existing } from "./gone";

const KEPT_LINES = 20_000;
const LOOK_AGAIN_MS = 1000; // of a log that grows
const PAUSE_MS = 2000; // after a question that failed

interface Log {
  lines: Map<number, LogLine>;
  absent: Set<number>; // lines that were asked for and did not come: they are asked for again when the log has grown
  seen: { from: number; to: number }; // the lines near the view
  asking: boolean;
  refused: boolean; // with a 4xx: asking again would be answered in the same way
  total: number;
  bytes: number;
  final: boolean;
  error: Error | null;
  opened: boolean;
}

interface Which {
  project: string;
  stage: string;
  run: string;
  filter: { datum?: string; attempt?: number };
}

const nothingYet = (): Log =>
  ({ lines: new Map(), absent: new Set(), seen: { from: 1, to: 1 }, asking: false, refused: false, total: 0, bytes: 0, final: false, error: null, opened: false });

// Keeps the lines of an answer.
function take(into: Log, asked: { line?: number; limit?: number; tail?: boolean }, got: { lines: LogLine[]; total: number; bytes: number; final: boolean }): void {
  if (asked.tail) forget(into.lines, into.seen.from, into.seen.to, KEPT_LINES); // of a log that grows, too
  for (const line of got.lines) into.lines.set(line.line, line);
  if (got.total !== into.total || into.absent.size > KEPT_LINES) into.absent.clear();
  if (asked.line) for (let line = asked.line; line < asked.line + (asked.limit ?? 1); line++) if (!into.lines.has(line)) into.absent.add(line);
  Object.assign(into, { total: got.total, bytes: got.bytes, final: got.final, error: null, refused: false, opened: true });
}

function failed(into: Log, error: unknown): void {
  into.error = error instanceof Error ? error : new Error(String(error));
  into.refused = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
}

// The log with the lines that were loaded, its last lines first; looked at again while it grows.
function useLog({ project, stage, run, filter }: Which): { log: Log; want: (from: number, to: number) => void } {
  const [, redraw] = useState(0);
  const log = useRef<Log>(nothingYet());
  const path = { project, stage, run };
  const load = async (query: { line?: number; limit?: number; tail?: boolean }, signal?: AbortSignal) => {
    const into = log.current;
    const got = await get("/api/v1/jobs/{project}/{stage}/{run}/log", { path, query: { ...query, ...filter }, signal });
    take(into, query, got);
    redraw((n) => n + 1);
  };
  const want = (from: number, to: number) => {
    const into = log.current;
    into.seen = { from, to };
    const next = missing({ has: (line) => into.lines.has(line) || into.absent.has(line) }, from, Math.min(to, into.total), into.total);
    if (!next || into.asking || into.refused) return;
    into.asking = true;
    const goOn = () => {
      into.asking = false;
      forget(into.lines, from, to, KEPT_LINES);
      redraw((n) => n + 1); // what is seen by now may be missing still
    };
    load(next).then(goOn, (error: unknown) => {
      failed(into, error);
      redraw((n) => n + 1);
      setTimeout(goOn, PAUSE_MS);
    });
  };
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    log.current = nothingYet();
    const look = async () => {
      try {
        await load({ tail: true, limit: PAGE }, stop.signal);
      } catch (error) {
        if (stop.signal.aborted) return;
        failed(log.current, error);
        redraw((n) => n + 1);
      }
      const { final, refused, error } = log.current;
      if (!final && !refused && !stop.signal.aborted) timer = setTimeout(look, error ? PAUSE_MS : LOOK_AGAIN_MS);
    };
    void look();
    // after a new login, and when the daemon answers again
    const unlisten = listen((event) => {
      if (event.type === "again" && log.current.refused) void look();
    });
    return () => {
      unlisten();
      stop.abort();
      clearTimeout(timer);
    };
  }, [project, stage, run, filter.datum, filter.attempt]);
  return { log: log.current, want };
}

function Marked({ piece, q }: { piece: Piece; q: string }) {
  const parts: (string | preact.JSX.Element)[] = [];
  const low = piece.text.toLowerCase();
  let at = 0;
  for (let hit = q ? low.indexOf(q) : -1; hit >= 0; hit = low.indexOf(q, at)) {
    parts.push(piece.text.slice(at, hit), <mark>{piece.text.slice(hit, hit + q.length)}</mark>);
    at = hit + q.length;
  }
  parts.push(piece.text.slice(at));
  return piece.class ? <span class={piece.class}>{parts}</span> : <>{parts}</>;
}

function Line({ n, line, q, at }: { n: number; line: LogLine | undefined; q: string; at: number }) {
  const text = line ? line.text : "";
  return (
    <div id={`L${n}`} class={n === at ? "sel" : isBad(text) ? "bad-line" : ""}>
      <a class="n" href={`#L${n}`} tabIndex={-1} aria-label={`line ${n}`} data-n={n} />
      {line ? pieces(text).map((piece, i) => <Marked key={i} piece={piece} q={q} />) : <span class="faint">…</span>}
      {line?.cut && <span class="faint"> … {size(line.bytes)} in this line</span>}{text ? "" : " "}
    </div>
  );
}

interface ViewProps {
  log: Log;
  want: (from: number, to: number) => void;
  q: string;
  wrap: boolean;
  following: boolean;
  at: number; // the line that is looked for; 0: none
  jump: number; // grows with each jump
  unfollow: () => void;
}

function View({ log, want, q, wrap, following, at, jump, unfollow }: ViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const view = box.current?.clientHeight || 600;
  const drawn = drawnOf(top, log.total, view);
  const go = (line: number) => {
    box.current!.scrollTop = scrollFor(line, log.total, view);
    setTop(box.current!.scrollTop);
  };
  useEffect(() => want(drawn.from, drawn.to));
  useLayoutEffect(() => {
    if (following && at === 0 && box.current) {
      box.current.scrollTop = box.current.scrollHeight;
      setTop(box.current.scrollTop);
    }
  });
  useLayoutEffect(() => {
    if (at > 0 && box.current) go(Math.max(0, at - 1 - view / LINE_PX / 2));
  }, [at, jump, log.opened]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setTop(scrollTop);
    if (following && scrollHeight - scrollTop - clientHeight > LINE_PX * 3) unfollow();
  };
  const keys = (event: KeyboardEvent) => {
    const rows = view / LINE_PX - 1;
    const line = topLine(top, log.total, view);
    const to = { ArrowDown: line + 1, ArrowUp: line - 1, PageDown: line + rows, PageUp: line - rows, Home: 0, End: log.total }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (event.key !== "End") unfollow();
    go(Math.max(0, Math.min(to, log.total)));
  };
  const rows = [];
  for (let n = drawn.from; n <= drawn.to; n++) rows.push(<Line key={n} n={n} line={log.lines.get(n)} q={q} at={at} />);
  return (
    <div ref={box} class={`panel log tall ${wrap ? "wrap" : ""}`} tabIndex={0} role="region" aria-label="Log" onScroll={scrolled} onKeyDown={keys}>
      <div style={{ height: `${drawn.above}px` }} aria-hidden="true" class="room" />
      {rows}
      <div style={{ height: `${drawn.below}px` }} aria-hidden="true" class="room" />
    </div>
  );
}

function attemptsOf(attempts: Attempt[] | undefined): number[] {
  return [...new Set((attempts ?? []).map((one) => one.attempt))].sort((a, b) => a - b);
}

function Shown({ job, query }: { job: Job; query: URLSearchParams }) {
  const { project, stage, run } = job;
  const [datum, attempt, typed] = [query.get("datum") ?? "", Number(query.get("attempt") ?? 0), query.get("q") ?? ""];
  const path = { project, stage, run };
  const filter = { ...(datum ? { datum } : {}), ...(datum && attempt ? { attempt } : {}) };
  const { log, want } = useLog({ project, stage, run, filter });
  const kept = useLoad(`attempts ${run} ${stage} ${datum}`, async (signal) => {
    const found = datum ? await get("/api/v1/jobs/{project}/{stage}/{run}/datums/{datum}", { path: { ...path, datum }, signal }) : null;
    return found && !found.run ? found.attempts : []; // the attempts at a reused datum are in the log of another run
  });
  const [{ at, jump }, setAt] = useState({ at: lineOfHash(location.hash), jump: 0 });
  const [following, setFollowing] = useState(query.get("follow") !== "0" && !lineOfHash(location.hash));
  const [wrap, setWrap] = useState(false);
  const [said, say] = useState("");
  const search = useRef<AbortController | null>(null);
  const show = (line: number) => {
    setFollowing(false);
    setAt((before) => ({ at: line, jump: before.jump + 1 }));
    history.replaceState(history.state, "", `${location.pathname}${location.search}#L${line}`);
  };
  useEffect(() => {
    const named = () => lineOfHash(location.hash) && show(lineOfHash(location.hash));
    addEventListener("hashchange", named);
    return () => removeEventListener("hashchange", named);
  }, []);
  const find = async (back: boolean, what: { q: string } | { errors: true }) => {
    if ("q" in what && !what.q) return;
    search.current?.abort();
    const stop = (search.current = new AbortController());
    say("looking …");
    let from: number | null | undefined = back ? at || log.total + 1 : at ? at + 1 : 1;
    try {
      while (from) {
        const found: { line?: number | null; next?: number | null } = await get("/api/v1/jobs/{project}/{stage}/{run}/log/search", { path, query: { ...what, from, ...(back ? { back: true } : {}), ...filter }, signal: stop.signal });
        if (found.line) {
          show(found.line);
          say(`line ${number(found.line)}`);
          return;
        }
        from = found.next;
        if (from) say(`looking, line ${number(from)} …`);
      }
      say(back ? "none above" : at ? "none below" : "none");
    } catch (error) {
      if (!stop.signal.aborted) say(error instanceof Error ? error.message : String(error));
    }
  };
  usePageKeys({
    n: () => void find(false, { q: typed }), p: () => void find(true, { q: typed }), e: () => void find(false, { errors: true }), E: () => void find(true, { errors: true }),
    f: () => { setAt({ at: 0, jump: 0 }); setFollowing(true); },
  });
  const over = isOver(job.state);
  let newest = "";
  for (let n = log.total; n > log.total - 20 && !newest; n--) newest = plain(log.lines.get(n)?.text ?? "").trim();
  const attempts = attemptsOf(kept.data);
  return (
    <>
      <Crumbs>{[<To place={{ page: "runs" }}>Runs</To>, <span>{name(job.pipeline)}</span>, <Id of={run} place={{ page: "run", run }} />, <To place={{ page: "job", project, stage, run }}>{name(stage)}</To>, <span>log</span>]}</Crumbs>
      <Head title={newest ? `${name(stage)} ${over ? "ended with" : "prints"}: ${middle(newest, 120)}` : !log.opened ? `Log of ${name(stage)}` : over ? "It printed nothing." : `${name(stage)} has printed nothing yet.`}
        lead={[<StateWord of={jobState(job)} />, <>run <Id of={run} place={{ page: "run", run }} /></>, log.opened ? `${size(log.bytes)}, ${counted(log.total, "line")}` : null, datum ? <>datum <span class="id">{short(datum)}</span></> : null]}
        acts={<a class="btn" download={`${stage}-${short(run)}.log`} href={address("/api/v1/logs/{project}/{stage}", { project, stage }, { run, datum })}><Icon of="down" />Download</a>} />
      {log.error && <ErrorNote error={log.error} />}
      <div class="filters" role="group" aria-label="Log">
        {datum && <button type="button" class="chip" onClick={() => setQuery({ datum: undefined, attempt: undefined })}>all datums</button>}
        {attempts.length > 1 && <select aria-label="Attempt" value={attempt || ""} onChange={(event) => setQuery({ attempt: event.currentTarget.value || undefined })}><option value="">all attempts</option>{attempts.map((one) => <option key={one} value={one}>attempt {one}</option>)}</select>}
        <span class="search"><Icon of="find" /><input type="search" aria-label="Search in the log" placeholder="search" value={typed} maxLength={200} onInput={(event) => setQuery({ q: event.currentTarget.value })}
          onKeyDown={(event) => { if (event.key === "Enter") void find(event.shiftKey, { q: event.currentTarget.value }); }} /></span>
        {typed && <><button type="button" class="btn small" onClick={() => void find(false, { q: typed })}>Next <kbd aria-hidden="true">n</kbd></button><button type="button" class="btn small" onClick={() => void find(true, { q: typed })}>Before <kbd aria-hidden="true">p</kbd></button></>}
        <button type="button" class="btn small" onClick={() => void find(false, { errors: true })}>Next error <kbd aria-hidden="true">e</kbd></button>
        <button type="button" class="btn small" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>Wrap</button>
        <button type="button" class={`btn small fresh ${following ? "on" : ""}`} aria-pressed={following} onClick={() => { setAt({ at: 0, jump: 0 }); setFollowing(!following); }}><Icon of="down" />{over ? "End" : following ? "Following" : "Follow"} <kbd aria-hidden="true">f</kbd></button>
        <span class="faint nowrap" role="status">{said}</span>
      </div>
      {log.total > 0 && <View log={log} want={want} q={typed.toLowerCase()} wrap={wrap} following={following} at={at} jump={jump} unfollow={() => setFollowing(false)} />}
      <p class="small faint after">A progress bar that rewrites its line keeps only its last state. The number of a line is a link to it.</p>
    </>
  );
}

export function LogPage({ project, stage, run, query }: { project: string; stage: string; run: string; query: URLSearchParams }) {
  const job = useLoad(`logjob ${project}/${stage}/${run}`, (signal) => get("/api/v1/jobs/{project}/{stage}/{run}", { path: { project, stage, run }, signal }),
    (event) => event.type === "job" && event.data["stage"] === stage && String(event.data["run"]).startsWith(run));
  return <Existing of={job} what={`job of ${name(stage)} in run ${name(run)}`}>{(found) => <Shown job={found} query={query} />}</Existing>;
}
