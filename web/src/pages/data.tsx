// All repos: which take pushes, which are written by stages, and which are out of date.
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../api/client";
import type { Repo } from "../api/schema";
import { name } from "../core/foreign";
import { counted, number, size } from "../core/format";
import { go, setQuery } from "../core/going";
import { type Loaded, useLoad } from "../core/load";
import { pathOf } from "../core/places";
import { may } from "../core/session";
import { Act } from "../parts/act";
import { Confirm } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Content, ErrorNote, Head } from "../parts/page";
import { type Page, Rows, usePages } from "../parts/rows";
import { StaleBadge } from "../parts/stale";
import { UploadButton } from "../parts/upload";
import { Age, Command, To } from "../parts/words";

const SOONEST_MS = 2000; // between two loads of the repos that are shown
const PAGE = 200;
const FILLED = 60; // rows that a filter should leave before the next page waits until somebody scrolls

interface Listed {
  repos: Repo[];
  more: (() => void) | undefined;
  error: Error | undefined; // why there is no further page
}

// The repos of a project, or of all, a page more whenever `more` is called.
function useRepos(project: string): { first: Loaded<Page<Repo>>; listed: Listed } {
  const key = `data ${project}`;
  const ask = (after: string | undefined, signal?: AbortSignal): Promise<Page<Repo>> => get("/api/v1/repos", { query: { limit: PAGE, ...(project ? { project } : {}), ...(after ? { after } : {}) }, signal })
    .then((page) => ({ items: page.repos, next: page.next ?? undefined }));
  const first = useLoad(key, (signal) => ask(undefined, signal), (event) => ["repo", "commit", "pipeline", "job"].includes(event.type), SOONEST_MS);
  const pages = usePages(key, first.data, (after) => ask(after));
  return { first, listed: { repos: pages.items, more: pages.more, error: pages.error } };
}

function Newest({ repo }: { repo: Repo }) {
  return (
    <>
      <td class="p2">{repo.commit ? (repo.message ? `“${name(repo.message)}”` : repo.made_by ? `written by ${name(repo.made_by.stage)}` : "without a message") : <span class="faint">no commit yet</span>}
        {repo.stale ? <small><StaleBadge of={repo.freshness} /></small> : repo.author ? <small>by {name(repo.author)}</small> : null}</td>
      <td class="num">{number(repo.files)}</td>
      <td class="num p2">{size(repo.bytes)}</td>
      <td class="num">{repo.commit_us ? <Age us={repo.commit_us} /> : "–"}</td>
    </>
  );
}

function NewRepo({ projects, close }: { projects: string[]; close: () => void }) {
  const [project, setProject] = useState(projects[0] ?? "default");
  const [repo, setRepo] = useState("");
  return (
    <Confirm title="Make a repo that takes pushes?" doIt="Make it" leave="Leave it" close={close}
      act={async () => { await post("/api/v1/repos", undefined, { project, name: repo }); go(pathOf({ page: "repo", project, repo })); }}>
      <label class="field">Project<input value={project} onInput={(event) => setProject(event.currentTarget.value)} /></label>
      <label class="field">Name<input value={repo} placeholder="letters, digits, _ and -" onInput={(event) => setRepo(event.currentTarget.value)} /></label>
      <Command text={`pipelinectl create repo ${project === "default" ? "" : `${project}/`}${repo || "NAME"}`} />
    </Confirm>
  );
}

const KINDS = [{ key: "input", text: "takes pushes" }, { key: "output", text: "written by stages" }];

function headline(repos: Repo[], more: boolean): string {
  const inputs = repos.filter((repo) => repo.kind === "input").length;
  const outputs = repos.length - inputs;
  const old = repos.filter((repo) => repo.stale).length;
  const older = old ? `; ${number(old)} ${old === 1 ? "is" : "are"} out of date` : "";
  if (more) return `Over ${counted(repos.length, "repo")}: of the first ${number(repos.length)}, ${number(inputs)} take pushes and ${number(outputs)} are written by stages${older}.`;
  return `${counted(inputs, "repo")} ${inputs === 1 ? "takes" : "take"} pushes, ${number(outputs)} ${outputs === 1 ? "is" : "are"} written by stages${older}.`;
}

function Table({ rows, more }: { rows: Repo[]; more: (() => void) | undefined }) {
  if (rows.length === 0) return <p class="empty">{more ? "Looking further." : "No repo is like that."}</p>;
  return (
    <Rows label="Repos" rows={rows} rowHeight={53} columns={7} more={more}
      head={<tr><th>Repo</th><th class="p2">Newest commit</th><th class="num">Files</th><th class="num p2">Size</th><th class="num">When</th><th class="p2">Made by</th><th class="p2">Used by</th></tr>}
      row={(repo) => (
        <tr key={`${repo.project}/${repo.name}`}>
          <td><Icon of="repo" /> <To class="main" row place={{ page: "repo", project: repo.project, repo: repo.name }}>{name(repo.name)}</To><small class="ind">{repo.project}</small></td>
          <Newest repo={repo} />
          <td class="p2">{repo.made_by ? name(repo.made_by.stage) : repo.kind === "input" ? "pushes" : "–"}</td>
          <td class="p2 muted">{repo.used_by.map((one) => name(one.stage)).join(", ") || "–"}</td>
        </tr>)} />
  );
}

function Shown({ listed, query, projects }: { listed: Listed; query: URLSearchParams; projects: string[] }) {
  const [making, make] = useState(false);
  const project = query.get("project") ?? "";
  const kind = query.get("kind") ?? "";
  const onlyStale = query.get("stale") === "1";
  const { repos, more } = listed;
  const inputs = repos.filter((repo) => repo.kind === "input");
  const rows = repos.filter((repo) => (!kind || (kind === "input") === (repo.kind === "input")) && (!onlyStale || repo.stale));
  // a filter may leave nothing of a page: no scrolling would ask for the next one
  useEffect(() => {
    if (rows.length < FILLED) more?.();
  }, [repos, rows.length]);
  const bytes = repos.reduce((sum, repo) => sum + repo.bytes, 0);
  return (
    <>
      <Head title={headline(repos, Boolean(more))}
        lead={[more ? null : `${counted(repos.length, "repo")} in ${project ? name(project) : counted(new Set(repos.map((repo) => repo.project)).size, "project")}`, `${size(bytes)} in the newest commits${more ? " of these" : ""}`]}
        acts={may("writer", project || (projects[0] ?? "default")) && <>
          {inputs[0] && <UploadButton repos={inputs} />}
          <Act onClick={() => make(true)}>New repo…</Act></>} />
      {making && <NewRepo projects={project ? [project] : projects} close={() => make(false)} />}
      <div class="filters" role="group" aria-label="Filters">
        {(projects.length > 1 || project) && (
          <select aria-label="Project" value={project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
            <option value="">all projects</option>{[...new Set([...projects, ...(project ? [project] : [])])].map((one) => <option key={one}>{one}</option>)}
          </select>)}
        {KINDS.map((one) => <button type="button" key={one.key} class={`chip ${kind === one.key ? "on" : ""}`} aria-pressed={kind === one.key} onClick={() => setQuery({ kind: kind === one.key ? undefined : one.key })}>{one.text}</button>)}
        <button type="button" class={`chip ${onlyStale ? "on" : ""}`} aria-pressed={onlyStale} onClick={() => setQuery({ stale: onlyStale ? undefined : "1" })}><Icon of="stale" />out of date</button>
      </div>
      <div class="panel"><Table rows={rows} more={more} /></div>
      {listed.error && <ErrorNote error={listed.error} retry={more ?? (() => undefined)} />}
    </>
  );
}

export function Data({ query }: { query: URLSearchParams }) {
  const { first, listed } = useRepos(query.get("project") ?? "");
  const projects = useLoad("projects", async (signal) => (await get("/api/v1/projects", { signal })).projects.map((one) => one.name), (event) => event.type === "project");
  return <Content of={first} rows={10}>{() => <Shown listed={listed} query={query} projects={projects.data ?? []} />}</Content>;
}
