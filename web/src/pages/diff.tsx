// What changed between two commits of a repo: the totals by folder, the files with their sizes, and of the one that is chosen what differs in
// it. Beside it, what the same two runs changed in the other repos.
import { get } from "../api/client";
import type { Change, DiffTotals } from "../api/schema";
import { type Counts, countWords, diffSentence } from "../core/diffwords";
import { middle, name } from "../core/foreign";
import { counted, short, size } from "../core/format";
import { setQuery } from "../core/going";
import { useLoad } from "../core/load";
import { FileDiff, type Where } from "../parts/filediff";
import { Icon } from "../parts/icons";
import { Crumbs, ErrorNote, Head, Part } from "../parts/page";
import { type Pages, Rows, usePages } from "../parts/rows";
import { OtherRepos } from "../parts/runchanges";
import { Id, Repo, To } from "../parts/words";
import { Existing } from "./gone";

const PAGE = 1000;
const SIGNS: Record<string, { sign: string; word: string; tone: string }> = {
  added: { sign: "+", word: "new", tone: "up" },
  removed: { sign: "−", word: "gone", tone: "down" },
};
const CHANGED = { sign: "~", word: "changed", tone: "" };
const FOLDERS_SHOWN = 12;

interface Facts {
  totals: DiffTotals;
  changes: { items: Change[]; next: string | undefined };
}

// The folders that differ, each a link to what differs in it.
function Folders({ where, totals, folder }: { where: Where; totals: DiffTotals; folder: string }) {
  const below = folder.replace(/\/+$/, "");
  const folders = totals.folders.filter((one) => one.name);
  const up = below.slice(0, Math.max(0, below.lastIndexOf("/")));
  if (folders.length === 0 && !below) return null;
  return (
    <ul class="chips" aria-label="Folders that differ">
      {below && <li><To class="chip" place={{ page: "diff", ...where }} query={{ path: up || undefined }}><Icon of="up" />{up ? name(up) : "all folders"}</To></li>}
      {folders.slice(0, FOLDERS_SHOWN).map((one) => (
        <li key={one.name}><To class="chip" place={{ page: "diff", ...where }} query={{ path: `${below}/${one.name}` }}><Icon of="folder" />{middle(one.name, 32)} <span class="num">{countWords(one.counts, false)}</span></To></li>))}
      {(folders.length > FOLDERS_SHOWN || totals.more_folders) && <li class="small faint">and {totals.more_folders ? "more than " : ""}{counted(Math.max(1, folders.length - FOLDERS_SHOWN), "other folder")}</li>}
    </ul>
  );
}

export function DiffPage({ project, repo, from, to, query }: Where & { query: URLSearchParams }) {
  const folder = query.get("path") ?? "";
  const where = { project, repo, from, to };
  const key = `diff ${project}/${repo} ${from} ${to} ${folder}`;
  const ask = (after: string | undefined, signal?: AbortSignal) => get("/api/v1/repos/{project}/{repo}/diff", { path: { project, repo }, query: { from, to, path: folder, limit: PAGE, ...(after ? { after } : {}) }, signal })
    .then((page) => ({ items: page.changes, next: page.next ?? undefined }));
  const loaded = useLoad<Facts>(key, async (signal) => {
    const [changes, totals] = await Promise.all([ask(undefined, signal), get("/api/v1/repos/{project}/{repo}/diff/totals", { path: { project, repo }, query: { from, to, path: folder }, signal })]);
    return { changes, totals };
  });
  const pages = usePages<Change>(key, loaded.data?.changes, (after) => ask(after));
  return (
    <Existing of={loaded} what={`diff of ${name(repo)} between ${short(from)} and ${short(to)}`}>
      {({ totals }) => <Diff where={where} totals={totals} pages={pages} folder={folder} query={query} />}
    </Existing>
  );
}

function Diff({ where, totals, pages, folder, query }: { where: Where; totals: DiffTotals; pages: Pages<Change>; folder: string; query: URLSearchParams }) {
  const { project, repo, from, to } = where;
  const counts: Counts = totals.counts;
  const wanted = query.get("file") ?? "";
  const chosen = pages.items.find((one) => one.path === wanted) ?? pages.items[0];
  return (
    <>
      <Crumbs>{[<To place={{ page: "data" }}>Data</To>, <span>{project}</span>, <Repo project={project} repo={repo} />, <><Id of={from} /> to <Id of={to} /></>]}</Crumbs>
      <Head title={diffSentence(counts, totals.more, repo, folder)}
        lead={[countWords(counts, totals.more), counts.bytes_after || counts.bytes_before ? `${size(counts.bytes_after)} now, ${size(counts.bytes_before)} before, of the files that differ` : null, <>run <Id of={to} place={{ page: "run", run: to }} /></>]}
        acts={<><To class="btn" place={{ page: "files", project, repo, ref: to, path: folder.replace(/^\//, "") }}>Browse after</To><To class="btn" place={{ page: "files", project, repo, ref: from, path: folder.replace(/^\//, "") }}>Browse before</To></>} />
      {pages.error && <ErrorNote error={pages.error} retry={pages.more} />}
      <Folders where={where} totals={totals} folder={folder} />
      {chosen && (
        <div class="failing">
          <Part id="changes" title={countWords(counts, totals.more)}>
            <div class="panel">
              <Rows label="Changes" rows={pages.items} rowHeight={37} columns={2} more={pages.more} head={<tr><th>File</th><th class="num">Size</th></tr>}
                row={(change) => {
                  const sign = SIGNS[change.change] ?? CHANGED;
                  const side = change.new ?? change.old;
                  return (
                    <tr key={change.path} class={change === chosen ? "sel" : ""}>
                      <td><b class={`mono ${sign.tone}`} aria-hidden="true">{sign.sign}</b><span class="visually-hidden">{sign.word}: </span> <To class="main" row place={{ page: "diff", project, repo, from, to }} query={{ path: folder, file: change.path }}><code>{middle(change.path, 34)}</code></To></td>
                      <td class="num">{side ? size(side.size) : "–"}</td>
                    </tr>
                  );
                }} />
            </div>
          </Part>
          <FileDiff key={chosen.path} where={where} change={chosen} view={query.get("view") ?? ""} setView={(view) => setQuery({ view: view || undefined })} />
        </div>)}
      {!chosen && <p class="panel empty"><Icon of="done" class="state done" /> Both commits have the same files.</p>}
      <OtherRepos from={from} to={to} project={project} repo={repo} />
    </>
  );
}
