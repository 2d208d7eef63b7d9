import { afterEach, describe, expect, it, vi } from "vitest";
import { countWords, diffSentence, runsSentence } from "../src/core/diffwords";
import { jsonError } from "../src/core/jsonplace";
import { diffLines, sideBySide } from "../src/core/linediff";
import { kindOf } from "../src/core/preview";
import { firstRow, lastRows, piece, wholeRows } from "../src/core/rowfeed";
import { parseTable } from "../src/core/table";
import { diffTables, keyOf, tableWords } from "../src/core/tablediff";
import { Upload, dropBegun, left, remembered } from "../src/core/upload";

const bytes = (text: string) => new TextEncoder().encode(text);
const table = (text: string) => parseTable(text, ",", true)!;

describe("table diffs", () => {
  const before = table("id,label\n1,cat\n2,dog\n3,cow\n");
  it("takes the first column that names the rows", () => {
    expect(keyOf(before, table("label,id\ncat,1\ncat,2\n"))).toBe(1);
    expect(keyOf(before, table("id,label\n1,cat\n1,dog\n"))).toBe(-1 + 2); // id comes twice, label does not
    expect(keyOf(table("a,b\n1,1\n1,1\n"), table("a,b\n1,1\n1,1\n"))).toBe(-1);
  });
  it("tells rows that are new, changed and gone by their key, wherever they are", () => {
    const diff = diffTables(before, table("id,label\n3,cow\n4,pig\n1,CAT\n"));
    expect(diff.rows.map((one) => [one.side, one.row, one.old?.[1], one.new?.[1]])).toEqual([["new", 2, undefined, "pig"], ["changed", 3, "cat", "CAT"], ["old", 2, "dog", undefined]]);
    expect(tableWords(diff, true)).toBe("1 row new, 1 row changed, 1 row gone (rows by id)");
  });
  it("compares by position where nothing names the rows", () => {
    const diff = diffTables(table("a,b\n1,1\n1,1\n"), table("a,b\n1,1\n1,2\n1,1\n"));
    expect(diff.rows.map((one) => [one.side, one.row])).toEqual([["changed", 2], ["new", 3]]);
    expect(tableWords(diff, false)).toBe("1 row new, 1 row changed (rows by position, of the first part)");
  });
  it("tells columns that came and went, which alone change no row", () => {
    const diff = diffTables(before, table("id,label,by\n1,cat,ana\n2,dog,ana\n3,cow,ana\n"));
    expect([diff.added, diff.changed, diff.removed, [...diff.fresh]]).toEqual([0, 0, 0, ["by"]]);
    expect(tableWords(diff, true)).toBe("No row differs; columns new: by (rows by id)");
  });
  it("keeps a thousand rows and counts the others", () => {
    const diff = diffTables(table("a,b\nx,y\n"), table(`a,b\n${Array.from({ length: 3000 }, (_, i) => `${i},1\n`).join("")}`));
    expect([diff.rows.length, diff.added, diff.removed, diff.more]).toEqual([1000, 3000, 1, true]);
  });
});

describe("words of diffs", () => {
  const counts = (added: number, changed: number, removed: number) => ({ added, changed, removed, bytes_before: 0, bytes_after: 0 });
  it.each([[1, 0, 0, "1 file is new in photos."], [3120, 2, 1, "3,120 files are new, 2 changed, 1 is gone in photos."], [0, 1, 0, "1 file changed in photos."], [0, 0, 2, "2 files are gone in photos."], [0, 0, 0, "Nothing differs: same tree."]])(
    "+%i ~%i −%i: %s", (added, changed, removed, text) => expect(diffSentence(counts(added, changed, removed), false, "photos", "")).toBe(text));
  it("counts in short, and says where it stopped", () => expect([countWords(counts(1, 0, 2), false), countWords(counts(0, 0, 0), false), countWords(counts(1000000, 0, 0), true)]).toEqual(["+1 −2 files", "no file", "over 1,000,000 files"]));
  it.each([[0, false, 4, [], "Nothing differs between the data of these two runs."], [1, false, 0, ["a"], "1 repo differs between these two runs, after a push to a."], [3, false, 1, [], "3 repos differ between these two runs; 1 is the same."], [100, true, 2, ["a", "b"], "Over 100 repos differ between these two runs, after pushes to 2 of them; 2 are the same."]])(
    "%i repos", (changed, more, same, pushed, text) => expect(runsSentence(changed as number, more as boolean, same as number, pushed as string[])).toBe(text));
});

describe("side by side", () => {
  it("puts what was replaced beside what replaced it", () => {
    const rows = sideBySide(diffLines("a\nb\nc\nd\n", "a\nB\nd\ne\n")!);
    expect(rows.map((row) => [row.old?.text ?? "", row.new?.text ?? ""])).toEqual([["a", "a"], ["b", "B"], ["c", ""], ["d", "d"], ["", "e"]]);
  });
});

describe("places of errors in JSON", () => {
  it.each(["{}", "[]", ' {"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {}} \n', "0", '"x"'])("%j is JSON", (text) => expect(jsonError(text)).toBeNull());
  it.each([
    ["", 1, 1, "it ends here: expected a value"], ["{broken", 1, 2, 'expected a name in "'], ['{\n "a": 1,\n}', 3, 1, 'expected a name in "'], ['{"a" 1}', 1, 6, "expected : after the name"],
    ["[1 2]", 1, 4, "expected , or ]"], ["[1,]", 1, 4, "expected a value"], ['{"a": NaN}', 1, 7, "expected a value"], ['["x\ny"]', 1, 4, 'the text is not closed with "'],
    ['"\\x"', 1, 2, "this escape is not known"], ["{} {}", 1, 4, "nothing may follow the value"], ["[".repeat(600), 1, 513, "it is nested too deeply"], ["01", 1, 2, "nothing may follow the value"],
  ])("%j fails at %i:%i: %s", (text, line, column, what) => expect(jsonError(text)).toEqual({ line, column, what }));
  it("agrees with the browser on what is JSON", () => {
    for (const text of ["[1.]", "[.5]", "[+1]", "[1e]", '{"a":1,"a":2}', "tru", "[true]", '["\t"]', '["\\ud800"]', "\ufeff1", "[1]x", "-", "-0"]) {
      let good = true;
      try { JSON.parse(text); } catch { good = false; }
      expect([text, jsonError(text) === null]).toEqual([text, good]);
    }
  });
});

describe("rows by range", () => {
  it("ends with the last whole row, and goes on after it", () => {
    const all = bytes('1,a\n2,"b\nc"\n3,ü\n');
    const one = piece(all.subarray(0, 14), 100, ",", false);
    expect([one.rows, one.to]).toEqual([[["1", "a"], ["2", "b\nc"]], 112]);
    expect(piece(all.subarray(12), 112, ",", true).rows).toEqual([["3", "ü"]]);
  });
  it("takes the last row without a line end, and a row that is longer than the piece", () => {
    expect(piece(bytes("1,2\n3,4"), 0, ",", true).rows).toEqual([["1", "2"], ["3", "4"]]);
    expect(piece(bytes("aaaa,bbbb"), 0, ",", false)).toEqual({ from: 0, to: 9, rows: [["aaaa", "bbbb"]] });
  });
  it("ends after 500 rows", () => {
    const one = piece(bytes("1,2\n".repeat(5000)), 0, ",", true);
    expect([one.rows.length, one.to]).toEqual([500, 2000]);
  });
  it("begins the last 500 rows", () => expect([lastRows(bytes("1,2\n".repeat(5000))), lastRows(bytes('a,"b\nc"\n')), lastRows(bytes(""))]).toEqual([18_000, 0, 0]));
  it("finds rows in the middle", () => expect([firstRow(bytes("xx\n1,2\n")), wholeRows(bytes('a\n"b\n'))]).toEqual([3, { rows: 1, bytes: 2 }]));
});

describe("sound and films", () => {
  it.each([["a.mp3", "audio"], ["a.WAV", "audio"], ["a.mp4", "video"], ["a.webm", "video"]])("%s is %s", (path, kind) => expect(kindOf(path, bytes("\u0000"))).toBe(kind));
});

describe("an upload that goes on", () => {
  const file = (path: string, size: number, at: number) => ({ path, file: { size, lastModified: at } as File });
  it("leaves out what was put and has not changed since", () => {
    const put = remembered([file("a", 1, 10), file("b", 2, 10), file("c", 3, 10)]);
    expect(left([file("a", 1, 10), file("b", 2, 11), file("c", 4, 10), file("d", 1, 1)], put).map((one) => one.path)).toEqual(["b", "c", "d"]);
  });

  const target = { project: "p", repo: "r", branch: "master", folder: "", message: "" };
  const files = ["a", "b", "c", "d", "e", "f"].map((path) => file(path, 1, 1));
  const kept = new Map<string, string>();
  const sent: string[] = [];
  // answers every request after the others that wait; a file fails that `fails` names
  const daemon = (fails: string[]) => {
    kept.clear();
    sent.length = 0;
    vi.stubGlobal("localStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
    vi.stubGlobal("fetch", async (url: string | URL, init: RequestInit = {}) => {
      const path = String(url);
      sent.push(`${init.method} ${path.split("/").pop()}`);
      for (let i = 0; i < (path.endsWith("/a") ? 1 : 9); i++) await Promise.resolve();
      if (init.signal?.aborted) throw new DOMException("aborted", "AbortError");
      return fails.some((one) => path.endsWith(`/files/${one}`)) ? new Response("{}", { status: 500 }) : Response.json({ id: "c" });
    });
  };
  afterEach(() => vi.unstubAllGlobals());
  it("tells of a failure when nothing is on its way, and then sends each file that is left once", async () => {
    const fails = ["a"];
    daemon(fails);
    const upload = new Upload(target, files, () => {});
    await expect(upload.send()).rejects.toThrow();
    const before = sent.length;
    for (let i = 0; i < 99; i++) await Promise.resolve();
    expect([sent.length, upload.done]).toEqual([before, 3]);
    fails.pop();
    await upload.send();
    expect(sent.slice(before)).toEqual(["PUT a", "PUT e", "PUT f", "POST finish"]);
    expect([upload.done, upload.doneBytes, kept.size]).toEqual([6, 6, 0]);
  });
  it("stops when its page is left, and keeps what it was", async () => {
    daemon([]);
    const upload = new Upload(target, files, () => upload.halt());
    await expect(upload.send()).rejects.toThrow();
    expect([sent.includes("POST finish"), kept.size]).toEqual([false, 1]);
  });
  it("is not brought back by a file that comes late", async () => {
    daemon([]);
    const upload = new Upload(target, files, () => void upload.drop());
    await expect(upload.send()).rejects.toThrow();
    expect(kept.size).toBe(0);
  });
  it("throws away only what is kept as begun", async () => {
    daemon([]);
    await dropBegun({ target, commit: "c", put: {} });
    expect(sent).toEqual([]);
  });
});
