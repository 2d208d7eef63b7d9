// A folder or a file of a commit: the list, or the file's content between its neighbours and its past.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, address, fileAddress, get } from "../api/client";
import type { Commit, File, Repo as RepoFacts } from "../api/schema";
import { middle, name } from "../core/foreign";
import { counted, number, size } from "../core/format";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { href } from "../core/places";
import { factsOf } from "../core/provenance";
import { commitOf } from "../core/repos";
import { may } from "../core/session";
import { Icon } from "../parts/icons";
import { Content, Crumbs, ErrorNote, Head, Part } from "../parts/page";
import { Preview } from "../parts/preview";
import { Rows, usePages } from "../parts/rows";
import { DropArea, UploadButton } from "../parts/upload";
import { WhyTree } from "../parts/whytree";
import { Age, Command, CopyButton, Id, Repo, To } from "../parts/words";
import { StaleBadge } from "../parts/stale";
import { Existing } from "./gone";

interface Where {
  project: string;
  repo: string;
  ref_: string;
  path: string;
}

// Who makes and who uses the repo: it stands on every page of its files.
function useRepo({ project, repo }: Where) {
  return useLoad(`repo facts ${project}/${repo}`, (signal) => get("/api/v1/repos/{project}/{repo}", { path: { project, repo }, signal }));
}

function MadeUsed({ of }: { of: RepoFacts }) {
  return (
    <p class="small muted made-used">
      {of.made_by ? <>made by <To place={{ page: "repo", project: of.made_by.project, repo: of.made_by.stage }}>{name(of.made_by.stage)}</To></> : "filled by pushes"}{" · "}
      {of.used_by.length === 0 ? "nothing reads it" : <>used by {of.used_by.map((one, i) => <>{i > 0 && ", "}<To place={{ page: "repo", project: one.project, repo: one.stage }}>{name(one.stage)}</To></>)}</>}
      {of.stale && <>{" · "}<StaleBadge of={of.freshness} /></>}
    </p>
  );
}

interface Facts {
  files: { items: File[]; next: string | undefined };
  commit: string;
  file: File | null; // the path is a file
}

const PAGE = 1000;
const ENOUGH = 500; // found files after which the search waits

async function load({ project, repo, ref_, path }: Where, signal: AbortSignal): Promise<Facts> {
  const page = await get("/api/v1/repos/{project}/{repo}/refs/{ref}/list", { path: { project, repo, ref: ref_ }, query: { path: `/${path}`, limit: PAGE }, signal });
  const [one] = page.files;
  const file = path && page.files.length === 1 && one!.path === path && one!.kind !== "dir" ? one! : null;
  return { files: { items: page.files, next: page.next ?? undefined }, commit: page.commit, file };
}

const nameIn = (path: string) => path.slice(path.lastIndexOf("/") + 1);

function PathCrumbs({ where, commit }: { where: Where; commit: string }) {
  const { project, repo, ref_, path } = where;
  const parts = path.split("/").filter(Boolean);
  return (
    <Crumbs>{[
      <To place={{ page: "data" }}>Data</To>, <span>{project}</span>, <Repo project={project} repo={repo} />,
      ref_ === commit || commit.startsWith(ref_) ? <Id of={commit} /> : <><To place={{ page: "files", project, repo, ref: ref_, path: "" }}>{name(ref_)}</To> <Id of={commit} /></>,
      ...parts.map((part, i) => (i === parts.length - 1 ? <span>{middle(part, 40)}</span> : <To place={{ page: "files", project, repo, ref: ref_, path: parts.slice(0, i + 1).join("/") }}>{middle(part, 24)}</To>)),
    ]}</Crumbs>
  );
}

function useCommit(where: Where, commit: string): Commit | null | undefined {
  return useLoad(`commit ${where.project}/${where.repo}@${commit}`, () => commitOf(where.project, where.repo, commit)).data;
}

function Acts({ where, commit, parent, children }: { where: Where; commit: string; parent: string | undefined; children?: preact.ComponentChildren }) {
  const { project, repo, ref_, path } = where;
  return (
    <>
      {parent && <To class="btn" place={{ page: "diff", project, repo, from: parent, to: commit }} query={{ path: path ? `/${path}` : undefined }}><Icon of="compare" />Compare with before</To>}
      <To class="btn" place={{ page: "why", project, repo, ref: commit, path }} query={{ dir: "all" }}><Icon of="git" />Provenance</To>
      {!commit.startsWith(ref_) && <CopyButton small={false} text={location.origin + href({ page: "files", project, repo, ref: commit, path })}>Copy permanent link</CopyButton>}
      {children}
    </>
  );
}

function FileView({ where, facts, view }: { where: Where; facts: Facts; view: string }) {
  const { project, repo, ref_, path } = where;
  const file = facts.file!;
  const [words, tell] = useState("");
  const commit = useCommit(where, facts.commit);
  const url = fileAddress(project, repo, facts.commit, path);
  const why = useLoad(`why ${project}/${repo}@${facts.commit}:${path}`, (signal) => get("/api/v1/why/{project}/{repo}/{ref}/{path}", { path: { project, repo, ref: facts.commit, path }, signal }));
  const facts_ = useRepo(where);
  const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
  const near = useLoad(`near ${project}/${repo}@${facts.commit}:${folder}`, (signal) => get("/api/v1/repos/{project}/{repo}/refs/{ref}/list", { path: { project, repo, ref: facts.commit }, query: { path: `/${folder}`, limit: 60 }, signal }));
  const readers = facts_.data?.used_by ?? [];
  const made = why.data?.stage ? `made by ${name(why.data.stage)}${madeFrom(why.data)}` : why.data ? "pushed" : "";
  const subject = words || name(nameIn(path));
  return (
    <>
      <PathCrumbs where={where} commit={facts.commit} />
      <Head title={made ? `${subject}, ${made}.` : subject}
        lead={[`${size(file.size)}`, file.kind === "exec" ? "executable" : file.kind === "link" ? "a symbolic link" : null, commit?.created_us ? <>written <Age us={commit.created_us} sentence /></> : null, readers.length ? `used by ${readers.map((one) => name(one.stage)).join(", ")}` : null]}
        acts={<Acts where={where} commit={facts.commit} parent={commit?.parent || undefined}><a class="btn" download={nameIn(path)} href={url}><Icon of="down" />Download</a></Acts>} />
      {facts_.data && <MadeUsed of={facts_.data} />}
      <div class="browse">
        <aside aria-label="Files beside it">
          <Part id="near" title="Files">
            <div class="panel"><Content of={near} rows={4}>{(list) => (
              <ul class="tree">
                {folder && <li><a href={href({ page: "files", project, repo, ref: ref_, path: folder.slice(0, Math.max(0, folder.lastIndexOf("/"))) })}><Icon of="up" />up</a></li>}
                {list.files.map((one) => <li key={one.path}><a href={href({ page: "files", project, repo, ref: ref_, path: one.path })} aria-current={one.path === path ? "true" : undefined}>
                  <Icon of={one.kind === "dir" ? "folder" : "file"} /><span>{middle(nameIn(one.path), 20)}</span><span class="num">{one.kind === "dir" ? "" : size(one.size)}</span></a></li>)}
                {list.next && <li><a href={href({ page: "files", project, repo, ref: ref_, path: folder })}>all files of the folder</a></li>}
              </ul>)}</Content></div>
          </Part>
        </aside>
        <Part id="content" title={<code>{middle(path, 60)}</code>}>
          <Preview url={url} path={path} bytes={file.size} view={view} setView={(next) => setQuery({ view: next })} tell={tell} />
        </Part>
        <aside aria-label="Provenance">
          <Part id="from" title="Where it came from" right={<To place={{ page: "why", project, repo, ref: facts.commit, path }}>all of it</To>}>
            <div class="panel pad"><Content of={why} rows={4}>{(tree) => <WhyTree tree={tree} root={false} />}</Content></div>
          </Part>
          <Part id="to" title="What reads this repo">
            <div class="panel pad">{readers.length === 0 ? <p class="muted">Nothing reads it.</p> : <ul class="stack">{readers.map((one) => <li key={one.stage}><Icon of="stage" /> <To place={{ page: "repo", project: one.project, repo: one.stage }}>{name(one.stage)}</To></li>)}</ul>}</div>
          </Part>
        </aside>
      </div>
    </>
  );
}

// " from b1.csv and model.npz"
function madeFrom(tree: Parameters<typeof factsOf>[0]): string {
  const names = (tree.inputs ?? []).map((input) => {
    const only = !input.path && input.inputs?.length === 1 ? input.inputs[0]! : input;
    return only.path ? nameIn(only.path) : input.files != null ? `${counted(input.files, "file")} of ${input.repo}` : (input.repo ?? "");
  }).filter(Boolean).map(name);
  if (names.length === 0 || names.length > 3) return "";
  return ` from ${names.length === 1 ? names[0] : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`}`;
}

function archiveAddress({ project, repo, path }: Where, commit: string, format: string): string {
  return address("/api/v1/repos/{project}/{repo}/refs/{ref}/archive", { project, repo, ref: commit }, { path: `/${path}`, format });
}

// ", 3,120 new, 2 gone in this commit"
function changedHere(counts: { added: number; changed: number; removed: number }, more: boolean): string {
  const parts = [counts.added && `${number(counts.added)} new`, counts.changed && `${number(counts.changed)} changed`, counts.removed && `${number(counts.removed)} gone`].filter(Boolean);
  return parts.length ? `${more ? "over " : ""}${parts.join(", ")} in this commit` : "none changed in this commit";
}

interface Finding {
  items: File[];
  looked: number;
  next: string | undefined;
}

// What below the folder has the text in its name. The daemon looks for half a second at a time; the page asks on until it has some, and
// says how far it has looked.
function Found({ where, commit, wanted }: { where: Where; commit: string; wanted: string }) {
  const { project, repo, ref_, path } = where;
  const [more, setMore] = useState(ENOUGH);
  const [now, setNow] = useState<Finding>({ items: [], looked: 0, next: undefined });
  const [state, setState] = useState<"looking" | "paused" | "done">("looking");
  const [error, setError] = useState<Error | null>(null);
  const latest = useRef(now);
  useEffect(() => {
    const stop = new AbortController();
    const run = async () => {
      setState("looking");
      do {
        const page = await get("/api/v1/repos/{project}/{repo}/refs/{ref}/list", { path: { project, repo, ref: commit }, query: { path: `/${path}`, find: wanted, limit: PAGE, ...(latest.current.next ? { after: latest.current.next } : {}) }, signal: stop.signal });
        latest.current = { items: [...latest.current.items, ...page.files], looked: latest.current.looked + (page.looked ?? 0), next: page.next ?? undefined };
        setNow(latest.current);
      } while (latest.current.next && latest.current.items.length < more);
      setState(latest.current.next ? "paused" : "done");
    };
    // typing: the question is asked when the hand rests
    const timer = setTimeout(() => void run().catch((failed: unknown) => { if (!stop.signal.aborted) { setError(failed instanceof Error ? failed : new Error(String(failed))); setState("paused"); } }), 200);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [more]);
  return (
    <>
      <p class="small muted" role="status">{state === "looking" ? "Looking… " : ""}{number(now.items.length)} found in {number(now.looked)} {state === "done" ? "files, which are all" : "files so far"}</p>
      {error && <ErrorNote error={error} />}
      <div class="panel">
        {now.items.length === 0 ? <p class="empty">{state === "done" ? "No file has that in its name." : "None so far."}</p> : (
          <Rows label="Found" rows={now.items} rowHeight={37} columns={2} head={<tr><th>Path</th><th class="num">Size</th></tr>}
            row={(file) => (
              <tr key={file.path}>
                <td><Icon of={file.kind === "dir" ? "folder" : "file"} /> <To class="main" row place={{ page: "files", project, repo, ref: ref_, path: file.path }}>{middle(file.path, 90)}</To></td>
                <td class="num">{size(file.size)}</td>
              </tr>)} />)}
      </div>
      {state === "paused" && <p class="acts after"><button type="button" class="btn" onClick={() => { setError(null); setMore(latest.current.items.length + ENOUGH); }}>Look further</button></p>}
    </>
  );
}

function FolderView({ where, facts, q }: { where: Where; facts: Facts; q: string }) {
  const { project, repo, ref_, path } = where;
  const commit = useCommit(where, facts.commit);
  const about = useRepo(where);
  const key = `files ${project}/${repo}@${facts.commit}:${path}`;
  const pages = usePages<File>(key, facts.files, async (after) => {
    const page = await get("/api/v1/repos/{project}/{repo}/refs/{ref}/list", { path: { project, repo, ref: facts.commit }, query: { path: `/${path}`, limit: PAGE, after } });
    return { items: page.files, next: page.next ?? undefined };
  });
  const change = useLoad(`new ${key}`, async (signal) => {
    const id = await commitOf(project, repo, facts.commit);
    if (!id?.parent) return null;
    const totals = await get("/api/v1/repos/{project}/{repo}/diff/totals", { path: { project, repo }, query: { from: id.parent, to: facts.commit, path: `/${path}` }, signal });
    return changedHere(totals.counts, totals.more);
  });
  const wanted = q.trim();
  const rows = pages.items;
  const files = path || !commit ? pages.items.reduce((sum, one) => sum + (one.kind === "dir" ? (one.files ?? 0) : 1), 0) : commit.files;
  const bytes = path || !commit ? pages.items.reduce((sum, one) => sum + one.size, 0) : commit.bytes;
  const more = (path || !commit) && pages.more ? "More than " : "";
  const newest = commit !== undefined && !facts.commit.startsWith(ref_);
  const pushes = newest && about.data?.kind === "input" && may("writer", project, repo);
  return (
    <>
      <PathCrumbs where={where} commit={facts.commit} />
      <Head title={files === 0 && rows.length === 0 ? "No file yet." : `${more}${counted(files, "file")} below /${name(path)}${change.data ? `, ${change.data}` : ""}.`}
        lead={[size(bytes), commit?.message ? `“${name(commit.message)}”` : null, commit?.author ? `by ${name(commit.author)}` : null, commit?.created_us ? <Age us={commit.created_us} sentence /> : null]}
        acts={<Acts where={where} commit={facts.commit} parent={commit?.parent || undefined}>
          {files > 0 && (["zip", "tar"] as const).map((format) => <a key={format} class="btn" download href={archiveAddress(where, facts.commit, format)}><Icon of="down" />{format}</a>)}
          {pushes && <UploadButton repos={[{ project, name: repo, branch: ref_ }]} folder={path} />}</Acts>} />
      {about.data && <MadeUsed of={about.data} />}
      <div class="filters"><span class="search"><Icon of="find" /><input type="search" aria-label="Find below this folder" placeholder="find below this folder" value={q} onInput={(event) => setQuery({ q: event.currentTarget.value })} /></span></div>
      {pages.error && <ErrorNote error={pages.error} retry={pages.more} />}
      {wanted ? <Found key={wanted} where={where} commit={facts.commit} wanted={wanted} /> : <div class="panel">
        {rows.length === 0 ? <p class="empty">This folder is empty.</p> : (
          <Rows label="Files" rows={rows} rowHeight={37} columns={3} more={pages.more} head={<tr><th>Name</th><th class="num p2">Files</th><th class="num">Size</th></tr>}
            row={(file) => (
              <tr key={file.path}>
                <td><Icon of={file.kind === "dir" ? "folder" : "file"} /> <To class="main" row place={{ page: "files", project, repo, ref: ref_, path: file.path }}>{middle(nameIn(file.path), 80)}</To></td>
                <td class="num p2">{file.kind === "dir" ? counted(file.files ?? 0, "file") : <span class="faint">–</span>}</td>
                <td class="num">{size(file.size)}</td>
              </tr>)} />)}
      </div>}
      {pushes && <DropArea repo={{ project, name: repo, branch: ref_ }} folder={path} />}
      <div class="after"><Command text={`pipelinectl get file ${project === "default" ? "" : `${project}/`}${repo}@${ref_}:/${path} -r -o FOLDER`} /></div>
    </>
  );
}

export function FilesPage({ project, repo, ref_, path, query }: Where & { query: URLSearchParams }) {
  const where = { project, repo, ref_, path };
  const loaded = useLoad(`list ${project}/${repo}@${ref_}:${path}`, (signal) => load(where, signal), (event) => event.type === "commit" && event.data["repo"] === repo);
  if (loaded.error instanceof ApiError && /has no commit/.test(loaded.error.message)) {
    return <><Head title="No file yet." lead={[loaded.error.message]} /><Command text={`pipelinectl put file ${project === "default" ? "" : `${project}/`}${repo}@${ref_}:/ -r -f FOLDER`} />{may("writer", project, repo) && <DropArea repo={{ project, name: repo, branch: ref_ }} folder="" />}</>;
  }
  return (
    <Existing of={loaded} rows={10} what={`/${name(path)} in ${name(repo)}@${name(ref_)}`}>{(facts) => (facts.file
      ? <FileView key={path} where={where} facts={facts} view={query.get("view") ?? ""} />
      : <FolderView key={path} where={where} facts={facts} q={query.get("q") ?? ""} />)}</Existing>
  );
}
