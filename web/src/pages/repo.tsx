// One repo: its commits, what writes it and what reads it, how to push to it.
import { get } from "../api/client";
import type { Branch, Commit, Pipeline, Repo } from "../api/schema";
import { name } from "../core/foreign";
import { counted, number, size } from "../core/format";
import { isStale } from "../core/freshness";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { readersOf, writerOf } from "../core/repos";
import { may } from "../core/session";
import { Icon } from "../parts/icons";
import { Crumbs, ErrorNote, Head, Part } from "../parts/page";
import { type Pages, Rows, usePages } from "../parts/rows";
import { StaleBadge, StaleNote } from "../parts/stale";
import { DropArea, UploadButton } from "../parts/upload";
import { Age, Command, Id, Repo as RepoChip, To } from "../parts/words";
import { Existing } from "./gone";

interface Facts {
  repo: Repo;
  branches: Branch[];
  commits: { items: Commit[]; next: string | undefined };
  pipelines: Pipeline[];
}

const PAGE = 200;

async function load(project: string, repo: string, branch: string, signal: AbortSignal): Promise<Facts> {
  const path = { project, repo };
  const [found, branches, commits, pipelines] = await Promise.all([
    get("/api/v1/repos/{project}/{repo}", { path, signal }),
    get("/api/v1/repos/{project}/{repo}/branches", { path, query: { limit: 1000 }, signal }),
    get("/api/v1/repos/{project}/{repo}/commits", { path, query: { limit: PAGE, branch }, signal }),
    get("/api/v1/pipelines", { query: { limit: 1000 }, signal }),
  ]);
  return { repo: found, branches: branches.branches, commits: { items: commits.commits, next: commits.next ?? undefined }, pipelines: pipelines.pipelines };
}

function CommitRow({ commit, stage }: { commit: Commit; stage: boolean }) {
  const place = { page: "files" as const, project: commit.project, repo: commit.repo, ref: commit.id, path: "" };
  return (
    <tr>
      <td><To class="main" row place={place}>{commit.message ? name(commit.message) : stage ? `written by ${name(commit.stage || commit.repo)}` : "without a message"}</To>
        <small><Id of={commit.id} />{commit.author ? ` · ${name(commit.author)}` : ""}{commit.state !== "finished" ? ` · ${commit.state}` : ""}</small></td>
      <td class="p2">{commit.branch ? <span class="chip">{name(commit.branch)}</span> : "–"}</td>
      <td class="num">{number(commit.files)}</td>
      <td class="num p2">{size(commit.bytes)}</td>
      <td class="num">{commit.created_us ? <Age us={commit.created_us} /> : "–"}</td>
      <td class="num p2">{commit.parent ? <To place={{ page: "diff", project: commit.project, repo: commit.repo, from: commit.parent, to: commit.id }} label={`What changed in ${commit.id.slice(0, 8)}`}>what changed</To> : <span class="faint">first</span>}</td>
      <td class="p2"><To place={{ page: "run", run: commit.id }} label={`Run ${commit.id.slice(0, 8)}`}>run</To></td>
    </tr>
  );
}

function Shown({ project, repo, branch, facts, pages }: { project: string; repo: string; branch: string; facts: Facts; pages: Pages<Commit> }) {
  const { repo: found, branches, pipelines } = facts;
  const readers = readersOf(pipelines, project, repo);
  const writer = writerOf(pipelines, project, repo);
  const input = found.kind === "input";
  const head = found.branch || "master";
  const pushes = input && may("writer", project, repo);
  const readBy = readers.length ? `, read by ${readers.map((one) => name(one.stage)).join(", ")}` : "";
  return (
    <>
      <Crumbs>{[<To place={{ page: "data" }}>Data</To>, <span>{project}</span>, <RepoChip project={project} repo={repo} />]}</Crumbs>
      <Head title={found.commit ? `${counted(found.files, "file")} in ${name(repo)}${input ? "" : writer ? `, written by ${name(repo)}` : ""}${readBy}.` : `No file yet in ${name(repo)}${readBy}.`}
        lead={[found.description ? name(found.description) : null, `${size(found.bytes)} in the newest commit`, found.commit_window_ms ? `pushes are gathered for ${found.commit_window_ms / 1000} s` : null, isStale(found.freshness) ? <StaleBadge of={found.freshness} /> : null]}
        acts={<>{pushes && <UploadButton repos={[{ project, name: repo, branch: head }]} />}
          {found.commit && <To class="btn" place={{ page: "files", project, repo, ref: head, path: "" }}>Browse the files</To>}</>} />
      <div class="cols">
        <Part id="commits" title={branch ? `Commits on ${name(branch)}` : "Commits"}
          right={branches.length > 1 && (
            <select aria-label="Branch" value={branch} onChange={(event) => setQuery({ branch: event.currentTarget.value })}>
              <option value="">all branches</option>{branches.map((one) => <option key={one.name}>{one.name}</option>)}
            </select>)}>
          {pages.error && <ErrorNote error={pages.error} retry={pages.more} />}
          <div class="panel">
            {pages.items.length === 0 ? <p class="empty">No commit yet.</p> : (
              <Rows label="Commits" rows={pages.items} rowHeight={53} columns={7} more={pages.more}
                head={<tr><th>Commit</th><th class="p2">Branch</th><th class="num">Files</th><th class="num p2">Size</th><th class="num">When</th><th class="num p2">Diff</th><th class="p2">Run</th></tr>}
                row={(commit) => <CommitRow key={commit.id} commit={commit} stage={!input} />} />)}
          </div>
          {pushes && <DropArea repo={{ project, name: repo, branch: head }} folder="" />}
        </Part>
        <aside aria-label="About this repo">
          {isStale(found.freshness) && <Part id="stale" title="Out of date"><div class="panel pad"><StaleNote of={found.freshness} /></div></Part>}
          <Part id="about" title="Made by, used by">
            <ul class="rows panel">
              <li><Icon of={input ? "up" : "stage"} /><div class="what">{input ? "It takes pushes" : writer ? <>written by <b>{name(repo)}</b> of <To place={{ page: "pipeline", project, pipeline: writer.pipeline }}>{name(writer.pipeline)}</To></> : "the stage that wrote it is gone"}</div></li>
              {readers.map((one) => <li key={one.project + one.stage}><Icon of="stage" /><div class="what">read by <To place={{ page: "repo", project: one.project, repo: one.stage }}><b>{name(one.stage)}</b></To> of <To place={{ page: "pipeline", project: one.project, pipeline: one.pipeline }}>{name(one.pipeline)}</To></div></li>)}
              {found.git?.url && <li><Icon of="git" /><div class="what">follows {name(found.git.url)}{found.git.error ? <p class="down">{name(found.git.error)}</p> : null}</div></li>}
            </ul>
          </Part>
          {input && <Part id="put" title="Push from a terminal"><Command text={`pipelinectl put file ${project === "default" ? "" : `${project}/`}${repo}@${head}:/ -r -f FOLDER`} /></Part>}
        </aside>
      </div>
    </>
  );
}

export function RepoPage({ project, repo }: { project: string; repo: string }) {
  const branch = new URLSearchParams(location.search).get("branch") ?? "";
  const key = `repo ${project}/${repo} ${branch}`;
  const loaded = useLoad(key, (signal) => load(project, repo, branch, signal), (event) => ["commit", "repo", "pipeline", "job"].includes(event.type));
  const pages = usePages<Commit>(key, loaded.data?.commits, async (after) => {
    const page = await get("/api/v1/repos/{project}/{repo}/commits", { path: { project, repo }, query: { limit: PAGE, branch, after } });
    return { items: page.commits, next: page.next ?? undefined };
  });
  return <Existing of={loaded} what={`repo ${name(repo)} in ${name(project)}`}>{(facts) => <Shown project={project} repo={repo} branch={branch} facts={facts} pages={pages} />}</Existing>;
}
