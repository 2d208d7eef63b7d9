// What differs in one file: lines one below the other or side by side, rows of a table, pictures side by side or one over the other.
import { useState } from "preact/hooks";
import { fileAddress } from "../api/client";
import type { Change } from "../api/schema";
import { middle, name, text as shownText } from "../core/foreign";
import { counted, number, size } from "../core/format";
import { type DiffLine, diffLines, folded, sideBySide } from "../core/linediff";
import { useLoad } from "../core/load";
import { FIRST_BYTES, extensionOf, firstBytes, isBinary, pictureType } from "../core/preview";
import { parseTable } from "../core/table";
import { type TableDiff, diffTables, tableWords } from "../core/tablediff";
import { Content, Part } from "./page";
import { Picture } from "./preview";
import { To } from "./words";

export interface Where {
  project: string;
  repo: string;
  from: string;
  to: string;
}

const BOTH_MAX = 4 << 20; // tables up to this size are compared whole

function Tabs({ all, now, set }: { all: [string, string][]; now: string; set: (view: string) => void }) {
  return <span class="tabs">{all.map(([key, title]) => <button type="button" key={key} class={`btn small ${key === now ? "" : "plain"}`} aria-pressed={key === now} onClick={() => set(key)}>{title}</button>)}</span>;
}

function Line({ line, side }: { line: DiffLine | null; side: "old" | "new" }) {
  if (!line) return <td class="none" colSpan={2} />;
  const sign = line.side === "same" ? "" : side === "old" ? "− " : "+ ";
  return <><td class="n" aria-hidden="true">{side === "old" ? line.old : line.new}</td><td class={line.side === "same" ? "" : side === "old" ? "del" : "add"}>{sign}{shownText(line.text) || " "}</td></>;
}

// `label` names the region: two on one page need names of their own.
export function TextDiff({ before, after, beside, label = "What differs" }: { before: string; after: string; beside: boolean; label?: string }) {
  const lines = diffLines(before, after);
  if (!lines) return <p class="panel empty">Too much differs to show it line by line.</p>;
  if (lines.every((line) => line.side === "same")) return <p class="panel empty">The text is the same; only how it is kept differs.</p>;
  if (beside) {
    return (
      <div class="panel log preview-text" tabIndex={0} role="region" aria-label={`${label}, side by side`}>
        <table class="beside" aria-label="Before and after"><thead class="visually-hidden"><tr><th colSpan={2}>Before</th><th colSpan={2}>After</th></tr></thead>
          <tbody>{folded(lines).map((fold, i) => (
            <>
              {fold.hidden > 0 && <tr key={`h${i}`} class="dim"><td colSpan={4}>{`… ${counted(fold.hidden, "equal line")}`}</td></tr>}
              {sideBySide(fold.lines).map((row) => <tr key={`${row.old?.old} ${row.new?.new}`}><Line line={row.old} side="old" /><Line line={row.new} side="new" /></tr>)}
            </>
          ))}</tbody></table>
      </div>
    );
  }
  return (
    <div class="panel log preview-text" tabIndex={0} role="region" aria-label={label}>
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

const SIGN = { new: "+", old: "−", changed: "~" };
const SIDE_WORD = { new: "new", old: "gone", changed: "changed" };

function TableDiffView({ diff, whole }: { diff: TableDiff; whole: boolean }) {
  if (diff.rows.length === 0) return <p class="panel empty">{name(tableWords(diff, whole))}</p>;
  return (
    <>
      <p class="small muted rows-at">{name(tableWords(diff, whole))}</p>
      <div class="panel table-box" tabIndex={0} role="region" aria-label="Rows that differ">
        <table class="csv" aria-label="Rows that differ">
          <thead><tr><td class="n" />{diff.columns.map((column, i) => <th key={i} scope="col">{name(column)}{i === diff.key && <small>names the rows</small>}{diff.fresh.has(column) && <small>new column</small>}</th>)}</tr></thead>
          <tbody>{diff.rows.map((one) => (
            <tr key={`${one.side} ${one.row}`} class={one.side === "new" ? "add" : one.side === "old" ? "del" : ""}>
              <td class="n"><span aria-hidden="true">{SIGN[one.side]}</span><span class="visually-hidden">{SIDE_WORD[one.side]} </span> {one.row}</td>
              {diff.columns.map((column, k) => {
                const before = one.old?.[k] ?? "";
                const after = one.new?.[k] ?? "";
                if (one.side !== "changed" || before === after || diff.fresh.has(column)) return <td key={k}>{middle(one.side === "old" ? before : after, 120)}</td>;
                return <td key={k} class="new"><s>{middle(before, 60)}</s> {middle(after, 60)}</td>;
              })}
            </tr>))}</tbody>
        </table>
        {diff.more && <p class="small faint pad">The first {number(diff.rows.length)} rows that differ.</p>}
      </div>
    </>
  );
}

// One picture over the other: the slider says how much of the new one is seen.
function Swipe({ urls, change, path }: { urls: { old: string; new: string }; change: Change; path: string }) {
  const [share, setShare] = useState(50);
  return (
    <>
      <label class="small muted rows-at">before <input type="range" min="0" max="100" value={share} aria-label="How much of the picture after is shown" onInput={(event) => setShare(Number(event.currentTarget.value))} /> after</label>
      <div class="swipe panel">
        <Picture url={urls.old} path={path} bytes={change.old!.size} label={`Before: ${name(path)}`} />
        <div class="over" ref={(node) => { if (node) node.style.clipPath = `inset(0 ${100 - share}% 0 0)`; }}><Picture url={urls.new} path={path} bytes={change.new!.size} label={`After: ${name(path)}`} /></div>
      </div>
    </>
  );
}

function PictureDiff({ urls, change, path, view, setView }: { urls: { old: string; new: string }; change: Change; path: string; view: string; setView: (view: string) => void }) {
  const both = change.old && change.new;
  const swipe = both && view === "swipe";
  return (
    <>
      {both && <div class="bar-head"><Tabs all={[["", "Side by side"], ["swipe", "One over the other"]]} now={swipe ? "swipe" : ""} set={setView} /></div>}
      {swipe ? <Swipe urls={urls} change={change} path={path} /> : (
        <div class="split panel">
          {(["old", "new"] as const).map((side) => <div key={side}><p class="side-name">{side === "old" ? "before" : "after"}{change[side] ? `, ${size(change[side].size)}` : ""}</p>
            {change[side] ? <Picture url={urls[side]} path={path} bytes={change[side].size} label={`${side === "old" ? "Before" : "After"}: ${name(path)}`} /> : <p class="empty">not there</p>}</div>)}
        </div>)}
    </>
  );
}

function contentDiff(before: string, after: string, path: string, whole: boolean): TableDiff | null {
  if (!["csv", "tsv"].includes(extensionOf(path))) return null;
  const separator = extensionOf(path) === "tsv" ? "\t" : ",";
  const [old, now] = [parseTable(before, separator, whole), parseTable(after, separator, whole)];
  return old && now ? diffTables(old, now) : null;
}

export function FileDiff({ where, change, view, setView }: { where: Where; change: Change; view: string; setView: (view: string) => void }) {
  const path = change.path.replace(/^\//, "");
  const urls = { old: fileAddress(where.project, where.repo, where.from, path), new: fileAddress(where.project, where.repo, where.to, path) };
  const picture = pictureType(path) !== undefined;
  const bytes = Math.max(change.old?.size ?? 0, change.new?.size ?? 0);
  const most = ["csv", "tsv"].includes(extensionOf(path)) && bytes <= BOTH_MAX ? BOTH_MAX : FIRST_BYTES;
  const loaded = useLoad(`diff ${urls.old} ${urls.new}`, async (signal) => {
    if (picture) return null;
    const read = async (side: "old" | "new") => (change[side] ? firstBytes(urls[side], change[side].size, signal, most) : new Uint8Array());
    const [before, after] = await Promise.all([read("old"), read("new")]);
    if (isBinary(before) || isBinary(after)) return null;
    const texts = { before: new TextDecoder().decode(before), after: new TextDecoder().decode(after) };
    return { ...texts, table: change.old && change.new ? contentDiff(texts.before, texts.after, path, bytes <= most) : null };
  });
  const table = loaded.data?.table;
  const now = table && !["text", "beside"].includes(view) ? "table" : view === "beside" ? "beside" : "text";
  const tabs: [string, string][] = [...(table ? [["table", "Rows"] as [string, string]] : []), ["text", "Lines"], ["beside", "Side by side"]];
  return (
    <Part id="file" title={<code>{middle(path, 70)}</code>} right={change.new && <To place={{ page: "files", project: where.project, repo: where.repo, ref: where.to, path }}>open it</To>}>
      {picture ? <PictureDiff urls={urls} change={change} path={path} view={view} setView={setView} /> : (
        <Content of={loaded} rows={8}>{(both) => (both ? (
          <>
            <div class="bar-head"><Tabs all={tabs} now={now} set={setView} /></div>
            {now === "table" ? <TableDiffView diff={table!} whole={bytes <= most} /> : <TextDiff before={both.before} after={both.after} beside={now === "beside"} />}
            {bytes > most && <p class="small faint after">Of its first {size(most)}.</p>}
          </>
        ) : <p class="panel empty">Binary file: {change.old ? size(change.old.size) : "nothing"} before, {change.new ? size(change.new.size) : "nothing"} after.</p>)}</Content>)}
    </Part>
  );
}
