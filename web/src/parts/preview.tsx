// The content of a file: a table, JSON, text, a picture, sound or a film. Foreign bytes only ever become text nodes, or a picture from a blob of its own.
import { useEffect, useState } from "preact/hooks";
import { request } from "../api/client";
import { middle, name, text as shownText } from "../core/foreign";
import { counted, number, size } from "../core/format";
import { useLoad } from "../core/load";
import { jsonError } from "../core/jsonplace";
import { FIRST_BYTES, PICTURE_MAX, firstBytes, kindOf, mediaOf, nothingToShow, pictureType, prettyJson } from "../core/preview";
import { type Pixels, pixelsOf, tooMany } from "../core/picturesize";
import { PIECE_ROWS, type Piece, readPiece, readPieceNear } from "../core/rowfeed";
import { type Column, type Table, describe, parseTable } from "../core/table";
import { Icon } from "./icons";
import { Content } from "./page";

const LINES_MAX = 5000;

// `mark` is a line that is pointed at, from 1.
export function TextLines({ of, whole, mark = 0 }: { of: string; whole: boolean; mark?: number }) {
  const lines = of.replace(/\n$/, "").split("\n");
  return (
    <>
      <div class="panel log preview-text" tabIndex={0} role="region" aria-label="Content">
        {lines.slice(0, LINES_MAX).map((line, i) => <div key={i} class={i + 1 === mark ? "bad" : ""}><span class="n" aria-hidden="true">{i + 1}</span>{shownText(line) || " "}</div>)}
      </div>
      {(!whole || lines.length > LINES_MAX) && <p class="small faint after">The first {whole ? counted(LINES_MAX, "line") : size(FIRST_BYTES)}: download it for the rest.</p>}
    </>
  );
}

function Bins({ bins }: { bins: number[] }) {
  const most = Math.max(...bins, 1);
  return <svg class="bins" viewBox="0 0 60 14" aria-hidden="true">{bins.map((n, i) => n > 0 && <rect key={i} class="b-reused" x={i * 5} width="4" y={14 - Math.max(1, (n / most) * 14)} height={Math.max(1, (n / most) * 14)} />)}</svg>;
}

// `first` is the number of the first row, undefined if it is not known.
function TableView({ table, columns, filter, first = 1 }: { table: Table; columns: Column[]; filter: string; first?: number | undefined }) {
  const wanted = filter.trim().toLowerCase();
  const rows = table.rows.map((cells, i) => ({ cells, i })).filter(({ cells }) => !wanted || cells.some((cell) => cell.toLowerCase().includes(wanted)));
  return (
    <div class="panel table-box" tabIndex={0} role="region" aria-label="Table">
      <table class="csv" aria-label="Content">
        <thead><tr><td class="n" />{table.columns.map((title, i) => (
          <th key={i} class={columns[i]!.numbers ? "num" : ""} scope="col">{name(title)}<small>{columns[i]!.bins.length > 0 && <Bins bins={columns[i]!.bins} />}{columns[i]!.words}</small></th>
        ))}</tr></thead>
        <tbody>{rows.map(({ cells, i }) => (
          <tr key={i}><td class="n">{first === undefined ? "" : i + first}</td>{table.columns.map((_, k) => <td key={k} class={columns[k]!.numbers ? "num" : ""}>{middle(cells[k] ?? "", 120)}</td>)}</tr>
        ))}</tbody>
      </table>
      {rows.length === 0 && <p class="empty">No row {table.whole ? "" : "of this part "}has “{name(filter)}”.</p>}
    </div>
  );
}

function TooLarge({ what, url }: { what: string; url: string }) {
  return <p class="panel empty">{what}: too large to show <a class="btn small" href={url} download>Download</a></p>;
}

// A picture from a blob whose type we choose: whatever its bytes are, no script of it runs.
export function Picture({ url, path, bytes, label }: { url: string; path: string; bytes: number; label: string }) {
  const [failed, setFailed] = useState("");
  const loaded = useLoad(`picture ${url}`, async (signal): Promise<{ source?: string; pixels?: Pixels | null }> => {
    if (bytes > PICTURE_MAX) return {};
    const content = await (await request(url, { signal })).arrayBuffer();
    const pixels = pixelsOf(new Uint8Array(content));
    return tooMany(pixels) ? { pixels } : { source: URL.createObjectURL(new Blob([content], { type: pictureType(path)! })) };
  });
  const { source, pixels } = loaded.data ?? {};
  useEffect(() => () => { if (source) URL.revokeObjectURL(source); }, [source]);
  if (bytes > PICTURE_MAX) return <TooLarge what={size(bytes)} url={url} />;
  if (pixels) return <TooLarge what={`${number(pixels.width)} × ${number(pixels.height)} pixels`} url={url} />;
  if (failed) return <p class="panel empty">{failed}</p>;
  return (
    <Content of={loaded} rows={4}>{() => source && (
      <div class="panel paper"><img src={source} alt={label} onError={() => setFailed("This is not a picture that the browser can read.")}
        onLoad={(event) => { const { naturalWidth, naturalHeight } = event.currentTarget; if (tooMany({ width: naturalWidth, height: naturalHeight })) setFailed(`${number(naturalWidth)} × ${number(naturalHeight)} pixels: too large to show`); }} /></div>
    )}</Content>
  );
}

// A table of more rows than are drawn at once: a piece of rows at a time, each read by range.
function LargeTable({ url, bytes, separator, table, start, filter }: { url: string; bytes: number; separator: string; table: Table; start: number; filter: string }) {
  const [at, go] = useState<{ from: number; near?: boolean; row: number | undefined }>({ from: start, row: 1 });
  const [past, setPast] = useState<{ from: number; row: number | undefined }[]>([]);
  const loaded = useLoad<Piece>(`rows ${url} ${at.from} ${at.near ?? ""}`, (signal) => (at.near ? readPieceNear(url, bytes, at.from, separator, signal) : readPiece(url, bytes, at.from, separator, signal)));
  const now = loaded.data;
  const later = () => {
    if (!now) return;
    setPast([...past, { from: now.from, row: at.row }]);
    go({ from: now.to, row: at.row === undefined ? undefined : at.row + now.rows.length });
  };
  const earlier = () => {
    const last = past[past.length - 1];
    setPast(past.slice(0, -1));
    go(last ? { from: last.from, row: last.row } : { from: start, row: 1 });
  };
  const jump = (share: number) => {
    setPast([]);
    go(share === 0 ? { from: start, row: 1 } : { from: Math.floor(bytes * share), near: true, row: undefined });
  };
  return (
    <>
      <p class="acts rows-at">
        <button type="button" class="btn small" disabled={at.from === start && !at.near} onClick={() => jump(0)}>First rows</button>
        <button type="button" class="btn small" disabled={past.length === 0} onClick={earlier}>Rows before</button>
        <button type="button" class="btn small" disabled={!now || now.to >= bytes} onClick={later}>Next rows</button>
        <button type="button" class="btn small" disabled={now !== undefined && now.to >= bytes} onClick={() => jump(1)}>Last rows</button>
        <label class="small muted">Part <input type="range" min="0" max="100" aria-label="Part of the file" value={now ? Math.round((now.from / bytes) * 100) : 0} onChange={(event) => jump(Number(event.currentTarget.value) / 100)} /></label>
        {now && <span class="small faint">{size(now.from)} to {size(now.to)} of {size(bytes)}</span>}
      </p>
      <Content of={loaded} rows={10}>{(piece) => {
        const shown: Table = { columns: table.columns, rows: piece.rows, whole: false };
        return <TableView table={shown} columns={shown.columns.map((_, i) => describe(shown.rows, i))} filter={filter} first={at.row} />;
      }}</Content>
    </>
  );
}

// Sound and films play by range from their own address, whose type the daemon tells; nothing else is done with their bytes.
function Media({ of, url, label }: { of: "audio" | "video"; url: string; label: string }) {
  const [failed, setFailed] = useState(false);
  if (failed) return <p class="panel empty">The browser cannot play this file: download it.</p>;
  return (
    <div class="panel paper dark">
      {of === "audio" ? <audio controls preload="metadata" src={url} aria-label={label} onError={() => setFailed(true)} /> : <video controls preload="metadata" src={url} aria-label={label} onError={() => setFailed(true)} />}
    </div>
  );
}

// The bytes of a table's head.
function headBytes(bytes: Uint8Array): number {
  let quoted = false;
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] === 0x22) quoted = !quoted;
    else if (bytes[i] === 0x0a && !quoted) return i + 1;
  }
  return bytes.length;
}

// The preview of one file; `tell` gets what the headline says of it.
export function Preview({ url, path, bytes, view, setView, tell }: { url: string; path: string; bytes: number; view: string; setView: (view: string) => void; tell: (words: string) => void }) {
  const picture = pictureType(path) !== undefined;
  const media = mediaOf(path);
  const separator = path.toLowerCase().endsWith(".tsv") ? "\t" : ",";
  const loaded = useLoad(`preview ${url}`, async (signal) => (picture || media ? new Uint8Array() : firstBytes(url, bytes, signal)));
  const [filter, setFilter] = useState("");
  const kind = loaded.data ? kindOf(path, loaded.data) : null;
  const whole = bytes <= FIRST_BYTES;
  const text = kind === "table" || kind === "json" || kind === "text" ? new TextDecoder().decode(loaded.data, { stream: !whole }) : "";
  const table = kind === "table" ? parseTable(text, separator, whole) : null;
  const words = table ? `${number(table.rows.length)}${table.whole ? "" : "+"} ${table.rows.length === 1 ? "row" : "rows"}, ${counted(table.columns.length, "column")}` : kind === "text" ? counted(text.replace(/\n$/, "").split("\n").length, "line") : "";
  useEffect(() => tell(table ? `${number(table.rows.length)}${table.whole ? "" : " and more"} rows` : ""), [words]);
  if (picture) return <Picture url={url} path={path} bytes={bytes} label={`Picture ${name(path.split("/").pop() ?? "")}`} />;
  if (media && bytes > 0) return <Media of={media} url={url} label={`${media === "audio" ? "Sound" : "Film"} ${name(path.split("/").pop() ?? "")}`} />;
  return (
    <Content of={loaded} rows={10}>{() => {
      if (bytes === 0) return <p class="panel empty">This file is empty.</p>;
      if (kind === "none") return <p class="panel empty"><Icon of="file" /> {nothingToShow(path, bytes)}</p>;
      const pretty = kind === "json" && whole ? prettyJson(text) : null;
      const wrong = kind === "json" && whole && pretty === null ? jsonError(text) : null;
      const first = table ? "Table" : pretty !== null ? "Tidy" : "";
      const raw = view === "text" || !first;
      return (
        <>
          <div class="bar-head">
            {first && <span class="tabs">
              <button type="button" class={`btn small ${raw ? "plain" : ""}`} aria-pressed={!raw} onClick={() => setView("")}>{first}</button>
              <button type="button" class={`btn small ${raw ? "" : "plain"}`} aria-pressed={raw} onClick={() => setView("text")}>Text</button></span>}
            <span class="right">{words}{table && !raw && <span class="search"><Icon of="find" /><input type="search" aria-label="Filter rows" placeholder="filter rows" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></span>}</span>
          </div>
          {wrong && <p class="note" role="status"><Icon of="part" class="state part" /> This is no valid JSON: line {wrong.line}, column {wrong.column}: {wrong.what}.</p>}
          {kind === "json" && !whole && <p class="note">Only its first {size(FIRST_BYTES)} are shown, as text.</p>}
          {raw ? <TextLines of={text} whole={whole} mark={wrong?.line ?? 0} /> : table && (!table.whole || table.rows.length > PIECE_ROWS) ? <LargeTable url={url} bytes={bytes} separator={separator} table={table} start={headBytes(loaded.data!)} filter={filter} /> : table ? <TableView table={table} columns={table.columns.map((_, i) => describe(table.rows, i))} filter={filter} /> : <TextLines of={pretty ?? text} whole={whole} />}
        </>
      );
    }}</Content>
  );
}
