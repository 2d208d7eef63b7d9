// What changed between two commits of a repo: the files with their sizes, and of the one that is chosen what differs in it.
import { fileAddress, get } from "../api/client";
import type { Change } from "../api/schema";
import { middle, name, text as shownText } from "../core/foreign";
import { counted, number, short, size } from "../core/format";
import { useLoad } from "../core/load";
import { diffLines, folded } from "../core/linediff";
import { FIRST_BYTES, firstBytes, isBinary, pictureType } from "../core/preview";
import { type Change as Counts, changeWords, countChanges } from "../core/runs";
import { Icon } from "../parts/icons";
import { Content, Crumbs, ErrorNote, Head, Part, Skeleton } from "../parts/page";
import { Picture } from "../parts/preview";
import { Rows, usePages } from "../parts/rows";
import { Id, Repo, To } from "../parts/words";
import { Gone } from "./gone";

const PAGE = 1000;
const SIGNS: Record<string, { sign: string; word: string; tone: string }> = {
  added: { sign: "+", word: "new", tone: "up" },
  deleted: { sign: "−", word: "gone", tone: "down" },
};
const CHANGED = { sign: "~", word: "changed", tone: "" };

interface Where {
  project: string;
  repo: string;
  from: string;
  to: string;
}

function bytesOf(changes: Change[]): { added: number; removed: number } {
  return { added: changes.reduce((sum, one) => sum + (one.new?.size ?? 0), 0), removed: changes.reduce((sum, one) => sum + (one.old?.size ?? 0), 0) };
}

function sentence(counts: Counts, repo: string, folder: string): string {
  const total = counts.added + counts.modified + counts.deleted;
  const where = folder && folder !== "/" ? ` below ${name(folder)}` : "";
  if (total === 0) return `Nothing differs${where}: same tree.`;
  if (counts.more) return `Over ${number(total)} files of ${name(repo)} differ${where}.`;
  const parts = [counts.added && `${counted(counts.added, "file")} ${counts.added === 1 ? "is" : "are"} new`, counts.modified && (counts.added ? `${number(counts.modified)} changed` : `${counted(counts.modified, "file")} changed`), counts.deleted && `${number(counts.deleted)} ${counts.deleted === 1 ? "is" : "are"} gone`].filter(Boolean);
  return `${parts.join(", ")} in ${name(repo)}${where}.`;
}

function TextDiff({ before, after }: { before: string; after: string }) {
  const lines = diffLines(before, after);
  if (!lines) return <p class="panel empty">Too much differs to show it line by line.</p>;
  if (lines.every((line) => line.side === "same")) return <p class="panel empty">The text is the same; only how it is kept differs.</p>;
  return (
    <div class="panel log preview-text" tabIndex={0} role="region" aria-label="What differs">
      {folded(lines).map((fold, i) => (
        <>
          {fold.hidden > 0 && <div class="dim" key={`h${i}`}>{`  … ${counted(fold.hidden, "equal line")}`}</div>}
          {fold.lines.map((line) => (
            <div key={`${line.old} ${line.new}`} class={line.side === "old" ? "del" : line.side === "new" ? "add" : ""}>
              <span class="n" aria-hidden="true">{line.new || line.old}</span>{line.side === "old" ? "− " : line.side === "new" ? "+ " : "  "}{shownText(line.text)}
            </div>
          ))}
        </>
      ))}
    </div>
  );
}

function FileDiff({ where, change }: { where: Where; change: Change }) {
  const path = change.path.replace(/^\//, "");
  const urls = { old: fileAddress(where.project, where.repo, where.from, path), new: fileAddress(where.project, where.repo, where.to, path) };
  const picture = pictureType(path) !== undefined;
  const loaded = useLoad(`diff ${urls.old} ${urls.new}`, async (signal) => {
    if (picture) return null;
    const read = async (side: "old" | "new") => (change[side] ? firstBytes(urls[side], change[side].size, signal) : new Uint8Array());
    const [before, after] = await Promise.all([read("old"), read("new")]);
    return isBinary(before) || isBinary(after) ? null : { before: new TextDecoder().decode(before), after: new TextDecoder().decode(after) };
  });
  const large = Math.max(change.old?.size ?? 0, change.new?.size ?? 0) > FIRST_BYTES;
  return (
    <Part id="file" title={<code>{middle(path, 70)}</code>} right={change.new && <To place={{ page: "files", project: where.project, repo: where.repo, ref: where.to, path }}>open it</To>}>
      {picture ? (
        <div class="split panel">
          {(["old", "new"] as const).map((side) => <div key={side}><p class="side-name">{side === "old" ? "before" : "after"}{change[side] ? `, ${size(change[side].size)}` : ""}</p>
            {change[side] ? <Picture url={urls[side]} path={path} bytes={change[side].size} label={`${side === "old" ? "Before" : "After"}: ${name(path)}`} /> : <p class="empty">not there</p>}</div>)}
        </div>
      ) : (
        <Content of={loaded} rows={8}>{(both) => (both ? <><TextDiff {...both} />{large && <p class="small faint after">Of its first {size(FIRST_BYTES)}.</p>}</>
          : <p class="panel empty">Binary file: {change.old ? size(change.old.size) : "nothing"} before, {change.new ? size(change.new.size) : "nothing"} after.</p>)}</Content>)}
    </Part>
  );
}

export function DiffPage({ project, repo, from, to, query }: Where & { query: URLSearchParams }) {
  const folder = query.get("path") ?? "";
  const where = { project, repo, from, to };
  const key = `diff ${project}/${repo} ${from} ${to} ${folder}`;
  const ask = (after: string | undefined, signal?: AbortSignal) => get("/api/v1/repos/{project}/{repo}/diff", { path: { project, repo }, query: { from, to, path: folder, limit: PAGE, ...(after ? { after } : {}) }, signal })
    .then((page) => ({ items: page.changes, next: page.next ?? undefined }));
  const loaded = useLoad(key, (signal) => ask(undefined, signal));
  const pages = usePages<Change>(key, loaded.data, (after) => ask(after));
  if (!loaded.data) return loaded.error ? <Gone error={loaded.error} retry={loaded.reload} what={`diff of ${name(repo)} between ${short(from)} and ${short(to)}`} /> : <Skeleton rows={8} />;
  const counts = countChanges(pages.items, Boolean(pages.more));
  const bytes = bytesOf(pages.items);
  const wanted = query.get("file") ?? "";
  const chosen = pages.items.find((one) => one.path === wanted) ?? pages.items[0];
  return (
    <>
      <Crumbs>{[<To place={{ page: "data" }}>Data</To>, <span>{project}</span>, <Repo project={project} repo={repo} />, <><Id of={from} /> to <Id of={to} /></>]}</Crumbs>
      <Head title={sentence(counts, repo, folder)}
        lead={[changeWords(counts), bytes.added || bytes.removed ? `${size(bytes.added)} now, ${size(bytes.removed)} before, of the files that differ` : null, <>run <Id of={to} place={{ page: "run", run: to }} /></>]}
        acts={<><To class="btn" place={{ page: "files", project, repo, ref: to, path: folder.replace(/^\//, "") }}>Browse after</To><To class="btn" place={{ page: "files", project, repo, ref: from, path: folder.replace(/^\//, "") }}>Browse before</To></>} />
      {pages.error && <ErrorNote error={pages.error} />}
      {chosen && (
        <div class="failing">
          <Part id="changes" title={`${changeWords(counts)}`}>
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
          <FileDiff key={chosen.path} where={where} change={chosen} />
        </div>)}
      {!chosen && <p class="panel empty"><Icon of="done" class="state done" /> Both commits have the same files.</p>}
    </>
  );
}
