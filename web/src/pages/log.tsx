// What a stage printed: followed while it runs, searched, with the next error by one key. Only the lines near the view are drawn.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { address, get, request } from "../api/client";
import { middle, name } from "../core/foreign";
import { counted, number, short, size } from "../core/format";
import { setQuery } from "../core/going";
import { pageKeys } from "../core/keys";
import { useLoad } from "../core/load";
import { LogLines, isBad, nextLine } from "../core/log";
import { isOver, jobState } from "../core/states";
import { Icon, StateWord } from "../parts/icons";
import { Crumbs, ErrorNote, Head, Skeleton } from "../parts/page";
import { Id, To } from "../parts/words";
import { Gone } from "./gone";

const LINE = 20;
const AROUND = 200;
const REDRAW_MS = 250;

// Reads the log into `log`, calling `changed` at most four times a second.
async function read(url: string, log: LogLines, stop: AbortSignal, changed: () => void): Promise<void> {
  const response = await request(url, { signal: stop });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let last = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    log.push(value);
    if (Date.now() - last > REDRAW_MS) {
      last = Date.now();
      changed();
    } else setTimeout(changed, REDRAW_MS);
  }
  changed();
}

interface Following {
  log: LogLines;
  error: Error | null;
  ended: boolean;
}

function useLog(url: string): Following {
  const [, redraw] = useState(0);
  const [state, setState] = useState<Following>({ log: new LogLines(), error: null, ended: false });
  useEffect(() => {
    const stop = new AbortController();
    const log = new LogLines();
    let frame = 0;
    const changed = () => (frame ||= requestAnimationFrame(() => ((frame = 0), redraw((n) => n + 1))));
    setState({ log, error: null, ended: false });
    read(url, log, stop.signal, changed).then(
      () => setState({ log, error: null, ended: true }),
      (error: unknown) => stop.signal.aborted || setState({ log, error: error instanceof Error ? error : new Error(String(error)), ended: true }),
    );
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [url]);
  return state;
}

function Marked({ line, q }: { line: string; q: string }) {
  if (!q) return <>{line || " "}</>;
  const parts: (string | preact.JSX.Element)[] = [];
  const low = line.toLowerCase();
  let at = 0;
  for (let hit = low.indexOf(q); hit >= 0; hit = low.indexOf(q, at)) {
    parts.push(line.slice(at, hit), <mark>{line.slice(hit, hit + q.length)}</mark>);
    at = hit + q.length;
  }
  parts.push(line.slice(at) || (parts.length ? "" : " "));
  return <>{parts}</>;
}

interface ViewProps {
  lines: string[];
  first: number; // number of the first line
  q: string;
  wrap: boolean;
  following: boolean;
  at: number; // the line that is looked for; -1: none
  unfollow: () => void;
}

function View({ lines, first, q, wrap, following, at, unfollow }: ViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const height = box.current?.clientHeight ?? 600;
  const from = Math.max(0, Math.floor(top / LINE) - AROUND);
  const to = Math.min(lines.length, Math.ceil((top + height) / LINE) + AROUND);
  useLayoutEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  useEffect(() => {
    if (at >= 0 && box.current) box.current.scrollTop = Math.max(0, at * LINE - height / 2);
  }, [at]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setTop(scrollTop);
    if (following && scrollHeight - scrollTop - clientHeight > LINE * 3) unfollow();
  };
  return (
    <div ref={box} class={`panel log tall ${wrap ? "wrap" : ""}`} tabIndex={0} role="region" aria-label="Log" onScroll={scrolled}>
      <div style={{ height: `${from * LINE}px` }} aria-hidden="true" class="room" />
      {lines.slice(from, to).map((line, i) => {
        const n = from + i;
        return <div key={n} class={n === at ? "sel" : isBad(line) ? "bad-line" : ""}><span class="n" aria-hidden="true">{first + n}</span><Marked line={line} q={q} /></div>;
      })}
      <div style={{ height: `${(lines.length - to) * LINE}px` }} aria-hidden="true" class="room" />
    </div>
  );
}

export function LogPage({ project, stage, run, query }: { project: string; stage: string; run: string; query: URLSearchParams }) {
  const datum = query.get("datum") ?? "";
  const q = (query.get("q") ?? "").toLowerCase();
  const job = useLoad(`logjob ${project}/${stage}/${run}`, (signal) => get("/api/v1/jobs/{project}/{stage}/{run}", { path: { project, stage, run }, signal }),
    (event) => event.type === "job" && event.data["stage"] === stage && String(event.data["run"]).startsWith(run));
  const where = { project, stage };
  const { log, error, ended } = useLog(address("/api/v1/logs/{project}/{stage}", where, { run, datum, follow: true }));
  const lines = log.shown;
  const [at, setAt] = useState(-1);
  const [following, setFollowing] = useState(query.get("follow") !== "0");
  const [wrap, setWrap] = useState(false);
  const find = (step: 1 | -1, fits: (line: string) => boolean) => {
    const next = lines.length ? nextLine(lines, at < 0 ? (step > 0 ? -1 : 0) : at, step, fits) : -1;
    if (next >= 0) {
      setFollowing(false);
      setAt(next);
    }
  };
  const hits = q ? lines.reduce((sum, line) => sum + (line.toLowerCase().includes(q) ? 1 : 0), 0) : 0;
  const errors = lines.reduce((sum, line) => sum + (isBad(line) ? 1 : 0), 0);
  const has = (line: string) => q !== "" && line.toLowerCase().includes(q);
  useEffect(() => pageKeys({ n: () => find(1, has), p: () => find(-1, has), e: () => find(1, isBad), f: () => { setAt(-1); setFollowing(true); } }));
  if (!job.data) return job.error ? <Gone error={job.error} retry={job.reload} what={`job of ${name(stage)} in run ${name(run)}`} /> : <Skeleton rows={8} />;
  const over = isOver(job.data.state);
  const newest = [...lines].reverse().find((line) => line.trim()) ?? "";
  return (
    <>
      <Crumbs>{[<To place={{ page: "runs" }}>Runs</To>, <span>{name(job.data.pipeline)}</span>, <Id of={job.data.run} place={{ page: "run", run: job.data.run }} />,
        <To place={{ page: "job", project, stage, run: job.data.run }}>{name(stage)}</To>, <span>log</span>]}</Crumbs>
      <Head title={newest ? `${name(stage)} ${over ? "ended with" : "prints"}: ${middle(newest.trim(), 120)}` : ended || over ? "It printed nothing." : `${name(stage)} has printed nothing yet.`}
        lead={[<StateWord of={jobState(job.data)} />, <>run <Id of={job.data.run} place={{ page: "run", run: job.data.run }} /></>, `${size(log.bytes)}, ${counted(lines.length + log.dropped, "line")}`, datum ? <>datum <span class="id">{short(datum)}</span></> : null]}
        acts={<a class="btn" download={`${stage}-${short(job.data.run)}.log`} href={address("/api/v1/logs/{project}/{stage}", where, { run: job.data.run, datum })}><Icon of="down" />Download</a>} />
      {error && <ErrorNote error={error} />}
      <div class="filters" role="group" aria-label="Log">
        {datum && <button type="button" class="chip" onClick={() => setQuery({ datum: undefined })}>all datums</button>}
        <span class="search"><Icon of="find" /><input type="search" aria-label="Search in the log" placeholder="search" value={query.get("q") ?? ""} onInput={(event) => setQuery({ q: event.currentTarget.value })}
          onKeyDown={(event) => { if (event.key === "Enter") find(event.shiftKey ? -1 : 1, has); }} />
          {q && <span class="faint nowrap">{counted(hits, "line")}</span>}</span>
        {q && <><button type="button" class="btn small" onClick={() => find(1, has)}>Next <kbd aria-hidden="true">n</kbd></button><button type="button" class="btn small" onClick={() => find(-1, has)}>Before <kbd aria-hidden="true">p</kbd></button></>}
        {errors > 0 && <button type="button" class="btn small" onClick={() => find(1, isBad)}>Next error <kbd aria-hidden="true">e</kbd></button>}
        <button type="button" class="btn small" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>Wrap</button>
        {!over && <button type="button" class={`btn small fresh ${following ? "on" : ""}`} aria-pressed={following} onClick={() => setFollowing(!following)}><Icon of="down" />{following ? "Following" : "Follow"} <kbd aria-hidden="true">f</kbd></button>}
      </div>
      {lines.length > 0 && <View lines={lines} first={log.dropped + 1} q={q} wrap={wrap} following={following && !over} at={at} unfollow={() => setFollowing(false)} />}
      {log.dropped > 0 && <p class="small faint after">{number(log.dropped)} lines above are not kept here: download the log to see them.</p>}
      <p class="small faint after">A progress bar that rewrites its line keeps only its last state.</p>
    </>
  );
}
