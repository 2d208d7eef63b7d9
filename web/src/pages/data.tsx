// All repos: which take pushes, which are written by stages, and which are older than what they were made from.
import { useState } from "preact/hooks";
import { get, post } from "../api/client";
import type { Repo } from "../api/schema";
import { name } from "../core/foreign";
import { counted, number, size } from "../core/format";
import { go, setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { pathOf } from "../core/places";
import { may } from "../core/session";
import { Act } from "../parts/act";
import { Confirm } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Content, Head } from "../parts/page";
import { Rows } from "../parts/rows";
import { UploadButton } from "../parts/upload";
import { Age, Command, To } from "../parts/words";

const SOONEST_MS = 2000; // between two loads of all repos

async function load(signal: AbortSignal): Promise<Repo[]> {
  return (await get("/api/v1/repos", { query: { limit: 10000 }, signal })).repos;
}

function Newest({ repo }: { repo: Repo }) {
  return (
    <>
      <td class="p2">{repo.commit ? (repo.message ? `“${name(repo.message)}”` : repo.made_by ? `written by ${name(repo.made_by.stage)}` : "without a message") : <span class="faint">no commit yet</span>}
        {repo.stale ? <small><Icon of="stale" /> older than its input</small> : repo.author ? <small>by {name(repo.author)}</small> : null}</td>
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

export function Data({ query }: { query: URLSearchParams }) {
  const loaded = useLoad("data", load, (event) => ["repo", "commit", "pipeline", "job"].includes(event.type), SOONEST_MS);
  const [making, make] = useState(false);
  const project = query.get("project") ?? "";
  const kind = query.get("kind") ?? "";
  const onlyStale = query.get("stale") === "1";
  return (
    <Content of={loaded} rows={10}>{(repos) => {
      const stale = (repo: Repo) => repo.stale;
      const inputs = repos.filter((repo) => repo.kind === "input");
      const old = repos.filter(stale).length;
      const rows = repos.filter((repo) => (!project || repo.project === project) && (!kind || (kind === "input") === (repo.kind === "input")) && (!onlyStale || stale(repo)));
      const projects = [...new Set(repos.map((repo) => repo.project))];
      const bytes = repos.reduce((sum, repo) => sum + repo.bytes, 0);
      const older = old ? `; ${number(old)} ${old === 1 ? "is older than what it was" : "are older than what they were"} made from` : "";
      return (
        <>
          <Head title={`${counted(inputs.length, "repo")} ${inputs.length === 1 ? "takes" : "take"} pushes, ${number(repos.length - inputs.length)} ${repos.length - inputs.length === 1 ? "is" : "are"} written by stages${older}.`}
            lead={[`${counted(repos.length, "repo")} in ${counted(projects.length, "project")}`, `${size(bytes)} in the newest commits`]}
            acts={may("writer", projects[0] ?? "default") && <>
              {inputs[0] && <UploadButton repos={inputs} />}
              <Act onClick={() => make(true)}>New repo…</Act></>} />
          {making && <NewRepo projects={projects} close={() => make(false)} />}
          <div class="filters" role="group" aria-label="Filters">
            {projects.length > 1 && (
              <select aria-label="Project" value={project} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
                <option value="">all projects</option>{projects.map((one) => <option key={one}>{one}</option>)}
              </select>)}
            {KINDS.map((one) => <button type="button" key={one.key} class={`chip ${kind === one.key ? "on" : ""}`} aria-pressed={kind === one.key} onClick={() => setQuery({ kind: kind === one.key ? undefined : one.key })}>{one.text}</button>)}
            <button type="button" class={`chip ${onlyStale ? "on" : ""}`} aria-pressed={onlyStale} onClick={() => setQuery({ stale: onlyStale ? undefined : "1" })}><Icon of="stale" />older than its input</button>
          </div>
          <div class="panel">
            {rows.length === 0 ? <p class="empty">No repo is like that.</p> : (
              <Rows label="Repos" rows={rows} rowHeight={53} columns={7}
                head={<tr><th>Repo</th><th class="p2">Newest commit</th><th class="num">Files</th><th class="num p2">Size</th><th class="num">When</th><th class="p2">Made by</th><th class="p2">Used by</th></tr>}
                row={(repo) => (
                  <tr key={`${repo.project}/${repo.name}`}>
                    <td><Icon of="repo" /> <To class="main" row place={{ page: "repo", project: repo.project, repo: repo.name }}>{name(repo.name)}</To><small class="ind">{repo.project}</small></td>
                    <Newest repo={repo} />
                    <td class="p2">{repo.made_by ? name(repo.made_by.stage) : repo.kind === "input" ? "pushes" : "–"}</td>
                    <td class="p2 muted">{repo.used_by.map((one) => name(one.stage)).join(", ") || "–"}</td>
                  </tr>)} />)}
          </div>
        </>
      );
    }}</Content>
  );
}
